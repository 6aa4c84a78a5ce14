// Kernels for a GPU that is only simulated (device_table.hpp): the rows of the host, so that every codec has
// them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "kernels/convert.hpp"
#include "kernels/cuda/dense.hpp"
#include "kernels/cuda/memory.hpp"
#include "kernels/device.hpp"
#include "kernels/memory_sums.hpp"
#include "mpi_quant/engine/mean.hpp"

namespace mq::test {

// The kernels: rows of the host, of the codec with this number.
namespace host_kernels {

inline constexpr kernels::Kernel kEncode{"encode"}, kDecode{"decode"}, kWiden{"widen"}, kNarrow{"narrow"};

struct Encode {
  kernels::DeviceEncode call;
  const kernels::CodecOps* ops;
};
struct Decode {
  kernels::DeviceDecode call;
  const kernels::CodecOps* ops;
};
struct Convert {
  const void* from;
  void *to, *residual;
  std::size_t n;
  kernels::Element element;
  int divisor;
};

// The sums of each part of a vector: `sum` gives the sums of one part.
template <class Sum>
void sum_parts(const kernels::memory_rows::Sums& a, const Sum& sum) {
  constexpr std::size_t kPart = kernels::memory_sums::kPart;
  const std::size_t in_bytes = kernels::element_bytes(a.element),
                    kept_bytes = kernels::element_bytes(kernels::compute_element(a.element));
  for (std::size_t p = 0; p < kernels::memory_sums::parts_of(a.n); ++p) {
    const std::size_t n = std::min<std::size_t>(kPart, a.n - p * kPart);
    std::array<float, kPart> widened;
    kernels::MemoryTile tile;
    tile.n = n;
    tile.x = a.x + p * kPart * in_bytes;
    if (in_bytes == 2) {
      kernels::convert(a.element, kernels::best_isa())->widen(tile.x, widened.data(), n);
      tile.x = widened.data();
    }
    const auto kept = [&](const std::byte* array) {
      return array == nullptr ? nullptr : const_cast<std::byte*>(array + p * kPart * kept_bytes);
    };
    tile.array = {kept(a.minus_h), nullptr, kept(a.last)};
    sum(p, tile);
  }
}

inline bool run_sums(std::string_view name, const void* args) {
  if (name != "memory_squares" && name != "memory_distances") return false;
  kernels::memory_rows::Sums a{};
  std::memcpy(&a, args, sizeof a);
  const auto ops = [&](const char* rule) {
    return *kernels::find_memory_rule(rule)->ops(a.element, kernels::best_isa());
  };
  if (name == "memory_squares") {
    sum_parts(a, [&, of = ops("momentum")](std::size_t p, const kernels::MemoryTile& tile) {
      a.sums[p] = of.squares(tile.x, tile.n, a.scale);
    });
  } else {
    sum_parts(a, [&, of = ops("lazy")](std::size_t p, const kernels::MemoryTile& tile) {
      const kernels::Distances d = of.distances(tile, a.scale);
      a.sums[2 * p] = d.from_estimate;
      a.sums[2 * p + 1] = d.from_last;
    });
  }
  return true;
}

// Memory rules have kernels for every codec. False if `name` is none of them.
inline bool run_memory(std::string_view name, const void* args) {
  using namespace kernels::memory_rows;
  const auto as = [&]<class Args>(Args a) {
    std::memcpy(&a, args, sizeof a);
    return a;
  };
  for (std::size_t f = 0; f < kNames.size(); ++f)
    for (const std::size_t type : {0, 1}) {
      if (name != kNames[f][type].text) continue;
      const auto a = as(Run{});
      const kernels::MemoryOps& ops = *kernels::memory_rules()[a.rule].ops(
          type == 0 ? kernels::Element::f32 : kernels::Element::f64, kernels::best_isa());
      switch (static_cast<kernels::MemoryFunction>(f)) {
        case kernels::MemoryFunction::before: (void)ops.before(a.tile); break;
        case kernels::MemoryFunction::after: ops.after(a.tile); break;
        case kernels::MemoryFunction::deliver: ops.deliver(a.tile, a.sum); break;
        case kernels::MemoryFunction::skip: ops.skip(a.tile); break;
      }
      return true;
    }
  if (name == "memory_join") {
    const auto a = as(Join{});
    const std::uint64_t first = a.first_encoded->bytes, second = a.second_encoded->bytes;
    std::memcpy(a.payload, &first, sizeof first);
    if (a.second != nullptr) std::memcpy(a.payload + sizeof first + first, a.second, second);
    *a.encoded = {sizeof first + first + second,
                  std::max(a.first_encoded->nonfinite, a.second_encoded->nonfinite),
                  a.first_encoded->overflows + a.second_encoded->overflows};
    return true;
  }
  if (name != "memory_nothing") return false;
  const auto a = as(Nothing{});
  a.base != nullptr ? (void)std::memcpy(a.x, a.base, a.bytes) : (void)std::memset(a.x, 0, a.bytes);
  return true;
}

inline void run(std::string_view name, const void* args) {
  if (run_sums(name, args) || run_memory(name, args)) return;
  if (name == kEncode.text) {
    Encode e;
    std::memcpy(&e, args, sizeof e);
    const kernels::Encoded encoded = e.ops->encode(e.call.args);
    *e.call.encoded = {encoded.bytes, encoded.nonfinite, encoded.overflows};
    std::memset(e.call.scratch, 0xee, 64);
  } else if (name == kDecode.text) {
    Decode d;
    std::memcpy(&d, args, sizeof d);
    if (d.ops->decode(d.call.args) != kernels::Decoded::ok) *d.call.malformed = 1;
    std::memset(d.call.scratch, 0xdd, 64);
  } else if (name == "bring_bytes") {
    kernels::dense::Bring b;
    std::memcpy(&b, args, sizeof b);
    std::memcpy(b.to, b.from, b.bytes);
  } else if (name.starts_with("divide_")) {
    kernels::dense::Divide d;
    std::memcpy(&d, args, sizeof d);
    divide(d.x, d.n, name.ends_with("f64") ? kernels::Element::f64 : kernels::Element::f32,
           static_cast<int>(d.divisor));
  } else {
    Convert c;
    std::memcpy(&c, args, sizeof c);
    const kernels::ConvertOps& ops = *kernels::convert(c.element, kernels::best_isa());
    name == kWiden.text ? ops.widen(c.from, c.to, c.n)
                        : divide_to_half(ops, c.from, c.to, c.residual, c.n, c.divisor);
  }
}

// As the device's own rows have it; a test of those compares.
constexpr bool reads_once(std::string_view codec) { return codec == "onebit" || codec == "raw"; }

template <std::size_t kCodec, kernels::Element kElement>
const kernels::DeviceOps* ops() {
  static const kernels::DeviceOps kOps{
      [](std::size_t n, const kernels::Params&) noexcept { return 64 + n / 2; },
      [](const kernels::DeviceEncode& call, const kernels::Launcher& launcher) noexcept {
        launcher(kEncode, 1, 32, 0,
                 Encode{call, kernels::codecs()[kCodec].ops(kElement, kernels::best_isa())});
      },
      [](const kernels::DeviceDecode& call, const kernels::Launcher& launcher) noexcept {
        launcher(kDecode, 1, 32, 0,
                 Decode{call, kernels::codecs()[kCodec].ops(kElement, kernels::best_isa())});
      },
      kCodec < kernels::codecs().size() && reads_once(kernels::codecs()[kCodec].name)};
  return &kOps;
}

inline constexpr std::size_t kMostCodecs = 40;
template <kernels::Element kElement, std::size_t... I>
const kernels::DeviceOps* nth(std::size_t codec, std::index_sequence<I...>) {
  static const std::array<const kernels::DeviceOps*, sizeof...(I)> all{ops<I, kElement>()...};
  return all.at(codec);
}

template <kernels::Element kElement>
const kernels::DeviceConvertOps* convert() {
  static constexpr kernels::DeviceConvertOps kOps{
      [](const void* half, void* out, std::size_t n, const kernels::DeviceShape&,
         const kernels::Launcher& launcher) noexcept {
        launcher(kWiden, 1, 32, 0, Convert{half, out, nullptr, n, kElement, 1});
      },
      [](const void* v, void* half, void* residual, std::size_t n, int divisor, const kernels::DeviceShape&,
         const kernels::Launcher& launcher) noexcept {
        launcher(kNarrow, 1, 32, 0, Convert{v, half, residual, n, kElement, divisor});
      }};
  return &kOps;
}

}  // namespace host_kernels

}  // namespace mq::test
