// A static that is never destroyed. It is for objects that MPI or a thread may still use while the statics of
// the program are destroyed.
#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace mq {

// Holds a T in its own memory. It allocates nothing except what T itself allocates.
template <class T>
class Immortal {
 public:
  template <class... Args>
  explicit Immortal(Args&&... args) {
    new (memory_) T(std::forward<Args>(args)...);
  }
  Immortal(const Immortal&) = delete;
  Immortal& operator=(const Immortal&) = delete;
  T& operator*() { return *std::launder(reinterpret_cast<T*>(memory_)); }

 private:
  alignas(T) std::byte memory_[sizeof(T)];
};

}  // namespace mq
