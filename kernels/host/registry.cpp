// The tables of codecs, memory rules, conversions and bitmap functions, joined from the objects of all
// instruction sets.
#include <algorithm>
#include <array>

#include "kernels/codec.hpp"
#include "kernels/host/memory_rows.hpp"
#include "kernels/host/rows.hpp"
#include "kernels/memory.hpp"

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

Params presets_of(std::span<const ParamSpec> specs) noexcept {
  Params params;
  for (std::size_t i = 0; i < specs.size(); ++i) params.value[i] = specs[i].preset;
  return params;
}

using Ops = const CodecOps*(Element, Isa) noexcept;

#define MQ_CODEC(name, Type, family, where)                                                      \
  const CodecOps* ops_##name(Element element, Isa isa) noexcept {                                \
    const CodecRow& row = of_isa(isa, scalar::row_##name, avx2::row_##name, avx512::row_##name); \
    return &row[static_cast<std::size_t>(compute_element(element))];                             \
  }
#include "kernels/registry.def"
#undef MQ_CODEC

#define MQ_MEMORY(name, Type)                                                                              \
  const MemoryOps* memory_ops_##name(Element element, Isa isa) noexcept {                                  \
    const MemoryRow& row = of_isa(isa, scalar::memory_##name, avx2::memory_##name, avx512::memory_##name); \
    return &row[static_cast<std::size_t>(compute_element(element))];                                       \
  }
#include "kernels/memory/registry.def"
#undef MQ_MEMORY

Codec with_ops(Codec codec, Ops* ops) noexcept {
  codec.ops = ops;
  return codec;
}

MemoryRule with_ops(MemoryRule rule, const MemoryOps* (*ops)(Element, Isa) noexcept) noexcept {
  if (ops(Element::f32, Isa::scalar)->before != nullptr) rule.ops = ops;
  return rule;
}

}  // namespace

std::span<const Codec> codecs() noexcept {
#define MQ_CODEC(name, Type, family, where) with_ops(describe_##name(), &ops_##name),
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

Params preset_params(const Codec& codec) noexcept { return presets_of(codec.specs); }

std::span<const MemoryRule> memory_rules() noexcept {
#define MQ_MEMORY(name, Type) with_ops(describe_memory_##name(), &memory_ops_##name),
  static const std::array all{
#include "kernels/memory/registry.def"
  };
#undef MQ_MEMORY
  return all;
}

const MemoryRule* find_memory_rule(std::string_view name) noexcept {
  const std::span<const MemoryRule> all = memory_rules();
  const auto at = std::find_if(all.begin(), all.end(), [&](const MemoryRule& r) { return r.name == name; });
  return at == all.end() ? nullptr : &*at;
}

const MemoryRule& carry_rule() noexcept {
  static const MemoryRule& carry = *find_memory_rule("carry");
  return carry;
}

Params preset_params(const MemoryRule& rule) noexcept { return presets_of(rule.specs); }

const ConvertOps* convert(Element half, Isa isa) noexcept {
  if (half != Element::f16 && half != Element::bf16) return nullptr;
  return &of_isa(isa, scalar::convert_rows, avx2::convert_rows,
                 avx512::convert_rows)[half == Element::f16 ? 0 : 1];
}

const BitmapOps& bitmap_ops(Element element, Isa isa) noexcept {
  return of_isa(isa, scalar::bitmap_rows, avx2::bitmap_rows,
                avx512::bitmap_rows)[static_cast<std::size_t>(compute_element(element))];
}

const NarrowProducts& narrow_products(Element element, Isa isa) noexcept {
  return of_isa(isa, scalar::product_rows, avx2::product_rows,
                avx512::product_rows)[static_cast<std::size_t>(compute_element(element))];
}

}  // namespace mq::kernels
