// The loops of ternary codecs: every element of a block decodes to 0, or to the block's value for elements
// below 0, or to its value above. Included once per instruction set, after ternary_dense-inl.hpp.
//
// A ternary codec gives kName, kWhat, kId, kLossless, kSpecs, block(params), and
//   first_floor, next_floor   where the list of candidates begins in the first block, and in the next one
//   select                    what is sent of a block (select-inl.hpp)
//   kMeans                    true: a side's value is the mean of what it sends; false: value() gives it
//   format                    the format asked for
//
// Encode, a block of at most 65536 elements that stays in L2: (1) one pass, v = x + residual replaces the
// residual, and the positions of candidates are listed; (2) the selection among the candidates; (3) walks
// over the entries alone: drop the other candidates, sum the sides, write the wire, correct the residual.
// Memory traffic for floats: 12 bytes an element and the wire. Blocks that send more than a quarter, or hold
// a NaN or Inf, are dense: two more passes in L2 instead of (3).
//
// The mean of a side minimises the squared error for the given entries:
// |v - decoded|^2 = |v|^2 - n_below below^2 - n_above above^2, and the residuals of its entries sum to 0.

template <class T, class Q>
struct Ternary {
  using L = Lanes<T>;
  using Header = TernaryHeader<T>;
  using Dense = TernaryDense<T>;
  static constexpr std::size_t kGroupBytes = kLanes * sizeof(T);
  static constexpr double kHugeScale = 0x1p-17;  // sums of 65536 finite terms stay finite

  // At most; see ternary_wire-inl.hpp.
  static std::size_t wire_bytes(std::size_t n, const Params& params) {
    const std::size_t block = Q::block(params), rest = n % block;
    return n / block * block_bound(block) + (rest ? block_bound(rest) : 0);
  }

  static Encoded encode(const EncodeArgs& a) noexcept {
    const DefaultFloatingPoint environment;
    switch (a.feedback) {
      case Feedback::none: return encode_blocks<Feedback::none>(a);
      case Feedback::carry: return encode_blocks<Feedback::carry>(a);
      case Feedback::deposit: return encode_blocks<Feedback::deposit>(a);
    }
    return {};
  }

  static Decoded decode(const DecodeArgs& a) noexcept {
    const DefaultFloatingPoint environment;
    const std::size_t block = Q::block(a.params);
    const bool stream = a.stream && a.base == nullptr && reinterpret_cast<std::uintptr_t>(a.x) % 16 == 0;
    std::size_t left = a.wire_bytes;
    bool valid = true;
    for (std::size_t begin = 0; begin < a.n && valid; begin += block) {
      const std::size_t n = std::min(block, a.n - begin), offset = begin * sizeof(T);
      const auto* base = static_cast<const std::byte*>(a.base);
      const std::size_t used =
          decode_block(a.wire + (a.wire_bytes - left), left, base ? base + offset : nullptr,
                       static_cast<std::byte*>(a.x) + offset, n, stream);
      valid = used != 0;
      left -= used;
    }
    if (stream) _mm_sfence();
    return valid && left == 0 ? Decoded::ok : Decoded::malformed;
  }

 private:
  static constexpr std::size_t block_bound(std::size_t n) {
    return sizeof(Header) + sizeof(T) + dense_bytes(n);
  }

  template <Feedback F>
  static Encoded encode_blocks(const EncodeArgs& a) {
    const auto* x = static_cast<const std::byte*>(a.x);
    auto* residual = static_cast<std::byte*>(a.residual);
    const std::size_t block = Q::block(a.params);
    Candidates<T> candidates;
    Key<T> floor = Q::template first_floor<T>(a.params);
    Encoded result;
    for (std::size_t begin = 0; begin < a.n; begin += block) {
      const std::size_t n = std::min(block, a.n - begin), offset = begin * sizeof(T);
      std::byte* const kept = residual ? residual + offset : nullptr;
      candidates.template collect<F>(x + offset, kept, n, floor);
      const Selection<T> selection = Q::template select<T>(candidates, a.params);
      candidates.cover(selection);
      result.bytes +=
          encode_block<F>(candidates, selection, kept, a.params, a.wire + result.bytes, result.nonfinite);
      floor = Q::template next_floor<T>(a.params, selection);
    }
    return result;
  }

