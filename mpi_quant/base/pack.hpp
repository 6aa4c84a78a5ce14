// Structs as bytes, for messages between ranks that run the same build of the library: the fields one after
// the other, as they are in memory. A struct that is not plain bytes lists its fields once, for both
// directions:
//
//   static void each_field(auto& v, auto& f) { f(v.name); f(v.count); }
//
// pack() puts a head before the fields and a checksum behind them. So unpack() refuses bytes that are cut
// off, changed, or of another kind or build. It reads, and makes room for, no more than the bytes that are
// there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "mpi_quant/base/hash.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq {

template <class T>
concept PlainBytes = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>;

class Packer {
 public:
  template <class T>
  void operator()(const T& value) {
    if constexpr (PlainBytes<T>)
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    else
      T::each_field(value, *this);
  }
  void operator()(const std::string& text) {
    (*this)(text.size());
    bytes_ += text;
  }
  template <class T>
  void operator()(const std::vector<T>& values) {
    (*this)(values.size());
    for (const T& value : values) (*this)(value);
  }
  template <class K, class V>
  void operator()(const std::map<K, V>& map) {
    (*this)(map.size());
    for (const auto& [key, value] : map) {
      (*this)(key);
      (*this)(value);
    }
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Once something is not there, all that follows is left as it is.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : left_(bytes) {}
  template <class T>
  void operator()(T& value) {
    if constexpr (PlainBytes<T>) {
      const std::string_view bytes = next(sizeof value);
      if (ok_) std::memcpy(&value, bytes.data(), sizeof value);
    } else {
      T::each_field(value, *this);
    }
  }
  void operator()(std::string& text) {
    std::size_t size = 0;
    (*this)(size);
    text = next(size);
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    values.clear();
    std::size_t n = 0;
    for ((*this)(n); ok_ && n > 0; --n) (*this)(values.emplace_back());
  }
  template <class K, class V>
  void operator()(std::map<K, V>& map) {
    map.clear();
    std::size_t n = 0;
    for ((*this)(n); ok_ && n > 0; --n) {
      K key{};
      (*this)(key);
      // A map is packed in the order of its keys, so none comes twice.
      ok_ = ok_ && (map.empty() || map.rbegin()->first < key);
      if (ok_) (*this)(map.emplace_hint(map.end(), std::move(key), V{})->second);
    }
  }
  bool at_end() const { return ok_ && left_.empty(); }

 private:
  std::string_view next(std::size_t size) {
    ok_ = ok_ && size <= left_.size();
    if (!ok_) return {};
    const std::string_view bytes = left_.substr(0, size);
    left_.remove_prefix(size);
    return bytes;
  }
  std::string_view left_;
  bool ok_ = true;
};

// kind: what the bytes are, and of which version of the library.
template <class T>
std::string pack(std::string_view kind, const T& value) {
  Packer packer;
  packer(hash_of(kind));
  packer(value);
  packer(hash_of(packer.bytes()));
  return packer.bytes();
}

// `out` changes only if all is well.
template <class T>
Status unpack(std::string_view kind, std::string_view bytes, T& out) {
  const Status refused(Code::bad_frame, "its bytes are no " + std::string(kind));
  std::uint64_t head = 0, sum = 0;
  if (bytes.size() < sizeof head + sizeof sum) return refused;
  const std::string_view summed = bytes.substr(0, bytes.size() - sizeof sum);
  Unpacker{bytes.substr(summed.size())}(sum);
  if (sum != hash_of(summed)) return refused;
  Unpacker fields(summed);
  fields(head);
  if (head != hash_of(kind)) return refused;
  T read{};
  fields(read);
  if (!fields.at_end()) return refused;
  out = std::move(read);
  return {};
}

}  // namespace mq
