// swapcontext asks the system for the signal mask at every change, which costs a hundred times more than the
// rest. So x86-64 has code of its own.
#include "bench/research/simulate/context.hpp"

#include <cstdint>
#include <cstring>

#ifndef MQ_SWAPCONTEXT

extern "C" void mq_change_context(void** save, void* load);
extern "C" void mq_begin_context();

// The registers that a function must keep (System V ABI), then the other stack.
asm(R"(
.text
.p2align 4
.type mq_change_context, @function
mq_change_context:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size mq_change_context, .-mq_change_context
.type mq_begin_context, @function
mq_begin_context:
  movq %r12, %rdi
  callq *%r13
  ud2
.size mq_begin_context, .-mq_begin_context
)");

namespace mq::sim {

// As if it had called mq_change_context just before mq_begin_context.
void make_context(Context& made, std::byte*, std::byte* top, void (*begin)(void*), void* argument) {
  void* frame[9] = {};                        // after `ret` the stack is a multiple of 16, as before any call
  frame[2] = reinterpret_cast<void*>(begin);  // r13
  frame[3] = argument;                        // r12
  frame[6] = reinterpret_cast<void*>(&mq_begin_context);
  made.stack_pointer = top - sizeof frame;
  std::memcpy(made.stack_pointer, frame, sizeof frame);
}

void change_context(Context& from, Context& to) { mq_change_context(&from.stack_pointer, to.stack_pointer); }

}  // namespace mq::sim

#else

namespace mq::sim {
namespace {

using Half = unsigned;  // makecontext passes ints only: two halves of a pointer
void* joined(Half high, Half low) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(high) << 32 | low);
}
Half high(std::uintptr_t p) { return static_cast<Half>(p >> 32); }
Half low(std::uintptr_t p) { return static_cast<Half>(p & 0xffffffffU); }

void begin_context(Half begin_high, Half begin_low, Half argument_high, Half argument_low) {
  reinterpret_cast<void (*)(void*)>(joined(begin_high, begin_low))(joined(argument_high, argument_low));
}

}  // namespace

void make_context(Context& made, std::byte* bottom, std::byte* top, void (*begin)(void*), void* argument) {
  getcontext(&made.saved);
  made.saved.uc_stack.ss_sp = bottom;
  made.saved.uc_stack.ss_size = static_cast<std::size_t>(top - bottom);
  made.saved.uc_link = nullptr;
  const auto b = reinterpret_cast<std::uintptr_t>(begin), a = reinterpret_cast<std::uintptr_t>(argument);
  makecontext(&made.saved, reinterpret_cast<void (*)()>(&begin_context), 4, high(b), low(b), high(a), low(a));
}

void change_context(Context& from, Context& to) { swapcontext(&from.saved, &to.saved); }

}  // namespace mq::sim

#endif
