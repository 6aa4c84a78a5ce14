// Proofs about every row of the table of plans, for every number of ranks up to 64 and some beyond, and every
// number of ranks per node that divides it, on the symbolic machine of tests/symbolic.hpp; and proofs that the prover can fail.
//
// Vocabulary of the failure messages: g1.2 and e1.2 are rank 1's input and residual of chunk 2, Q(v) is
// D(C(v)), L(v) is the loss v - Q(v).

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "mpi_quant/plan.hpp"
#include "tests/promises.hpp"

namespace mq::test {
namespace {

std::vector<int> sizes() {
  std::vector<int> all;
  for (int p = 2; p <= 64; ++p) all.push_back(p);
  all.insert(all.end(), {65, 128});
  return all;
}

std::string name_of(const PlanRow& row, int size, int per_node) {
  return std::string(row.name) + ", " + std::to_string(size) + " ranks, " + std::to_string(per_node) +
         " a node";
}

// The rank of ranks is of no account.
void for_each_plan(
    const std::function<void(const PlanRow&, const Ranks& ranks, const std::vector<Plan>&)>& f) {
  for (const PlanRow& row : plans())
    for (const int size : sizes())
      for (const int per_node : node_sizes(row, size)) {
        SCOPED_TRACE(name_of(row, size, per_node));
        f(row, {0, size, per_node}, make_all(row, size, per_node));
        if (testing::Test::HasFatalFailure()) return;
      }
}

TEST(Plan, names_and_ids_are_unique_and_every_row_is_complete) {
  std::set<std::string_view> names;
  std::set<std::uint16_t> ids;
  for (const PlanRow& row : plans()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(ids.insert(row.id).second) << row.name;
    EXPECT_NE(row.id, 0) << row.name << ": 0 means mpi";
    EXPECT_FALSE(row.what.empty());
    EXPECT_EQ(find_plan(row.name), &row);
  }
  EXPECT_EQ(find_plan("nosuch"), nullptr);
  EXPECT_EQ(find_plan(""), nullptr);
}

TEST(Plan, every_rank_ends_with_the_same_expression) {
  for_each_plan([](const PlanRow&, const Ranks&, const std::vector<Plan>& all) {
    for (const bool feedback : {false, true}) {
      Terms terms;
      const Outcome out = interpret(all, feedback, terms);
      ASSERT_EQ(out.error, "");
      for (const auto& output : out.output) ASSERT_EQ(output, out.output[0]);
    }
  });
}

TEST(Plan, the_result_is_the_documented_sum_in_the_documented_order) {
  for_each_plan([](const PlanRow& row, const Ranks& ranks, const std::vector<Plan>& all) {
    ASSERT_EQ(all[0].chunks, promise(row).chunks(ranks.size));
    for (const bool feedback : {false, true}) {
      Terms terms;
      const Outcome out = interpret(all, feedback, terms);
      ASSERT_EQ(out.error, "");
      for (int c = 0; c < all[0].chunks; ++c)
        ASSERT_EQ(out.output[0][static_cast<std::size_t>(c)], promise(row).formula(terms, ranks, c, feedback));
    }
  });
}

TEST(Plan, with_feedback_every_contribution_enters_once_and_every_loss_stays_in_one_residual) {
  for_each_plan([](const PlanRow&, const Ranks&, const std::vector<Plan>& all) {
    Terms terms;
    const Outcome out = interpret(all, true, terms);
    ASSERT_EQ(out.error, "");
    for (int c = 0; c < all[0].chunks; ++c) ASSERT_EQ(unbalanced(out, c, terms), "");
  });
}

TEST(Plan, direct_encodes_its_own_slice_only_after_adding_all_others) {
  for (const int size : sizes())
    for (int r = 0; r < size; ++r) {
      int added = 0, encoded = 0;
      for (const Step& s : find_plan("direct")->make({r, size}).steps) {
        added += s.op == Op::decode_add;
        if (s.op != Op::encode || s.chunk != r) continue;
        ++encoded;
        EXPECT_EQ(added, size - 1) << size << " ranks, rank " << r;
      }
      EXPECT_EQ(encoded, 1) << size << " ranks, rank " << r;
    }
}

TEST(Plan, every_rank_sends_the_wires_of_the_theory) {
  for_each_plan([](const PlanRow& row, const Ranks& ranks, const std::vector<Plan>& all) {
    Terms terms;
    const Outcome out = interpret(all, false, terms);
    for (int r = 0; r < ranks.size; ++r) {
      const Ranks of{r, ranks.size, ranks.per_node};
      ASSERT_EQ(out.sent[static_cast<std::size_t>(r)], promise(row).sent(of)) << "rank " << r;
      ASSERT_EQ(out.sent_raw[static_cast<std::size_t>(r)], promise(row).sent_raw(of)) << "rank " << r;
    }
  });
}

TEST(Plan, every_send_has_its_receive) {
  for (const PlanRow& row : plans())
    for (const auto& [size, per_node] :
         {std::pair{2, 1}, {2, 2}, {3, 1}, {8, 1}, {8, 4}, {100, 1}, {100, 5}, {257, 1}, {258, 2}}) {
      std::vector<std::tuple<int, int, int>> sends, receives;
      for (int r = 0; r < size; ++r)
        for (const Step& s : row.make({r, size, per_node}).steps) {
          if (s.op != Op::exchange) continue;
          if (s.to != kNobody) sends.emplace_back(r, s.to, s.round);
          if (s.from != kNobody) receives.emplace_back(s.from, r, s.round);
        }
      std::sort(sends.begin(), sends.end());
      std::sort(receives.begin(), receives.end());
      EXPECT_EQ(sends, receives) << row.name << ", " << size << " ranks";
      EXPECT_EQ(std::adjacent_find(sends.begin(), sends.end()), sends.end()) << row.name << ", " << size;
    }
}

TEST(Plan, slots_and_rounds_are_as_many_as_needed) {
  for_each_plan([](const PlanRow& row, const Ranks& ranks, const std::vector<Plan>& all) {
    int rounds = 0;
    for (int r = 0; r < ranks.size; ++r) {
      const Plan& plan = all[static_cast<std::size_t>(r)];
      std::set<int> used;
      for (const Step& s : plan.steps) {
        if (s.op != Op::exchange || s.to != kNobody) used.insert(s.slot);
        if (s.op == Op::exchange && s.from != kNobody) used.insert(s.recv_slot);
        rounds = std::max(rounds, s.round + 1);
      }
      ASSERT_EQ(plan.slots, promise(row).slots({r, ranks.size, ranks.per_node})) << "rank " << r;
      ASSERT_EQ(used.size(), static_cast<std::size_t>(plan.slots)) << "rank " << r;
    }
    for (const Plan& plan : all) ASSERT_EQ(plan.rounds, rounds);
    EXPECT_LE(rounds, kMaxRounds);
  });
}

TEST(Plan, facts_name_early_receives_last_writes_accumulators_and_sends) {
  for_each_plan([](const PlanRow&, const Ranks&, const std::vector<Plan>& all) {
    for (const Plan& plan : all) {
      const PlanFacts facts = facts_of(plan);
      ASSERT_EQ(facts.early.size(), plan.steps.size());
      ASSERT_EQ(facts.final.size(), plan.steps.size());
      std::set<int> touched, finished;  // slots, chunks
      std::map<int, int> writes, sends;
      for (std::size_t i = 0; i < plan.steps.size(); ++i) {
        const Step& s = plan.steps[i];
        const bool receives = s.op == Op::exchange && s.from != kNobody;
        EXPECT_EQ(facts.early[i] != 0, receives && touched.count(s.recv_slot) == 0);
        if (receives) touched.insert(s.recv_slot);
        if (s.op != Op::exchange || s.to != kNobody) touched.insert(s.slot);
        if (s.op == Op::exchange && s.to != kNobody) ++sends[s.slot];
        if (s.op != Op::decode && s.op != Op::decode_add) {
          EXPECT_FALSE(facts.final[i]);
          continue;
        }
        ++writes[s.chunk];
        EXPECT_EQ(finished.count(s.chunk), 0u) << "written after its last write";
        if (facts.final[i]) finished.insert(s.chunk);
      }
      EXPECT_EQ(finished.size(), static_cast<std::size_t>(plan.chunks)) << "each chunk has a last write";
      std::set<int> accumulators;
      for (int c = 0; c < plan.chunks; ++c) {
        const int at = facts.accumulator[static_cast<std::size_t>(c)];
        EXPECT_EQ(at >= 0, writes[c] > 1);
        if (at >= 0) {
          EXPECT_TRUE(accumulators.insert(at).second) << "two chunks in one accumulator";
        }
      }
      EXPECT_EQ(static_cast<int>(accumulators.size()), facts.accumulators);
      for (int slot = 0; slot < plan.slots; ++slot)
        EXPECT_EQ(facts.first_send[static_cast<std::size_t>(slot) + 1] -
                      facts.first_send[static_cast<std::size_t>(slot)],
                  sends[slot]);
    }
  });
}

TEST(Plan, steps_grow_at_most_linearly_in_the_ranks) {
  for (const PlanRow& row : plans())
    for (const int size : {2, 3, 5, 64, 1000, 1024, 4099})
      for (const int r : {0, 1, size / 2, size - 1})
        for (const int per_node : node_sizes(row, size))
          EXPECT_LE(row.make({r, size, per_node}).steps.size(), static_cast<std::size_t>(5 * size))
              << name_of(row, size, per_node) << ", rank " << r;
}

TEST(Plan, a_thousand_ranks_are_no_different) {
  for (const int size : {1000, 1023, 1024})
    EXPECT_EQ(flaw(*find_plan("recursive_doubling"), make_all(*find_plan("recursive_doubling"), size)), "");
  EXPECT_EQ(flaw(*find_plan("allgather"), make_all(*find_plan("allgather"), 300)), "");
  EXPECT_EQ(flaw(*find_plan("hierarchical"), make_all(*find_plan("hierarchical"), 256, 8), 8), "");
}

TEST(Plan, only_hierarchical_minds_the_nodes_and_is_direct_on_nodes_of_one_rank) {
  for (const int size : sizes())
    for (const int r : {0, 1, size / 2, size - 1}) {
      for (const PlanRow& row : plans())
        if (!minds_nodes(row)) {
          EXPECT_EQ(row.make({r, size, 1}), row.make({r, size, size})) << row.name;
        }
      EXPECT_EQ(find_plan("hierarchical")->make({r, size, 1}), find_plan("direct")->make({r, size}));
    }
}

TEST(Plan, rounds_always_suffice_for_a_lane_and_too_many_nodes_go_direct) {
  const PlanRow& hierarchical = *find_plan("hierarchical");
  for (const int nodes : {479, 480, 481, 2000}) {
    const Ranks ranks{5, 2 * nodes, 2};
    const Plan plan = hierarchical.make(ranks);
    EXPECT_LE(plan.rounds, kMaxRounds);
    EXPECT_EQ(plan == find_plan("direct")->make(ranks), nodes > 480) << nodes;
  }
  for (const PlanRow& row : plans())
    EXPECT_LE(row.make({.size = 1 << 20, .per_node = 1 << 10}).rounds, kMaxRounds) << row.name;
}

// Direct sends 2(P-L)/P vectors to other nodes a rank.
TEST(Plan, hierarchical_sends_an_lth_of_direct_s_wires_to_other_nodes_and_raw_ones_to_none) {
  for (const int size : sizes())
    for (const int per_node : node_sizes(*find_plan("hierarchical"), size))
      for (const int r : {0, 1, size / 2, size - 1}) {
        const auto away = [&](const Plan& plan) {
          return std::count_if(plan.steps.begin(), plan.steps.end(), [&](const Step& s) {
            return s.op == Op::exchange && s.to != kNobody && s.to / per_node != r / per_node;
          });
        };
        const Plan plan = find_plan("hierarchical")->make({r, size, per_node});
        EXPECT_EQ(away(plan) * per_node, away(find_plan("direct")->make({r, size})));
        std::set<int> raw;  // slots
        for (const Step& s : plan.steps) {
          if (s.op == Op::encode && s.raw) raw.insert(s.slot);
          if (s.op == Op::exchange && s.to / per_node != r / per_node) {
            EXPECT_FALSE(raw.contains(s.slot));
          }
        }
      }
}

TEST(Plan, facts_say_whether_a_step_is_raw) {
  for_each_plan([](const PlanRow& row, const Ranks& ranks, const std::vector<Plan>& all) {
    for (const Plan& plan : all)
      ASSERT_EQ(facts_of(plan).raw, minds_nodes(row) && ranks.per_node > 1);
  });
}

TEST(Plan, is_a_pure_function_of_rank_and_size) {
  for_each_plan([](const PlanRow& row, const Ranks& ranks, const std::vector<Plan>& all) {
    for (int r = ranks.size - 1; r >= 0; --r)
      ASSERT_EQ(row.make({r, ranks.size, ranks.per_node}), all[static_cast<std::size_t>(r)]) << "rank " << r;
  });
}

TEST(ChoosePlan, two_ranks_gather_long_vectors_go_direct_and_short_ones_avoid_messages) {
  constexpr std::uint64_t kLong = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1} << 20, kLong})
    EXPECT_EQ(choose_plan(bytes, 2).name, "allgather") << bytes;
  for (int ranks = 3; ranks < 5000; ++ranks) {
    EXPECT_EQ(choose_plan(kLong, ranks).name, "direct") << ranks;
    EXPECT_EQ(choose_plan(64 << 20, ranks).name, "direct") << ranks;
    EXPECT_EQ(choose_plan(4096, ranks).name, ranks <= 4 ? "allgather" : "recursive_doubling") << ranks;
  }
  EXPECT_EQ(choose_plan(kLong, std::numeric_limits<int>::max()).name, "direct");
}

