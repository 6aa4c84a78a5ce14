// A stream of a GPU of the tests. Its operations run as late as they may: when somebody waits for one, or has
// asked for it a few times. So it shows what was not waited for. An operation runs after the ones before it
// in its stream, and after the operations of other streams that it was given.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace mq::test {

class LazyStream;

struct LazyOperation {
  LazyStream* stream = nullptr;
  std::vector<std::shared_ptr<LazyOperation>> after;  // of other streams, or of this one
  std::function<int()> run;                           // 0, or an error
  bool is_done = false;
};
using Lazy = std::shared_ptr<LazyOperation>;

class LazyStream {
 public:
  static constexpr int kDropped = -1;  // the error of an operation that was dropped

  // Null operations of `after` are left out.
  Lazy push(std::function<int()> run, std::vector<Lazy> after = {}) {
    auto operation = std::make_shared<LazyOperation>();
    operation->stream = this;
    operation->run = std::move(run);
    for (Lazy& first : after)
      if (first != nullptr && !first->is_done) operation->after.push_back(std::move(first));
    queue_.push_back(operation);
    ++pushed_;
    return operation;
  }
  Lazy last() const { return queue_.empty() ? nullptr : queue_.back(); }  // null: nothing waits
  std::size_t waiting() const { return queue_.size(); }
  std::size_t pushed() const { return pushed_; }  // ever
  void drop() { queue_.clear(); }

  // Runs an operation, and first all that it comes after. An error ends this; the operation that returned it
  // counts as done.
  static int complete(const Lazy& operation) {
    const Lazy last = operation;  // a copy: it leaves the queue
    while (last != nullptr && !last->is_done)
      if (const int error = last->stream->run_first(); error != 0) return error;
    return 0;
  }
  // What to answer to somebody who asks whether an operation is done. Yes if it is, if there is none, or if
  // this was asked `patience` times before; the caller then completes it. `asked` counts.
  static bool is_due(const Lazy& operation, int patience, int& asked) {
    if (operation == nullptr || operation->is_done) return true;
    if (++asked <= patience) return false;
    asked = 0;
    return true;
  }

 private:
  int run_first() {
    if (queue_.empty()) return kDropped;
    const Lazy next = queue_.front();
    for (const Lazy& first : next->after)
      if (const int error = complete(first); error != 0) return error;
    queue_.pop_front();
    next->is_done = true;
    next->after.clear();
    return next->run();
  }

  std::deque<Lazy> queue_;
  std::size_t pushed_ = 0;
};

}  // namespace mq::test
