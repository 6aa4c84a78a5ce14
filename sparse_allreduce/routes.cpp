#include "sparse_allreduce/routes.hpp"

#include <algorithm>

namespace mq::sparse {
namespace {

bool same_list(Indices set, Map position, std::size_t count, std::span<const std::int64_t> given) {
  if (given.size() != count) return false;
  if (position.empty())
    return std::equal(given.begin(), given.end(), set.begin(),
                      [](std::int64_t a, std::uint64_t b) { return static_cast<std::uint64_t>(a) == b; });
  for (std::size_t i = 0; i < count; ++i)
    if (static_cast<std::uint64_t>(given[i]) != set[position[i]]) return false;
  return true;
}

}  // namespace

bool same_lists(const KylixRoutes& kylix, std::span<const std::int64_t> out,
                std::span<const std::int64_t> in) {
  return kylix.lists_kept && same_list(kylix.out_list, kylix.out_position, kylix.out_given, out) &&
         same_list(kylix.in_list, kylix.in_position, kylix.in_given, in);
}

std::vector<LayerTraffic> traffic_of(const KylixRoutes& kylix) {
  std::vector<LayerTraffic> all;
  for (const Layer& layer : kylix.layers) {
    LayerTraffic t{.number = layer.number};
    for (std::size_t i = 0; i < layer.parts.size(); ++i) {
      if (i == layer.me) continue;
      t.down_entries += layer.parts[i].out_count;
      t.down_messages += layer.parts[i].out_count > 0;
      t.up_entries += layer.sources[i].in.size();
      t.up_messages += !layer.sources[i].in.empty();
    }
    all.push_back(t);
  }
  return all;
}

}  // namespace mq::sparse
