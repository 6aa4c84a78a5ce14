// What a rank does by itself while index lists go down the butterfly: cuts its lists and writes the parts as
// payloads, reads those of others, unites. Without messages, which are kylix_setup.hpp's.
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
struct KylixSetting {
  std::span<const int> degrees;  // that check_degrees(degrees, ranks / replicas) likes; empty: by the model
  Network network;               // that the model knows
  Entry entry;                   // of the values to come
  int replicas = 1;              // a divisor of the number of ranks
  std::uint64_t call = 0;        // of no other Kylix whose messages may still be under way with these tags
  int first_tag = 0;             // of kKylixTags
  double timeout_s = 0;          // for which a peer may be silent; 0: for ever
  bool keep_lists = false;       // for same_lists()
};

inline constexpr std::uint64_t kMostMessageBytes = 0x7fffffff;  // MPI counts are int

// What one member of a group and this rank send each other in one layer.
struct Link {
  std::span<std::byte> wire_out, wire_in;
  std::size_t header_got = 0, got = 0;  // bytes that came
  bool announced = false;               // a payload
  bool same = false;                    // the in list is the out list
  Indices out, in;                      // that came, or this rank's own
  const std::byte* values = nullptr;
};

// Functions throw std::bad_alloc; scratch and kylix.memory hold all that they make.
class Descent {
 public:
  Descent(const KylixSetting& setting, Workspace& scratch, Kylix& kylix)
      : setting_(setting), scratch_(scratch), kylix_(kylix) {}

  // Values of the caller's out list, aligned to the element; nullptr: lists alone. They are read as long as
  // the descent lasts.
  void begin(const IndexSet& out, std::size_t out_given, const IndexSet& in, std::size_t in_given,
             const std::byte* values);
  void set_bounds(std::vector<std::uint64_t> bounds, std::span<const int> degrees);
  void cut(const Stage& stage, Layer& to, std::span<Link> links, std::span<Header> sent);
  // Whether the counts in a header can be; anything that passes can be read without harm.
  Status check_counts(const Stage& stage, const Header& header, int peer) const;
  // False: not what cut() writes.
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
  Indices unite_all(Layer& to, std::span<const Link> links, Indices Link::*list, Map Source::*map);

  const KylixSetting& setting_;
  Workspace& scratch_;
  Kylix& kylix_;
  bool with_values_ = false;
  std::vector<std::uint64_t> bounds_;
  std::uint32_t bounds_hash_ = 0;
  std::uint64_t lists_hash_ = 0;
  Indices out_, in_;  // after the layers so far
  const std::byte* values_ = nullptr;
};

}  // namespace mq::sparse
