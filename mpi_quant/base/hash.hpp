// A hash of values.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

namespace mq {

// FNV-1a over the bytes of trivially copyable values.
class Hash {
 public:
  template <class T>
  Hash& add(const T& value) {
    for (const std::uint8_t byte : std::bit_cast<std::array<std::uint8_t, sizeof(T)>>(value))
      h_ = (h_ ^ byte) * 0x100000001b3u;
    return *this;
  }
  std::uint64_t value() const { return h_; }

 private:
  std::uint64_t h_ = 0xcbf29ce484222325u;
};

// Mixes all bits (the finaliser of splitmix64, Steele, Lea, Flood 2014): neighbours become unrelated numbers.
inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline std::uint64_t hash_of(std::string_view text) {
  Hash h;
  for (const char c : text) h.add(c);
  return h.value();
}

}  // namespace mq
