// The rows of one instruction set: the encode and decode functions of each codec of the registry, for each
// compute type. Included once per instruction set, last.

// Selects the loops of a codec.
template <class T, class Q>
struct LoopsOf {
  using type = Loops<T, Q>;
};
template <class T, class Q>
requires requires { Q::kMeans; }
struct LoopsOf<T, Q> {
  using type = Ternary<T, Q>;
};
template <class T, class Q>
requires requires { Q::kValued; }
struct LoopsOf<T, Q> {
  using type = Valued<T, Q>;
};
template <class T, class Q>
requires requires { Q::kZeroBlock; }
struct LoopsOf<T, Q> {
  using type = ZeroRuns<T, Q>;
};
template <class T, class Q>
using CodecLoops = typename LoopsOf<T, Q>::type;

template <class Q>
inline constexpr std::array<CodecOps, kComputeElements.size()> kRow{
    CodecOps{&CodecLoops<float, Q>::encode, &CodecLoops<float, Q>::decode},
    CodecOps{&CodecLoops<double, Q>::encode, &CodecLoops<double, Q>::decode}};

template <class... Q>
constexpr auto make_rows(TypeList<Q...>) {
  return std::array{kRow<Q>...};
}
inline constexpr auto kRows = make_rows(AllQuantizers{});
