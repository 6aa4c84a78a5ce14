#include "sparse_allreduce/index_set.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

namespace mq::sparse {
namespace {

Status bad(const char* what, std::size_t at, std::int64_t index) {
  return {Code::bad_argument,
          "index " + std::to_string(index) + " at position " + std::to_string(at) + " " + what};
}

// Whether the indices ascend strictly and none is negative. The loop has no branch and compares no 64-bit
// words, because not every x86-64 processor compares them in vector registers. The highest bit of `wrong` is
// the result.
bool ascends(std::span<const std::int64_t> given) {
  std::uint64_t wrong = given.empty() ? 0 : static_cast<std::uint64_t>(given[0]);
  for (std::size_t i = 1; i < given.size(); ++i) {
    const auto index = static_cast<std::uint64_t>(given[i]),
               before = static_cast<std::uint64_t>(given[i - 1]);
    wrong |= index | (index - before - 1);
  }
  return wrong >> 63 == 0;
}

Status check_range(std::span<const std::int64_t> given, std::uint64_t limit) {
  const auto outside = std::find_if(given.begin(), given.end(), [&](std::int64_t index) {
    return static_cast<std::uint64_t>(index) >= limit;  // a negative index is 2^63 or more
  });
  if (outside == given.end()) return {};
  return bad(*outside < 0 ? "is negative" : "is out of range",
             static_cast<std::size_t>(outside - given.begin()), *outside);
}

}  // namespace

Status make_index_set(std::span<const std::int64_t> given, Order order, std::uint64_t limit,
                      Workspace& memory, IndexSet& set) {
  set = {};
  if (given.size() >= std::numeric_limits<std::uint32_t>::max())
    return {Code::bad_argument, "more than 2^32 - 2 indices on one rank"};
  if (ascends(given)) {
    if (!given.empty() && static_cast<std::uint64_t>(given.back()) >= limit) return check_range(given, limit);
    // An unsigned type may alias the signed type of the same size.
    set.indices = {reinterpret_cast<const std::uint64_t*>(given.data()), given.size()};
    return {};
  }
  MQ_TRY(check_range(given, limit));
  if (order == Order::sorted) {
    const auto at = std::adjacent_find(given.begin(), given.end(), std::greater_equal<>()) + 1;
    return bad("is not greater than the one before (mpiq_indices=sorted)",
               static_cast<std::size_t>(at - given.begin()), *at);
  }

  const std::span<std::uint32_t> sequence = memory.take<std::uint32_t>(given.size());
  std::iota(sequence.begin(), sequence.end(), 0u);
  std::sort(sequence.begin(), sequence.end(), [&](std::uint32_t a, std::uint32_t b) {
    return given[a] != given[b] ? given[a] < given[b] : a < b;
  });
  const std::span<std::uint64_t> indices = memory.take<std::uint64_t>(given.size());
  const std::span<std::uint32_t> position = memory.take<std::uint32_t>(given.size());
  std::size_t n = 0;
  for (const std::uint32_t i : sequence) {
    const auto index = static_cast<std::uint64_t>(given[i]);
    if (n == 0 || indices[n - 1] != index) indices[n++] = index;
    position[i] = static_cast<std::uint32_t>(n - 1);
  }
  set = {indices.first(n), position};
  return {};
}

}  // namespace mq::sparse
