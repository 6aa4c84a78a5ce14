// Stacks that take turns on one thread of the host.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace mq::simt {

struct Fiber {
  void* stack_pointer = nullptr;  // while another runs
  std::byte *stack = nullptr, *top = nullptr;
  void (*begin)(Fiber*) = nullptr;  // never returns
};

// Saves the running fiber in `from` and goes on in `to`. Registers that a called function may change are not
// kept, and neither is the floating-point environment.
void change_fiber(Fiber& from, Fiber& to);

// Owns the stacks; kept for the next launch.
class FiberPool {
 public:
  FiberPool() = default;
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;
  ~FiberPool();
  Fiber* take(void (*begin)(Fiber*));
  // It may be taken again; it then goes on where it changed to another.
  void give_back(Fiber* f) { idle_.push_back(f); }
  // It begins anew when it is taken again.
  void abandon(Fiber* f);

 private:
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> idle_;
};

}  // namespace mq::simt