TEST(ChoosePlan, once_direct_stays_direct_for_longer_vectors) {
  for (int ranks = 3; ranks <= 1024; ++ranks) {
    bool direct_before = false;
    for (std::uint64_t bytes = 1; bytes < std::uint64_t{1} << 40; bytes += bytes / 2 + 1) {
      const bool now = choose_plan(bytes, ranks).name == "direct";
      EXPECT_TRUE(now || !direct_before) << ranks << " ranks, " << bytes << " bytes";
      direct_before = now;
    }
  }
}

// Mutations: the prover rejects a plan that differs in one step from a right one.

constexpr int kMutantSizes[]{2, 3, 4, 5, 7, 8};

struct Kind {
  const PlanRow& row;
  int per_node;
};
std::string flaw(const Kind& kind, const std::vector<Plan>& all) {
  return test::flaw(kind.row, all, kind.per_node);
}

// Calls f for every step of every rank of every row, for sizes small enough to try all mutants.
void for_each_step(
    const std::function<void(const Kind&, const std::vector<Plan>&, std::size_t rank, std::size_t step)>& f) {
  for (const PlanRow& row : plans())
    for (const int size : kMutantSizes)
      for (const int per_node : node_sizes(row, size)) {
        if (minds_nodes(row) && per_node == 1) continue;  // direct
        const Kind kind{row, per_node};
        const std::vector<Plan> all = make_all(row, size, per_node);
        ASSERT_EQ(flaw(kind, all), "") << name_of(row, size, per_node);
        for (std::size_t r = 0; r < all.size(); ++r)
          for (std::size_t i = 0; i < all[r].steps.size(); ++i) f(kind, all, r, i);
      }
}

