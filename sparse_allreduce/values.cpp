#include "sparse_allreduce/values.hpp"

#include <algorithm>
#include <cstring>

namespace mq::sparse {
namespace {

bool without_gaps(Map map) { return map.empty() || map.back() - map.front() + 1 == map.size(); }

template <class T, class O>
void combine_run(const T* from, T* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = O::template apply<T>(to[i], from[i]);
}

template <class T, class O>
void combine_each(const T* from, Map map, std::uint32_t base, std::size_t stride, T* to) {
  if (stride == 1) {
    for (std::size_t k = 0; k < map.size(); ++k) {
      T& at = to[map[k] - base];
      at = O::template apply<T>(at, from[k]);
    }
    return;
  }
  for (std::size_t k = 0; k < map.size(); ++k)
    combine_run<T, O>(from + k * stride, to + std::size_t{map[k] - base} * stride, stride);
}

template <class T>
void pick_each(const T* from, Map map, std::uint32_t base, std::size_t stride, T* to) {
  if (stride == 1) {
    for (std::size_t k = 0; k < map.size(); ++k) to[k] = from[map[k] - base];
    return;
  }
  for (std::size_t k = 0; k < map.size(); ++k)
    std::copy_n(from + std::size_t{map[k] - base} * stride, stride, to + k * stride);
}

template <class T>
const T* as(const std::byte* p) {
  return reinterpret_cast<const T*>(p);
}
template <class T>
T* as(std::byte* p) {
  return reinterpret_cast<T*>(p);
}

}  // namespace

void fill_identity(const Entry& entry, std::byte* to, std::size_t count) {
  dispatch(entry.element, entry.op, [&]<class T, class O>() {
    std::fill_n(as<T>(to), count * entry.stride, O::template identity<T>());
  });
}

void combine(const Entry& entry, const std::byte* from, Map map, std::uint32_t base, std::byte* to) {
  if (map.empty()) return;
  dispatch(entry.element, entry.op, [&]<class T, class O>() {
    if (without_gaps(map))
      combine_run<T, O>(as<T>(from), as<T>(to) + std::size_t{map[0] - base} * entry.stride,
                        map.size() * entry.stride);
    else
      combine_each<T, O>(as<T>(from), map, base, entry.stride, as<T>(to));
  });
}

void combine_any(const Entry& entry, const std::byte* from, Map position, std::byte* to) {
  dispatch(entry.element, entry.op, [&]<class T, class O>() {
    combine_each<T, O>(as<T>(from), position, 0, entry.stride, as<T>(to));
  });
}

const std::byte* in_order(const Entry& entry, const IndexSet& set, const std::byte* values,
                          Workspace& memory) {
  if (set.position.empty()) return values;
  const std::span<std::byte> to = memory.take<std::byte>(set.indices.size() * entry.bytes());
  fill_identity(entry, to.data(), set.indices.size());
  combine_any(entry, values, set.position, to.data());
  return to.data();
}

void pick(const Entry& entry, const std::byte* from, Map map, std::uint32_t base, std::byte* to) {
  if (map.empty()) return;
  if (without_gaps(map))
    std::memcpy(to, from + (map[0] - base) * entry.bytes(), map.size() * entry.bytes());
  else
    dispatch(entry.element, Op::sum,
             [&]<class T, class>() { pick_each<T>(as<T>(from), map, base, entry.stride, as<T>(to)); });
}

void pick_any(const Entry& entry, const std::byte* from, Map position, std::byte* to) {
  dispatch(entry.element, Op::sum,
           [&]<class T, class>() { pick_each<T>(as<T>(from), position, 0, entry.stride, as<T>(to)); });
}

void pick_or_absent(const Entry& entry, const std::byte* from, Map map, std::byte* to) {
  dispatch(entry.element, entry.op, [&]<class T, class O>() {
    T* at = as<T>(to);
    for (std::size_t k = 0; k < map.size(); ++k, at += entry.stride) {
      if (map[k] == kAbsent)
        std::fill_n(at, entry.stride, O::template absent<T>());
      else
        std::copy_n(as<T>(from) + std::size_t{map[k]} * entry.stride, entry.stride, at);
    }
  });
}

}  // namespace mq::sparse
