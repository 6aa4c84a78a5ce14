// The rows of one instruction set: for each codec of the registry and each compute type, its two functions.
// Included once per instruction set, last.

template <class Q>
inline constexpr std::array<CodecOps, kComputeElements.size()> kRow{
    CodecOps{&Loops<float, Q>::encode, &Loops<float, Q>::decode},
    CodecOps{&Loops<double, Q>::encode, &Loops<double, Q>::decode}};

template <class... Q>
constexpr auto make_rows(TypeList<Q...>) {
  return std::array{kRow<Q>...};
}
inline constexpr auto kRows = make_rows(AllQuantizers{});
