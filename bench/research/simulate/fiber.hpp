// User-level contexts: functions that leave and resume each other on one thread. A simulation runs each rank
// in one, so that ranks are plain functions, 4096 ranks need no threads, and their order is always the same.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <vector>

#include "bench/research/simulate/context.hpp"

namespace mq::sim {

class Fibers {
 public:
  // Room for n fibers. Throws std::bad_alloc. The memory of a stack is used only as far as it is touched; a
  // page that cannot be read or written lies below each.
  explicit Fibers(std::size_t n);
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // Fiber number i will run this when it is resumed for the first time.
  void set(std::size_t i, std::function<void()> body);
  // From outside: runs fiber i until it leaves or ends.
  void resume(std::size_t i);
  // From a fiber: goes back to where it was resumed.
  void leave();
  bool is_over(std::size_t i) const { return fibers_[i].is_over; }
  // What the body of a fiber threw, if it threw.
  std::exception_ptr thrown(std::size_t i) const { return fibers_[i].thrown; }

 private:
  struct Fiber {
    Context context;
    std::function<void()> body;
    std::exception_ptr thrown;
    void* known = nullptr;  // what AddressSanitizer knows of its stack
    bool is_over = false;
  };
  std::byte* stack_of(std::size_t i) const;
  std::byte* top_of(std::size_t i) const;
  void run_current() noexcept;

  std::vector<Fiber> fibers_;
  std::byte* stacks_ = nullptr;
  Context outside_;
  const void* outside_stack_ = nullptr;  // the three for AddressSanitizer alone
  std::size_t outside_size_ = 0;
  void* outside_known_ = nullptr;
  std::size_t current_ = 0;
};

}  // namespace mq::sim
