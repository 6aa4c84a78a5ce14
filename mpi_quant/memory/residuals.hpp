// Residual arrays of one communicator, by key: what error feedback carries from one call to the next.
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

// The name of a vector: 1 to 63 characters, or empty.
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

// Counts bytes of residuals as held by this process, for as long as the object lives.
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

// True for a key that identity.hpp has made for a call whose program stated none. It names an address or a
// position of this run on this rank, and means nothing to another rank or run.
inline constexpr std::string_view kAddressKey = "~address:", kSequenceKey = "~sequence:";
// The prefix of the name under which an allgather keeps the residual of a key: of this rank's part, which
// means nothing to another rank.
inline constexpr std::string_view kGatherKey = "~gather:";
inline std::string gather_key(std::string_view key) { return std::string(kGatherKey).append(key); }
// The same for what all ranks know of the gathered vector (kernels::MemoryRule::mirrors).
inline constexpr std::string_view kMirrorKey = "~mirror:";
inline std::string mirror_key(std::string_view key) { return std::string(kMirrorKey).append(key); }
// The key that the user gave, for messages.
inline std::string users_key(std::string_view name) {
  for (const std::string_view prefix : {kGatherKey, kMirrorKey})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return std::string(name);
}
inline bool is_made_up(std::string_view key) {
  return key.starts_with(kAddressKey) || key.starts_with(kSequenceKey) || key.starts_with(kGatherKey) ||
         key.starts_with(kMirrorKey);
}

// The name under which the basis of lowrank is kept beside the residual of a key.
inline constexpr std::string_view kBasisKey = "~Q:";
inline std::string basis_key(std::string_view key) { return std::string(kBasisKey).append(key); }

// The version of estimates: a hash of the calls that changed them, and in the lowest byte their form
// (kernels::EstimateTerms::form), which is not 0.
constexpr std::uint64_t version_of(std::uint64_t history, std::uint8_t form) { return history << 8 | form; }
constexpr std::uint8_t form_of(std::uint64_t version) { return static_cast<std::uint8_t>(version & 0xff); }

class Residuals {
 public:
  struct Entry {
    kernels::Element element;  // of the key's vectors
    std::size_t count;
    // The arrays of the key's memory rule, each of count elements of type residual_element(), one after the
    // other. The first one is the residual. They are zero at first, and in buffer or on_device, wherever the
    // vector was last. After restart() they are in neither.
    Buffer buffer;
    DeviceBuffer on_device;
    Held held;  // counts the memory of this entry
    std::size_t arrays = 1;
    std::size_t agreed_arrays = 0;  // without arrays of a call on which the ranks have not agreed yet; 0: all
    Buffer aside{};                 // elements that set_aside() put away
    bool used = false;              // a call that got past the agreement has used it
    int users = 0;                  // calls in flight that use it
    std::uint64_t calls = 0;        // that have used it; equal on all ranks
    double settled = -1;  // the codec's measured parameter, once a call has settled it; < 0: not yet
    // Of the arrays, if they are estimates (MemoryRule::keeps_estimates). Ranks with the same version have
    // the same second array. 0: they are no estimates, and the first array is a residual.
    std::uint64_t version = 0;
    std::uint64_t calls_since_exact = 0;  // calls since the last exact one; equal on all ranks
    std::uint64_t calls_skipped = 0;      // calls in a row in which this rank sent nothing
    bool has_estimates() const { return version != 0; }

    kernels::Element residual_element() const { return kernels::compute_element(element); }
    std::size_t array_bytes() const { return count * kernels::element_bytes(residual_element()); }
    std::size_t bytes() const { return arrays * array_bytes(); }  // of all arrays
    std::byte* data() const { return on_device.data() != nullptr ? on_device.data() : buffer.data(); }
    // Makes the elements zero. What all ranks know about the key stays.
    void restart() noexcept;
    // Moves the elements to the memory of `device`, or to the host if it is null. No call may use the entry.
    // After an error the elements are where they were. Elements whose memory is gone are zero.
    Status move_to(const DeviceApi* api, Device* device);
    Status move_to_host() { return move_to(nullptr, nullptr); }
    // Appends arrays of zeros, so that there are at least so many. No call may use the entry.
    Status extend(std::size_t n_arrays);
    // Estimates become zero: the next call does not continue them. A residual stays. Arrays in host memory
    // stay where they are.
    void end_estimates() noexcept;
    // Takes arrays off again that were appended for a call on which the ranks then did not agree: other ranks
    // may lack them.
    void shrink() noexcept;
    // set_aside() puts the arrays away and starts again at zero; take_back() adds the residual to what is
    // there then (other arrays are not sums over calls, and stay as they are). It is for calls that are not
    // yet known to belong together. No call may use the entry. After an error everything is zero. Estimates
    // are not put away: they end.
    Status set_aside();
    Status take_back();
    // Returns an error if the memory of the elements is gone.
    Status still_there() const;
    // Copies `bytes` bytes, beginning with byte `first`, to `to`, in host or GPU memory.
    Status fetch(void* to, std::size_t first, std::size_t bytes) const;

   private:
    void free_memory() noexcept;
  };
  using Map = std::map<std::string, Entry, std::less<>>;

  // The residual of a key. It is made if there is none: in the memory of `device`, or on the host if that is
  // null. A key belongs to one count and element type, and gets as many arrays as the rules of its calls
  // need. The pointer is valid until the entry is dropped.
  Result<Entry*> acquire(std::string_view key, std::size_t count, kernels::Element element,
                         std::size_t arrays = 1, const DeviceApi* api = nullptr, Device* device = nullptr);
  // The residual of a key or null.
  Entry* find(std::string_view key);
  // An entry of zeros that is in no table yet.
  static Result<Entry> make(std::string_view key, std::size_t count, kernels::Element element,
                            std::size_t arrays = 1, const DeviceApi* api = nullptr, Device* device = nullptr);
  // Takes all entries of `fresh`. An entry of the same key gets the new content at its old address.
  void replace(Map fresh) noexcept;

  // Returns an error if a call in flight uses the residual of this key. key null: of any key.
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
