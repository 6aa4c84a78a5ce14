// Residual arrays of one communicator by key: what error feedback carries from one call to the next.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/codec.hpp"
#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/base/device_copy.hpp"
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

// Bytes that count as held in this process as long as this lives.
class Held {
 public:
  explicit Held(std::size_t bytes) : bytes_(bytes) { total_ += bytes_; }
  Held(Held&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}
  Held& operator=(Held&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Held() { total_ -= bytes_; }
  static std::size_t total() { return total_; }

 private:
  static inline std::atomic<std::size_t> total_ = 0;
  std::size_t bytes_;
};

class Residuals {
 public:
  struct Entry {
    kernels::Element element;  // of the key's vectors
    std::size_t count;
    // count elements of residual_element(), zero at first, in one of the two: where the vector was last. In
    // none after restart().
    Buffer buffer;
    DeviceBuffer on_device;
    Held held;            // what they take
    Buffer aside{};       // elements that wait elsewhere: set_aside()
    bool used = false;    // by a call that got past the agreement
    int users = 0;        // calls in flight
    double settled = -1;  // the codec's measured parameter, once a call has settled it; < 0: not yet

    kernels::Element residual_element() const { return kernels::compute_element(element); }
    std::size_t bytes() const { return count * kernels::element_bytes(residual_element()); }
    std::byte* data() const { return on_device.data() != nullptr ? on_device.data() : buffer.data(); }
    // The elements are zero again. What all ranks know of the key stays.
    void restart() noexcept;
    // Moves the elements to a device's memory, or with null to the host's. No call uses the entry. After an
    // error they are where they were, but those that are not there any more are zero.
    Status move_to(const DeviceApi* api, Device* device);
    Status move_to_host() { return move_to(nullptr, nullptr); }
    // The elements are zero again, and what they were is kept until take_back() adds it to what is there
    // then. For calls of which it is not known yet whether they belong together. No call uses the entry.
    // After an error everything is zero.
    Status set_aside();
    Status take_back();
    // An error if the memory is not there any more.
    Status still_there() const;
    // Copies bytes, from byte `first` on, to `to`, which may be anywhere.
    Status fetch(void* to, std::size_t first, std::size_t bytes) const;
  };
  using Map = std::map<std::string, Entry, std::less<>>;

  // The residual of a key, made if there is none. A key belongs to one count and element type. The entry
  // stays where it is until it is forgotten. A new one is in the memory of `device` if that is not null.
  Result<Entry*> acquire(std::string_view key, std::size_t count, kernels::Element element,
                         const DeviceApi* api = nullptr, Device* device = nullptr);
  // The residual of a key or null.
  Entry* find(std::string_view key);
  // An entry of zeros that is in no table yet.
  static Result<Entry> make(std::string_view key, std::size_t count, kernels::Element element,
                            const DeviceApi* api = nullptr, Device* device = nullptr);
  // Takes all entries of `fresh`; an entry of the same key is replaced, where it is.
  void replace(Map fresh) noexcept;

  // An error if calls in flight use the residual of this key, or with null of any.
  Status idle(const char* key) const;
  // Drops the residual of a key, if there is one.
  void drop(std::string_view key);
  void clear() { entries_.clear(); }

  const Map& entries() const { return entries_; }
  Map& entries() { return entries_; }
  std::size_t bytes() const;

 private:
  Map entries_;
};

}  // namespace mq
