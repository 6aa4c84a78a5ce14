// Reproducible shuffles. std::shuffle may differ between standard libraries, and all ranks must agree on an
// order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mq::bench {

class Random {  // splitmix64 (Steele, Lea, Flood 2014)
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  template <class T>
  void shuffle(std::vector<T>& items) {  // the remainder's bias is below 2^-50 for any list of a sweep
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[next() % i]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace mq::bench
