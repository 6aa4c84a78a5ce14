// Residual arrays of one communicator by key: what error feedback carries from one call to the next.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "kernels/codec.hpp"
#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq {

// Name of a vector: 1 to 63 characters, or empty.
class Key {
 public:
  static constexpr std::size_t kMax = 63;
  Key() = default;
  explicit Key(std::string_view text) : size_(text.size()) { text.copy(text_.data(), kMax); }  // at most kMax
  std::string_view view() const { return {text_.data(), size_}; }
  bool empty() const { return size_ == 0; }

 private:
  std::array<char, kMax> text_{};
  std::size_t size_ = 0;
};

class Residuals {
 public:
  struct Entry {
    kernels::Element element;
    std::size_t count;
    Buffer buffer;        // count values of the compute type; zero at first
    bool used = false;    // by a call that got past the agreement
    int users = 0;        // calls in flight
    double settled = -1;  // the codec's measured parameter, once a call has settled it; < 0: not yet
  };

  // The residual of a key, made if there is none. A key belongs to one count and element type. The entry
  // stays where it is until it is forgotten.
  Result<Entry*> acquire(std::string_view key, std::size_t count, kernels::Element element);
  // The same if it exists, else null.
  Entry* find(std::string_view key);
  // Drops the residual of a key, if there is one.
  void drop(std::string_view key);
  std::size_t bytes() const;

 private:
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace mq
