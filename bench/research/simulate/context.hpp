// A function that has stopped on a stack of its own, so that another one runs on the same thread: a rank of a
// simulation (fiber.hpp), a thread of the tests' GPU emulator.
#pragma once

#include <cstddef>

// Sanitizers follow swapcontext from stack to stack. They do not know code of our own.
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define MQ_SWAPCONTEXT
#elif defined(__has_feature)  // clang
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#    define MQ_SWAPCONTEXT
#  endif
#endif

#ifdef MQ_SWAPCONTEXT
#  include <ucontext.h>
#endif

namespace mq::sim {

struct Context {
#ifdef MQ_SWAPCONTEXT
  ucontext_t saved{};
#else
  void* stack_pointer = nullptr;
#endif
};

// Makes a context that calls begin(argument), which never returns, on the stack from bottom to top, multiples
// of 16.
void make_context(Context& made, std::byte* bottom, std::byte* top, void (*begin)(void*), void* argument);

// Stops here, in `from`, and goes on in `to`. The floating-point environment is not kept: a function that
// changes it changes it back before it stops.
void change_context(Context& from, Context& to);

// Stack number i begins so many bytes below its end. Else all stacks would begin at the same place of their
// pages, and share a few lines of the cache.
constexpr std::size_t kMostShift = std::size_t{64} << 10;
constexpr std::size_t stack_shift(std::size_t i) { return i % 61 * 1088; }
static_assert(60 * 1088 <= kMostShift);

}  // namespace mq::sim