std::string where(const Kind& kind, const std::vector<Plan>& all, std::size_t rank, std::size_t step) {
  return name_of(kind.row, static_cast<int>(all.size()), kind.per_node) + ", rank " + std::to_string(rank) +
         ", step " + std::to_string(step);
}

TEST(Prover, rejects_every_plan_that_lacks_a_step) {
  for_each_step([](const Kind& kind, std::vector<Plan> all, std::size_t r, std::size_t i) {
    all[r].steps.erase(all[r].steps.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(flaw(kind, all), "") << where(kind, all, r, i);
  });
}

TEST(Prover, rejects_every_plan_that_does_a_step_twice) {
  for_each_step([](const Kind& kind, std::vector<Plan> all, std::size_t r, std::size_t i) {
    auto& steps = all[r].steps;
    const Step again = steps[i];
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(i), again);
    // To decode twice into the same chunk costs time and changes nothing.
    EXPECT_EQ(flaw(kind, all) == "", again.op == Op::decode) << where(kind, all, r, i);
  });
}

// All steps that differ from s in one field that its op reads.
std::vector<Step> variants(const Step& s, const Plan& plan, int rank, int size) {
  std::vector<Step> all;
  const auto vary = [&](auto Step::*field, auto value) {
    Step changed = s;
    changed.*field = value;
    if (!(changed == s)) all.push_back(changed);
  };
  const bool exchanges = s.op == Op::exchange;
  if (!exchanges || s.to != kNobody)
    for (int i = 0; i < plan.slots; ++i) vary(&Step::slot, i);
  if (!exchanges)
    for (int c = 0; c < plan.chunks; ++c) vary(&Step::chunk, c);
  if (s.op == Op::encode)
    for (const auto f : {StepFeedback::none, StepFeedback::carry, StepFeedback::deposit})
      vary(&Step::feedback, f);
  if (!exchanges) vary(&Step::raw, !s.raw);
  if (s.op == Op::decode) vary(&Step::op, Op::decode_add);
  if (s.op == Op::decode_add) vary(&Step::op, Op::decode);
  if (!exchanges) return all;
  for (int i = 0; i < plan.slots && s.from != kNobody; ++i) vary(&Step::recv_slot, i);
  for (int i = 0; i < plan.rounds; ++i) vary(&Step::round, i);
  for (int peer = kNobody; peer < size; ++peer) {
    if (peer == rank) continue;
    vary(&Step::to, peer);
    vary(&Step::from, peer);
  }
  return all;
}

