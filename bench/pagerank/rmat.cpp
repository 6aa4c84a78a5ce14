#include "bench/pagerank/rmat.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mq::bench {

Status check_rmat(const RmatSpec& s) {
  if (s.scale < 1 || s.scale > 32)
    return {Code::bad_argument, fmt::format("--scale {}: must be from 1 to 32", s.scale)};
  if (s.edge_factor < 1 || s.edge_factor > 4096)
    return {Code::bad_argument, fmt::format("--edgefactor {}: must be from 1 to 4096", s.edge_factor)};
  if (!(s.a >= 0 && s.b >= 0 && s.c >= 0 && s.a + s.b + s.c <= 1))
    return {Code::bad_argument,
            fmt::format("-a {} -b {} -c {}: probabilities must not be negative, nor their sum above 1", s.a,
                        s.b, s.c)};
  return {};
}

Rmat::Rmat(const RmatSpec& spec)
    : spec_(spec), label_(std::uint64_t{1} << spec.scale, Random(spec.seed).next()) {}

Edge Rmat::edge(std::uint64_t i) const {
  Random random(Random(spec_.seed + 0x632be59bd9b4e019U).next() ^ Random(i).next());
  std::uint64_t source = 0, target = 0;
  for (int level = 0; level < spec_.scale; ++level) {
    const double u = static_cast<double>(random.next() >> 11) * 0x1p-53;
    const bool down = u >= spec_.a + spec_.b;
    const bool right = down ? u >= spec_.a + spec_.b + spec_.c : u >= spec_.a;
    source = source << 1 | (down ? 1 : 0);
    target = target << 1 | (right ? 1 : 0);
  }
  return {static_cast<std::int64_t>(label_(source)), static_cast<std::int64_t>(label_(target))};
}

EdgeList Rmat::share(int rank, int ranks) const {
  const auto r = static_cast<std::uint64_t>(rank), p = static_cast<std::uint64_t>(ranks);
  const auto start = [&](std::uint64_t k) { return edges() / p * k + std::min(k, edges() % p); };
  EdgeList list;
  list.vertices = vertices();
  list.edges.reserve(start(r + 1) - start(r));
  for (std::uint64_t i = start(r); i < start(r + 1); ++i) list.edges.push_back(edge(i));
  return list;
}

}  // namespace mq::bench
