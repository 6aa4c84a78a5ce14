// The names of kernels, for launches. Most kernels exist for floats and for doubles: their names differ in
// f32 and f64.
#pragma once

#include <array>

namespace mq::kernels {

using NamesByType = std::array<const char*, 2>;
// The kernels BEFORE_f32AFTER and BEFORE_f64AFTER.
#define MQ_NAMES_BY_TYPE(before, after) \
  mq::kernels::NamesByType { #before "_f32" #after, #before "_f64" #after }

template <class T>
constexpr const char* name_for(const NamesByType& names) {
  return names[sizeof(T) == 8 ? 1 : 0];
}

}  // namespace mq::kernels
