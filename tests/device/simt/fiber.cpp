#include "tests/device/simt/fiber.hpp"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace mq::simt {
namespace {

constexpr std::size_t kGuard = 4096, kStack = (std::size_t{128} << 10) + sim::kMostShift;

}  // namespace

Fiber* FiberPool::take() {
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
  fiber->top = fiber->stack + kStack - sim::stack_shift(all_.size());
  begin_anew(*fiber);
  all_.push_back(std::move(fiber));
  return all_.back().get();
}

void FiberPool::abandon(Fiber* f) {
  begin_anew(*f);
  idle_.push_back(f);
}

FiberPool::~FiberPool() {
  for (const auto& fiber : all_) munmap(fiber->stack, kStack);
}

}  // namespace mq::simt
