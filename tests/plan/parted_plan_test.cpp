// Proofs about the plans of collectives in which parts of the vector belong to ranks, on the symbolic machine
// of symbolic.hpp; and that the proof rejects a plan which differs in one step.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "mpi_quant/plan/plan.hpp"
#include "tests/plan/symbolic.hpp"
#include "tests/sanitized.hpp"

namespace mq::test::symbolic {
namespace {

std::vector<int> sizes() {
  return kSanitized ? std::vector<int>{2, 3, 5, 8} : std::vector<int>{2, 3, 4, 5, 7, 8, 13, 16, 31, 64};
}

struct Kind {
  int size;
  bool feedback, encodes_own;
  std::string text() const {
    return std::to_string(size) + " ranks" + (feedback ? ", feedback" : "") +
           (encodes_own ? ", own encoded" : "");
  }
};

std::vector<Plan> reduce_scatters(const Kind& kind) {
  std::vector<Plan> all;
  for (int r = 0; r < kind.size; ++r)
    all.push_back(
        plan_of(Collective::reduce_scatter)->make({r, kind.size, 1, kind.encodes_own, kind.feedback}));
  return all;
}

Terms::Id own(Terms& t, int rank, int chunk, bool feedback) {
  const Terms::Id g = t.input(rank, chunk);
  return feedback ? t.sum(g, t.residual(rank, chunk)) : g;
}

// The owner's own part, and what it decodes of the others in their order.
Terms::Id expected(Terms& t, const Kind& kind, int chunk) {
  const Terms::Id mine = own(t, chunk, chunk, kind.feedback);
  Terms::Id total = kind.encodes_own ? t.decoded(mine) : mine;
  for (int r = 0; r < kind.size; ++r)
    if (r != chunk) total = t.sum(total, t.decoded(own(t, r, chunk, kind.feedback)));
  return total;
}

// Why these plans are no reduce-scatter; empty if they are one.
std::string flaw(const Kind& kind, const std::vector<Plan>& all) {
  Terms terms;
  const Interpreted out = interpret(all, kind.feedback, terms, Written::own);
  if (!out.error.empty()) return out.error;
  for (int c = 0; c < kind.size; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const Terms::Id got = out.output[at][at], wanted = expected(terms, kind, c);
    if (got != wanted)
      return "part " + std::to_string(c) + ": " + terms.text(got) + " instead of " + terms.text(wanted);
    if (!kind.feedback) continue;
    Terms::Linear gap;  // result and residuals after, less inputs and residuals before
    terms.add(gap, got, 1);
    for (int r = 0; r < kind.size; ++r) {
      terms.add(gap, out.residual[static_cast<std::size_t>(r)][at], 1);
      terms.add(gap, terms.input(r, c), -1);
      terms.add(gap, terms.residual(r, c), -1);
    }
    if (!gap.empty()) return "part " + std::to_string(c) + ": " + terms.text(gap.begin()->first) + " is lost";
  }
  for (const int sent : out.sent)
    if (sent != kind.size - 1) return std::to_string(sent) + " messages";
  for (const int raw : out.sent_raw)
    if (raw != 0) return "raw messages";
  return "";
}

std::vector<Kind> kinds(const std::vector<int>& of) {
  std::vector<Kind> all;
  for (const int size : of)
    for (const bool feedback : {false, true})
      for (const bool encodes_own : {false, true}) all.push_back({size, feedback, encodes_own});
  return all;
}

TEST(PartedPlan, every_owner_ends_with_the_sum_of_its_part_and_nothing_is_lost) {
  for (const Kind& kind : kinds(sizes())) EXPECT_EQ(flaw(kind, reduce_scatters(kind)), "") << kind.text();
  if (!kSanitized) {
    EXPECT_EQ(flaw({300, true, false}, reduce_scatters({300, true, false})), "");
  }
}

TEST(PartedPlan, only_the_owner_touches_its_own_part_and_only_if_it_has_to) {
  for (const Kind& kind : kinds(sizes()))
    for (int r = 0; r < kind.size; ++r) {
      const Plan plan = reduce_scatters(kind)[static_cast<std::size_t>(r)];
      int own_encodes = 0;
      std::set<int> slots;
      for (const Step& s : plan.steps) {
        own_encodes += s.op == Op::encode && s.chunk == r;
        EXPECT_TRUE(!s.raw || (s.chunk == r && !kind.encodes_own)) << kind.text();
        if (s.op == Op::decode || s.op == Op::decode_add) {
          EXPECT_EQ(s.chunk, r) << kind.text();
        }
        slots.insert(s.slot);
        if (s.op == Op::exchange) slots.insert(s.recv_slot);
      }
      EXPECT_EQ(own_encodes, kind.feedback || kind.encodes_own) << kind.text();
      EXPECT_EQ(slots.size(), static_cast<std::size_t>(plan.slots)) << kind.text();
      EXPECT_EQ(plan.rounds, 1);
      const PlanIndex plan_index = index_of(plan);
      for (std::size_t i = 0; i < plan.steps.size(); ++i)
        EXPECT_EQ(plan_index.early[i] != 0, plan.steps[i].op == Op::exchange)
            << "all receives can be posted at once";
    }
}

TEST(PartedPlan, the_proof_rejects_a_plan_that_lacks_a_step_or_does_one_elsewhere) {
  for (const Kind& kind : kinds({2, 3, 4, 5}))
    for (int r = 0; r < kind.size; ++r) {
      const std::vector<Plan> right = reduce_scatters(kind);
      const auto at = static_cast<std::size_t>(r);
      for (std::size_t i = 0; i < right[at].steps.size(); ++i) {
        std::vector<Plan> wrong = right;
        wrong[at].steps.erase(wrong[at].steps.begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_NE(flaw(kind, wrong), "") << kind.text() << " lacks step " << i << " of rank " << r;
        wrong = right;
        Step& step = wrong[at].steps[i];
        if (step.op == Op::exchange) continue;
        step.chunk = (step.chunk + 1) % kind.size;
        EXPECT_NE(flaw(kind, wrong), "") << kind.text() << " step " << i << " of rank " << r << " elsewhere";
      }
    }
}

// Each part is encoded once, by its rank, and all ranks end with what that wire decodes to.
std::string flaw_of_gather(int size, bool feedback, const std::vector<Plan>& all) {
  Terms terms;
  const Interpreted out = interpret(all, feedback, terms);
  if (!out.error.empty()) return out.error;
  for (int c = 0; c < size; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const Terms::Id sent = own(terms, c, c, feedback);
    for (const auto& output : out.output)
      if (output[at] != terms.decoded(sent))
        return "part " + std::to_string(c) + ": " + terms.text(output[at]);
    if (feedback && out.residual[at][at] != terms.loss(sent)) return "the sender does not keep the loss";
    for (std::size_t r = 0; r < out.residual.size(); ++r)
      if (r != at && out.residual[r][at] != terms.residual(static_cast<int>(r), c))
        return "a residual of others";
  }
  for (const int sent : out.sent)
    if (sent != size - 1) return std::to_string(sent) + " messages";
  return "";
}

std::vector<Plan> allgathers(int size) {
  std::vector<Plan> all;
  for (int r = 0; r < size; ++r) all.push_back(plan_of(Collective::allgather)->make({r, size}));
  return all;
}

TEST(PartedPlan, an_allgather_gives_all_ranks_what_each_wire_decodes_to) {
  for (const int size : sizes())
    for (const bool feedback : {false, true}) {
      EXPECT_EQ(flaw_of_gather(size, feedback, allgathers(size)), "") << size << " ranks";
      for (const Plan& plan : allgathers(size)) {
        EXPECT_EQ(plan.slots, size);
        EXPECT_EQ(index_of(plan).accumulators, 0);
      }
    }
  for (const int size : {2, 3, 4})
    for (std::size_t r = 0; r < static_cast<std::size_t>(size); ++r)
      for (std::size_t i = 0; i < allgathers(size)[r].steps.size(); ++i) {
        std::vector<Plan> wrong = allgathers(size);
        wrong[r].steps.erase(wrong[r].steps.begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_NE(flaw_of_gather(size, true, wrong), "")
            << size << " ranks, rank " << r << " lacks step " << i;
      }
}

TEST(PartedPlan, an_allreduce_has_no_plan_of_its_own_and_ids_are_apart) {
  EXPECT_EQ(plan_of(Collective::allreduce), nullptr);
  for (const Collective collective : kCollectives) {
    const PlanRow* const row = plan_of(collective);
    if (row == nullptr) continue;
    EXPECT_TRUE(row->name.starts_with(name(collective)));
    EXPECT_NE(find_plan(row->name), row) << "no method can name it";
    for (const PlanRow& other : plans()) EXPECT_NE(row->id, other.id);
  }
}

}  // namespace
}  // namespace mq::test::symbolic
