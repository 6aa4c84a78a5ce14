// What the objects of each instruction set define (object.cpp.in) and registry.cpp joins into tables.
#pragma once

#include <array>

#include "kernels/bitmaps.hpp"
#include "kernels/codec.hpp"
#include "kernels/convert.hpp"
#include "kernels/narrow_products.hpp"

namespace mq::kernels {

// The functions of one codec for one instruction set, by compute type.
using CodecRow = std::array<CodecOps, kComputeElements.size()>;

#define MQ_CODEC(name, Type, family, where) extern const CodecRow row_##name;
namespace scalar {
#include "kernels/registry.def"
extern const std::array<ConvertOps, 2> convert_rows;  // of f16, bf16
extern const std::array<BitmapOps, kComputeElements.size()> bitmap_rows;
extern const std::array<NarrowProducts, kComputeElements.size()> product_rows;
}  // namespace scalar
#ifdef MQ_SCALAR_ONLY  // see MPIQ_SCALAR in CMakeLists.txt
namespace avx2 = scalar;
namespace avx512 = scalar;
#else
namespace avx2 {
#  include "kernels/registry.def"
extern const std::array<ConvertOps, 2> convert_rows;
extern const std::array<BitmapOps, kComputeElements.size()> bitmap_rows;
extern const std::array<NarrowProducts, kComputeElements.size()> product_rows;
}  // namespace avx2
namespace avx512 {
#  include "kernels/registry.def"
extern const std::array<ConvertOps, 2> convert_rows;
extern const std::array<BitmapOps, kComputeElements.size()> bitmap_rows;
extern const std::array<NarrowProducts, kComputeElements.size()> product_rows;
}  // namespace avx512
#endif
#undef MQ_CODEC

// What does not depend on the instruction set: everything of a codec but `ops`.
#define MQ_CODEC(name, Type, family, where) Codec describe_##name() noexcept;
#include "kernels/registry.def"
#undef MQ_CODEC

}  // namespace mq::kernels
