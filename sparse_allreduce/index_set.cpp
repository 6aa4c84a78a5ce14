#include "sparse_allreduce/index_set.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

namespace mq::sparse {
namespace {

Status bad(const char* what, std::size_t at, std::int64_t index) {
  return {Code::bad_argument,
          "index " + std::to_string(index) + " at position " + std::to_string(at) + " " + what};
}

// Where the first index stands that is not greater than the one before, or the length.
std::size_t first_descent(std::span<const std::int64_t> given) {
  for (std::size_t i = 1; i < given.size(); ++i)
    if (given[i] <= given[i - 1]) return i;
  return given.size();
}

}  // namespace

Status make_index_set(std::span<const std::int64_t> given, Order order, std::uint64_t limit,
                      Workspace& memory, IndexSet& set) {
  set = {};
  if (given.size() >= std::numeric_limits<std::uint32_t>::max())
    return {Code::bad_argument, "more than 2^32 - 2 indices on one rank"};
  const auto outside = std::find_if(given.begin(), given.end(), [&](std::int64_t index) {
    return static_cast<std::uint64_t>(index) >= limit;  // negative ones are beyond 2^63
  });
  if (outside != given.end())
    return bad(*outside < 0 ? "is negative" : "is out of range",
               static_cast<std::size_t>(outside - given.begin()), *outside);
  const std::size_t descent = first_descent(given);
  if (descent == given.size()) {
    // The signed type's unsigned twin may alias it.
    set.indices = {reinterpret_cast<const std::uint64_t*>(given.data()), given.size()};
    return {};
  }
  if (order == Order::sorted)
    return bad("is not greater than the one before (mpiq_indices=sorted)", descent, given[descent]);

  const std::span<std::uint32_t> sequence = memory.take<std::uint32_t>(given.size());
  std::iota(sequence.begin(), sequence.end(), 0u);
  std::sort(sequence.begin(), sequence.end(), [&](std::uint32_t a, std::uint32_t b) {
    return given[a] != given[b] ? given[a] < given[b] : a < b;
  });
  const std::span<std::uint64_t> indices = memory.take<std::uint64_t>(given.size());
  const std::span<std::uint32_t> place = memory.take<std::uint32_t>(given.size());
  std::size_t n = 0;
  for (const std::uint32_t i : sequence) {
    const auto index = static_cast<std::uint64_t>(given[i]);
    if (n == 0 || indices[n - 1] != index) indices[n++] = index;
    place[i] = static_cast<std::uint32_t>(n - 1);
  }
  set = {indices.first(n), place};
  return {};
}

}  // namespace mq::sparse
