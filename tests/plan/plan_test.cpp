// Proofs about every row of the table of plans, for every number of ranks up to 64 and some beyond, and every
// number of ranks per node that divides it, on the symbolic machine of symbolic.hpp. That the prover
// can fail is prover_test.cpp's to show.
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

#include "mpi_quant/plan/plan.hpp"
#include "tests/plan/promises.hpp"
#include "tests/sanitized.hpp"

namespace mq::test {
namespace {

std::vector<int> sizes() {
  std::vector<int> all;
  for (int p = 2; p <= (kSanitized ? 9 : 40); ++p) all.push_back(p);
  if (!kSanitized) all.insert(all.end(), {47, 48, 63, 64, 65, 128});
  return all;
}

// Ranks::rank is ignored.
void for_each_plan(
    const std::function<void(const PlanRow&, const Ranks& ranks, const std::vector<Plan>&)>& f) {
  for (const PlanRow& row : plans())
    for (const int size : sizes())
      for (const Ranks& ranks : all_ranks(row, size)) {
        SCOPED_TRACE(name_of(row, ranks));
        f(row, ranks, make_all(row, ranks));
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

// What the symbolic machine shows of a plan. It takes most of the time of this file, so that each plan runs
// on it once.
TEST(Plan, every_rank_ends_with_the_documented_sum_sends_the_wires_of_the_theory_and_loses_nothing) {
  for_each_plan([](const PlanRow& row, const Ranks& ranks, const std::vector<Plan>& all) {
    ASSERT_EQ(all[0].chunks, promise(row).chunks(ranks.size));
    for (const bool feedback : {false, true}) {
      Terms terms;
      const Interpreted out = interpret(all, feedback, terms);
      ASSERT_EQ(out.error, "");
      for (const auto& output : out.output) ASSERT_EQ(output, out.output[0]) << "all ranks have one result";
      for (int c = 0; c < all[0].chunks; ++c) {
        ASSERT_EQ(out.output[0][static_cast<std::size_t>(c)], promise(row).formula(terms, ranks, c, feedback))
            << "the sum in the documented order";
        if (feedback) {
          ASSERT_EQ(unbalanced(out, c, terms), "") << "a contribution once, a loss in one residual";
        }
      }
      for (int r = 0; r < ranks.size; ++r) {
        const Ranks of{r, ranks.size, ranks.per_node, ranks.encodes_own};
        ASSERT_EQ(out.sent[static_cast<std::size_t>(r)], promise(row).sent(of)) << "rank " << r;
        ASSERT_EQ(out.sent_raw[static_cast<std::size_t>(r)], promise(row).sent_raw(of)) << "rank " << r;
      }
    }
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
  });
}

TEST(Plan, facts_name_early_receives_last_writes_accumulators_and_sends) {
  for_each_plan([](const PlanRow&, const Ranks&, const std::vector<Plan>& all) {
    for (const Plan& plan : all) {
      const PlanIndex plan_index = index_of(plan);
      ASSERT_EQ(plan_index.early.size(), plan.steps.size());
      ASSERT_EQ(plan_index.final.size(), plan.steps.size());
      std::set<int> touched, finished;     // slots, chunks
      std::set<std::pair<int, int>> late;  // senders and tags
      std::map<int, int> writes, sends;
      for (std::size_t i = 0; i < plan.steps.size(); ++i) {
        const Step& s = plan.steps[i];
        const bool receives = s.op == Op::exchange && s.from != kNobody;
        const std::pair message{s.from, tag_of(plan, s)};
        EXPECT_EQ(plan_index.early[i] != 0,
                  receives && !touched.contains(s.recv_slot) && !late.contains(message));
        if (receives && !plan_index.early[i]) late.insert(message);
        if (receives) touched.insert(s.recv_slot);
        if (s.op != Op::exchange || s.to != kNobody) touched.insert(s.slot);
        if (s.op == Op::exchange && s.to != kNobody) ++sends[s.slot];
        if (s.op != Op::decode && s.op != Op::decode_add) {
          EXPECT_EQ(plan_index.summands[i], 0);
          EXPECT_FALSE(plan_index.final[i]);
          continue;
        }
        const auto first = plan.steps.begin() + static_cast<std::ptrdiff_t>(i);
        const auto end = std::find_if(first + 1, plan.steps.end(), [&](const Step& next) {
          return next.op != Op::decode_add || next.chunk != s.chunk || next.raw != s.raw;
        });
        EXPECT_EQ(plan_index.summands[i], end - first) << "additions to this chunk, one after the other";
        ++writes[s.chunk];
        EXPECT_EQ(finished.count(s.chunk), 0u) << "written after its last write";
        if (plan_index.final[i]) finished.insert(s.chunk);
      }
      EXPECT_EQ(finished.size(), static_cast<std::size_t>(plan.chunks)) << "each chunk has a last write";
      std::set<int> accumulators;
      for (int c = 0; c < plan.chunks; ++c) {
        const int at = plan_index.accumulator[static_cast<std::size_t>(c)];
        EXPECT_EQ(at >= 0, writes[c] > 1);
        if (at >= 0) {
          EXPECT_TRUE(accumulators.insert(at).second) << "two chunks in one accumulator";
        }
      }
      EXPECT_EQ(static_cast<int>(accumulators.size()), plan_index.accumulators);
      for (int slot = 0; slot < plan.slots; ++slot)
        EXPECT_EQ(plan_index.first_send[static_cast<std::size_t>(slot) + 1] -
                      plan_index.first_send[static_cast<std::size_t>(slot)],
                  sends[slot]);
    }
  });
}

TEST(Plan, steps_grow_at_most_linearly_in_the_ranks) {
  for (const PlanRow& row : plans())
    for (const int size : {2, 3, 5, 64, 1000, 1024, 4099})
      for (const int r : {0, 1, size / 2, size - 1})
        for (Ranks ranks : all_ranks(row, size)) {
          ranks.rank = r;
          // With Ranks::encodes_own two more steps a chunk that the rank sums, at most.
          const auto most = static_cast<std::size_t>((ranks.encodes_own ? 7 : 5) * size);
          EXPECT_LE(row.make(ranks).steps.size(), most) << name_of(row, ranks) << ", rank " << r;
        }
}

TEST(Plan, a_thousand_ranks_are_no_different) {
  if (kSanitized) return;  // the plans of fewer ranks run the same lines
  const auto flaw_of = [](std::string_view name, const Ranks& ranks) {
    return flaw(*find_plan(name), make_all(*find_plan(name), ranks), ranks);
  };
  for (const int size : {1000, 1023, 1024}) EXPECT_EQ(flaw_of("recursive_doubling", {0, size}), "");
  EXPECT_EQ(flaw_of("recursive_doubling", {0, 1023, 1, true}), "");
  EXPECT_EQ(flaw_of("allgather", {0, 300}), "");
  for (const bool encodes_own : {false, true})
    EXPECT_EQ(flaw_of("hierarchical", {0, 256, 8, encodes_own}), "");
  for (const int size : {127, 135}) EXPECT_EQ(flaw_of("halving_doubling", {0, size}), "");
  // More rounds than tags. The ring of 128 ranks, too, has so many.
  EXPECT_EQ(flaw_of("hierarchical", {0, 244, 2}), "");
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

// Groups hold back the steps behind the last send (engine/groups.hpp): a later post could hold up its sender.
TEST(Plan, no_receive_is_posted_behind_a_codec_step_that_follows_the_last_send) {
  for (const PlanRow& row : plans())
    for (const int size : {2, 3, 4, 5, 7, 8, 12, 16, 33})
      for (Ranks ranks : all_ranks(row, size))
        for (ranks.rank = 0; ranks.rank < size; ++ranks.rank) {
          const Plan plan = row.make(ranks);
          const PlanIndex plan_index = index_of(plan);
          bool coded = false;
          for (std::size_t i = 0; const Step& s : plan.steps) {
            if (s.op != Op::exchange)
              coded = true;
            else if (s.to != kNobody)
              coded = false;
            else
              ASSERT_TRUE(!coded || plan_index.early[i]) << name_of(row, ranks) << ", rank " << ranks.rank;
            ++i;
          }
        }
}

TEST(Plan, a_receive_is_not_posted_before_an_earlier_one_of_the_same_messages) {
  const auto receive = [](int slot) { return Step{.op = Op::exchange, .from = 1, .recv_slot = slot}; };
  const Step decode{.op = Op::decode, .slot = 0};
  const PlanIndex plan_index = index_of(
      {1, 2, 1, {receive(0), decode, receive(0), decode, receive(1), {.op = Op::decode, .slot = 1}}});
  EXPECT_EQ(plan_index.early, (std::vector<char>{1, 0, 0, 0, 0, 0}));
}

TEST(Plan, tags_suffice_for_four_segments_whatever_the_ranks) {
  for (const PlanRow& row : plans()) {
    const Plan plan = row.make({.size = 1 << 14, .per_node = 1 << 4});
    EXPECT_LE(tags_of(plan), kMaxTags) << row.name;
    for (const Step& s : plan.steps)
      if (s.op == Op::exchange) {
        ASSERT_LT(tag_of(plan, s), tags_of(plan)) << row.name;
      }
  }
}

// Direct sends 2(P-L)/P vectors to other nodes a rank.
TEST(Plan, hierarchical_sends_an_lth_of_direct_s_wires_to_other_nodes_and_raw_ones_to_none) {
  for (const int size : sizes())
    for (const int per_node : all_node_sizes(*find_plan("hierarchical"), size))
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
      ASSERT_EQ(index_of(plan).raw, minds_nodes(row) && ranks.per_node > 1 && !ranks.encodes_own);
  });
}

// Memory rules rely on it: they change a residual where it is carried, and losses that are added later wait
// for the next call.
TEST(Plan, takes_the_residual_of_a_chunk_once_and_before_it_adds_a_loss) {
  for_each_plan([](const PlanRow&, const Ranks&, const std::vector<Plan>& all) {
    for (const Plan& plan : all) {
      std::vector<int> carried(static_cast<std::size_t>(plan.chunks));
      for (const Step& s : plan.steps) {
        if (s.op != Op::encode) continue;
        int& times = carried[static_cast<std::size_t>(s.chunk)];
        times += s.feedback == StepFeedback::carry;
        ASSERT_TRUE(times == 1 || s.feedback != StepFeedback::deposit);
      }
      for (const int times : carried) ASSERT_EQ(times, 1);
    }
  });
}

// A rank's first encode of a chunk is of its own elements, and alone takes the residual. Nothing is added
// before it.
TEST(Plan, with_encodes_own_adds_only_what_was_encoded) {
  for_each_plan([](const PlanRow&, const Ranks& ranks, const std::vector<Plan>& all) {
    if (!ranks.encodes_own) return;
    for (const Plan& plan : all) {
      std::set<int> written;  // chunks
      for (const Step& s : plan.steps) {
        ASSERT_FALSE(s.raw);
        if (s.op == Op::decode_add) {
          ASSERT_TRUE(written.contains(s.chunk));
        }
        if (s.op == Op::encode) {
          ASSERT_EQ(s.feedback == StepFeedback::carry, !written.contains(s.chunk));
        }
        if (s.op == Op::decode) written.insert(s.chunk);
      }
    }
  });
}

TEST(Plan, is_a_pure_function_of_rank_and_size) {
  for_each_plan([](const PlanRow& row, const Ranks& ranks, const std::vector<Plan>& all) {
    for (int r = ranks.size - 1; r >= 0; --r)
      ASSERT_EQ(row.make({r, ranks.size, ranks.per_node, ranks.encodes_own}),
                all[static_cast<std::size_t>(r)])
          << "rank " << r;
  });
}

// Only such plans could carry the agreement in their first messages, see results/2026-11-25-scale/README.md.
TEST(Plan, in_the_first_round_of_two_plans_every_rank_hears_of_every_other) {
  const auto hears_all = [](const Plan& plan, int ranks) {
    std::set<int> heard;
    for (const Step& step : plan.steps)
      if (step.op == Op::exchange && step.round == 0 && step.from != kNobody) heard.insert(step.from);
    return heard.size() == static_cast<std::size_t>(ranks - 1);
  };
  for (const int size : {8, 64}) {
    std::set<std::string_view> names;  // hierarchical on nodes of two ranks: with one rank each it is direct
    for (const PlanRow& row : plans()) {
      bool all = true;
      for (int rank = 0; rank < size; ++rank)
        all = all && hears_all(row.make({.rank = rank, .size = size, .per_node = 2}), size);
      if (all) names.insert(row.name);
    }
    EXPECT_EQ(names, (std::set<std::string_view>{"allgather", "direct"})) << size;
  }
}

TEST(ChoosePlan, two_ranks_gather_short_vectors_avoid_rounds_and_long_ones_go_direct) {
  constexpr std::uint64_t kLong = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1} << 20, kLong})
    EXPECT_EQ(choose_plan(bytes, 2).name, "allgather") << bytes;
  for (int ranks = 3; ranks < 5000; ++ranks) {
    EXPECT_EQ(choose_plan(kLong, ranks).name, "direct") << ranks;
    EXPECT_EQ(choose_plan(std::uint64_t{2} << 30, ranks).name, "direct") << ranks;
    EXPECT_EQ(choose_plan(1 << 20, ranks).name, ranks < 8 ? "direct" : "grid") << ranks;
    EXPECT_EQ(choose_plan(4096, ranks).name, ranks < 8 ? "allgather" : "recursive_doubling") << ranks;
  }
  EXPECT_EQ(choose_plan(kLong, std::numeric_limits<int>::max()).name, "direct");
  EXPECT_EQ(choose_plan(127 << 10, 1024).name, "recursive_doubling");
  EXPECT_EQ(choose_plan(128 << 10, 1024).name, "grid");
  EXPECT_EQ(choose_plan((256 << 20) - 1, 1024).name, "grid");
  EXPECT_EQ(choose_plan(256 << 20, 1024).name, "direct");
}

TEST(ChoosePlan, longer_vectors_never_go_back_to_a_plan_for_shorter_ones) {
  const auto order = [](std::string_view name) { return name == "direct" ? 2 : name == "grid" ? 1 : 0; };
  for (int ranks = 3; ranks <= 1024; ++ranks) {
    int before = 0;
    for (std::uint64_t bytes = 1; bytes < std::uint64_t{1} << 40; bytes += bytes / 2 + 1) {
      const int now = order(choose_plan(bytes, ranks).name);
      EXPECT_GE(now, before) << ranks << " ranks, " << bytes << " bytes";
      before = now;
    }
  }
}

}  // namespace
}  // namespace mq::test
