#include "mpi_quant/residuals.hpp"

#include <cstdint>

namespace mq {

Result<Residuals::Entry*> Residuals::acquire(std::string_view key, std::size_t count,
                                             kernels::Element element) {
  if (const auto at = entries_.find(key); at != entries_.end()) {
    Entry& entry = at->second;
    if (entry.count == count && entry.element == element) return &entry;
    return Status{Code::bad_argument, "mpiq_key \"" + std::string(key) + "\" belongs to " +
                                          std::to_string(entry.count) + " " +
                                          std::string(name(entry.element)) + ", not to " +
                                          std::to_string(count) + " " + std::string(name(element))};
  }
  Entry entry{element, count, {}};
  const std::size_t value_bytes = element_bytes(compute_element(element));
  if (count > SIZE_MAX / value_bytes || !entry.buffer.allocate_zeroed(count * value_bytes))
    return Status{Code::no_memory, "no memory for the residual of mpiq_key \"" + std::string(key) + "\", " +
                                       std::to_string(count) + " " + std::string(name(element))};
  return &entries_.emplace(key, std::move(entry)).first->second;
}

Residuals::Entry* Residuals::find(std::string_view key) {
  const auto at = entries_.find(key);
  return at == entries_.end() ? nullptr : &at->second;
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
