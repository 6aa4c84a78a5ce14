// zerorun: the elements that are not zero, as they are, and where they stand; lossless, for vectors with many
// zeros: gradients of embeddings, sparse layers, halos (the idea of Hofmann and Ruenger: MPI reduction
// operations for sparse floating-point data, EuroPVM/MPI 2008, who send the lengths of runs; bits take the
// same time whatever the pattern). Zero means all bits zero: -0 is sent.
//
// Wire, a block of 16384 elements: the number of elements that are sent; if it is all of them, the elements.
// Else a bit for each group of 32 elements that holds one, the elements, and 32 bits for each of these
// groups. So for floats 0.004 bytes an element if all are zero, 0.016 if one in 1000 is not, 0.16 for one in
// 33, and never more than 4 bytes a block beyond the elements themselves. Half types would go as
// floats and are refused, as by raw.

struct ZeroRun {
  static constexpr std::string_view kName = "zerorun";
  static constexpr std::string_view kWhat =
      "the elements that are not zero, lossless (Hofmann, Ruenger 2008)";
  static constexpr std::uint16_t kId = 7;
  static constexpr bool kLossless = true;
  static constexpr std::array<ParamSpec, 0> kSpecs{};
  static constexpr std::size_t kZeroBlock = 16384;
  static constexpr std::size_t block(const Params&) { return kZeroBlock; }
};
