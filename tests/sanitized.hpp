// Whether this is a build with sanitizers, which run several times as long. What a property says of numbers
// is checked by builds without; here it is enough that every line runs on every kind of rank count.
#pragma once

namespace mq::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace mq::test
