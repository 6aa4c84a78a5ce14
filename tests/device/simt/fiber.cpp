// x86-64 only, as the host rows are. swapcontext would ask the system for the signal mask at every change,
// which costs a hundred times more.

#include "tests/device/simt/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>

extern "C" void mq_simt_change(void** save, void* load);

// The registers that a function must keep (System V ABI), then the other stack.
asm(R"(
.text
.p2align 4
.type mq_simt_change, @function
mq_simt_change:
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
.type mq_simt_begin, @function
mq_simt_begin:
  movq %r12, %rdi
  callq *%r13
  ud2
.size mq_simt_begin, .-mq_simt_begin
)");
extern "C" void mq_simt_begin();

namespace mq::simt {
namespace {

constexpr std::size_t kStack = 192 << 10, kGuard = 4096;
// Stacks do not begin at the same place of their pages: else all of them would share a few lines of the
// cache.
constexpr std::size_t kPlaces = 61, kApart = 1088;

// As if it had called mq_simt_change just before mq_simt_begin.
void make_fresh(Fiber& f) {
  void* frame[9] = {};  // after `ret` the stack is a multiple of 16, as before any call
  frame[2] = reinterpret_cast<void*>(f.begin);  // r13
  frame[3] = &f;                                // r12
  frame[6] = reinterpret_cast<void*>(&mq_simt_begin);
  std::byte* const top = f.top - sizeof frame;
  std::memcpy(top, frame, sizeof frame);
  f.stack_pointer = top;
}

}  // namespace

void change_fiber(Fiber& from, Fiber& to) { mq_simt_change(&from.stack_pointer, to.stack_pointer); }

Fiber* FiberPool::take(void (*begin)(Fiber*)) {
  if (!idle_.empty()) {
    Fiber* const f = idle_.back();
    idle_.pop_back();
    return f;
  }
  auto fiber = std::make_unique<Fiber>();
  void* const stack =
      mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) throw std::bad_alloc();
  mprotect(stack, kGuard, PROT_NONE);  // an overflow is a crash, not another fiber's values
  fiber->stack = static_cast<std::byte*>(stack);
  fiber->top = fiber->stack + kStack - all_.size() % kPlaces * kApart;
  fiber->begin = begin;
  make_fresh(*fiber);
  all_.push_back(std::move(fiber));
  return all_.back().get();
}

void FiberPool::abandon(Fiber* f) {
  make_fresh(*f);
  idle_.push_back(f);
}

FiberPool::~FiberPool() {
  for (const auto& fiber : all_) munmap(fiber->stack, kStack);
}

}  // namespace mq::simt
