#include "sparse_allreduce/degrees.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "sparse_allreduce/butterfly.hpp"
#include "sparse_allreduce/exchange.hpp"

namespace mq::sparse {
namespace {

constexpr double kPositionBytes = 2;  // per index, if lists are worth sending (positions.hpp)

// union(K) / K of a model, for every K up to `most`. Interpolates between few values, because each one costs
// a sum.
class EntriesHeld {
 public:
  EntriesHeld(const UnionModel& model, int most) {
    for (double k = 1;; k *= 1.25) {
      grid_.push_back({k, model.of(k) / k});
      if (k >= most) break;
    }
  }
  double operator()(double k) const {
    auto after = std::lower_bound(grid_.begin(), grid_.end(), k,
                                  [](const Point& point, double at) { return point.k < at; });
    if (after == grid_.begin()) return grid_.front().held;
    if (after == grid_.end()) return grid_.back().held;
    const Point &b = *after, &a = *(after - 1);
    return a.held + (b.held - a.held) * (k - a.k) / (b.k - a.k);
  }

 private:
  struct Point {
    double k, held;
  };
  std::vector<Point> grid_;
};

class CostModel {
 public:
  CostModel(const Network& network, int ranks, const KylixLoad& load)
      : network_(network), load_(load), ranks_(ranks), out_(load.out, ranks), in_(load.in, ranks) {}

  // Cost of a layer before which the lists of `merged_ranks` ranks are merged.
  LayerPrediction layer(int merged_ranks, int degree) const {
    LayerPrediction p;
    p.degree = degree;
    p.out_entries = out_(merged_ranks);
    p.in_entries = in_(merged_ranks);
    const double share = static_cast<double>(degree - 1) / degree;
    add_costs(p, share * p.out_entries, share * p.in_entries, degree - 1);
    return p;
  }

  // Cost of the fold: each rank beyond `usable` gives everything to another. Most ranks take no part, but all
  // wait.
  LayerPrediction fold(int usable) const {
    LayerPrediction p;
    p.out_entries = out_(1);
    p.in_entries = in_(1);
    add_costs(p, p.out_entries, p.in_entries, 1);
    const double taking_part = static_cast<double>(ranks_ - usable) / ranks_;
    p.down_bytes *= taking_part;  // mean over all ranks; one rank of a pair sends down, the other sends up
    p.up_bytes *= taking_part;
    return p;
  }

 private:
  void add_costs(LayerPrediction& p, double out, double in, int messages) const {
    const double down_bytes = load_.value_bytes + 2 * load_.position_bytes;
    // A part without entries is not sent.
    p.down_messages = std::min<double>(messages, out);
    p.up_messages = std::min<double>(messages, in);
    p.down_bytes = out * down_bytes + p.down_messages * sizeof(Header);
    p.up_bytes = in * load_.value_bytes + p.up_messages * sizeof(Header);
    p.message_bytes = p.down_bytes / std::max(1.0, p.down_messages);
    p.merged_entries = p.out_entries + p.in_entries;
    const double headers = load_.position_bytes > 0 ? messages : 0;  // announce the lists
    p.seconds = network_.messages_s(p.down_messages) + network_.messages_s(p.up_messages) +
                network_.messages_s(headers) + (p.down_bytes + p.up_bytes) * network_.s_per_byte +
                p.merged_entries * network_.s_per_entry;
  }

