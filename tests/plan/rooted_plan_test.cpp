// Proofs about the plans of collectives with a root, on the symbolic machine of symbolic.hpp; that the proof
// rejects a plan which lacks a step; and that the plan that is chosen is no slow one.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "mpi_quant/plan/cost.hpp"
#include "mpi_quant/plan/plan.hpp"
#include "tests/plan/symbolic.hpp"
#include "tests/sanitized.hpp"

namespace mq::test::symbolic {
namespace {

constexpr std::uint64_t kShort = 1, kLong = std::uint64_t{1} << 40;  // encoded bytes

std::vector<int> sizes() {
  return kSanitized ? std::vector<int>{2, 3, 5, 8} : std::vector<int>{2, 3, 4, 5, 7, 8, 13, 16, 31, 64};
}
std::vector<int> roots(int size) { return {0, size / 2, size - 1}; }

int log2_up(int size) { return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1))); }

struct Kind {
  int size, root;
  std::uint64_t bytes;
  bool feedback;
  bool is_tree() const { return bytes == kShort || size == 2; }
  std::string text() const {
    return std::string(is_tree() ? "tree of " : "spread of ") + std::to_string(size) + " ranks, root " +
           std::to_string(root) + (feedback ? ", feedback" : "");
  }
};

std::vector<Kind> kinds(const std::vector<int>& of) {
  std::vector<Kind> all;
  for (const int size : of)
    for (const int root : roots(size))
      for (const std::uint64_t bytes : {kShort, kLong})
        for (const bool feedback : {false, true}) all.push_back({size, root, bytes, feedback});
  return all;
}

std::vector<Plan> bcasts(const Kind& kind) {
  std::vector<Plan> all;
  const PlanRow& row = *plan_of(Collective::bcast, kind.bytes, kind.size);
  for (int r = 0; r < kind.size; ++r) {
    Ranks ranks{r, kind.size};
    ranks.root = kind.root;
    all.push_back(row.make(ranks));
  }
  return all;
}

// Why these plans are no broadcast; empty if they are one. The root encodes each chunk once, and all ranks
// end with what that wire decodes to.
std::string flaw(const Kind& kind, const std::vector<Plan>& all) {
  Terms terms;
  const Interpreted out = interpret(all, kind.feedback, terms);
  if (!out.error.empty()) return out.error;
  const auto root = static_cast<std::size_t>(kind.root);
  for (std::size_t c = 0; c < out.output[0].size(); ++c) {
    const int chunk = static_cast<int>(c);
    Terms::Id sent = terms.input(kind.root, chunk);
    if (kind.feedback) sent = terms.sum(sent, terms.residual(kind.root, chunk));
    for (const auto& output : out.output)
      if (output[c] != terms.decoded(sent))
        return "chunk " + std::to_string(c) + ": " + terms.text(output[c]);
    for (std::size_t r = 0; r < all.size(); ++r)
      if (out.residual[r][c] !=
          (r == root && kind.feedback ? terms.loss(sent) : terms.residual(static_cast<int>(r), chunk)))
        return "the residual of rank " + std::to_string(r);
  }
  return "";
}

TEST(RootedPlan, a_broadcast_gives_all_ranks_what_the_wire_of_the_root_decodes_to) {
  for (const Kind& kind : kinds(sizes())) EXPECT_EQ(flaw(kind, bcasts(kind)), "") << kind.text();
  if (!kSanitized) {
    for (const std::uint64_t bytes : {kShort, kLong})
      EXPECT_EQ(flaw({300, 7, bytes, true}, bcasts({300, 7, bytes, true})), "");
  }
}

TEST(RootedPlan, a_broadcast_sends_as_little_as_its_row_says) {
  for (const Kind& kind : kinds(sizes())) {
    const std::vector<Plan> all = bcasts(kind);
    Terms terms;
    const Interpreted out = interpret(all, kind.feedback, terms);
    const std::vector<int>& sent = out.sent;
    for (std::size_t r = 0; r < sent.size(); ++r) {
      const bool is_root = static_cast<int>(r) == kind.root;
      if (kind.is_tree()) {
        EXPECT_LE(sent[r], log2_up(kind.size) - !is_root) << kind.text();
        EXPECT_EQ(all[r].slots, 1);
      } else {
        EXPECT_EQ(sent[r], is_root ? kind.size - 1 : kind.size - 2) << kind.text();
        EXPECT_EQ(all[r].chunks, kind.size - 1) << "so that the root sends one vector";
      }
      EXPECT_EQ(index_of(all[r]).accumulators, 0);
      const auto encodes = std::count_if(all[r].steps.begin(), all[r].steps.end(),
                                         [](const Step& s) { return s.op == Op::encode; });
      EXPECT_EQ(encodes, is_root ? all[r].chunks : 0) << kind.text();
    }
    if (kind.is_tree()) {
      EXPECT_EQ(std::accumulate(sent.begin(), sent.end(), 0), kind.size - 1) << "each rank gets it once";
    }
  }
}

