// Stacks that take turns on one thread of the host.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "bench/research/simulate/context.hpp"

namespace mq::simt {

struct Fiber {
  sim::Context context;
  std::byte *stack = nullptr, *top = nullptr;
};

// Owns the fibers; kept for the next launch.
class FiberPool {
 public:
  // All fibers run this, with themselves as argument. It never returns.
  explicit FiberPool(void (*begin)(void* fiber)) : begin_(begin) {}
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;
  ~FiberPool();
  Fiber* take();
  // It may be taken again; it then goes on where it stopped.
  void give_back(Fiber* f) { idle_.push_back(f); }
  // It begins anew when it is taken again.
  void abandon(Fiber* f);

 private:
  void begin_anew(Fiber& f) { sim::make_context(f.context, f.stack, f.top, begin_, &f); }

  void (*const begin_)(void*);
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> idle_;
};

}  // namespace mq::simt
