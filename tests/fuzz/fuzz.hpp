// What the fuzz targets share: a fuzzer's bytes as numbers, properties that end the program where they do not
// hold, and files that exist in memory only.
//
// A target is a file with one function, LLVMFuzzerTestOneInput, which libFuzzer calls with many inputs and
// seeds_main.cpp with the inputs in tests/fuzz/seeds. It keeps nothing from one call to the next that could
// change what the next does.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace mq::fuzz {

// Ends the program as a sanitizer does: libFuzzer then keeps the input.
inline void require(bool holds, const char* property) {
  if (holds) return;
  (void)std::fprintf(stderr, "property does not hold: %s\n", property);
  std::abort();
}

// The input, from its begin to its end; zeros behind it.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : left_(data, size) {}
  bool empty() const { return left_.empty(); }
  template <class T>
  T take() {
    T value{};
    const std::size_t n = std::min(sizeof value, left_.size());
    if (n > 0) std::memcpy(&value, left_.data(), n);
    left_ = left_.subspan(n);
    return value;
  }
  // A number below the limit, from two bytes.
  std::size_t below(std::size_t limit) { return take<std::uint16_t>() % limit; }
  // In memory of exactly this size, so that AddressSanitizer sees a read behind it.
  std::vector<std::byte> take(std::size_t n) {
    const auto part = left_.first(std::min(n, left_.size()));
    left_ = left_.subspan(part.size());
    const auto bytes = std::as_bytes(part);
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::byte> rest() { return take(left_.size()); }

 private:
  std::span<const std::uint8_t> left_;
};

// Changes bytes of what is sound: each change is its place and what is added to the byte there. A last change
// at an even place cuts the end off.
inline void damage(Bytes& from, std::vector<std::byte>& bytes) {
  while (!from.empty() && !bytes.empty()) {
    const std::size_t place = from.take<std::uint16_t>() % bytes.size();
    const auto by = from.take<std::uint8_t>();
    if (from.empty() && by == 0 && place % 2 == 0) return bytes.resize(place);
    bytes[place] ^= std::byte{by};
  }
}

// n bytes between others that must not change.
class Guarded {
 public:
  explicit Guarded(std::size_t n) : n_(n), memory_(n + 2 * kEdge, kFill) {}
  std::byte* data() { return memory_.data() + kEdge; }
  bool intact() const {
    const auto is_fill = [](std::byte b) { return b == kFill; };
    return std::all_of(memory_.data(), memory_.data() + kEdge, is_fill) &&
           std::all_of(memory_.data() + kEdge + n_, memory_.data() + memory_.size(), is_fill);
  }

 private:
  static constexpr std::size_t kEdge = 64;
  static constexpr std::byte kFill{0xa5};
  std::size_t n_;
  std::vector<std::byte> memory_;
};

// A file without a place on a disk, that has a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : descriptor_(memfd_create("fuzz", 0)) {
    require(descriptor_ >= 0, "there is room for a file in memory");
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t n = write(descriptor_, bytes.data() + done, bytes.size() - done);
      require(n > 0, "a file in memory can be written");
      done += static_cast<std::size_t>(n);
    }
  }
  ~MemoryFile() { (void)close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace mq::fuzz
