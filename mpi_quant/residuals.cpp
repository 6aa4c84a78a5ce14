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
  Entry entry{element, count, {}, false};
  if (count > SIZE_MAX / element_bytes(element) ||
      !entry.buffer.allocate_zeroed(count * element_bytes(element)))
    return Status{Code::no_memory, "no memory for the residual of mpiq_key \"" + std::string(key) + "\", " +
                                       std::to_string(count) + " " + std::string(name(element))};
  return &entries_.emplace(key, std::move(entry)).first->second;
}

void Residuals::drop(std::string_view key) {
  if (const auto at = entries_.find(key); at != entries_.end()) entries_.erase(at);
}

void Residuals::drop_unused(std::string_view key) {
  if (const auto at = entries_.find(key); at != entries_.end() && !at->second.used) entries_.erase(at);
}

std::size_t Residuals::bytes() const {
  std::size_t sum = 0;
  for (const auto& [key, entry] : entries_) sum += entry.buffer.bytes();
  return sum;
}

}  // namespace mq
