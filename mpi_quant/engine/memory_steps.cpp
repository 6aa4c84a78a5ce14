#include "mpi_quant/engine/memory_steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/memory_sums.hpp"
#include "mpi_quant/engine/mean.hpp"

namespace mq {
namespace {

using kernels::Decoded;
using kernels::Encoded;

// A tile of 2048 floats: the vector, two arrays and what is encoded take 32 KiB, which is the L1 cache of
// most processors. With tiles of twice this size the rules reach a tenth less of the triad.
constexpr std::size_t kTileBytes = std::size_t{8} << 10;

// Elements of a tile: whole blocks. A codec whose parameters describe a whole message takes a chunk as one
// tile.
std::size_t tile_of(const Reduction& reduction, const kernels::Codec& codec, const kernels::Params& params,
                    std::size_t longest) {
  if (codec.whole(params)) return longest;
  const std::size_t block = codec.block(params);
  return std::min(longest, std::max<std::size_t>(1, kTileBytes / value_bytes(reduction, 1) / block) * block);
}

// Calls f(x, first, n) for parts of this rank's vector in the compute type.
template <class F>
void for_each_part(const Reduction& reduction, const F& f) {
  const std::size_t in_bytes = kernels::element_bytes(reduction.element);
  std::array<float, kernels::memory_sums::kPart> widened;
  for (std::size_t first = 0; first < reduction.count; first += widened.size()) {
    const std::size_t n = std::min(widened.size(), reduction.count - first);
    const std::byte* const x = reduction.input + first * in_bytes;
    if (reduction.convert != nullptr) reduction.convert->widen(x, widened.data(), n);
    f(reduction.convert != nullptr ? static_cast<const void*>(widened.data()) : x, first, n);
  }
}

}  // namespace

kernels::MemoryTile tile_at(const Reduction& reduction, std::byte* arrays, std::size_t n,
                            const VectorPlace* vector) {
  kernels::MemoryTile tile;
  tile.n = n;
  tile.params = reduction.memory.params;
  tile.factor = vector != nullptr ? vector->factor : reduction.memory.factor;
  tile.exact_restart = reduction.memory.exact_restart;
  if (reduction.memory.mirrors) {
    tile.array[1] = arrays;
    return tile;
  }
  const std::size_t array_bytes = value_bytes(reduction, vector != nullptr ? vector->n : reduction.count);
  for (int i = 0; i < reduction.memory.rule->arrays; ++i)
    tile.array[static_cast<std::size_t>(i)] = arrays + static_cast<std::size_t>(i) * array_bytes;
  return tile;
}

std::uint64_t second_of(std::uint64_t call) { return mixed(call + 1); }

std::size_t MemorySteps::memory_bytes(const Reduction& reduction, const Layout& layout) {
  if (reduction.memory.ops == nullptr) return 0;
  const std::size_t longest = layout.max_chunk();
  std::size_t tile = tile_of(reduction, *reduction.codec, reduction.params, longest);
  if (may_be_raw(reduction)) tile = std::max(tile, tile_of(reduction, raw_codec(), {}, longest));
  return round_up(value_bytes(reduction, tile), kHostLine);
}

void MemorySteps::prepare(const Reduction& reduction, std::byte* memory) {
  reduction_ = &reduction;
  scratch_ = memory;
}

Encoded MemorySteps::encode(const Step& step, const kernels::EncodeArgs& args,
                            const VectorPlace* vector) const {
  const CallFeedback& memory = reduction_->memory;
  const bool own = applies_to(step, args);
  if (own && memory.skipped_messages > 0 && memory.skipped_messages == memory.messages()) {
    skip(args);
    return {};
  }
  const auto encode_one = [&](const kernels::EncodeArgs& of, int message) {
    return own ? encode_message(step, of, message, vector) : ops_of(*reduction_, step, vector).encode(of);
  };
  if (memory.messages() == 1) return encode_one(args, 0);
  kernels::EncodeArgs part = args;
  part.wire += kLengthBytes;
  Encoded all;
  if (!own || memory.skipped_messages == 0) all = encode_one(part, 0);
  const auto length = static_cast<std::uint64_t>(all.bytes);
  std::memcpy(args.wire, &length, sizeof length);
  if (own) {
    part.wire += all.bytes;
    part.noise.call = second_of(args.noise.call);
    const Encoded second = encode_one(part, 1);
    all.bytes += second.bytes;
    // Elements that are not finite are so in both messages.
    all.nonfinite = std::max(all.nonfinite, second.nonfinite);
    all.overflows += second.overflows;
  }
  all.bytes += kLengthBytes;
  return all;
}

Encoded MemorySteps::encode_message(const Step& step, const kernels::EncodeArgs& args, int message,
                                    const VectorPlace* vector) const {
  const Reduction& reduction = *reduction_;
  const kernels::MemoryOps& rule = *reduction.memory.ops;
  const kernels::CodecOps& codec = ops_of(reduction, step);
  const std::size_t size = value_bytes(reduction, 1);
  const std::size_t most = tile_of(reduction, codec_of(reduction, step), args.params, args.n);
  kernels::EncodeArgs part = args;
  Encoded all;
  // A chunk without elements is encoded too: some codecs write a header for it.
  for (std::size_t first = 0; first == 0 || first < args.n; first += most) {
    const std::size_t n = std::min(most, args.n - first);
    kernels::MemoryTile tile =
        tile_at(reduction, static_cast<std::byte*>(args.residual) + first * size, n, vector);
    tile.x = static_cast<const std::byte*>(args.x) + first * size;
    tile.scratch = scratch_;
    tile.message = message;
    const kernels::Operand operand = rule.before(tile);
    part.x = operand.x;
    part.residual = operand.residual;
    part.n = n;
    part.wire = args.wire + all.bytes;
    part.noise.index = args.noise.index + first;
    const Encoded encoded = codec.encode(part);
    if (rule.after != nullptr) rule.after(tile);
    all.bytes += encoded.bytes;
    all.nonfinite += encoded.nonfinite;
    all.overflows += encoded.overflows;
    if (n == 0) break;
  }
  return all;
}

void MemorySteps::skip(const kernels::EncodeArgs& args) const {
  if (reduction_->memory.ops->skip == nullptr) return;
  kernels::MemoryTile tile = tile_at(*reduction_, static_cast<std::byte*>(args.residual), args.n);
  tile.x = args.x;
  reduction_->memory.ops->skip(tile);
}

Decoded MemorySteps::decode(const Step& step, bool final, Range range, kernels::DecodeArgs args,
                            const VectorPlace* vector) const {
  const Reduction& reduction = *reduction_;
  if (!reduction.memory.keeps_estimates()) return ops_of(reduction, step, vector).decode(args);
  if (final) args.stream = false;
  const Decoded decoded = decode_messages(step, args);
  if (final && decoded == Decoded::ok && range.n > 0) {
    const std::size_t at = value_bytes(reduction, range.begin);
    reduction.memory.ops->deliver(tile_at(reduction, reduction.residual + at, range.n), args.x);
  }
  return decoded;
}

// An empty payload stands for zeros.
Decoded MemorySteps::decode_messages(const Step& step, const kernels::DecodeArgs& args) const {
  const kernels::CodecOps& codec = ops_of(*reduction_, step);
  const std::size_t bytes = value_bytes(*reduction_, args.n);
  if (args.wire_bytes == 0 && !reduction_->memory.exact_restart) {
    if (bytes == 0) return Decoded::ok;
    if (args.base == nullptr)
      std::memset(args.x, 0, bytes);
    else if (args.base != args.x)
      std::memcpy(args.x, args.base, bytes);
    return Decoded::ok;
  }
  if (reduction_->memory.messages() == 1) return codec.decode(args);
  const Messages messages = messages_of({args.wire, args.wire_bytes});
  if (!messages.ok) return Decoded::malformed;
  kernels::DecodeArgs part = args;
  part.wire += kLengthBytes;
  part.wire_bytes = messages.first_bytes;
  if (messages.has_first) {
    if (codec.decode(part) == Decoded::malformed) return Decoded::malformed;
    part.base = part.x;
  }
  if (!messages.has_second) return Decoded::ok;
  part.wire += messages.first_bytes;
  part.wire_bytes = messages.second_bytes;
  part.noise.call = second_of(args.noise.call);
  return codec.decode(part);
}

Messages messages_of(std::span<const std::byte> payload) {
  if (payload.size() < kLengthBytes) return {};
  std::uint64_t length = 0;
  std::memcpy(&length, payload.data(), sizeof length);
  const std::size_t rest = payload.size() - kLengthBytes;
  if (length > rest) return {};
  const auto first = static_cast<std::size_t>(length);
  return {true, first > 0, first == 0 || first < rest, first, rest - first};
}

double memory_factor(const Reduction& reduction, const std::function<double(double)>& squares) {
  const kernels::MemoryOps& rule = *reduction.memory.ops;
  // The squares of the greatest doubles overflow.
  double scale = 1, sum = squares(scale);
  if (!std::isfinite(sum)) sum = squares(scale = 0x1p-600);
  return rule.factor(rule.norm(sum, scale), reduction.memory.params, reduction.size);
}

double memory_factor(const Reduction& reduction) {
  return memory_factor(reduction, [&](double scale) {
    double sum = 0;
    for_each_part(reduction, [&](const void* x, std::size_t, std::size_t n) {
      sum += reduction.memory.ops->squares(x, n, scale);
    });
    return sum;
  });
}

bool has_moved(const Reduction& reduction, const std::function<kernels::Distances(double)>& distances) {
  kernels::Distances d = distances(1);
  if (!std::isfinite(d.from_estimate + d.from_last)) d = distances(0x1p-600);
  if (d.from_estimate == 0 && d.from_last == 0)
    d = distances(0x1p600);  // the squares of the least doubles vanish
  // What is not finite is sent. Inf needs a test of its own: it is as far from the estimate as from the last
  // vector.
  if (!std::isfinite(d.from_estimate)) return true;
  return d.from_estimate > reduction.memory.terms.zeta * d.from_last;
}

bool has_moved(const Reduction& reduction) {
  return has_moved(reduction, [&](double scale) {
    kernels::Distances all;
    for_each_part(reduction, [&](const void* x, std::size_t first, std::size_t n) {
      kernels::MemoryTile tile = tile_at(reduction, reduction.residual + value_bytes(reduction, first), n);
      tile.x = x;
      const kernels::Distances part = reduction.memory.ops->distances(tile, scale);
      all.from_estimate += part.from_estimate;
      all.from_last += part.from_last;
    });
    return all;
  });
}

void deliver_estimates(const Reduction& reduction) {
  const std::size_t in_bytes = kernels::element_bytes(reduction.element);
  std::array<double, 1024> sum;  // room for a part in either compute type
  for_each_part(reduction, [&](const void* x, std::size_t first, std::size_t n) {
    kernels::MemoryTile tile = tile_at(reduction, reduction.residual + value_bytes(reduction, first), n);
    tile.x = x;
    if (reduction.memory.ops->skip != nullptr) reduction.memory.ops->skip(tile);
    std::memset(sum.data(), 0, value_bytes(reduction, n));
    reduction.memory.ops->deliver(tile, sum.data());
    std::byte* const output = reduction.output + first * in_bytes;
    if (reduction.convert != nullptr) {
      divide_to_half(*reduction.convert, sum.data(), output, nullptr, n, reduction.divisor);
      return;
    }
    if (reduction.divisor != 1) divide(sum.data(), n, reduction.element, reduction.divisor);
    std::memcpy(output, sum.data(), n * in_bytes);
  });
}

}  // namespace mq
