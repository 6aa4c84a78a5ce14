#include "mpi_quant/residuals.hpp"

#include <algorithm>
#include <cstdint>

namespace mq {

Result<Residuals::Entry> Residuals::make(std::string_view key, std::size_t count, kernels::Element element) {
  const std::size_t size = kernels::element_bytes(kernels::compute_element(element));
  Buffer buffer;
  if (count > SIZE_MAX / size || !buffer.allocate_zeroed(count * size))
    return Status{Code::no_memory, "no memory for the residual of mpiq_key \"" + std::string(key) + "\", " +
                                       std::to_string(count) + " " + std::string(name(element))};
  return Entry{element, count, std::move(buffer), Held(count * size)};
}

Result<Residuals::Entry*> Residuals::acquire(std::string_view key, std::size_t count,
                                             kernels::Element element) {
  if (Entry* const known = find(key)) {
    if (known->count == count && known->element == element) return known;
    return Status{Code::bad_argument, "mpiq_key \"" + std::string(key) + "\" belongs to " +
                                          std::to_string(known->count) + " " +
                                          std::string(name(known->element)) + ", not to " +
                                          std::to_string(count) + " " + std::string(name(element))};
  }
  Result<Entry> entry = make(key, count, element);
  if (!entry.ok()) return entry.status();
  return &entries_.emplace(key, std::move(*entry)).first->second;
}

Residuals::Entry* Residuals::find(std::string_view key) {
  const auto at = entries_.find(key);
  return at == entries_.end() ? nullptr : &at->second;
}

void Residuals::replace(Map fresh) noexcept {
  while (!fresh.empty()) {
    auto node = fresh.extract(fresh.begin());
    if (Entry* const known = find(node.key()))
      *known = std::move(node.mapped());
    else
      entries_.insert(std::move(node));
  }
}

Status Residuals::idle(const char* key) const {
  const auto in_use = [](const Map::value_type& at) { return at.second.users > 0; };
  const auto at =
      key == nullptr ? std::find_if(entries_.begin(), entries_.end(), in_use) : entries_.find(key);
  if (at == entries_.end() || !in_use(*at)) return {};
  return {Code::bad_argument, "key \"" + at->first + "\" is in use by a call in flight"};
}

void Residuals::drop(std::string_view key) {
  if (const auto at = entries_.find(key); at != entries_.end()) entries_.erase(at);
}

std::size_t Residuals::bytes() const {
  std::size_t sum = 0;
  for (const auto& [key, entry] : entries_) sum += entry.buffer.bytes();
  return sum;
}

}  // namespace mq
