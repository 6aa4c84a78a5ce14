// Whether this is a build with sanitizers, which run several times as long. What a property says of numbers
// is checked by builds without; here it is enough that every line runs on every kind of rank count.
#pragma once

#if defined(__SANITIZE_ADDRESS__)  // GCC
#  define MQ_SANITIZED
#elif defined(__SANITIZE_THREAD__)
#  define MQ_SANITIZED
#  define MQ_SANITIZED_THREADS
#elif defined(__has_feature)  // clang
#  if __has_feature(address_sanitizer)
#    define MQ_SANITIZED
#  elif __has_feature(thread_sanitizer)
#    define MQ_SANITIZED
#    define MQ_SANITIZED_THREADS
#  endif
#endif

namespace mq::test {

#ifdef MQ_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#ifdef MQ_SANITIZED_THREADS  // by ThreadSanitizer
inline constexpr bool kSanitizedThreads = true;
#else
inline constexpr bool kSanitizedThreads = false;
#endif

}  // namespace mq::test
