// The network of a simulation, as numbers. It is apart from the world that runs on it, so that options and
// result files can name it.
//
// The model is LogGOPS (Hoefler, Schneider, Lumsdaine 2010; LogGP: Alexandrov, Ionescu, Schauser, Scheiman
// 1995) with ports that are queues. A message costs its sender and its receiver `overhead` of their
// processor, and `copy` for each of its bytes, as where the kernel copies it for TCP. Bytes leave as they are
// copied, and a receiver that waits copies them as they come. A message leaves the port of its node when all
// earlier ones have left, and occupies it for `gap` and its bytes over `bandwidth`. Its first byte is at the
// other node's port `latency` later, and occupies that port as long. Each port sends and receives at the same
// time. `burst` bytes pass a port at once if nothing has used it for as long as they take: a token bucket, as
// of the links of scripts/lab. Ranks with the same rank / per_node share a node and its port. Messages inside
// a node use the node's memory instead.
//
// With oversubscription above 1 the nodes hang on switches of `nodes_per_switch` nodes, which are joined by
// one switch above them. A message between two switches also goes up one link and down another. Such a link
// has the bandwidth of its nodes' ports together, over the oversubscription.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "mpi_quant/base/status.hpp"

namespace mq::sim {

struct Network {
  double latency_s = 20e-6;
  double overhead_s = 1e-6;
  double gap_s = 0;
  double copy_s = 0;  // a byte
  double burst_bytes = 0;
  double bandwidth_Bps = 1.25e9;
  int per_node = 1;
  double node_latency_s = 0.5e-6;
  double node_bandwidth_Bps = 8e9;  // of all messages inside a node together
  double oversubscription = 1;      // at least 1
  int nodes_per_switch = 16;
};

// "LATENCY/OVERHEAD/BANDWIDTH[/GAP[/COPY[/BURST]]]", such as "20us/1us/1Gbit/0us/4GB/32KiB", or the name of a
// preset. Times are a number with ns, us, ms or s; bandwidths, also COPY, a number with Mbit, Gbit, MB or GB
// (a second); BURST one with B, KiB or MiB. Sets those members and no other; without GAP and COPY they are
// free, and without BURST there is none. An error changes nothing.
Status parse_link(std::string_view text, Network& network);
// "LATENCY/BANDWIDTH" of messages inside a node.
Status parse_node(std::string_view text, Network& network);
// As many times as there are values, such as "2ns/2ns/3ns" for three. An error changes nothing.
Status parse_times(std::string_view text, std::span<double> values);
// The presets, a line each, for --help.
std::string link_presets();
// The reason why no message could be simulated on it; ok if there is none.
Status check(const Network& network);

}  // namespace mq::sim
