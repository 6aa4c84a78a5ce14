// The union allreduce when messages or ranks fail: errors in time, no waiting for ever, no wrong result taken
// for a right one.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/sparse_allreduce/union_scene.hpp"

namespace mq::sparse {
namespace {

using test::Loopback;
using test::UnionCase;

// dense is left out where ranks do not all get as far as the caller's reduction, which would wait for them.
struct Way {
  Algorithm algorithm;
  bool is_long = false;  // an allgather whose headers are messages of their own
};
constexpr Way kOwn[] = {{Algorithm::allgather},
                        {Algorithm::allgather, true},
                        {Algorithm::split},
                        {Algorithm::recursive_doubling}};
constexpr int kHeaderTag = 5, kPayloads = 6;  // tags
int headers_of(Way way) {
  return way.algorithm == Algorithm::allgather && !way.is_long ? kPayloads : kHeaderTag;
}

UnionCase small_case(Way way, int ranks) {
  UnionCase c{.algorithm = way.algorithm, .ranks = ranks, .size = 6000, .density = .02};
  if (way.is_long) {
    c.size = 16000;
    c.density = .7;
  }
  EXPECT_EQ(short_stream_room({kernels::Element::f32, c.op, 1},
                              static_cast<std::uint64_t>(c.size * c.density), ranks) == 0,
            way.is_long);
  c.timeout_s = 20;  // never reached in tests of damage: nobody waits for what will not come
  return c;
}
// Runs a case whose message number `victim` is damaged; ranks that end well have the right result. Gives how
// many ranks ended with an error.
template <class T = float>
int errors_with_damage(const UnionCase& c, int tag, int victim,
                       const std::function<void(Loopback::Message&)>& damage, bool results_hold = true) {
  const auto inputs = test::union_inputs<T>(c);
  const auto expected = test::union_expected<T>(c, inputs);
  std::atomic<int> seen{0};
  std::size_t leaked = 0;
  const auto outcomes =
      test::run_union<T>(c, inputs, &leaked, [&](int, int, int of, Loopback::Message& message) {
        if (of == tag && !message.empty() && seen++ == victim) damage(message);
      });
  int errors = 0;
  for (const auto& out : outcomes) {
    EXPECT_NE(out.status.code(), Code::timed_out) << test::describe(c) << " message " << victim;
    errors += !out.status.ok();
    if (!out.status.ok() || !results_hold) continue;
    EXPECT_TRUE(test::same_bits(out.values, expected.values)) << test::describe(c) << " message " << victim;
    EXPECT_TRUE(test::same_bits(out.indices, expected.indices)) << test::describe(c);
  }
  EXPECT_EQ(leaked, 0u) << test::describe(c) << " message " << victim;
  return seen > victim ? errors : -1;  // -1: there were fewer messages
}

TEST(UnionFaults, ATruncatedPayloadIsAnErrorAndNobodyWaits) {
  for (const Way way : kOwn)
    for (const int ranks : {2, 3, 4, 5, 8})
      for (int victim = 0; victim < 24; ++victim) {
        const int errors = errors_with_damage(small_case(way, ranks), kPayloads, victim, [&](auto& message) {
          message.resize(message.size() - 1 - message.size() / 2);
        });
        if (errors < 0) break;
        EXPECT_GT(errors, 0) << static_cast<int>(way.algorithm) << " ranks " << ranks << " message "
                             << victim;
      }
}

TEST(UnionFaults, APayloadThatIsTooLongIsAnErrorAndNobodyWaits) {
  for (const Way way : kOwn)
    for (int victim = 0; victim < 10; ++victim)
      EXPECT_NE(errors_with_damage(small_case(way, 5), kPayloads, victim,
                                   [](auto& message) { message.resize(message.size() + 100); }),
                0);
}

TEST(UnionFaults, AHeaderWithAnyBitWrongNeverMakesAnyoneWait) {
  std::mt19937_64 random(3);
  for (const Way way : kOwn)
    for (const int ranks : {2, 3, 5})
      for (std::size_t byte = 0; byte < sizeof(Header); ++byte) {
        // The values a header speaks of are not protected: a count may lie and the payload still parse.
        errors_with_damage(
            small_case(way, ranks), headers_of(way), static_cast<int>(random() % 6),
            [&](auto& message) { message[byte] ^= std::byte(1u << random() % 8); }, false);
      }
}

TEST(UnionFaults, AForeignHeaderIsAnError) {
  for (const Way way : kOwn)
    for (const std::size_t byte : {std::size_t{0}, std::size_t{4}, std::size_t{8}, std::size_t{16}})
      EXPECT_GT(errors_with_damage(small_case(way, 4), headers_of(way), 2,
                                   [&](auto& message) { message[byte] ^= std::byte{64}; }),
                0);
}

TEST(UnionFaults, ARankInTroubleIsAnErrorOnEveryRankThatDependsOnIt) {
  for (const Way way : kOwn)
    for (const int ranks : {2, 3, 5, 8}) {
      UnionCase c = small_case(way, ranks);
      const auto inputs = test::union_inputs<float>(c);
      std::atomic<int> seen{0};
      std::size_t leaked = 1;
      // As if the last rank had no memory from the start: the first headers it sends say so.
      const auto outcomes =
          test::run_union<float>(c, inputs, &leaked, [&](int from, int, int tag, auto& message) {
            if (from != ranks - 1) return;
            const bool is_first = headers_of(way) == kPayloads && seen == 0;
            if (tag == kPayloads && !is_first) message.clear();
            if (is_first) message.resize(sizeof(Header));
            if (message.size() != sizeof(Header)) return;
            auto* const header = reinterpret_cast<Header*>(message.data());
            header->error_code = static_cast<std::uint16_t>(Code::no_memory);
            header->payload_bytes = 0;
            ++seen;
          });
      EXPECT_EQ(leaked, 0u);
      int failed = 0;
      for (const auto& out : outcomes) {
        EXPECT_NE(out.status.code(), Code::timed_out);
        failed += !out.status.ok();
      }
      EXPECT_GE(failed, ranks - 1) << test::describe(c);
    }
}

// All others know that a rank reported an error, and blame none for malformed messages.
TEST(UnionFaults, ARankWithoutMemoryIsReportedByAllOthers) {
  for (const bool is_long : {false, true})
    for (int ranks = 2; ranks < 10; ++ranks)
      for (int victim = 0; victim < ranks; ++victim) {
        const std::uint64_t n = is_long ? 12000 : 50;
        Loopback net(ranks, 3, nullptr);
        std::vector<Status> statuses(static_cast<std::size_t>(ranks));
        net.run([&](Loopback::Rank& comm) {
          std::vector<std::uint64_t> indices(n), all(3 * n);
          const std::vector<float> values(n, 1.0f);
          std::vector<float> sums(3 * n);
          for (std::size_t i = 0; i < n; ++i) indices[i] = i * 3 + static_cast<std::size_t>(comm.rank()) % 3;
          UnionJob job;
          job.size = 3 * n;
          job.list = {indices, reinterpret_cast<const std::byte*>(values.data())};
          job.algorithm = Algorithm::allgather;
          job.most_entries = n;
          job.first_tag = 5;
          job.timeout_s = 20;
          job.output = {false, all.data(), reinterpret_cast<std::byte*>(sums.data()), 3 * n};
          Workspace memory;
          Traffic traffic;
          UnionResult result;
          UnionCall call(comm, job, memory, traffic);
          if (comm.rank() == victim) call.note({Code::no_memory, "no memory"});
          const auto dense = [](void*, std::uint64_t) { return Status{}; };
          statuses[static_cast<std::size_t>(comm.rank())] = union_allreduce(call, dense, result);
        });
        EXPECT_EQ(net.leaked(), 0u);
        for (int r = 0; r < ranks; ++r)
          EXPECT_EQ(statuses[static_cast<std::size_t>(r)].code(),
                    r == victim ? Code::no_memory : Code::peer_failed)
              << is_long << " ranks " << ranks << " victim " << victim << " rank " << r << " "
              << statuses[static_cast<std::size_t>(r)].text();
      }
}

TEST(UnionFaults, RandomPayloadsNeverCrash) {
  std::mt19937_64 random(5);
  for (const Way way : kOwn)
    for (int trial = 0; trial < 30; ++trial) {
      UnionCase c = small_case(way, 3);
      c.density = trial % 2 ? .02 : .7;
      errors_with_damage(
          c, kPayloads, trial % 8,
          [&](auto& message) {
            for (std::size_t i = trial % 3 ? message.size() / 2 : 0; i < message.size(); ++i)
              message[i] = std::byte(random());
          },
          false);
    }
}

TEST(UnionFaults, ADeadRankIsATimeOutAndNeverAPartialSum) {
  for (const Way way : kOwn)
    for (const int dead : {0, 2, 4}) {
      UnionCase c = small_case(way, 5);
      c.timeout_s = .2;
      c.dead = dead;
      const auto inputs = test::union_inputs<float>(c);
      const double start = now_s();
      const auto outcomes = test::run_union(c, inputs);
      EXPECT_LT(now_s() - start, 5);
      for (int r = 0; r < c.ranks; ++r)
        if (r != dead) {
          EXPECT_EQ(outcomes[static_cast<std::size_t>(r)].status.code(), Code::timed_out)
              << test::describe(c) << " rank " << r;
        }
    }
}

TEST(UnionFaults, DamagedPresenceIsAnErrorAndTheVectorsAreReducedAllTheSame) {
  for (const int ranks : {2, 3, 5})
    for (const int tag : {kHeaderTag, kPayloads})
      for (int victim = 0; victim < 6; ++victim) {
        const int errors = errors_with_damage(
            small_case({Algorithm::dense}, ranks), tag, victim,
            [&](auto& message) {
              if (tag == kHeaderTag)
                message[0] ^= std::byte{1};
              else
                message.resize(message.size() / 2);
            },
            false);
        EXPECT_NE(errors, 0) << ranks << " " << victim;
      }
}

}  // namespace
}  // namespace mq::sparse
