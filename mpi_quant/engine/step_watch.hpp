// Tells a listener when a codec step on the processor begins and ends. The benchmark counts the processor's
// events in these steps so. Without a listener a step reads one pointer more.
#pragma once

namespace mq {

class StepWatch {
 public:
  virtual ~StepWatch() = default;
  // On the thread that does the step.
  virtual void step_begins() noexcept = 0;
  virtual void step_ends(bool encodes) noexcept = 0;
};

// May change while no call is under way in this process.
inline StepWatch* step_watch = nullptr;

class WatchedStep {
 public:
  explicit WatchedStep(bool encodes) noexcept : encodes_(encodes) {
    if (step_watch != nullptr) step_watch->step_begins();
  }
  ~WatchedStep() {
    if (step_watch != nullptr) step_watch->step_ends(encodes_);
  }
  WatchedStep(const WatchedStep&) = delete;
  WatchedStep& operator=(const WatchedStep&) = delete;

 private:
  bool encodes_;
};

}  // namespace mq