  // Gives the bytes written.
  template <Feedback F>
  static std::size_t encode_block(Candidates<T>& block, const Selection<T>& selection, std::byte* residual,
                                  const Params& params, std::byte* wire, std::uint64_t& nonfinite) {
    Entries entries;
    if (!block.listed() || !keep_selected(block, selection, entries))
      return encode_dense<F>(block, selection, residual, params, wire, nonfinite);
    const TernaryFormat format = choose_format(Q::format(params), entries, block.n);
    if (format == TernaryFormat::dense)
      return encode_dense<F>(block, selection, residual, params, wire, nonfinite);
    const std::size_t bytes = sparse_bytes(format, entries);
    Header header = fixed_values(params);
    if constexpr (Q::kMeans) {
      SideSums sums = sum_entries(block, entries, 1);
      if (!sums.finite()) sums = sum_entries(block, entries, kHugeScale);
      header = Header(sums.template mean<T>(kBelow), sums.template mean<T>(kAbove));
    }
    header.set(format, entries.count, bytes);
    std::memcpy(wire, &header, sizeof header);
    put_sparse(format, entries, wire + sizeof header);
    if constexpr (F == Feedback::carry) correct_carried(block, residual, entries, header.value);
    if constexpr (F == Feedback::deposit) deposit_loss(block.v, block.n, residual, entries, header.value);
    return sizeof header + bytes;
  }

  static MQ_INLINE Header fixed_values(const Params& params) {
    if constexpr (Q::kMeans) {
      return Header();
    } else {
      const T value = Q::template value<T>(params);
      return Header(-value, value);
    }
  }

  // Turns the lists of candidates into those of the entries, in place. False if an element is not finite.
  static bool keep_selected(Candidates<T>& block, const Selection<T>& selection, Entries& entries) {
    const bool tied = selection.side[kBelow].ties + selection.side[kAbove].ties > 0;
    bool finite;
    if (tied)
      finite = keep_each<true>(block, selection, entries.count);
    else if constexpr (kCompresses<T>)
      finite = keep_above(block, selection, entries.count);
    else
      finite = keep_each<false>(block, selection, entries.count);
    entries.entry = block.at;
    entries.count = std::min(entries.count, selection.limit);
    entries.skips = skips_of(entries);
    return finite;
  }

  static bool keep_above(Candidates<T>& block, const Selection<T>& selection, std::size_t& count) {
    const L above = L::all(magnitude_of<T>(key_of(selection.side[kAbove].bound) + 1));
    const L below = L::all(-magnitude_of<T>(key_of(selection.side[kBelow].bound) + 1));
    const std::size_t whole = block.found / kLanes, rest = block.found % kLanes;
    std::uint32_t nonfinite = 0;
    count = 0;
    for (std::size_t g = 0; g < whole; ++g) nonfinite |= keep_group(block, g, above, below, count, Whole{});
    if (rest) nonfinite |= keep_group(block, whole, above, below, count, Part{rest});
    return nonfinite == 0;
  }
  // Gives the bits of candidates that are not finite.
  template <class W>
  static MQ_INLINE std::uint32_t keep_group(Candidates<T>& block, std::size_t g, const L& above,
                                            const L& below, std::size_t& count, W width) {
    const L v = L::load(block.values() + g * kGroupBytes, width);
    const std::uint32_t up = v.at_least(above).bits();
    const std::uint32_t take = (up | below.at_least(v).bits()) & width.bits;
    append_entries(block.at + count, take, up, block.at + g * kLanes);
    append_lanes(block.value + count, take, v);
    count += static_cast<std::size_t>(std::popcount(take));
    return ~v.finite().bits() & width.bits;
  }

  template <bool kTied>
  static bool keep_each(Candidates<T>& block, const Selection<T>& selection, std::size_t& count) {
    const Key<T> bound[2] = {key_of(selection.side[kBelow].bound), key_of(selection.side[kAbove].bound)};
    std::size_t ties[2] = {selection.side[kBelow].ties, selection.side[kAbove].ties};
    Key<T> greatest = 0;
    count = 0;
    for (std::size_t i = 0; i < block.found; ++i) {
      const std::uint32_t position = block.at[i];
      const T value = block.value_of(i, position);
      const Key<T> bits = key_of(value), key = bits & ~kSignBit<T>;
      const std::uint32_t sign = bits < kSignBit<T>;
      bool take = key > bound[sign];
      if (kTied && key == bound[sign] && ties[sign] > 0) {
        take = true;
        --ties[sign];
      }
      // Written in any case, and kept if the count moves on: as a branch it would be mispredicted.
      block.at[count] = position << 1 | sign;
      if constexpr (kCompresses<T>) block.value[count] = value;
      count += take;
      greatest = std::max(greatest, key);
    }
    return greatest <= kMaxKey<T>;
  }

