// Ranks that are killed at any step of a call, on a launcher that lets the others live: those end with an
// error, or with the sum if they had all they needed, and never wait for ever. Of MPI it is assumed what the
// standard's error handling promises: a request whose peer is gone ends with an error.
//
// A rank that ends with an error is gone, too, as a program is that ends on one. So an error goes from rank
// to rank until all know.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>

#include "mpi_quant/engine/agree.hpp"
#include "tests/engine/scene.hpp"

namespace mq::test {
namespace {

// What the ranks of a net share.
struct Life {
  explicit Life(int ranks) : gone(static_cast<std::size_t>(ranks)) {}
  std::vector<std::atomic<bool>> gone;
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
};

// A rank that dies in the operation with this number; < 0: it does not.
class Mortal {
 public:
  using Request = Loopback::Rank::Request;
  Mortal(Loopback::Rank& rank, Life& life, int dies_at) : rank_(rank), life_(life), left_(dies_at) {}
  int rank() const { return rank_.rank(); }
  int size() const { return rank_.size(); }
  bool killed() const { return killed_; }
  int operations() const { return operations_; }
  Status send(int to, int tag, std::span<const std::byte> out, Request& request) {
    MQ_TRY(live());
    return rank_.send(to, tag, out, request);
  }
  Status receive(int from, int tag, std::span<std::byte> in, Request& request) {
    MQ_TRY(live());
    return rank_.receive(from, tag, in, request);
  }
  Status test(Request& request, bool& done, std::size_t& received_bytes) {
    const bool peer_gone =
        life_.gone[static_cast<std::size_t>(request.peer)];  // before: it may still have sent
    MQ_TRY(rank_.test(request, done, received_bytes));
    if (done) return live();
    return peer_gone && request.polls_left < 0 ? Status{Code::mpi_failed, "a peer is gone"} : Status{};
  }
  void idle() {
    if (std::chrono::steady_clock::now() > life_.end) late_ = true;
    rank_.idle();
  }
  void busy() {}
  // Nothing came for so long that nothing will.
  bool late() const { return late_; }

 private:
  Status live() {
    ++operations_;
    if (left_ >= 0 && left_-- == 0) killed_ = true;
    return killed_ ? Status{Code::mpi_failed, "killed"} : Status{};
  }

