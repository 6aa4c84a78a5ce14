// mpiq-auto compares what `auto` gets on simulated networks with fixed choices, and prints CSV or a summary.
// It simulates as tests/automatic does: the model of time of plan/cost.hpp, codecs up to 1.8 times slower or
// faster than the choosers take them to be, and five percent of noise.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/research/automatic/world.hpp"
#include "mpi_quant/run/option_parser.hpp"

namespace mq {
namespace {

constexpr int kCalls = 600, kChange = 300, kWindow = 200;
constexpr std::string_view kPolicies[]{"mpi", "table", "two_thresholds", "learned_table", "auto"};
constexpr std::string_view kScenarios[]{"steady", "network_10x_slower", "network_10x_faster", "data_change"};

// The candidate for this codec over the plan that the library takes where none is named.
std::size_t candidate(const World& world, std::string_view codec) {
  const CallClass& calls = world.calls();
  std::string wanted(codec);
  if (calls.collective == Collective::allreduce)
    wanted.append("/").append(choose_plan(calls.bytes, calls.ranks).name);
  for (std::size_t i = 1; i < world.chooser.candidates().size(); ++i)
    if (to_string(world.chooser.candidate(i).method) == wanted) return i;
  return 0;
}

// Someone who chooses without looking at data. next(): for the next call; took(): its seconds.
class Chooses {
 public:
  virtual ~Chooses() = default;
  virtual std::size_t next() = 0;
  virtual void took(double) {}
};

struct Always final : Chooses {
  explicit Always(std::size_t i) : index(i) {}
  std::size_t next() override { return index; }
  std::size_t index;
};

// What README's first line for all programs says: bf16 from 64 KiB on.
std::size_t by_table(const World& world) { return candidate(world, "bf16"); }

// As QuickReduce: nothing below 128 KiB, eight bits up to 1 MiB, four beyond.
std::size_t by_two_thresholds(const World& world) {
  const std::size_t bytes = world.calls().bytes;
  if (bytes < (std::size_t{128} << 10)) return 0;
  return candidate(world, bytes < (std::size_t{1} << 20) ? "int8" : "int4");
}

// As Khan et al. (arXiv 2204.07767): a table by size and number of clients, from a sweep made before (which
// is not counted here) over the methods that suit the limit on the data of the sweep; corrected by a moving
// average of what calls take, with one call in a hundred by the second.
class LearnedTable final : public Chooses {
 public:
  explicit LearnedTable(const World& world) {
    for (std::size_t i = 0; i < world.chooser.candidates().size(); ++i)
      if (world.within(i)) entries_.push_back({i, world.true_s(i)});
    sort();
  }
  std::size_t next() override {
    tries_ = ++calls_ % 100 == 0 && entries_.size() > 1 ? 1 : 0;
    return entries_[tries_].index;
  }
  void took(double seconds) override {
    constexpr double kNew = 0.2;
    Entry& entry = entries_[tries_];
    entry.seconds += kNew * (seconds - entry.seconds);
    sort();
  }

 private:
  struct Entry {
    std::size_t index;
    double seconds;
  };
  void sort() {
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.seconds < b.seconds; });
  }
  std::vector<Entry> entries_;
  std::size_t tries_ = 0;
  int calls_ = 0;
};

std::unique_ptr<Chooses> rival(std::string_view policy, const World& world) {
  if (policy == "table") return std::make_unique<Always>(by_table(world));
  if (policy == "two_thresholds") return std::make_unique<Always>(by_two_thresholds(world));
  if (policy == "learned_table") return std::make_unique<LearnedTable>(world);
  return std::make_unique<Always>(0);
}

void change(World& world, std::string_view scenario) {
  Network n = world.network();
  const double by = scenario == "network_10x_slower" ? 10 : scenario == "network_10x_faster" ? 0.1 : 1;
  world.set_network({n.name, n.latency_s * by, n.overhead_s * by, n.byte_s * by});
  if (scenario == "data_change")
    world.error = [](const AutoCandidate& c) {
      return c.method.codec->lossless ? 0 : c.is_sure ? 0.0017 : 0.9;
    };
}

struct Line {
  double of_best = 0;  // mean over the calls: their time over the time of the best method within the limit
  double worst_window = 0;  // the greatest mean of 200 calls in a row, divided by MPI's
  int over_limit = 0;       // results
};