TEST(Prover, rejects_every_plan_with_another_slot_chunk_peer_round_operation_feedback_or_codec) {
  for_each_step([](const Kind& kind, std::vector<Plan> all, std::size_t r, std::size_t i) {
    const Step original = all[r].steps[i];
    for (const Step& s : variants(original, all[r], static_cast<int>(r), static_cast<int>(all.size()))) {
      all[r].steps[i] = s;
      EXPECT_NE(flaw(kind, all), "") << where(kind, all, r, i);
    }
  });
}

// Two steps of a rank that may trade places: neither writes what the other reads or writes.
bool independent(const Step& a, const Step& b) {
  struct Access {
    std::vector<int> reads, writes;  // slots from 0 up, chunks and residuals from -1 down
  };
  const auto access = [](const Step& s) -> Access {
    const int chunk = -1 - 2 * s.chunk, residual = chunk - 1;
    switch (s.op) {
      case Op::encode: return {{chunk}, {s.slot, residual}};
      case Op::decode: return {{s.slot}, {chunk}};
      case Op::decode_add: return {{s.slot, chunk}, {chunk}};
      case Op::exchange: break;
    }
    Access out;
    if (s.to != kNobody) out.reads.push_back(s.slot);
    if (s.from != kNobody) out.writes.push_back(s.recv_slot);
    return out;
  };
  const auto overlap = [](const std::vector<int>& u, const std::vector<int>& v) {
    return std::find_first_of(u.begin(), u.end(), v.begin(), v.end()) != u.end();
  };
  const Access x = access(a), y = access(b);
  return !overlap(x.writes, y.reads) && !overlap(x.writes, y.writes) && !overlap(x.reads, y.writes);
}