  Loopback::Rank& rank_;
  Life& life_;
  int left_, operations_ = 0;
  bool killed_ = false, late_ = false;
};

static_assert(Comm<Mortal>);

// Agrees, then reduces; false if it did not end.
bool call(Mortal& comm, const Reduction& reduction, std::byte* scratch, Status& status) {
  Agreement<Mortal> agreement;
  Execution<Mortal> execution;
  Tally tally;
  const auto step = [&]() -> Status {
    bool moved = false;
    std::uint64_t messages = 0;
    if (!agreement.done()) {
      MQ_TRY(agreement.advance(comm, messages, moved));
      if (!agreement.done()) return {};
      MQ_TRY(agreed_status(agreement.summary()));
      execution.prepare(reduction, scratch);
      return execution.start(comm);
    }
    return execution.advance(comm, tally, moved);
  };
  status = agreement.start(comm, {}, {}, 1 << 20);
  for (bool begun = false; status.ok() && !(begun && execution.done()); comm.idle()) {
    if (comm.late()) return false;
    status = step();
    begun = agreement.done();
  }
  if (status.ok()) status = execution.failure();
  return true;
}

struct Fate {
  int rank = 0, at = -1;
};

struct Ends {
  Vectors<float> output;
  std::vector<Status> status;
  std::vector<char> ended, killed;
  std::vector<int> operations;
};

Ends run_mortal(const Scene& scene, const Vectors<float>& input, Fate fate) {
  const auto ranks = static_cast<std::size_t>(scene.ranks);
  const std::size_t n = input[0].size();
  Ends ends{Vectors<float>(ranks, std::vector<float>(n)), std::vector<Status>(ranks),
            std::vector<char>(ranks), std::vector<char>(ranks), std::vector<int>(ranks)};
  Life life(scene.ranks);
  Loopback net(scene.ranks, scene.delay_seed);
  net.run_in_turn([&](Loopback::Rank& rank) {
    const auto r = static_cast<std::size_t>(rank.rank());
    Mortal comm(rank, life, fate.rank == rank.rank() ? fate.at : -1);
    const Plan plan = scene.plan_of(comm.rank());
    const PlanIndex plan_index = index_of(plan);
    Reduction reduction;
    reduction.plan = &plan;
    reduction.plan_index = &plan_index;
    reduction.codec = scene.codec;
    reduction.ops = scene.codec->ops(reduction.element, kernels::best_isa());
    reduction.raw_ops = plan_index.raw ? raw_codec().ops(reduction.element, kernels::best_isa()) : nullptr;
    reduction.convert = kernels::convert(reduction.element, kernels::best_isa());
    reduction.params = scene.params();
    reduction.count = n;
    reduction.output = reinterpret_cast<std::byte*>(ends.output[r].data());
    reduction.input = reinterpret_cast<const std::byte*>(input[r].data());
    reduction.rank = comm.rank();
    reduction.size = comm.size();
    HostBackend backend;
    reduction.backend = &backend;
    std::vector<std::byte> scratch(Execution<Mortal>::scratch_bytes(reduction));
    ends.ended[r] = call(comm, reduction, scratch.data(), ends.status[r]);
    if (!ends.status[r].ok()) life.gone[r] = true;
    ends.killed[r] = comm.killed();
    ends.operations[r] = comm.operations();
  });
  return ends;
}

// The others know that it is gone, or have what a sound run gives; nobody waits.
void expect_all_end(const Scene& scene, const Ends& ends, const Vectors<float>& sound, Fate fate) {
  const std::string where = scene.describe(sound[0].size()) + "rank " + std::to_string(fate.rank) +
                            " killed in operation " + std::to_string(fate.at) + ": ";
  for (std::size_t r = 0; r < sound.size(); ++r) {
    EXPECT_TRUE(ends.ended[r]) << where << "rank " << r << " waits for ever";
    if (ends.killed[r]) continue;
    if (ends.status[r].ok())
      EXPECT_TRUE(same_bits(ends.output[r], sound[r])) << where << "rank " << r << " has a wrong sum";
    else
      EXPECT_FALSE(ends.status[r].text().empty()) << where << "rank " << r << " says nothing";
  }
}

TEST(Kill, a_rank_that_is_killed_at_any_step_leaves_nobody_waiting_and_no_wrong_sum) {
  std::mt19937_64 random(seed());
  for (const char* const codec : {"raw", "onebit", "topk"})
    for (const PlanRow& plan : plans())
      for (const int ranks : {2, 3, 4, 5, 6})  // 5: a grid with a short row
        for (const int per_node : node_sizes(plan, ranks)) {
          Scene scene{kernels::find_codec(codec), &plan, ranks};
          scene.feedback = false;
          scene.per_node = per_node;
          const auto x = inputs<float>(ranks, 700);
          const Ends sound = run_mortal(scene, x, {});
          expect_all_end(scene, sound, sound.output, {});
          for (const Status& status : sound.status) ASSERT_TRUE(status.ok()) << status.text();
          for (int trial = 0; trial < 12; ++trial) {
            Fate fate{static_cast<int>(random() % static_cast<std::uint64_t>(ranks)), 0};
            const int all = sound.operations[static_cast<std::size_t>(fate.rank)];
            fate.at = static_cast<int>(random() % static_cast<std::uint64_t>(all));
            scene.delay_seed = random() % 2 * random();
            const Ends ends = run_mortal(scene, x, fate);
            EXPECT_TRUE(ends.killed[static_cast<std::size_t>(fate.rank)]) << "this run has fewer steps";
            expect_all_end(scene, ends, sound.output, fate);
          }
        }
}

}  // namespace
}  // namespace mq::test