Line play(std::string_view policy, std::string_view scenario, World world) {
  const std::unique_ptr<Chooses> other = rival(policy, world);
  std::deque<double> window;
  double in_window = 0, ratio = 0;
  Line line;
  for (int i = 0; i < kCalls; ++i) {
    if (i == kChange) change(world, scenario);
    World::Done done;
    if (policy == "auto") {
      done = world.call();
    } else {
      done = world.call_by(other->next());
      other->took(done.seconds);
    }
    line.over_limit += done.result_error > world.calls().limit.value;
    ratio += done.seconds / world.true_s(world.best());
    window.push_back(done.seconds / world.true_s(0));
    in_window += window.back();
    if (window.size() > kWindow) {
      in_window -= window.front();
      window.pop_front();
    }
    if (window.size() == kWindow) line.worst_window = std::max(line.worst_window, in_window / kWindow);
  }
  line.of_best = ratio / kCalls;
  return line;
}

struct Summary {
  std::vector<double> of_best, windows;
  double over_limit = 0, calls = 0;
};

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

void print_table(const std::map<std::pair<std::string_view, std::string_view>, Summary>& sums) {
  std::puts(
      "| scenario | choice | time over the best, median | 90 % below | worst 200 calls over MPI's | results over the limit |");
  std::puts("|---|---|---|---|---|---|");
  for (const std::string_view scenario : kScenarios)
    for (const std::string_view policy : kPolicies) {
      const Summary& s = sums.at({scenario, policy});
      std::printf("| %s | %s | %.2f | %.2f | %.3f | %.1f %% |\n", std::string(scenario).c_str(),
                  std::string(policy).c_str(), quantile(s.of_best, 0.5), quantile(s.of_best, 0.9),
                  quantile(s.windows, 1), 100 * s.over_limit / s.calls);
    }
}

void compare(Collective collective, bool table) {
  std::map<std::pair<std::string_view, std::string_view>, Summary> sums;
  if (!table)
    std::puts(
        "scenario,network,ranks,bytes,limit,choice,time_over_best,worst_200_calls_over_mpi,results_over_limit");
  for (const std::string_view scenario : kScenarios)
    for (const Network& network : kNetworks)
      for (const int ranks : {2, 16, 128, 1024})
        for (int kib = 64; kib <= 64 << 10; kib *= 4)
          for (const double limit : {0.02, 0.3})
            for (const std::string_view policy : kPolicies) {
              CallClass calls;
              calls.bytes = static_cast<std::size_t>(kib) << 10;
              calls.ranks = ranks;
              calls.limit = {Automatic::Kind::relative, limit};
              calls.collective = collective;
              const Line line = play(policy, scenario, World(calls, network, 1));
              Summary& sum = sums[{scenario, policy}];
              sum.of_best.push_back(line.of_best);
              sum.windows.push_back(line.worst_window);
              sum.over_limit += line.over_limit;
              sum.calls += kCalls;
              if (!table)
                std::printf("%s,%s,%d,%zu,%g,%s,%.4f,%.4f,%d\n", std::string(scenario).c_str(), network.name,
                            ranks, calls.bytes, limit, std::string(policy).c_str(), line.of_best,
                            line.worst_window, line.over_limit);
            }
  if (table) print_table(sums);
}

}  // namespace
}  // namespace mq

int main(int argc, char** argv) {
  bool table = false;
  std::string wanted(name(mq::Collective::allreduce));
  mq::OptionParser parser(
      "mpiq-auto",
      "Compares auto with fixed choices on simulated networks, and prints CSV.\n\n  mpiq-auto --table\n"
      "  mpiq-auto --collective reduce_scatter");
  std::vector<std::string> words;
  for (const mq::Collective each : mq::kCollectives) words.emplace_back(name(each));
  parser.add({"--collective=NAME", &wanted, "which calls are simulated", mq::one_of(words)});
  parser.add({"--table", &table, "print a summary instead"});
  const mq::Parsed parsed = parser.parse(argc, argv, "mpiq-auto " MPIQ_VERSION);
  if (!parsed.run) {
    std::fputs(parsed.out.c_str(), stdout);
    std::fputs(parsed.err.c_str(), stderr);
    return parsed.is_usage_error ? 2 : 0;
  }
  mq::compare(*std::find_if(mq::kCollectives.begin(), mq::kCollectives.end(),
                            [&](mq::Collective each) { return name(each) == wanted; }),
              table);
  return 0;
}
