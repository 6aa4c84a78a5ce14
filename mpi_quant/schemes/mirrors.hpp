// What MPIQ_Neighbor_mix keeps between the rounds of a key. All that the ranks compute with it is here, apart from messages.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/codec.hpp"
#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/core/extension.hpp"

namespace mq {

// own: what the other ranks know of this rank's vector. mixed: the weighted sum of what is known of the vectors of the
// in-neighbours and of this rank. Both are zero at first, and have count elements of the key's type.
struct Mirrors {
  std::size_t count = 0;
  kernels::Element element{};
  Buffer memory;
  std::uint64_t rounds = 0;  // equal on all ranks
  // Memory of a round, which the next one uses again: news and decoded news, and messages.
  Buffer scratch, wire;

  template <class T>
  T* own() const {
    return reinterpret_cast<T*>(memory.data());
  }
  template <class T>
  T* mixed() const {
    return own<T>() + count;
  }
};

// Of one communicator. A call holds its mirrors, also if the key is forgotten meanwhile.
class MirrorTable final : public Extension {
 public:
  void forget(const char* key) noexcept override {
    if (key == nullptr)
      mirrors_.clear();
    else if (const auto at = mirrors_.find(std::string_view(key)); at != mirrors_.end())
      mirrors_.erase(at);
  }
  std::shared_ptr<Mirrors>& of(const std::string& key) { return mirrors_[key]; }

 private:
  std::map<std::string, std::shared_ptr<Mirrors>, std::less<>> mirrors_;
};

// news = x - own, where that is finite; 0 elsewhere.
template <class T>
void find_news(const T* x, const T* own, std::size_t n, T* news) {
  for (std::size_t i = 0; i < n; ++i) {
    const T difference = x[i] - own[i];
    news[i] = std::abs(difference) <= std::numeric_limits<T>::max() ? difference : T{0};
  }
}

// True if own + news is finite everywhere.
template <class T>
bool stays_finite(const T* own, const T* news, std::size_t n) {
  bool finite = true;
  for (std::size_t i = 0; i < n; ++i) finite &= std::abs(own[i] + news[i]) <= std::numeric_limits<T>::max();
  return finite;
}

// sum += share * news
template <class T>
void add_share(T* sum, const T* news, std::size_t n, T share) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += share * news[i];
}

// x += gamma (mixed - own)
template <class T>
void step(T* x, const T* mixed, const T* own, std::size_t n, T gamma) {
  for (std::size_t i = 0; i < n; ++i) x[i] += gamma * (mixed[i] - own[i]);
}

}  // namespace mq
