// Compiles lanes, loops and codecs once per instruction set, each in a namespace and a target region of its
// own, and builds the table of codecs from them. Never use -m flags for a file instead: two copies of one
// inline function, compiled with different flags, would break the one-definition rule (numpy/numpy#25274).

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12's own avx512fintrin.h initialises "undefined" vectors with themselves, and GCC warns where they are
// inlined (GCC PR105593).
#  pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#  pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>

#include "kernels/bitmaps.hpp"
#include "kernels/blocks.hpp"
#include "kernels/codec.hpp"
#include "kernels/convert.hpp"
#include "kernels/hd.hpp"
#include "kernels/onebit.hpp"

namespace mq::kernels {

inline constexpr int kLanes = 32;
template <class...>
struct TypeList {};

// For each byte, the number of ones and their positions. 5 KiB.
struct OnesTable {
  std::uint16_t position[256][8];
  std::uint8_t count[256];
};
constexpr OnesTable make_ones_table() {
  OnesTable table{};
  for (unsigned byte = 0; byte < 256; ++byte)
    for (unsigned rest = byte; rest != 0; rest &= rest - 1)
      table.position[byte][table.count[byte]++] = static_cast<std::uint16_t>(std::countr_zero(rest));
  return table;
}
alignas(64) inline constexpr OnesTable kOnes = make_ones_table();

namespace scalar {
#include "kernels/host/native_scalar-inl.hpp"
#include "kernels/host/target-inl.hpp"
}  // namespace scalar

#ifdef MQ_SCALAR_ONLY  // see MPIQ_SCALAR in CMakeLists.txt
namespace avx2 = scalar;
namespace avx512 = scalar;
#else
#  ifdef __clang__
#    pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#  else
#    pragma GCC push_options
#    pragma GCC target("avx2,f16c")
#  endif
namespace avx2 {
#  include "kernels/host/native_avx2-inl.hpp"
#  include "kernels/host/target-inl.hpp"
}  // namespace avx2
#  ifdef __clang__
#    pragma clang attribute pop
#    pragma clang attribute push(__attribute__((target("f16c,avx512f,avx512bw,avx512dq,avx512vl"))), \
                                 apply_to = function)
#  else
#    pragma GCC pop_options
#    pragma GCC push_options
#    pragma GCC target("f16c,avx512f,avx512bw,avx512dq,avx512vl")
#  endif
namespace avx512 {
#  include "kernels/host/native_avx512-inl.hpp"
#  include "kernels/host/target-inl.hpp"
}  // namespace avx512
#  ifdef __clang__
#    pragma clang attribute pop
#  else
#    pragma GCC pop_options
#  endif
#endif  // MQ_SCALAR_ONLY

namespace {

template <std::size_t kIndex>
const CodecOps* ops_of(Element element, Isa isa) noexcept {
  const auto e = static_cast<std::size_t>(compute_element(element));
  switch (isa) {
    case Isa::scalar: return &scalar::kRows[kIndex][e];
    case Isa::avx2: return &avx2::kRows[kIndex][e];
    case Isa::avx512: return &avx512::kRows[kIndex][e];
  }
  return nullptr;
}

template <class Q>
std::size_t block_of(const Params& params) noexcept {
  return Q::block(params);
}

template <class Q>
std::size_t wire_bound_of(std::size_t n, Element element, const Params& params) noexcept {
  return compute_element(element) == Element::f32 ? scalar::CodecLoops<float, Q>::wire_bytes(n, params)
                                                  : scalar::CodecLoops<double, Q>::wire_bytes(n, params);
}

template <class Q>
bool whole_of(const Params& params) noexcept {
  if constexpr (requires { Q::whole(params); })
    return Q::whole(params);
  else
    return false;
}

template <class Q>
double propose_of(const void* x, std::size_t n, Element element, const Params& params) noexcept {
  const auto* bytes = static_cast<const std::byte*>(x);
  return compute_element(element) == Element::f32 ? Q::template propose<float>(bytes, n, params)
                                                  : Q::template propose<double>(bytes, n, params);
}

template <class Q>
constexpr Codec codec_of(const CodecOps* (*ops)(Element, Isa) noexcept) {
  Codec codec{Q::kName,          Q::kId, Q::kWhat,     Q::kLossless, Q::kSpecs, &block_of<Q>,
              &wire_bound_of<Q>, ops,    &whole_of<Q>, nullptr,      nullptr,   nullptr};
  if constexpr (requires { &Q::proposes; }) {
    codec.propose = &propose_of<Q>;
    codec.proposes = &Q::proposes;
    codec.settle = &Q::settle;
  }
  return codec;
}

template <class... Q, std::size_t... kIndex>
constexpr auto make_codecs(TypeList<Q...>, std::index_sequence<kIndex...>) {
  return std::array{codec_of<Q>(&ops_of<kIndex>)...};
}
constexpr auto kCodecs =
    make_codecs(scalar::AllQuantizers{}, std::make_index_sequence<scalar::kRows.size()>{});

}  // namespace

std::span<const Codec> codecs() noexcept { return kCodecs; }

const Codec* find_codec(std::string_view name) noexcept {
  const auto at =
      std::find_if(kCodecs.begin(), kCodecs.end(), [&](const Codec& c) { return c.name == name; });
  return at == kCodecs.end() ? nullptr : &*at;
}

Params preset_params(const Codec& codec) noexcept {
  Params params;
  for (std::size_t i = 0; i < codec.specs.size(); ++i) params.value[i] = codec.specs[i].preset;
  return params;
}

const ConvertOps* convert(Element half, Isa isa) noexcept {
  if (half != Element::f16 && half != Element::bf16) return nullptr;
  const std::size_t i = half == Element::f16 ? 0 : 1;
  switch (isa) {
    case Isa::scalar: return &scalar::kConvert[i];
    case Isa::avx2: return &avx2::kConvert[i];
    case Isa::avx512: return &avx512::kConvert[i];
  }
  return nullptr;
}

const BitmapOps& bitmap_ops(Element element, Isa isa) noexcept {
  const auto e = static_cast<std::size_t>(compute_element(element));
  switch (isa) {
    case Isa::avx512: return avx512::kBitmaps[e];
    case Isa::avx2: return avx2::kBitmaps[e];
    case Isa::scalar: break;
  }
  return scalar::kBitmaps[e];
}

}  // namespace mq::kernels
