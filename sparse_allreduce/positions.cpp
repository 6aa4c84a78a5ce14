#include "sparse_allreduce/positions.hpp"

#include <cstring>

namespace mq::sparse {

std::size_t positions_bound(std::size_t count) { return count * sizeof(std::uint64_t); }

std::size_t encode_positions(std::span<const std::uint64_t> indices, std::byte* wire) {
  if (!indices.empty()) std::memcpy(wire, indices.data(), indices.size_bytes());
  return indices.size_bytes();
}

bool decode_positions(std::span<const std::byte> wire, std::uint64_t low, std::uint64_t high,
                      std::span<std::uint64_t> indices) {
  if (wire.size() != indices.size_bytes()) return false;
  if (!indices.empty()) std::memcpy(indices.data(), wire.data(), wire.size());
  bool valid = true;
  for (const std::uint64_t index : indices) {
    valid = valid && index >= low && index < high;
    low = index + 1;
  }
  return valid;
}

}  // namespace mq::sparse
