// The simulated network: times where a formula is exact, errors in place of hangs, and the words of links.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "bench/research/simulate/world.hpp"
#include "mpi_quant/engine/agree.hpp"
#include "mpi_quant/plan/plan.hpp"
#include "tests/bench/bench_simulate_scene.hpp"

namespace mq::sim {
namespace {

// AddressSanitizer takes the stacks of fibers for wrong ones when something is thrown.
constexpr bool kThrows = !test::kSanitized;

// Waits for a request.
Status finish(SimComm& comm, SimComm::Request& request, std::size_t& bytes) {
  for (bool done = false;;) {
    MQ_TRY(comm.test(request, done, bytes));
    if (done) return {};
    comm.idle();
  }
}

// Sends and receives one message each; `to` or `from` may be kNobody.
Status exchange(SimComm& comm, int to, int from, std::size_t bytes, int tag = 0) {
  std::vector<std::byte> out(bytes), in(bytes);
  SimComm::Request sent, received;
  std::size_t n = 0;
  if (from != kNobody) MQ_TRY(comm.receive(from, tag, in, received));
  if (to != kNobody) MQ_TRY(comm.send(to, tag, out, sent));
  if (from != kNobody) MQ_TRY(finish(comm, received, n));
  return to != kNobody ? finish(comm, sent, n) : Status{};
}

double last_end(const World& world) {
  double end = 0;
  for (int r = 0; r < world.size(); ++r) end = std::max(end, world.counts(r).end_s);
  return end;
}

TEST(SimulatedNetwork, a_ring_takes_a_message_a_step) {
  Network n = network();
  n.copy_s = 0.3e-9;
  constexpr int kRanks = 7, kBytes = 5000;
  World world(kRanks, n);
  ASSERT_TRUE(world
                  .run([](SimComm& comm) {
                    for (int step = 1; step < kRanks; ++step)
                      EXPECT_TRUE(exchange(comm, (comm.rank() + 1) % kRanks,
                                           (comm.rank() + kRanks - 1) % kRanks, kBytes)
                                      .ok());
                  })
                  .ok());
  EXPECT_NEAR(last_end(world), (kRanks - 1) * message_s(n, kBytes), 1e-15);
  EXPECT_EQ(world.leaked(), 0u);
}

// Each of the first half of the ranks sends to one of the second half, at the same time.
double half_to_half(int ranks, const Network& n, std::size_t bytes) {
  World world(ranks, n);
  const Status status = world.run([&](SimComm& comm) {
    const bool sends = comm.rank() < ranks / 2;
    EXPECT_TRUE(exchange(comm, sends ? comm.rank() + ranks / 2 : kNobody,
                         sends ? kNobody : comm.rank() - ranks / 2, bytes)
                    .ok());
  });
  EXPECT_TRUE(status.ok()) << status.text();
  return last_end(world);
}

TEST(SimulatedNetwork, a_processor_that_copies_slowly_copies_what_it_sends_and_what_it_receives) {
  Network n = network();
  n.copy_s = 2e-9;  // a port takes 1 ns
  const double copy_s = 5000 * n.copy_s;
  World world(2, n);
  ASSERT_TRUE(world
                  .run([](SimComm& comm) {
                    EXPECT_TRUE(exchange(comm, 1 - comm.rank(), 1 - comm.rank(), 5000).ok());
                  })
                  .ok());
  // It waits for the latency when it has copied its own message, and copies for as long then.
  EXPECT_NEAR(last_end(world), 2 * n.overhead_s + 2 * copy_s, 1e-15);
  EXPECT_NEAR(half_to_half(2, n, 5000), 2 * n.overhead_s + n.latency_s + copy_s, 1e-15) << "one way";
}

// A rank that computes while a message comes copies all of it afterwards, and the time in which it waited
// serves once.
TEST(SimulatedNetwork, only_a_rank_that_waits_copies_meanwhile) {
  Network n = network();
  n.copy_s = 0.5e-9;
  World world(2, n);
  constexpr std::size_t kBytes = 4000;
  constexpr double kWork = 50e-6;
  ASSERT_TRUE(world
                  .run([&](SimComm& comm) {
                    const bool sends = comm.rank() == 0;
                    if (!sends) comm.compute(kWork);
                    EXPECT_TRUE(exchange(comm, sends ? 1 : kNobody, sends ? kNobody : 0, kBytes, 1).ok());
                    EXPECT_TRUE(exchange(comm, sends ? 1 : kNobody, sends ? kNobody : 0, kBytes, 2).ok());
                  })
                  .ok());
  EXPECT_NEAR(world.counts(1).end_s, kWork + 2 * (n.overhead_s + n.copy_s * kBytes), 1e-15);
}

TEST(SimulatedNetwork, a_burst_passes_at_once) {
  Network n = network();
  n.burst_bytes = 2000;
  EXPECT_NEAR(half_to_half(2, n, 1500), 2 * n.overhead_s + n.latency_s, 1e-15);
  EXPECT_NEAR(half_to_half(2, n, 5000), message_s(n, 3000), 1e-15);
  // The second message finds the bucket empty, the third one full again.
  World world(2, n);
  constexpr double kLater = 100e-6;
  double end_s = 0;
  ASSERT_TRUE(world
                  .run([&](SimComm& comm) {
                    const bool sends = comm.rank() == 0;
                    const auto send = [&](int tag) {
                      EXPECT_TRUE(exchange(comm, sends ? 1 : kNobody, sends ? kNobody : 0, 5000, tag).ok());
                    };
                    send(1);
                    send(2);
                    if (!sends) end_s = comm.now_s();
                    if (sends) comm.compute(kLater - comm.now_s());
                    send(3);
                  })
                  .ok());
  EXPECT_NEAR(end_s, message_s(n, 8000), 1e-15) << "what the pause between them lets in is used";
  EXPECT_NEAR(world.counts(1).end_s, kLater + message_s(n, 3000), 1e-15);
}

TEST(SimulatedNetwork, ranks_of_a_node_share_its_port) {
  Network n = network();
  EXPECT_NEAR(half_to_half(8, n, 1000), message_s(n, 1000), 1e-15);
  n.per_node = 4;
  EXPECT_NEAR(half_to_half(8, n, 1000), message_s(n, 4000), 1e-15);
  n.gap_s = 0.4e-6;
  EXPECT_NEAR(half_to_half(8, n, 1000), message_s(n, 4000) + 3 * n.gap_s, 1e-15);
  n.per_node = 8;  // all in one node, whose memory they share
  EXPECT_NEAR(half_to_half(8, n, 1000), 2 * n.overhead_s + 4000 / 5e9 + n.node_latency_s, 1e-15);
}

TEST(SimulatedNetwork, an_oversubscribed_tree_is_slower_between_switches_only) {
  Network n = network();
  n.nodes_per_switch = 2;
  EXPECT_NEAR(half_to_half(4, n, 1000), message_s(n, 1000), 1e-15);
  n.oversubscription = 2;  // the two nodes of a switch share a link as fast as one port
  EXPECT_NEAR(half_to_half(4, n, 1000), message_s(n, 2000), 1e-15);
  n.oversubscription = 8;
  EXPECT_NEAR(half_to_half(4, n, 1000), message_s(n, 8000), 1e-15);
  n.nodes_per_switch = 4;  // one switch for all
  EXPECT_NEAR(half_to_half(4, n, 1000), message_s(n, 1000), 1e-15);
}

TEST(SimulatedNetwork, computing_delays_a_message_and_hides_the_wire) {
  const Network n = network();
  World world(2, n);
  constexpr double kWork = 50e-6;
  ASSERT_TRUE(world
                  .run([&](SimComm& comm) {
                    if (comm.rank() == 0) comm.compute(kWork);
                    EXPECT_TRUE(exchange(comm, 1 - comm.rank(), 1 - comm.rank(), 1000).ok());
                  })
                  .ok());
  EXPECT_NEAR(world.counts(1).end_s, kWork + message_s(n, 1000), 1e-15);
  // Rank 1's message is there when rank 0 has sent its own. It waits for its own to leave.
  EXPECT_NEAR(world.counts(0).end_s, kWork + 2 * n.overhead_s + 1000 / n.bandwidth_Bps - n.overhead_s, 1e-15);
}

TEST(SimulatedNetwork, tags_that_do_not_match_are_an_error) {
  World world(2, network());
  std::vector<Status> status(2);
  const Status all = world.run([&](SimComm& comm) {
    status[static_cast<std::size_t>(comm.rank())] =
        exchange(comm, comm.rank() == 0 ? 1 : kNobody, comm.rank() == 1 ? 0 : kNobody, 8, comm.rank());
  });
  EXPECT_TRUE(status[0].ok());  // its message has left
  EXPECT_EQ(status[1].code(), Code::timed_out);
  EXPECT_EQ(
      all.text(),
      "the ranks wait for ever; rank 1 waits for a message from rank 0 with tag 1; rank 1 did not take a "
      "message from rank 0 with tag 0");
  EXPECT_EQ(world.leaked(), 2u);
}

TEST(SimulatedNetwork, ranks_whose_calls_differ_learn_of_it) {
  const int ranks = many_ranks();
  World world(ranks, network());
  int told = 0;
  const Status all = world.run([&](SimComm& comm) {
    Signature mine;
    mine.count = comm.rank() == 17 ? 8 : 9;
    Agreement<SimComm> agreement;
    std::uint64_t messages = 0;
    ASSERT_TRUE(agreement.start(comm, mine, {}, 999).ok());
    for (bool moved = false; !agreement.done(); moved = false) {
      ASSERT_TRUE(agreement.advance(comm, messages, moved).ok());
      if (!moved) comm.idle();
    }
    told += agreed_status(agreement.summary()).code() == Code::mismatch;
  });
  EXPECT_TRUE(all.ok()) << all.text();
  EXPECT_EQ(told, ranks);
}

TEST(SimulatedNetwork, what_a_rank_throws_is_thrown) {
  if (!kThrows) GTEST_SKIP();
  World world(3, network());
  EXPECT_THROW((void)world.run([](SimComm& comm) {
    if (comm.rank() == 1) throw std::runtime_error("rank 1");
    (void)exchange(comm, kNobody, 1, 8);
  }),
               std::runtime_error);
}

// Its requests are gone with it: what comes later must not be written to them, nor to the buffers that they
// name.
TEST(SimulatedNetwork, a_rank_that_ends_early_is_sent_to_in_vain) {
  for (const bool throws : {false, true}) {
    if (throws && !kThrows) continue;
    Network n = network();
    n.per_node = 3;  // so that a message waits until it is its turn
    World world(3, n);
    std::vector<std::byte> in(64, std::byte{1});
    const auto body = [&](SimComm& comm) {
      if (comm.rank() != 1) return (void)exchange(comm, 1, kNobody, in.size());
      const auto received = std::make_unique<SimComm::Request>(), sent = std::make_unique<SimComm::Request>();
      (void)comm.receive(0, 0, in, *received);
      (void)comm.send(2, 0, in, *sent);
      if (throws) throw std::runtime_error("rank 1");
    };
    if (throws) {
      EXPECT_THROW((void)world.run(body), std::runtime_error);
    } else {
      EXPECT_TRUE(world.run(body).ok());
    }
    EXPECT_EQ(in, std::vector<std::byte>(64, std::byte{1}));
    EXPECT_EQ(world.leaked(), 4u);  // a receive, and the messages of all
  }
}

TEST(SimulatedNetwork, a_message_to_the_sender_is_refused) {
  World world(2, network());
  ASSERT_TRUE(world
                  .run([](SimComm& comm) {
                    SimComm::Request request;
                    EXPECT_EQ(comm.send(comm.rank(), 0, {}, request).code(), Code::bad_argument);
                  })
                  .ok());
}

// Two messages of different lengths from each rank to each other one, all under way at once.
Status all_to_all(SimComm& comm) {
  const int p = comm.size();
  const auto count = static_cast<std::size_t>(2 * p);
  std::vector<std::byte> out(20000), in(out.size());
  std::vector<SimComm::Request> sent(count), received(count);
  std::size_t bytes = 0;
  for (int i = 0; i < 2 * p; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (i % p == 0) continue;
    MQ_TRY(comm.receive((comm.rank() + 2 * p - i) % p, i, in, received[at]));
    const std::size_t size = 100 + 157 * (7 * at + static_cast<std::size_t>(comm.rank())) % 19000;
    MQ_TRY(comm.send((comm.rank() + i) % p, i, std::span(out).first(size), sent[at]));
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (i % static_cast<std::size_t>(p) == 0) continue;
    MQ_TRY(finish(comm, received[i], bytes));
    MQ_TRY(finish(comm, sent[i], bytes));
  }
  return {};
}

// Also on networks with shared ports and switches.
TEST(SimulatedNetwork, how_far_a_sender_is_ahead_changes_no_time) {
  for (const int per_node : {1, 4})
    for (const double oversubscription : {1.0, 3.0}) {
      Network n = network();
      n.per_node = per_node;
      n.nodes_per_switch = 4;
      n.oversubscription = oversubscription;
      n.copy_s = 0.3e-9;
      std::vector<double> first;
      for (const int most_ahead : {1, 5, 256}) {
        World world(32, n, nullptr, {}, most_ahead);
        ASSERT_TRUE(world.run([](SimComm& comm) { EXPECT_TRUE(all_to_all(comm).ok()); }).ok());
        std::vector<double> ends;
        for (int r = 0; r < world.size(); ++r) ends.push_back(world.counts(r).end_s);
        if (first.empty()) first = ends;
        EXPECT_EQ(ends, first) << per_node << " ranks a node, " << oversubscription << ", " << most_ahead;
      }
    }
}

TEST(SimulatedNetwork, a_message_longer_than_the_room_for_it_says_so) {
  World world(2, network());
  ASSERT_TRUE(world
                  .run([](SimComm& comm) {
                    std::vector<std::byte> buffer(100, std::byte{7});
                    SimComm::Request request;
                    std::size_t bytes = 0;
                    if (comm.rank() == 0) {
                      ASSERT_TRUE(comm.send(1, 0, buffer, request).ok());
                    } else {
                      ASSERT_TRUE(comm.receive(0, 0, std::span(buffer).first(10), request).ok());
                    }
                    ASSERT_TRUE(finish(comm, request, bytes).ok());
                    EXPECT_EQ(bytes, comm.rank() == 0 ? 0u : 100u);
                  })
                  .ok());
}

TEST(SimulatedNetwork, links_are_read_and_refused) {
  Network n;
  ASSERT_TRUE(parse_link("20us/700ns/10Gbit/0.1us/4GB", n).ok());
  EXPECT_DOUBLE_EQ(n.latency_s, 20e-6);
  EXPECT_DOUBLE_EQ(n.overhead_s, 700e-9);
  EXPECT_DOUBLE_EQ(n.bandwidth_Bps, 1.25e9);
  EXPECT_DOUBLE_EQ(n.gap_s, 0.1e-6);
  EXPECT_DOUBLE_EQ(n.copy_s, 0.25e-9);
  ASSERT_TRUE(parse_link("20us/700ns/10Gbit/0us/4GB/32KiB", n).ok());
  EXPECT_EQ(n.burst_bytes, 32768);
  ASSERT_TRUE(parse_link("20us/700ns/10Gbit", n).ok());
  EXPECT_EQ(n.burst_bytes, 0);
  EXPECT_EQ(n.gap_s, 0);
  EXPECT_EQ(n.copy_s, 0);
  ASSERT_TRUE(parse_node("100ns/5GB", n).ok());
  EXPECT_DOUBLE_EQ(n.node_latency_s, 1e-7);
  EXPECT_DOUBLE_EQ(n.node_bandwidth_Bps, 5e9);
  for (const char* const bad : {"", "100ns", "100ns/0GB", "100ns/5GB/1us"})
    EXPECT_FALSE(parse_node(bad, n).ok()) << bad;
  EXPECT_TRUE(parse_link("lab-1gbit", n).ok());
  for (const char* const bad :
       {"", "x", "20us", "20us/1us", "20/1us/1Gbit", "20us/1us/1Gb", "20us/1us/0Gbit", "-1us/1us/1Gbit",
        "nanus/1us/1Gbit", "1us/1us/1Gbit/1us/1us", "1us/1us/1Gbit/1us/0GB", "1us/1us/1Gbit/1us/1GB/1",
        "1us/1us/1Gbit/1us/1GB/1KB", "1us/1us/1Gbit/1us/1GB/1B/1", "1us//1Gbit"})
    EXPECT_FALSE(parse_link(bad, n).ok()) << bad;
  EXPECT_TRUE(parse_link("lab-10gbit", n).ok());
  n.oversubscription = 0.5;
  EXPECT_FALSE(check(n).ok());
  n.oversubscription = 1;
  n.per_node = 0;
  EXPECT_FALSE(check(n).ok());
}

}  // namespace
}  // namespace mq::sim