  static SideSums sum_entries(const Candidates<T>& block, const Entries& entries, double scale) {
    SideSums sums(scale);
    for (std::size_t i = 0; i < entries.count; ++i) {
      const std::uint32_t position = entries.entry[i] >> 1, sign = entries.entry[i] & 1;
      sums.part[sign][position % SideSums::kParts] +=
          static_cast<double>(block.value_of(i, position)) * scale;
      sums.count[kAbove] += sign;
    }
    sums.count[kBelow] = entries.count - sums.count[kAbove];
    return sums;
  }

  // The residual holds v; of entries it becomes v - decoded.
  static void correct_carried(const Candidates<T>& block, std::byte* residual, const Entries& entries,
                              const T (&value)[2]) {
    for (std::size_t i = 0; i < entries.count; ++i) {
      const std::uint32_t position = entries.entry[i] >> 1;
      set_element<T>(residual, position, block.value_of(i, position) - value[entries.entry[i] & 1]);
    }
  }

  // residual += x - decoded, for all elements.
  static void deposit_loss(const std::byte* x, std::size_t n, std::byte* residual, const Entries& entries,
                           const T (&value)[2]) {
    std::size_t done = 0;
    const std::size_t whole = n / kLanes, rest = n % kLanes;
    for (std::size_t g = 0; g < whole; ++g)
      done = deposit_group(x, residual, g, entries, done, value, Whole{});
    if (rest) deposit_group(x, residual, whole, entries, done, value, Part{rest});
  }

  template <class W>
  static MQ_INLINE std::size_t deposit_group(const std::byte* x, std::byte* residual, std::size_t g,
                                             const Entries& entries, std::size_t i, const T (&value)[2],
                                             W width) {
    std::byte loss[kGroupBytes];
    L::load(x + g * kGroupBytes, width).store(loss, Whole{});
    for (; i < entries.count && entries.entry[i] >> 1 < (g + 1) * kLanes; ++i) {
      const std::uint32_t lane = (entries.entry[i] >> 1) % kLanes;
      set_element<T>(loss, lane, element<T>(loss, lane) - value[entries.entry[i] & 1]);
    }
    (L::load(residual + g * kGroupBytes, width) + L::load(loss, Whole{}))
        .store(residual + g * kGroupBytes, width);
    return i;
  }

  template <Feedback F>
  static std::size_t encode_dense(const Candidates<T>& block, const Selection<T>& selection,
                                  std::byte* residual, const Params& params, std::byte* wire,
                                  std::uint64_t& nonfinite) {
    std::byte* codes = wire + sizeof(Header);
    const std::size_t n = block.n;
    const TernaryCounts counts = Dense::put(block.v, n, selection, codes);
    Header header = fixed_values(params);
    if constexpr (Q::kMeans) {
      SideSums sums = Dense::sum(block.v, n, codes, 1);
      if (!sums.finite()) sums = Dense::sum(block.v, n, codes, kHugeScale);
      header = Header(sums.template mean<T>(kBelow), sums.template mean<T>(kAbove));
    }
    header.set(TernaryFormat::dense, counts.entries, dense_bytes(n));
    if (counts.marks > 0) {
      std::memmove(codes + sizeof(T), codes, dense_bytes(n));
      const T mark = nonfinite_of<T>(block.v, n).mark;
      std::memcpy(codes, &mark, sizeof mark);
      codes += sizeof mark;
      header.set(TernaryFormat::marked, counts.entries, sizeof mark + dense_bytes(n));
      nonfinite += counts.marks;
    }
    std::memcpy(wire, &header, sizeof header);
    if constexpr (F != Feedback::none) Dense::template correct<F>(block.v, n, residual, codes, header.value);
    return sizeof header + header.payload_bytes;
  }

