// Mutations: the prover of plan_test.cpp rejects a plan that differs in one step from a right one.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "mpi_quant/plan/plan.hpp"
#include "tests/plan/promises.hpp"
#include "tests/sanitized.hpp"

namespace mq::test {
namespace {

std::vector<int> mutant_sizes() {
  return kSanitized ? std::vector<int>{2, 3, 4} : std::vector<int>{2, 3, 4, 5, 6, 8};
}

struct Kind {
  const PlanRow& row;
  Ranks ranks;
};
std::string flaw(const Kind& kind, const std::vector<Plan>& all) {
  return test::flaw(kind.row, all, kind.ranks);
}

// Calls f for every step of every rank of every row, or of the one that MPIQ_TEST_PLAN names, for sizes small
// enough to try all mutants.
void for_each_step(
    const std::function<void(const Kind&, const std::vector<Plan>&, std::size_t rank, std::size_t step)>& f) {
  const char* const only = std::getenv("MPIQ_TEST_PLAN");
  EXPECT_TRUE(only == nullptr || find_plan(only) != nullptr) << only;
  for (const PlanRow& row : plans()) {
    if (only != nullptr && row.name != only) continue;
    for (const int size : mutant_sizes())
      for (const Ranks& ranks : all_ranks(row, size)) {
        if (minds_nodes(row) && ranks.per_node == 1) continue;  // direct
        const Kind kind{row, ranks};
        const std::vector<Plan> all = make_all(row, ranks);
        ASSERT_EQ(flaw(kind, all), "") << name_of(row, ranks);
        for (std::size_t r = 0; r < all.size(); ++r)
          for (std::size_t i = 0; i < all[r].steps.size(); ++i) f(kind, all, r, i);
      }
  }
}

std::string where(const Kind& kind, std::size_t rank, std::size_t step) {
  return name_of(kind.row, kind.ranks) + ", rank " + std::to_string(rank) + ", step " + std::to_string(step);
}

TEST(Prover, rejects_every_plan_that_lacks_a_step) {
  for_each_step([](const Kind& kind, std::vector<Plan> all, std::size_t r, std::size_t i) {
    all[r].steps.erase(all[r].steps.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(flaw(kind, all), "") << where(kind, r, i);
  });
}

TEST(Prover, rejects_every_plan_that_does_a_step_twice) {
  for_each_step([](const Kind& kind, std::vector<Plan> all, std::size_t r, std::size_t i) {
    auto& steps = all[r].steps;
    const Step again = steps[i];
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(i), again);
    // To decode twice into the same chunk costs time and changes nothing.
    EXPECT_EQ(flaw(kind, all) == "", again.op == Op::decode) << where(kind, r, i);
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
  for (int i = -size; !exchanges && i <= 2 * size; ++i) vary(&Step::sum, i);
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

TEST(Prover, rejects_every_plan_with_another_slot_chunk_sum_peer_round_operation_feedback_or_codec) {
  for_each_step([](const Kind& kind, std::vector<Plan> all, std::size_t r, std::size_t i) {
    const Step original = all[r].steps[i];
    for (const Step& s : variants(original, all[r], static_cast<int>(r), static_cast<int>(all.size()))) {
      all[r].steps[i] = s;
      EXPECT_NE(flaw(kind, all), "") << where(kind, r, i);
    }
  });
}

// Two steps of a rank that may trade places: neither writes what the other reads or writes, and messages
// between the same two ranks with the same tag keep their order.
bool independent(const Step& a, const Step& b, const Plan& plan) {
  if (a.op == Op::exchange && b.op == Op::exchange && tag_of(plan, a) == tag_of(plan, b) &&
      ((a.to != kNobody && a.to == b.to) || (a.from != kNobody && a.from == b.from)))
    return false;
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
    const bool harmless = independent(all[r].steps[i], all[r].steps[i + 1], all[r]);
    std::swap(all[r].steps[i], all[r].steps[i + 1]);
    EXPECT_EQ(flaw(kind, all) == "", harmless) << where(kind, r, i) << ": " << flaw(kind, all);
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
                 .steps = {{.op = Op::encode, .slot = 1, .sum = 1},
                           {.op = Op::exchange, .slot = 1, .to = 0},
                           {.op = Op::encode, .slot = 1, .sum = 1},
                           {.op = Op::exchange, .from = 0, .recv_slot = 0},
                           wait}};
  Terms terms;
  EXPECT_NE(interpret({zero, one}, false, terms).error.find("deadlock"), std::string::npos);
}

}  // namespace
}  // namespace mq::test
