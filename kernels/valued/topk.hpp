// topk: sends the k n elements of greatest magnitude of every block of n, with their values. All others wait
// in the residual (Aji, Heafield: Sparse communication for distributed gradient descent, EMNLP 2017; Lin,
// Han, Mao, Wang, Dally: Deep gradient compression, ICLR 2018). Values are sent exactly: decoded + residual
// == v bit for bit, and the residual of a sent element is 0. No other code that sends the same number of
// elements of a block leaves a smaller squared error.
//
//   select=exact   The ceil(k n) largest. Ties: the lowest position first. Fewer if fewer are not 0.
//   select=approx  All above a bound from a histogram of eight bins per octave: up to 5 % fewer.
//   select=sample  All above a bound found in one element of 16, as in gradient dropping.
//
// approx and sample send from half to twice the requested number; otherwise an exact search follows. NaN and
// Inf elements are sent in addition, with their values. If a block has so many of them that the wire would
// exceed its bound, they are sent as one value, NaN if they differ.
//
// Wire: see kernels/valued/wire-inl.hpp. For floats at k = 0.01, an entry takes 4 bytes and a gap of
// 1.09 bytes, which is 0.051 bytes per element. A block never takes more than 8 bytes plus the block itself.
// With exact, it also never takes more than 12 bytes, 4 bytes per entry and 1/4 byte per element. With k near
// 1 the library refuses blocks below 2048 floats, because their headers would be more than 1 part in 1024.
//
// An allreduce of plan direct sends O(k). Each of P ranks sends ceil(k n) / n of every block of P - 1 slices.
// The owner of a slice encodes its sum by the same rule, with its own residual, and sends it P - 1 times. If
// the blocks of the vector send K entries together, that is 2 K (P - 1) / P entries in all. With u16
// positions an entry is 1.5 words, so 3 K (P - 1) / P words. Ok-Topk (Li, Hoefler: Near-optimal sparse
// allreduce for distributed deep learning, PPoPP 2022), where the vector is one block, needs up to
// 6 K (P - 1) / P words; its lower bound for any algorithm is 2 K (P - 1) / P. A quota for each block
// balances the slices without a search for their boundaries.
#pragma once
#include "kernels/valued/host-inl.hpp"

struct TopK {
  static constexpr std::string_view kName = "topk";
  static constexpr std::string_view kWhat = "the largest k of a block with their values (Aji, Heafield 2017)";
  static constexpr std::uint16_t kId = 8;
  static constexpr bool kLossless = false;
  static constexpr Form form(const Params&) { return Form::few_elements; }
  template <class T>
  using Family = Valued<T, TopK>;

  // Parameters.
  static constexpr std::array<std::string_view, 3> kSelects{"exact", "approx", "sample"};
  static constexpr std::array kSpecs{
      ParamSpec{"k", "share of the elements that is sent", ParamKind::real, 0.01, 1e-5, 1},
      ParamSpec{"block", "elements that share a count", ParamKind::power_of_two, 65536, 64, kMaxSparseBlock},
      ParamSpec{"select", "how the largest are found", ParamKind::word, 0, 0, 2, kSelects},
      ParamSpec{"format", "of the positions", ParamKind::word, 0, 0, 3, kValuedFormats}};

  // Wire format.
  static constexpr std::size_t block(const Params& p) { return TopKParams(p).block; }
  static constexpr ValuedFormat format(const Params& p) { return TopKParams(p).format; }

  // Largest number of finite elements that are sent of n.
  static MQ_INLINE std::size_t most(std::size_t n, const Params& p) { return TopKParams(p).most(n); }

  // Encode.
  // No floor is known for the first block, so it begins with a sample.
  template <class T>
  static MQ_INLINE Key<T> first_floor(const Params&) {
    return kMaxKey<T>;
  }
  template <class T>
  static MQ_INLINE Key<T> next_floor(const Params&, const Selection<T>& last) {
    return floor_below(last);
  }

  template <class T>
  static Selection<T> select(Candidates<T>& block, const Params& params) {
    const TopKParams p(params);
    const std::size_t k = p.share(block.n);
    if (Cutoff<T> cutoff; p.select != TopKSelect::exact && k < block.n && guess(block, k, p, cutoff)) {
      const Selection<T> selection{{cutoff, cutoff}, block.n};
      if (near_enough(count_selected(block, selection), k)) return selection;
    }
    return joint_selection(block, exact_cutoff(block, kBoth, k));
  }

 private:
  // Finds an approximate cutoff, without ties.
  template <class T>
  static bool guess(Candidates<T>& block, std::size_t k, const TopKParams& p, Cutoff<T>& cutoff) {
    const bool found = p.select == TopKSelect::approx
                           ? find_near(block, kBoth, k, &find_in_histogram<T>, cutoff)
                           : sampled_cutoff(block, kBoth, k, cutoff);
    if (found) cutoff = {magnitude_of<T>(key_of(cutoff.bound) - (cutoff.ties > 0)), 0};
    return found;
  }

 public:
  // Bounds.
  static constexpr bool contraction(const Params&) { return true; }  // the greatest magnitude is sent
};
