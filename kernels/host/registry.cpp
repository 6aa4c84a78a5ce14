// The tables of codecs, conversions and bitmap functions, joined from the objects of all instruction sets.
#include <algorithm>
#include <array>

#include "kernels/codec.hpp"
#include "kernels/host/rows.hpp"

namespace mq::kernels {
namespace {

template <class Row>
const Row& of_isa(Isa isa, const Row& scalar_row, const Row& avx2_row, const Row& avx512_row) noexcept {
  switch (isa) {
    case Isa::avx512: return avx512_row;
    case Isa::avx2: return avx2_row;
    case Isa::scalar: break;
  }
  return scalar_row;
}

using Ops = const CodecOps*(Element, Isa) noexcept;

#define MQ_CODEC(name, Type)                                                                     \
  const CodecOps* ops_##name(Element element, Isa isa) noexcept {                                \
    const CodecRow& row = of_isa(isa, scalar::row_##name, avx2::row_##name, avx512::row_##name); \
    return &row[static_cast<std::size_t>(compute_element(element))];                             \
  }
#include "kernels/registry.def"
#undef MQ_CODEC

Codec with_ops(Codec codec, Ops* ops) noexcept {
  codec.ops = ops;
  return codec;
}

}  // namespace

std::span<const Codec> codecs() noexcept {
#define MQ_CODEC(name, Type) with_ops(describe_##name(), &ops_##name),
  static const std::array all{
#include "kernels/registry.def"
  };
#undef MQ_CODEC
  return all;
}

const Codec* find_codec(std::string_view name) noexcept {
  const std::span<const Codec> all = codecs();
  const auto at = std::find_if(all.begin(), all.end(), [&](const Codec& c) { return c.name == name; });
  return at == all.end() ? nullptr : &*at;
}

Params preset_params(const Codec& codec) noexcept {
  Params params;
  for (std::size_t i = 0; i < codec.specs.size(); ++i) params.value[i] = codec.specs[i].preset;
  return params;
}

const ConvertOps* convert(Element half, Isa isa) noexcept {
  if (half != Element::f16 && half != Element::bf16) return nullptr;
  return &of_isa(isa, scalar::convert_rows, avx2::convert_rows,
                 avx512::convert_rows)[half == Element::f16 ? 0 : 1];
}

const BitmapOps& bitmap_ops(Element element, Isa isa) noexcept {
  return of_isa(isa, scalar::bitmap_rows, avx2::bitmap_rows,
                avx512::bitmap_rows)[static_cast<std::size_t>(compute_element(element))];
}

}  // namespace mq::kernels
