// What MPIQ_Neighbor_mix keeps between the rounds of a key. All that the ranks compute with it is here, apart
// from messages.
#pragma once

#include <algorithm>
#include <array>
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

// What the ranks know of the vectors of their neighbours: first of this rank's own vector, as its
// out-neighbours know it, and then one mirror for each in-neighbour, in the order of the graph. All are zero
// at first, and have count elements of the key's type. A mirror is the same bits on the rank that it mirrors
// and on all ranks that keep it, because all add the same decoded news to it. So what is computed of mirrors
// anew in each round keeps no rounding of the rounds before.
struct Mirrors {
  std::size_t count = 0, sources = 0;
  kernels::Element element{};
  Buffer memory;
  std::uint64_t rounds = 0;  // equal on all ranks
  // Memory of a round, which the next one uses again: news and decoded news, and messages.
  Buffer scratch, wire;

  template <class T>
  T* own() const {
    return reinterpret_cast<T*>(memory.data());
  }
  // Of the in-neighbour with this number.
  template <class T>
  T* of(std::size_t source) const {
    return own<T>() + (source + 1) * count;
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

// mirror += news
template <class T>
void learn(T* mirror, const T* news, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) mirror[i] += news[i];
}

// x += gamma (sum over j of a_ij X_j - X_i), in double. given[s]: the share that in-neighbour s gives to each
// of its out-neighbours and keeps; own_given: the share of this rank, which has so many out-neighbours. What
// leaves a rank is the same number as what reaches its neighbours, to the last bit. So the sum over all ranks
// loses the rounding of additions alone.
template <class T>
void step(T* x, const Mirrors& mirrors, const double* given, double own_given, double out_neighbours,
          double gamma) {
  constexpr std::size_t kPart = 512;
  std::array<double, kPart> change;
  for (std::size_t first = 0; first < mirrors.count; first += kPart) {
    const std::size_t n = std::min(kPart, mirrors.count - first);
    const T* const own = mirrors.own<T>() + first;
    for (std::size_t i = 0; i < n; ++i)
      change[i] = -out_neighbours * (own_given * static_cast<double>(own[i]));
    for (std::size_t source = 0; source < mirrors.sources; ++source) {
      const T* const mirror = mirrors.of<T>(source) + first;
      for (std::size_t i = 0; i < n; ++i) change[i] += given[source] * static_cast<double>(mirror[i]);
    }
    for (std::size_t i = 0; i < n; ++i)
      x[first + i] = static_cast<T>(static_cast<double>(x[first + i]) + gamma * change[i]);
  }
}

}  // namespace mq
