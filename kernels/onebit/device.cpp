// The device rows of onebit. If a warp can hold a block, one launch encodes all blocks (device.cuh);
// otherwise encoding works in steps (steps.cuh).

#include <algorithm>

#include "kernels/cuda/dense.hpp"
#include "kernels/cuda/names.hpp"
#include "kernels/cuda/rows.hpp"
#include "kernels/onebit/device.hpp"

namespace mq::kernels {
namespace {

using namespace onebit;

constexpr NamesByType kEncode = MQ_NAMES_BY_TYPE(onebit, _encode),
                      kDecode = MQ_NAMES_BY_TYPE(onebit, _decode),
                      kMeasure = MQ_NAMES_BY_TYPE(onebit, _measure), kJoin = MQ_NAMES_BY_TYPE(onebit, _join),
                      kQuantize = MQ_NAMES_BY_TYPE(onebit, _quantize);

constexpr bool is_short(const Cut& cut) { return std::max(cut.even, cut.odd) <= kSumPiece; }

template <class T>
std::size_t wire_bytes(const Cut& cut, std::size_t n) {
  const std::size_t blocks = cut.blocks(n), last = blocks - 1;
  return wire_offset<T>(cut, last) + block_bytes<T>(n - cut.begin(last));
}

// The scratch memory of the steps: the means of the blocks, then the sums of the pieces.
constexpr std::size_t up(std::size_t bytes) { return (bytes + 15) / 16 * 16; }
template <class T>
struct Scratch {
  std::size_t sums, bytes;
  Scratch(const Cut& cut, std::size_t n)
      : sums(up(cut.blocks(n) * sizeof(BlockMeans<T>))),
        bytes(sums + Pieces{cut}.count(n) * sizeof(PieceSums)) {}
};

// Number of warps of a thread block, if each has room for `room` elements.
template <class T>
std::uint32_t warps_of(std::uint32_t room) {
  const std::size_t fit = kSharedBytes / warp_bytes<T>(room);
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(fit, 1, kWarps));
}
constexpr std::size_t over(std::size_t n, std::size_t by) { return (n + by - 1) / by; }

template <class T>
EncodeBlocks blocks_of(const DeviceEncode& e, const Cut& cut) {
  const EncodeArgs& a = e.args;
  const std::size_t longest = std::min({std::max(cut.even, cut.odd), kSumPiece, a.n});
  EncodeBlocks b{};
  b.x = static_cast<const std::byte*>(a.x);
  b.residual = static_cast<std::byte*>(a.residual);
  b.wire = a.wire;
  b.n = a.n;
  b.blocks = cut.blocks(a.n);
  b.bytes = wire_bytes<T>(cut, a.n);
  b.encoded = e.encoded;
  b.cut = cut;
  b.feedback = a.feedback;
  b.at_mean = splits_at_mean(a.params);
  b.keeps = a.residual != nullptr;
  b.room = static_cast<std::uint32_t>(over(longest, 32) * 32);
  return b;
}

template <class T>
void encode_at_once(const DeviceEncode& e, const Cut& cut, const Launcher& launch) {
  const EncodeBlocks b = blocks_of<T>(e, cut);
  const std::uint32_t warps = warps_of<T>(b.room);
  const std::size_t grid = dense::grid_of(over(b.blocks, warps), e.shape);
  launch(name_for<T>(kEncode), grid, 32 * warps, warps * warp_bytes<T>(b.room), b);
}

template <class T>
void encode_in_steps(const DeviceEncode& e, const Cut& cut, const Launcher& launch) {
  const Scratch<T> at(cut, e.args.n);
  EncodePieces<T> a{};
  a.blocks = blocks_of<T>(e, cut);
  a.pieces = Pieces{cut}.count(e.args.n);
  a.means = reinterpret_cast<BlockMeans<T>*>(e.scratch);
  a.sums = reinterpret_cast<PieceSums*>(e.scratch + at.sums);
  const std::uint32_t warps = warps_of<T>(a.blocks.room);
  const std::uint32_t shared = warps * warp_bytes<T>(a.blocks.room);
  const std::size_t grid = dense::grid_of(over(a.pieces, warps), e.shape);
  const std::size_t join_grid = dense::grid_of(over(a.blocks.blocks, kWarps), e.shape);
  for (const bool second : {false, true}) {
    if (second && !a.blocks.at_mean) break;
    a.second = second;
    launch(name_for<T>(kMeasure), grid, 32 * warps, shared, a);
    launch(name_for<T>(kJoin), join_grid, 32 * kWarps, 0, a);
  }
  launch(name_for<T>(kQuantize), grid, 32 * warps, shared, a);
}

template <class T>
std::size_t scratch_bytes(std::size_t n, const Params& params) noexcept {
  return n == 0 ? 16 : Scratch<T>(cut(params, n), n).bytes;
}

template <class T, bool kSteps>
void encode(const DeviceEncode& e, const Launcher& launch) noexcept {
  if (e.args.n == 0) return dense::nothing(e, launch);
  const Cut blocks = cut(e.args.params, e.args.n);
  if (is_short(blocks) && !kSteps)
    encode_at_once<T>(e, blocks, launch);
  else
    encode_in_steps<T>(e, blocks, launch);
}

template <class T>
void decode(const DeviceDecode& d, const Launcher& launch) noexcept {
  const DecodeArgs& a = d.args;
  if (a.n == 0) {
    if (a.wire_bytes != 0) dense::refuse(d, launch);
    return;
  }
  const Cut blocks = cut(a.params, a.n);
  if (a.wire_bytes != wire_bytes<T>(blocks, a.n)) return dense::refuse(d, launch);
  const std::size_t grid = dense::grid_of(over(Pieces{blocks}.count(a.n), kDecodeWarps), d.shape);
  launch(name_for<T>(kDecode), grid, 32 * kDecodeWarps, 0,
         DecodeBlocks{a.wire, static_cast<const std::byte*>(a.base), static_cast<std::byte*>(a.x), a.n,
                      blocks.blocks(a.n), blocks, d.malformed});
}

}  // namespace

constinit const DeviceRow onebit_device_row{
    {DeviceOps{&scratch_bytes<float>, &encode<float, false>, &decode<float>, true},
     DeviceOps{&scratch_bytes<double>, &encode<double, false>, &decode<double>, true}},
    {}};
constinit const DeviceRow onebit_steps_device_row{
    {DeviceOps{&scratch_bytes<float>, &encode<float, true>, &decode<float>, true},
     DeviceOps{&scratch_bytes<double>, &encode<double, true>, &decode<double>, true}},
    {}};

}  // namespace mq::kernels
