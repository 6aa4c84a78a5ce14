#include "mpi_quant/engine/memory_steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace mq {
namespace {

using kernels::Encoded;

// A tile of 4096 floats: the vector, two arrays and what is encoded take 64 KiB, which the L2 cache of every processor holds
// beside the wire.
constexpr std::size_t kTileBytes = std::size_t{16} << 10;

std::size_t element_bytes(const Reduction& reduction) {
  return kernels::element_bytes(kernels::compute_element(reduction.element));
}

// Elements of a tile: whole blocks. A codec whose parameters describe a whole message takes a chunk as one tile.
std::size_t tile_of(const Reduction& reduction, const kernels::Codec& codec, const kernels::Params& params,
                    std::size_t longest) {
  if (codec.whole(params)) return longest;
  const std::size_t block = codec.block(params);
  return std::min(longest, std::max<std::size_t>(1, kTileBytes / element_bytes(reduction) / block) * block);
}

}  // namespace

std::size_t MemorySteps::memory_bytes(const Reduction& reduction, const Layout& layout) {
  if (reduction.memory.ops == nullptr) return 0;
  const std::size_t longest = layout.max_chunk();
  std::size_t tile = tile_of(reduction, *reduction.codec, reduction.params, longest);
  if (reduction.facts->raw) tile = std::max(tile, tile_of(reduction, raw_codec(), {}, longest));
  return (tile * element_bytes(reduction) + 63) / 64 * 64;
}

void MemorySteps::prepare(const Reduction& reduction, std::byte* memory) {
  reduction_ = &reduction;
  scratch_ = memory;
}

Encoded MemorySteps::encode(const Step& step, const kernels::EncodeArgs& args) const {
  const Reduction& reduction = *reduction_;
  const kernels::MemoryOps& rule = *reduction.memory.ops;
  const kernels::CodecOps& codec = ops_of(reduction, step);
  const std::size_t size = element_bytes(reduction), array_bytes = reduction.count * size;
  const std::size_t most = tile_of(reduction, codec_of(reduction, step), args.params, args.n);
  kernels::MemoryTile tile;
  tile.scratch = scratch_;
  tile.params = reduction.memory.params;
  tile.factor = reduction.memory.factor;
  kernels::EncodeArgs part = args;
  Encoded all;
  // A chunk without elements is encoded too: some codecs write a header for it.
  for (std::size_t first = 0; first == 0 || first < args.n; first += tile.n) {
    tile.n = std::min(most, args.n - first);
    tile.x = static_cast<const std::byte*>(args.x) + first * size;
    for (int i = 0; i < reduction.memory.rule->arrays; ++i)
      tile.array[static_cast<std::size_t>(i)] =
          static_cast<std::byte*>(args.residual) + static_cast<std::size_t>(i) * array_bytes + first * size;
    const kernels::Operand operand = rule.before(tile);
    part.x = operand.x;
    part.residual = operand.residual;
    part.n = tile.n;
    part.wire = args.wire + all.bytes;
    part.site.index = args.site.index + first;
    const Encoded encoded = codec.encode(part);
    if (rule.after != nullptr) rule.after(tile);
    all.bytes += encoded.bytes;
    all.nonfinite += encoded.nonfinite;
    all.overflows += encoded.overflows;
    if (tile.n == 0) break;
  }
  return all;
}

double memory_factor(const Reduction& reduction) {
  const kernels::MemoryOps& rule = *reduction.memory.ops;
  const std::size_t in_bytes = kernels::element_bytes(reduction.element);
  // A part of a vector of half types, as floats.
  std::array<float, 1024> widened;
  const auto squares = [&](double scale) {
    if (reduction.convert == nullptr) return rule.squares(reduction.input, reduction.count, scale);
    double sum = 0;
    for (std::size_t first = 0; first < reduction.count; first += widened.size()) {
      const std::size_t n = std::min(widened.size(), reduction.count - first);
      reduction.convert->widen(reduction.input + first * in_bytes, widened.data(), n);
      sum += rule.squares(widened.data(), n, scale);
    }
    return sum;
  };
  // The squares of the greatest doubles overflow.
  double scale = 1, sum = squares(scale);
  if (!std::isfinite(sum)) sum = squares(scale = 0x1p-600);
  return rule.factor(rule.norm(sum, scale), reduction.memory.params, reduction.size);
}

}  // namespace mq