TEST(RootedPlan, the_proof_rejects_a_plan_that_lacks_a_step_or_has_another_root) {
  for (const Kind& kind : kinds({2, 3, 4, 5})) {
    const std::vector<Plan> right = bcasts(kind);
    for (std::size_t r = 0; r < right.size(); ++r)
      for (std::size_t i = 0; i < right[r].steps.size(); ++i) {
        std::vector<Plan> wrong = right;
        wrong[r].steps.erase(wrong[r].steps.begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_NE(flaw(kind, wrong), "") << kind.text() << " lacks step " << i << " of rank " << r;
      }
    Kind other = kind;
    other.root = (kind.root + 1) % kind.size;
    EXPECT_NE(flaw(other, right), "") << kind.text();
    std::vector<Plan> mixed = right;
    mixed[0] = bcasts(other)[0];
    EXPECT_NE(flaw(kind, mixed), "") << kind.text() << ", rank 0 has another root";
  }
}

std::vector<Plan> reductions(const Kind& kind, bool encodes_own) {
  std::vector<Plan> all;
  const PlanRow& row = *plan_of(Collective::reduce, kind.bytes, kind.size);
  for (int r = 0; r < kind.size; ++r)
    all.push_back(row.make({r, kind.size, 1, encodes_own, kind.feedback, kind.root}));
  return all;
}

// Why these plans are no reduction to the root; empty if they are one. The result and the residuals after are
// the inputs and the residuals before. Without feedback the result is the inputs less losses.
std::string flaw_of_reduction(const Kind& kind, const std::vector<Plan>& all) {
  Terms terms;
  const Interpreted out = interpret(all, kind.feedback, terms);
  if (!out.error.empty()) return out.error;
  const auto root = static_cast<std::size_t>(kind.root);
  for (std::size_t c = 0; c < out.output[root].size(); ++c) {
    const int chunk = static_cast<int>(c);
    Terms::Linear gap;
    terms.add(gap, out.output[root][c], 1);
    for (int r = 0; r < kind.size; ++r) {
      terms.add(gap, terms.input(r, chunk), -1);
      if (!kind.feedback) continue;
      terms.add(gap, out.residual[static_cast<std::size_t>(r)][c], 1);
      terms.add(gap, terms.residual(r, chunk), -1);
    }
    std::size_t losses = 0;
    terms.for_each_loss_in(gap, [&](int) { ++losses; });
    if (losses != gap.size() || (kind.feedback && losses != 0))
      return "chunk " + std::to_string(c) + ": " + terms.text(out.output[root][c]);
  }
  for (std::size_t r = 0; r < all.size(); ++r) {
    const PlanIndex plan_index = index_of(all[r]);
    if (r == root ||
        std::none_of(plan_index.final.begin(), plan_index.final.end(), [](char f) { return f != 0; }))
      continue;
    return "rank " + std::to_string(r) + " writes its output";
  }
  return "";
}

TEST(RootedPlan, a_reduction_gives_the_root_the_sum_and_others_nothing_and_nothing_is_lost) {
  for (const Kind& kind : kinds(sizes()))
    for (const bool encodes_own : {false, true})
      EXPECT_EQ(flaw_of_reduction(kind, reductions(kind, encodes_own)), "") << kind.text() << encodes_own;
  if (!kSanitized) {
    for (const std::uint64_t bytes : {kShort, kLong})
      EXPECT_EQ(flaw_of_reduction({300, 7, bytes, true}, reductions({300, 7, bytes, true}, false)), "");
  }
}

TEST(RootedPlan, a_reduction_sends_one_vector_from_each_rank_but_the_root_and_the_root_sends_none) {
  for (const Kind& kind : kinds(sizes()))
    for (const bool encodes_own : {false, true}) {
      const std::vector<Plan> all = reductions(kind, encodes_own);
      Terms terms;
      const Interpreted out = interpret(all, kind.feedback, terms);
      for (std::size_t r = 0; r < all.size(); ++r) {
        const bool is_root = static_cast<int>(r) == kind.root;
        EXPECT_EQ(out.sent[r], is_root ? 0 : kind.is_tree() ? 1 : kind.size - 1) << kind.text();
        EXPECT_EQ(out.sent_raw[r], 0) << kind.text();
        EXPECT_EQ(all[r].chunks, kind.is_tree() ? 1 : kind.size - 1);
        EXPECT_EQ(all[r].has_result, is_root);
        std::set<int> slots;
        for (const Step& s : all[r].steps) {
          if (s.op != Op::exchange || s.to != kNobody) slots.insert(s.slot);
          if (s.op == Op::exchange && s.from != kNobody) slots.insert(s.recv_slot);
        }
        EXPECT_EQ(slots.size(), static_cast<std::size_t>(all[r].slots)) << kind.text() << " rank " << r;
        const PlanIndex plan_index = index_of(all[r]);
        for (std::size_t i = 0; i < all[r].steps.size(); ++i) {
          const Step& s = all[r].steps[i];
          EXPECT_EQ(plan_index.early[i] != 0, s.op == Op::exchange && s.from != kNobody) << kind.text();
          if (!is_root && (s.op == Op::decode || s.op == Op::decode_add)) {
            EXPECT_GE(plan_index.accumulator[static_cast<std::size_t>(s.chunk)], 0) << kind.text();
          }
        }
      }
    }
}

TEST(RootedPlan, the_proof_rejects_a_reduction_that_lacks_a_step) {
  for (const Kind& kind : kinds({2, 3, 4, 5}))
    for (const bool encodes_own : {false, true}) {
      const std::vector<Plan> right = reductions(kind, encodes_own);
      for (std::size_t r = 0; r < right.size(); ++r)
        for (std::size_t i = 0; i < right[r].steps.size(); ++i) {
          std::vector<Plan> wrong = right;
          wrong[r].steps.erase(wrong[r].steps.begin() + static_cast<std::ptrdiff_t>(i));
          EXPECT_NE(flaw_of_reduction(kind, wrong), "")
              << kind.text() << " lacks step " << i << " of rank " << r;
        }
      std::vector<Plan> wrong = right;
      wrong[static_cast<std::size_t>(kind.root == 0)].has_result = true;
      EXPECT_NE(flaw_of_reduction(kind, wrong), "") << kind.text() << ", another rank keeps a result";
    }
}

// A network of 10 Gbit/s with TCP, one of 100 Gbit/s with RDMA. The model has no port that receives, so it
// cannot compare reductions, which send the messages of a broadcast backwards.
TEST(RootedPlan, the_chosen_plan_is_no_slow_one_by_the_model_of_time) {
  Prices slow, fast;
  slow[Term::latency] = 2e-5, slow[Term::overhead] = 3e-6, slow[Term::byte] = 8e-10, slow[Term::copy] = 1e-10;
  fast[Term::latency] = 2e-6, fast[Term::overhead] = 4e-7, fast[Term::byte] = 8e-11, fast[Term::copy] = 3e-11;
  for (const Prices& prices : {slow, fast})
    for (const double wire_bytes : {0.125, 1.0, 2.0, 4.0})
      for (const int ranks : {2, 3, 4, 8, 16, 64, 256, 1024})
        for (std::uint64_t bytes = 4096; bytes <= std::uint64_t{1} << 30; bytes *= 2) {
          CallShape call;
          call.ranks.size = ranks;
          call.count = bytes / 4;
          call.wire_bytes = wire_bytes;
          const auto encoded = static_cast<std::uint64_t>(static_cast<double>(call.count) * wire_bytes);
          const auto seconds = [&](std::uint64_t of) {
            return cost_of(*plan_of(Collective::bcast, of, ranks), call, prices).seconds;
          };
          EXPECT_LE(seconds(encoded), 1.5 * std::min(seconds(kShort), seconds(kLong)))
              << bytes << " bytes, " << ranks << " ranks, " << wire_bytes;
        }
}

}  // namespace
}  // namespace mq::test::symbolic
