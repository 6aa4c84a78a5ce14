// onebit in steps, for blocks that do not fit into a warp's shared memory (long columns, one mean for a
// tensor). First the sums of all pieces of kSumPiece elements, one warp each. Then the pieces of each block
// are joined in their order. Both steps are repeated for blocks that are split at their means. Last, the
// codes and errors. x and residual are read twice.
#pragma once

#include "kernels/onebit/device.cuh"

namespace mq::simt {

// Piece i: its block, its first element in the vector and in the block, and its number of elements.
struct Piece {
  std::uint64_t block, begin, first;
  std::uint32_t n;
};
MQ_DEVICE Piece piece_of(const kernels::onebit::EncodeBlocks& a, std::uint64_t i) {
  const kernels::onebit::Pieces pieces{a.cut};
  const std::uint64_t block = pieces.block_of(i);
  const std::uint64_t first = (i - pieces.first(block)) * kernels::kSumPiece;
  const std::uint64_t n = smaller<std::uint64_t>(length_of(a.cut, block, a.n) - first, kernels::kSumPiece);
  return {block, a.cut.begin(block) + first, first, static_cast<std::uint32_t>(n)};
}
template <class T>
MQ_DEVICE void fill_piece(const kernels::onebit::EncodeBlocks& a, const Piece& piece, T* v) {
  const std::uint64_t offset = piece.begin * sizeof(T);
  fill(v, a.x + offset, a.feedback == kernels::Feedback::carry ? a.residual + offset : nullptr, piece.n);
}

template <class T>
MQ_DEVICE void measure_pieces(const kernels::onebit::EncodePieces<T>& a) {
  using namespace kernels::onebit;
  T* const v = Kept<T>(a.blocks.room).v;
  for (std::uint64_t i = std::uint64_t{block()} * warps() + warp(); i < a.pieces;
       i += std::uint64_t{blocks()} * warps()) {
    const Piece piece = piece_of(a.blocks, i);
    Sides<T> sides;
    if (a.second) {
      if (a.means[piece.block].outcome != Outcome::again) continue;
      sides.threshold = a.means[piece.block].threshold;
    }
    fill_piece(a.blocks, piece, v);
    PieceSums sums{};
    sums.finite = measure(v, piece.n, sides, nullptr);
    sums.below = sides.below;
    sums.above = sides.above;
    sums.n_below = static_cast<std::uint32_t>(sides.n_below);
    sums.n_above = static_cast<std::uint32_t>(sides.n_above);
    if (sums.finite == 0) {
      const Kinds kinds = kinds_of(v, piece.n);
      sums.nonfinite[0] = static_cast<std::uint32_t>(kinds.minus);
      sums.nonfinite[1] = static_cast<std::uint32_t>(kinds.nan);
      sums.nonfinite[2] = static_cast<std::uint32_t>(kinds.plus);
    }
    if (lane() == 0) a.sums[i] = sums;
    warp_sync();
  }
}

// Joins 32 pieces at a time. Each lane computes what does not depend on earlier pieces; all lanes compute the
// rest in turn.
template <class T>
MQ_DEVICE void join_side(double& mean, std::uint64_t& n, double piece_mean, std::uint32_t piece_n) {
  using kernels::onebit::Sides;
  std::uint64_t total = 0;
  const std::uint64_t before = n + warp_before(std::uint64_t{piece_n}, total);
  const double share = piece_n != 0 ? Sides<T>::share(before, piece_n) : 0;
  for (std::uint32_t l = 0; l < 32; ++l) {
    const double next = Sides<T>::toward(mean, shuffle(piece_mean, l), shuffle(share, l));
    if (shuffle(piece_n, l) != 0) mean = next;
  }
  n += total;
}

template <class T>
MQ_DEVICE kernels::onebit::BlockMeans<T> joined_block(const kernels::onebit::EncodePieces<T>& a,
                                                      std::uint64_t index, std::uint64_t& nonfinite) {
  using namespace kernels::onebit;
  const std::uint64_t first = Pieces{a.blocks.cut}.first(index);
  const std::uint64_t count = Pieces::of(length_of(a.blocks.cut, index, a.blocks.n));
  Sides<T> sides;
  std::uint64_t n_below = 0, n_above = 0;
  Kinds kinds{0, 0, 0};
  bool finite = true;
  for (std::uint64_t i = 0; i < count; i += 32) {
    const bool is_piece = i + lane() < count;
    const PieceSums sums = is_piece ? a.sums[first + i + lane()] : PieceSums{0, 0, 0, 0, {0, 0, 0}, 1};
    finite = !any(sums.finite == 0) && finite;
    kinds.minus += warp_sum(sums.nonfinite[0]);
    kinds.nan += warp_sum(sums.nonfinite[1]);
    kinds.plus += warp_sum(sums.nonfinite[2]);
    join_side<T>(sides.below, n_below, sums.below, sums.n_below);
    join_side<T>(sides.above, n_above, sums.above, sums.n_above);
  }
  sides.n_below = n_below;
  sides.n_above = n_above;
  nonfinite = kinds.all();
  if (!finite) return {0, Outcome::marked, {a.blocks.keeps ? T{0} : nan_value<T>(), kinds.mark<T>()}};
  if (!a.second && sides.again(a.blocks.at_mean)) return {sides.threshold, Outcome::again, {0, 0}};
  return {a.second ? a.means[index].threshold : sides.threshold, Outcome::finite, sides.means()};
}

template <class T>
MQ_DEVICE void join_pieces(const kernels::onebit::EncodePieces<T>& a) {
  using namespace kernels::onebit;
  std::uint64_t nonfinite = 0;
  for (std::uint64_t i = std::uint64_t{block()} * warps() + warp(); i < a.blocks.blocks;
       i += std::uint64_t{blocks()} * warps()) {
    if (a.second && a.means[i].outcome != Outcome::again) continue;
    std::uint64_t of_block = 0;
    const BlockMeans<T> means = joined_block(a, i, of_block);
    warp_sync();  // all lanes have read the threshold
    if (lane() == 0) a.means[i] = means;
    nonfinite += of_block;  // 0 for a block that is joined again
  }
  end_encode(a.blocks.encoded, a.blocks.bytes, lane() == 0 ? nonfinite : 0);
}

template <class T>
MQ_DEVICE void quantize_pieces(const kernels::onebit::EncodePieces<T>& a) {
  using namespace kernels::onebit;
  using kernels::Feedback;
  const Kept<T> kept(a.blocks.room);
  T* const v = kept.v;
  for (std::uint64_t i = std::uint64_t{block()} * warps() + warp(); i < a.pieces;
       i += std::uint64_t{blocks()} * warps()) {
    const Piece piece = piece_of(a.blocks, i);
    const BlockMeans<T> block_means = a.means[piece.block];
    std::byte* const wire = a.blocks.wire + wire_offset<T>(a.blocks.cut, piece.block);
    std::byte* const residual =
        a.blocks.feedback == Feedback::none ? nullptr : a.blocks.residual + piece.begin * sizeof(T);
    fill_piece(a.blocks, piece, v);
    if (block_means.outcome == Outcome::marked) {
      mark_elements(v, residual, piece.n, a.blocks.feedback, kept.codes);
    } else {
      each_word(piece.n, kept.codes,
                [&](std::uint32_t g) { return ballot(v[32 * g + lane()] >= block_means.threshold); });
      keep_errors(v, residual, piece.n, block_means.threshold, block_means.means, a.blocks.feedback);
    }
    const bool begins = piece.first == 0;
    kept.write(wire + (begins ? 0 : sizeof(Means<T>) + piece.first / 8), begins, block_means.means, piece.n);
  }
}

}  // namespace mq::simt

#define MQ_ONEBIT_STEPS(name, T)                                                                        \
  MQ_KERNEL_RESIDENT(name##_measure, mq::kernels::onebit::EncodePieces<T>, 128, 4) {                    \
    mq::simt::measure_pieces<T>(args);                                                                  \
  }                                                                                                     \
  MQ_KERNEL(name##_join, mq::kernels::onebit::EncodePieces<T>, 128) { mq::simt::join_pieces<T>(args); } \
  MQ_KERNEL_RESIDENT(name##_quantize, mq::kernels::onebit::EncodePieces<T>, 128, 4) {                   \
    mq::simt::quantize_pieces<T>(args);                                                                 \
  }
MQ_ONEBIT_STEPS(onebit_f32, float)
MQ_ONEBIT_STEPS(onebit_f64, double)
#undef MQ_ONEBIT_STEPS
