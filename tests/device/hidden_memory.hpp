// Memory of a GPU of the tests: at the addresses that the library knows, every access is a fault. The
// operations of streams see it at other addresses. So nothing has to change access rights, which for every
// operation costs more than what is tested.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace mq::test {

class HiddenMemory {
 public:
  explicit HiddenMemory(std::size_t bytes) : bytes_(bytes) {
    const int file = memfd_create("GPUs of the tests", 0);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) std::abort();
    outside_ = map(place(bytes), file, PROT_NONE);
    inside_ = map(nullptr, file, PROT_READ | PROT_WRITE);
    (void)close(file);
  }
  HiddenMemory(const HiddenMemory&) = delete;
  HiddenMemory& operator=(const HiddenMemory&) = delete;

  // As the library sees it.
  std::byte* begin() const { return outside_; }
  bool has(const void* p) const {
    const auto at = reinterpret_cast<std::uintptr_t>(p);
    return at - reinterpret_cast<std::uintptr_t>(outside_) < bytes_;
  }
  // Where operations see p; p itself if it is in other memory.
  template <class T>
  T* inside(T* p) const {
    return reinterpret_cast<T*>(seen(reinterpret_cast<std::uintptr_t>(p)));
  }
  // The same for each word of a kernel's arguments.
  void enter(std::vector<std::byte>& args) const {
    std::uintptr_t word = 0;
    for (std::size_t i = 0; i + sizeof word <= args.size(); i += sizeof word) {
      std::memcpy(&word, &args[i], sizeof word);
      word = seen(word);
      std::memcpy(&args[i], &word, sizeof word);
    }
  }

 private:
  // An address whose low 32 bits are 2.5 GiB or more. Behind a small number in a kernel's arguments there may
  // be four bytes that nobody has set, and those may be the upper half of an address of this memory. Then
  // number and bytes together must not look like an address of it.
  static void* place(std::size_t bytes) {
    constexpr std::uintptr_t kPeriod = std::uintptr_t{4} << 30, kLow = std::uintptr_t{5} << 29;
    if (bytes > kPeriod - kLow) std::abort();
    void* const free =
        mmap(nullptr, 2 * kPeriod, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (free == MAP_FAILED) std::abort();
    const auto at = reinterpret_cast<std::uintptr_t>(free);
    return reinterpret_cast<void*>((at + kPeriod - 1) / kPeriod * kPeriod + kLow);
  }
  std::byte* map(void* at, int file, int access) const {
    const int flags = MAP_SHARED | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0);
    void* const p = mmap(at, bytes_, access, flags, file, 0);
    if (p == MAP_FAILED) std::abort();
    return static_cast<std::byte*>(p);
  }
  // An address one past the last byte counts too: it may be the end of an array.
  std::uintptr_t seen(std::uintptr_t at) const {
    const std::uintptr_t place = at - reinterpret_cast<std::uintptr_t>(outside_);
    return place <= bytes_ ? reinterpret_cast<std::uintptr_t>(inside_) + place : at;
  }

  std::size_t bytes_;
  std::byte *outside_ = nullptr, *inside_ = nullptr;
};

}  // namespace mq::test
