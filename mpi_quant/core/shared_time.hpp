// How long the program is in the library, and what share of that each call in flight gets: see
// automatic/overlap.hpp. There is one SharedTime for the process, because a function that waits advances all
// calls, of all communicators. If one of several threads is there, the program counts as being there.
#pragma once

#include <optional>

namespace mq {

// While it lives, the program is in the library. One may live inside another.
class InLibrary {
 public:
  InLibrary() noexcept;
  ~InLibrary();
  InLibrary(const InLibrary&) = delete;
  InLibrary& operator=(const InLibrary&) = delete;
};

// What one call in flight gets. All calls have one, also those that auto has not chosen for: they share the
// time, too.
class Share {
 public:
  Share() = default;
  ~Share() { (void)end(); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  void begin() noexcept;  // does nothing if it has begun
  double end() noexcept;  // the seconds since begin(); 0 if it has not begun

 private:
  std::optional<double> begin_;
};

}  // namespace mq