  // Gives the bytes of the block, or 0 if it is malformed.
  static std::size_t decode_block(const std::byte* wire, std::size_t left, const std::byte* base,
                                  std::byte* x, std::size_t n, bool stream) {
    if (left < sizeof(Header)) return 0;
    Header header;
    std::memcpy(&header, wire, sizeof header);
    const std::byte* const payload = wire + sizeof header;
    const std::size_t bytes = header.payload_bytes;
    if (bytes > left - sizeof header || !header.valid()) return 0;
    const bool sparse = header.format() < TernaryFormat::dense;
    const bool decoded = !sparse  ? decode_dense(header, payload, base, x, n)
                         : stream ? stream_sparse(header, payload, x, n)
                                  : decode_sparse(header, payload, base, x, n);
    return decoded ? sizeof header + bytes : 0;
  }

  static bool stream_sparse(const Header& header, const std::byte* payload, std::byte* x, std::size_t n) {
    if (reinterpret_cast<std::uintptr_t>(x) % L::kRegBytes == 0)
      return stream_sparse<Streamed>(header, payload, x, n);
    return stream_sparse<StreamedInParts>(header, payload, x, n);
  }
  template <class Store>
  static bool stream_sparse(const Header& header, const std::byte* payload, std::byte* x, std::size_t n) {
    StreamEntry<Store> entries(x, header.value);
    if (!visit_sparse(header.format(), payload, header.payload_bytes, header.count(), n, entries))
      return false;
    entries.finish(n);
    return true;
  }
  // Sets entries and zeros around the caches, in pieces that stay in L1 until they are whole.
  template <class Store>
  struct StreamEntry {
    static constexpr std::size_t kPiece = 1024;
    std::byte* const x;
    const T (&value)[2];
    std::size_t begin = 0;  // of the piece
    std::byte piece[kPiece * sizeof(T)] = {};

    MQ_INLINE StreamEntry(std::byte* to, const T (&values)[2]) : x(to), value(values) {}
    MQ_INLINE void operator()(std::size_t i, std::uint32_t sign) {
      while (i - begin >= kPiece) write();
      set_element<T>(piece, i - begin, value[sign]);
    }
    void write() {
      for (std::size_t g = 0; g < kPiece / kLanes; ++g) {
        L::load(piece + g * kGroupBytes, Whole{}).store(x + begin * sizeof(T) + g * kGroupBytes, Store{});
        L::all(T{0}).store(piece + g * kGroupBytes, Whole{});
      }
      begin += kPiece;
    }
    MQ_INLINE void finish(std::size_t n) {
      while (n - begin >= kPiece) write();
      std::memcpy(x + begin * sizeof(T), piece, (n - begin) * sizeof(T));
    }
  };

  static bool decode_sparse(const Header& header, const std::byte* payload, const std::byte* base,
                            std::byte* x, std::size_t n) {
    if (base == nullptr) {
      std::memset(x, 0, n * sizeof(T));
      SetEntry set{x, header.value};
      return visit_sparse(header.format(), payload, header.payload_bytes, header.count(), n, set);
    }
    if (base != x) std::memcpy(x, base, n * sizeof(T));
    AddEntry add{x, header.value};
    return visit_sparse(header.format(), payload, header.payload_bytes, header.count(), n, add);
  }
  struct SetEntry {
    std::byte* x;
    const T (&value)[2];
    MQ_INLINE void operator()(std::size_t i, std::uint32_t sign) const { set_element<T>(x, i, value[sign]); }
  };
  struct AddEntry {
    std::byte* x;
    const T (&value)[2];
    MQ_INLINE void operator()(std::size_t i, std::uint32_t sign) const {
      const T sum = element<T>(x, i) + value[sign];
      set_element<T>(x, i, sum == sum ? sum : std::numeric_limits<T>::quiet_NaN());
    }
  };

  static bool decode_dense(const Header& header, const std::byte* payload, const std::byte* base,
                           std::byte* x, std::size_t n) {
    const bool marked = header.format() == TernaryFormat::marked;
    const std::size_t mark_bytes = marked ? sizeof(T) : 0;
    if (header.payload_bytes != mark_bytes + dense_bytes(n)) return false;
    T mark{0};
    std::memcpy(&mark, payload, mark_bytes);
    const std::byte* const codes = payload + mark_bytes;
    if (std::isfinite(mark) == marked || !Dense::valid(codes, n, header.count(), marked)) return false;
    if (base == nullptr)
      Dense::template decode<false>(codes, n, header.value, mark, base, x);
    else
      Dense::template decode<true>(codes, n, header.value, mark, base, x);
    return true;
  }
};
