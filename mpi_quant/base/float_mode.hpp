// The calling thread's floating-point mode.
#pragma once

#include <cfenv>

namespace mq {

// While this object lives the thread rounds to nearest, keeps subnormal numbers and does not trap, whatever
// the program has set. Arithmetic that every rank does for itself then gives the same bits on all ranks. The
// program's mode and flags come back at the end.
class DefaultFloats {
 public:
  DefaultFloats() : held_(std::feholdexcept(&mode_) == 0 && std::fesetenv(FE_DFL_ENV) == 0) {}
  ~DefaultFloats() {
    if (held_) (void)std::fesetenv(&mode_);
  }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

 private:
  std::fenv_t mode_{};
  bool held_;
};

}  // namespace mq