  const Network& network_;
  const KylixLoad& load_;
  int ranks_;
  EntriesHeld out_, in_;
};

KylixPrediction predict(const CostModel& costs, int ranks, const std::vector<int>& degrees) {
  KylixPrediction all{.degrees = degrees, .layers = {}};
  const int usable = product(degrees);
  if (usable < ranks) all.layers.push_back(costs.fold(usable));
  int merged_ranks = 1;
  for (const int degree : degrees) {
    if (degree > 1) all.layers.push_back(costs.layer(merged_ranks, degree));
    merged_ranks *= degree;
  }
  for (const LayerPrediction& layer : all.layers) {
    all.bytes += layer.down_bytes + layer.up_bytes;
    all.seconds += layer.seconds;
  }
  return all;
}

UnionModel model_of(std::span<const ListStats> lists) {
  std::uint64_t low = kIndexLimit, high = 0;
  for (const ListStats& list : lists) {
    if (list.samples.empty()) continue;
    low = std::min(low, list.samples.front());
    high = std::max(high, list.samples.back() + 1);
  }
  const double together = union_size(lists);
  const double size = std::max(high > low ? static_cast<double>(high - low) : 0.0, together);
  return UnionModel::fitted(size, mean_count(lists), static_cast<int>(lists.size()), together);
}

std::string line(const char* format, auto... values) {
  char text[200];
  (void)std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string text_of(const std::vector<int>& degrees) {
  std::string text;
  for (const int degree : degrees) text += (text.empty() ? "" : "x") + std::to_string(degree);
  return text;
}

}  // namespace

KylixPrediction predict_kylix(const Network& network, int ranks, const KylixLoad& load,
                              const std::vector<int>& degrees) {
  return predict(CostModel(network, ranks, load), ranks, degrees);
}

KylixPrediction plan_kylix(const Network& network, int ranks, const KylixLoad& load) {
  const CostModel costs(network, ranks, load);
  if (ranks == 1) return predict(costs, 1, {1});
  struct Best {
    double seconds = HUGE_VAL;
    int degree = 0;  // of the last layer
  };
  std::vector<Best> best(static_cast<std::size_t>(ranks) + 1);
  best[1].seconds = 0;
  for (int merged_ranks = 1; merged_ranks <= ranks / 2; ++merged_ranks)
    for (int degree = 2; merged_ranks * degree <= ranks; ++degree) {
      const double seconds =
          best[static_cast<std::size_t>(merged_ranks)].seconds + costs.layer(merged_ranks, degree).seconds;
      Best& to = best[static_cast<std::size_t>(merged_ranks * degree)];
      if (seconds < to.seconds) to = {seconds, degree};
    }
  int usable = ranks;
  for (int m = ranks / 2 + 1; m < ranks; ++m) {
    const auto at = [&](int i) { return best[static_cast<std::size_t>(i)].seconds; };
    const double fold = costs.fold(m).seconds;
    if (at(m) + fold < at(usable) + (usable < ranks ? fold : 0)) usable = m;
  }
  std::vector<int> degrees;
  for (int m = usable; m > 1; m /= degrees.back())
    degrees.push_back(best[static_cast<std::size_t>(m)].degree);
  std::reverse(degrees.begin(), degrees.end());
  return predict(costs, ranks, degrees);
}

KylixLoad load_of(const ListStatsByRank& stats, const Entry& entry, bool with_positions) {
  const auto same = [](const ListStats& a, const ListStats& b) {
    return a.count == b.count &&
           std::equal(a.hashes.begin(), a.hashes.end(), b.hashes.begin(), b.hashes.end());
  };
  KylixLoad load{
      model_of(stats.out), {}, static_cast<double>(entry.bytes()), with_positions ? kPositionBytes : 0};
  load.in =
      std::equal(stats.out.begin(), stats.out.end(), stats.in.begin(), same) ? load.out : model_of(stats.in);
  return load;
}

std::vector<int> choose_degrees(const Network& network, const ListStatsByRank& stats, const Entry& entry,
                                bool with_positions) {
  const int ranks = static_cast<int>(stats.out.size());
  if (ranks <= 2) return {ranks};  // nothing to choose
  return plan_kylix(network, ranks, load_of(stats, entry, with_positions)).degrees;
}

std::vector<std::string> explain_kylix(const KylixQuestion& q, const Network& network) {
  if (q.ranks < 1) return {"no ranks"};
  if (!q.degrees.empty())
    if (const Status bad = check_degrees(q.degrees, q.ranks); !bad.ok()) return {bad.text()};
  const UnionModel model(q.size, q.entries, q.alpha);
  const KylixLoad load{model, model, static_cast<double>(q.stride * q.element_bytes),
                       q.with_positions ? kPositionBytes : 0};
  const KylixPrediction plan = q.degrees.empty() ? plan_kylix(network, q.ranks, load)
                                                 : predict_kylix(network, q.ranks, load, q.degrees);
  const KylixPrediction direct = predict_kylix(network, q.ranks, load, {q.ranks});
  std::vector<std::string> text;
  text.push_back(line("%d ranks, %.0f of %.0f indices on each, %.0f together (%s)", q.ranks, q.entries,
                      q.size, model.of(q.ranks),
                      q.alpha > 0 ? line("power law, exponent %.2f", q.alpha).c_str() : "equally frequent"));
  text.push_back(line("degrees %s, %s; a message of %.0f bytes takes twice its latency of %.1f us",
                      text_of(plan.degrees).c_str(), q.degrees.empty() ? "the cheapest" : "as asked",
                      network.half_bandwidth_bytes(), network.latency_s * 1e6));
  text.push_back("layer  degree  entries held  message bytes  bytes down    bytes up  time us");
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    const LayerPrediction& p = plan.layers[l];
    text.push_back(line("%5zu  %6s  %12.0f  %13.0f  %10.0f  %10.0f  %7.1f", l + 1,
                        p.degree > 0 ? std::to_string(p.degree).c_str() : "fold", p.out_entries,
                        p.message_bytes, p.down_bytes, p.up_bytes, p.seconds * 1e6));
  }
  text.push_back(line("in all %.0f bytes sent by a rank, %.1f us", plan.bytes, plan.seconds * 1e6));
  text.push_back(line("direct exchange (%d): %.0f bytes in messages of %.0f, %.1f us, %.2f times as long",
                      q.ranks, direct.bytes, direct.layers.empty() ? 0.0 : direct.layers[0].message_bytes,
                      direct.seconds * 1e6, plan.seconds > 0 ? direct.seconds / plan.seconds : 1.0));
  return text;
}

}  // namespace mq::sparse
