// The link meter: on simulated networks it finds their numbers in little time, all ranks get the same
// numbers, and a rank that is missing is an error.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "bench/research/simulate/world.hpp"
#include "mpi_quant/base/link_meter.hpp"
#include "tests/engine/loopback.hpp"

namespace mq::test {
namespace {

template <class C>
Status measure(C& comm, double timeout_s, std::vector<std::byte>& memory, LinkModel& link) {
  const Deadline deadline(timeout_s);
  Traffic traffic;
  memory.resize(kLinkMemory);
  return LinkMeter<C>(comm, 0, deadline, traffic, memory).measure(link);
}

void expect_equal(const std::vector<LinkModel>& links, const std::string& where) {
  for (const LinkModel& link : links) {
    EXPECT_EQ(link.latency_s, links[0].latency_s) << where;
    EXPECT_EQ(link.overhead_s, links[0].overhead_s) << where;
    EXPECT_EQ(link.beta_s, links[0].beta_s) << where;
    EXPECT_EQ(link.residual, links[0].residual) << where;
  }
}

// The model that all ranks find on a simulated network, and how long that takes.
LinkModel found(int ranks, const sim::Network& network, double& took_s) {
  std::vector<LinkModel> links(static_cast<std::size_t>(ranks));
  sim::World world(ranks, network);
  const Status status = world.run([&](sim::SimComm& comm) {
    std::vector<std::byte> memory;
    const Status measured = measure(comm, 0, memory, links[static_cast<std::size_t>(comm.rank())]);
    EXPECT_TRUE(measured.ok()) << measured.text();
  });
  EXPECT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(world.leaked(), 0u);
  expect_equal(links, std::to_string(ranks) + " ranks");
  took_s = 0;
  for (int r = 0; r < ranks; ++r) took_s = std::max(took_s, world.counts(r).end_s);
  return links[0];
}

struct Place {
  double latency_s, overhead_s, bandwidth_Bps, copy_s;
};

TEST(LinkMeter, finds_latency_overhead_and_bandwidth_of_a_simulated_network) {
  for (const Place& place : {Place{20e-6, 1e-6, 1.25e9, 0}, Place{2e-6, 0.4e-6, 12.5e9, 1 / 5e9},
                             Place{50e-6, 10e-6, 117.5e6, 1 / 4e9}})
    for (const int ranks : {2, 3, 4, 7, 16}) {
      sim::Network n;
      n.latency_s = place.latency_s;
      n.overhead_s = place.overhead_s;
      n.bandwidth_Bps = place.bandwidth_Bps;
      n.copy_s = place.copy_s;
      double took_s = 0;
      const LinkModel link = found(ranks, n, took_s);
      const double byte_s = std::max(1 / n.bandwidth_Bps, 2 * n.copy_s);
      EXPECT_NEAR(link.alpha_s(), n.latency_s + 2 * n.overhead_s, 0.05 * n.latency_s) << ranks;
      EXPECT_NEAR(link.overhead_s, n.overhead_s, 0.1 * n.overhead_s) << ranks;
      EXPECT_NEAR(link.beta_s, byte_s, 0.05 * byte_s) << ranks;
      EXPECT_LT(link.residual, 0.2) << ranks;
    }
}

TEST(LinkMeter, takes_less_than_50_ms_on_networks_of_100_Mbit_and_more) {
  for (const Place& place :
       {Place{0.5e-6, 0.1e-6, 20e9, 0}, Place{50e-6, 10e-6, 117.5e6, 0}, Place{500e-6, 20e-6, 12e6, 0}})
    for (const int ranks : {2, 5, 32}) {
      sim::Network n;
      n.latency_s = place.latency_s;
      n.overhead_s = place.overhead_s;
      n.bandwidth_Bps = place.bandwidth_Bps;
      double took_s = 0;
      (void)found(ranks, n, took_s);
      EXPECT_LT(took_s, 0.05) << place.bandwidth_Bps << ", " << ranks << " ranks";
    }
}

TEST(LinkMeter, gives_all_ranks_the_same_whatever_the_order_of_messages) {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    std::vector<LinkModel> links(static_cast<std::size_t>(ranks));
    Loopback net(ranks, 7);
    net.run([&](Loopback::Rank& comm) {
      std::vector<std::byte> memory;
      EXPECT_TRUE(measure(comm, 0, memory, links[static_cast<std::size_t>(comm.rank())]).ok());
    });
    expect_equal(links, std::to_string(ranks) + " ranks");
    EXPECT_EQ(net.leaked(), 0u) << ranks;
  }
}

TEST(LinkMeter, a_rank_that_does_not_take_part_is_an_error_on_all_others) {
  for (const int ranks : {2, 5}) {
    Loopback net(ranks);
    std::vector<std::vector<std::byte>> memory(static_cast<std::size_t>(ranks));
    net.run([&](Loopback::Rank& comm) {
      if (comm.rank() == 1) return;
      LinkModel link;
      const Status status = measure(comm, 0.1, memory[static_cast<std::size_t>(comm.rank())], link);
      EXPECT_EQ(status.code(), Code::timed_out) << ranks;
    });
  }
}

TEST(LinkMeter, the_greatest_of_all_ranks_is_known_to_all_ranks) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    Loopback net(ranks, 3);
    net.run([&](Loopback::Rank& comm) {
      const Deadline never;
      Traffic traffic;
      Exchange exchange(comm, never, traffic);
      double values[]{static_cast<double>(comm.rank()), static_cast<double>(-comm.rank())};
      std::array<std::byte, 2 * sizeof values> buffer{};
      EXPECT_TRUE(max_over_ranks(exchange, 5, std::span(values), buffer).ok());
      EXPECT_EQ(values[0], ranks - 1);
      EXPECT_EQ(values[1], 0);
    });
    EXPECT_EQ(net.leaked(), 0u) << ranks;
  }
}

}  // namespace
}  // namespace mq::test