TEST(Prover, accepts_a_plan_with_two_neighbours_swapped_only_if_they_are_independent) {
  for_each_step([](const Kind& kind, std::vector<Plan> all, std::size_t r, std::size_t i) {
    if (i + 1 == all[r].steps.size()) return;
    const bool harmless = independent(all[r].steps[i], all[r].steps[i + 1]);
    std::swap(all[r].steps[i], all[r].steps[i + 1]);
    EXPECT_EQ(flaw(kind, all) == "", harmless) << where(kind, all, r, i) << ": " << flaw(kind, all);
  });
}

TEST(Prover, finds_the_deadlock_of_writing_a_slot_before_its_send_can_end) {
  // Rank 0 wants to reuse its slot before it posts the receive that rank 1 needs in order to go on.
  const Step encode{.op = Op::encode, .slot = 0}, send{.op = Op::exchange, .slot = 0, .to = 1};
  const Step receive{.op = Op::exchange, .from = 1, .recv_slot = 1};
  const Plan zero{.chunks = 1, .slots = 2, .rounds = 1, .steps = {encode, send, encode, receive}};
  const Step wait{.op = Op::decode, .slot = 0};
  const Plan one{.chunks = 1,
                 .slots = 2,
                 .rounds = 1,
                 .steps = {{.op = Op::encode, .slot = 1},
                           {.op = Op::exchange, .slot = 1, .to = 0},
                           {.op = Op::encode, .slot = 1},
                           {.op = Op::exchange, .from = 0, .recv_slot = 0},
                           wait}};
  Terms terms;
  EXPECT_NE(interpret({zero, one}, false, terms).error.find("deadlock"), std::string::npos);
}

}  // namespace
}  // namespace mq::test
