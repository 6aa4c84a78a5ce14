#include "sparse_allreduce/list_stats.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "sparse_allreduce/butterfly.hpp"

namespace mq::sparse {
namespace {

// All blocks together hold about 4096 samples. The error of a bound is then the distance of a few samples.
std::size_t share(int ranks, std::size_t least, std::size_t most) {
  return std::clamp(4096 / static_cast<std::size_t>(ranks), least, most);
}

struct Sample {
  std::uint64_t index;
  double weight;
};

// The indices [first, first + width) and the work that they cause.
struct Bin {
  std::uint64_t first;
  double width, work;
};

std::vector<Sample> samples_of(const ListStatsByRank& stats) {
  std::vector<Sample> samples;
  for (const auto* lists : {&stats.out, &stats.in})
    for (const ListStats& list : *lists)
      for (const std::uint64_t index : list.samples)
        samples.push_back(
            {index, static_cast<double>(list.count) / static_cast<double>(list.samples.size())});
  std::sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) {
    return a.index != b.index ? a.index < b.index : a.weight < b.weight;  // fixes the order of sums
  });
  return samples;
}

// Density of the union of k lists of density m. Does not use pow(), because its last bits differ between
// processors.
double union_density(double m, int k) {
  if (m * k < 1e-6) return m * k;
  double apart = 1, factor = 1 - m;
  for (; k > 0; k /= 2, factor *= factor)
    if (k % 2 != 0) apart *= factor;
  return 1 - apart;
}

std::vector<Bin> bins_of(std::span<const Sample> samples, std::span<const int> degrees, double lists) {
  const std::size_t ranges = static_cast<std::size_t>(product(degrees));
  const std::size_t each = std::max<std::size_t>(1, samples.size() / (16 * ranges));
  std::vector<Bin> bins;
  for (std::size_t i = 0; i < samples.size(); i += each) {
    const std::size_t end = std::min(i + each, samples.size());
    const std::uint64_t first = samples[i].index;
    const std::uint64_t last = end < samples.size() ? samples[end].index : samples[end - 1].index + 1;
    double mass = 0;
    for (std::size_t k = i; k < end; ++k) mass += samples[k].weight;
    Bin bin{first, std::max(1.0, static_cast<double>(last - first)), 0};
    const double m = std::min(1.0, mass / bin.width / lists);
    int k = 1;
    bin.work = m * bin.width;
    for (const int degree : degrees) {
      k *= degree;
      bin.work += union_density(m, k) / k * bin.width;
    }
    bins.push_back(bin);
  }
  return bins;
}

}  // namespace

ListStatsLayout::ListStatsLayout(int ranks, bool with_hashes)
    : samples_(share(ranks, 8, 128)), hashes_(with_hashes ? share(ranks, 8, 64) : 0) {}

void ListStatsLayout::write(Indices out, Indices in, std::span<std::uint64_t> block) const {
  write_list(out, block.data());
  write_list(in, block.data() + block.size() / 2);
}

bool ListStatsLayout::read(std::span<const std::uint64_t> block, ListStats& out, ListStats& in) const {
  return read_list(block.data(), out) && read_list(block.data() + block.size() / 2, in);
}

void ListStatsLayout::write_list(Indices list, std::uint64_t* to) const {
  std::fill_n(to, words() / 2, 0);
  *to++ = list.size();
  const std::size_t n = std::min(list.size(), samples_);
  for (std::size_t i = 0; i < n; ++i) to[i] = list[i * list.size() / n];
  to += samples_;
  if (hashes_ == 0) return;
  // The smallest hashes so far form a heap. For a long list, most indices do not change it.
  std::size_t kept = 0;
  for (const std::uint64_t index : list) {
    const std::uint64_t hash = hash_of(index);
    if (kept < hashes_) {
      to[kept++] = hash;
      std::push_heap(to, to + kept);
    } else if (hash < *to) {
      std::pop_heap(to, to + kept);
      to[kept - 1] = hash;
      std::push_heap(to, to + kept);
    }
  }
  std::sort_heap(to, to + kept);
}

bool ListStatsLayout::read_list(const std::uint64_t* from, ListStats& list) const {
  list.count = *from++;
  if (list.count > kMostIndices) return false;
  const auto count = static_cast<std::size_t>(list.count);
  list.samples = {from, std::min(count, samples_)};
  list.hashes = {from + samples_, std::min(count, hashes_)};
  return std::adjacent_find(list.samples.begin(), list.samples.end(), std::greater_equal<>()) ==
             list.samples.end() &&
         std::is_sorted(list.hashes.begin(), list.hashes.end()) &&
         (list.samples.empty() || list.samples.back() < kIndexLimit);
}

std::vector<std::uint64_t> balanced_bounds(const ListStatsByRank& stats, std::span<const int> degrees) {
  const auto ranges = static_cast<std::size_t>(product(degrees));
  const std::vector<Sample> samples = samples_of(stats);
  const std::vector<Bin> bins =
      bins_of(samples, degrees, static_cast<double>(stats.out.size() + stats.in.size()));
  double all = 0;
  for (const Bin& bin : bins) all += bin.work;
  std::vector<std::uint64_t> bounds{0};
  std::size_t at = 0;
  double before = 0;
  for (std::size_t i = 1; i < ranges; ++i) {
    const double target = all * static_cast<double>(i) / static_cast<double>(ranges);
    while (at < bins.size() && before + bins[at].work < target) before += bins[at++].work;
    std::uint64_t bound = bounds.back();
    if (at < bins.size()) {
      const double within = bins[at].width * std::clamp((target - before) / bins[at].work, 0.0, 1.0);
      bound = std::max(bound, bins[at].first + static_cast<std::uint64_t>(within));
    }
    bounds.push_back(std::min(bound, kIndexLimit));
  }
  bounds.push_back(kIndexLimit);
  return bounds;
}

double union_size(std::span<const ListStats> lists) {
  // Below this limit, no hash of any list is missing: it is the smallest of the largest hashes kept by
  // incomplete lists.
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> all;
  for (const ListStats& list : lists) {
    if (list.count > list.hashes.size()) limit = std::min(limit, list.hashes.back());
    all.insert(all.end(), list.hashes.begin(), list.hashes.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (limit == std::numeric_limits<std::uint64_t>::max()) return static_cast<double>(all.size());
  const auto below = std::lower_bound(all.begin(), all.end(), limit) - all.begin();
  return static_cast<double>(below) / (static_cast<double>(limit) / 18446744073709551616.0);
}

double mean_count(std::span<const ListStats> lists) {
  double sum = 0;
  for (const ListStats& list : lists) sum += static_cast<double>(list.count);
  return lists.empty() ? 0 : sum / static_cast<double>(lists.size());
}

}  // namespace mq::sparse
