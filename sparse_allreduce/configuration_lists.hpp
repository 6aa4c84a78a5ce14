// The local work of the configuration phase, while index lists go down the butterfly. A rank cuts its lists,
// encodes the parts as payloads, decodes the parts of others, and merges them. The messages are in
// configuration_phase.hpp.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sparse_allreduce/butterfly.hpp"
#include "sparse_allreduce/exchange.hpp"
#include "sparse_allreduce/index_set.hpp"
#include "sparse_allreduce/network.hpp"
#include "sparse_allreduce/routes.hpp"
#include "sparse_allreduce/values.hpp"

namespace mq::sparse {

// Equal on all ranks.
struct KylixSettings {
  std::span<const int> degrees;  // valid for ranks / replicas ranks (check_degrees); empty: by the model
  Network network;               // input of the model
  Entry entry;                   // of the values to be reduced
  int replicas = 1;              // divides the number of ranks
  std::uint64_t call = 0;   // unique among all routes whose messages may still be in flight with these tags
  int first_tag = 0;        // of kKylixTags consecutive tags
  double timeout_s = 0;     // longest silence of a peer; 0: no limit
  bool keep_lists = false;  // needed by same_lists()
};

inline constexpr std::uint64_t kMostMessageBytes = 0x7fffffff;  // MPI counts are int

// What one member of a group and this rank send each other in one layer.
struct Link {
  std::span<std::byte> wire_out, wire_in;
  std::size_t header_got = 0, got = 0;  // bytes received
  bool announced = false;               // the header announced a payload
  bool same = false;                    // the in list equals the out list
  Indices out, in;                      // received lists, or this rank's own
  const std::byte* values = nullptr;
};

// Functions throw std::bad_alloc. They take memory from `scratch` and from kylix.memory.
class ConfigurationLists {
 public:
  ConfigurationLists(const KylixSettings& settings, Workspace& scratch, KylixRoutes& kylix)
      : settings_(settings), scratch_(scratch), kylix_(kylix) {}

  // `values` belong to the caller's out list and are aligned to the element; nullptr: lists only. They are
  // read until the down pass ends.
  void begin(const IndexSet& out, std::size_t out_given, const IndexSet& in, std::size_t in_given,
             const std::byte* values);
  void set_bounds(std::vector<std::uint64_t> bounds, std::span<const int> degrees);
  void cut(const Stage& stage, Layer& to, std::span<Link> links, std::span<Header> sent);
  // Checks the counts in a header. If they pass, reading the payload is safe.
  Status check_counts(const Stage& stage, const Header& header, int peer) const;
  // Decodes a payload. False: cut() cannot have written it.
  [[nodiscard]] bool read(const Stage& stage, const Header& header, Link& link);
  Status merge(Layer& to, std::span<const Link> links);
  void finish();

  Indices out() const { return out_; }
  Indices in() const { return in_; }
  const std::byte* values() const { return values_; }
  bool with_values() const { return with_values_; }
  std::uint64_t lists_hash() const { return lists_hash_; }
  const std::vector<std::uint64_t>& bounds() const { return bounds_; }

 private:
  Map kept(Map map);
  Indices kept(Indices list);
  void write(Link& link, const Part& part, Indices out, Indices in, Header& header);
  std::size_t value_bytes(std::size_t count) const;
  std::uint64_t bound(const Stage& stage, std::size_t side) const;
  Indices union_of_links(Layer& to, std::span<const Link> links, Indices Link::*list, Map Source::*map);

  const KylixSettings& settings_;
  Workspace& scratch_;
  KylixRoutes& kylix_;
  bool with_values_ = false;
  std::vector<std::uint64_t> bounds_;
  std::uint32_t bounds_hash_ = 0;
  std::uint64_t lists_hash_ = 0;
  Indices out_, in_;  // after the layers so far
  const std::byte* values_ = nullptr;
};

}  // namespace mq::sparse
