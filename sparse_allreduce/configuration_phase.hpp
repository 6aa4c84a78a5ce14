// The messages of the configuration phase: index lists go down the butterfly, with or without values, and the
// routes are made. kylix.hpp explains how to use it. This phase may allocate and wait; reductions along the
// routes (kylix_reduction.hpp) do neither.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "sparse_allreduce/configuration_lists.hpp"
#include "sparse_allreduce/degrees.hpp"
#include "sparse_allreduce/small_collectives.hpp"

namespace mq::sparse {

inline constexpr int kKylixTags = 8;
enum class KylixTag : int { list_stats, degrees, header, payload, replica, status, down, up };
inline int tag_of(int first, KylixTag tag) { return first + static_cast<int>(tag); }

// The step in a header is a layer's number times 4 plus one of these.
enum class KylixStep : std::uint32_t { lists, down, up };
inline std::uint32_t step_of(int layer, KylixStep step) {
  return static_cast<std::uint32_t>(layer) * 4 + static_cast<std::uint32_t>(step);
}
inline constexpr std::uint32_t kDegreesStep = 0x80000001, kReplicaStep = 0x80000002, kStatusStep = 0x80000003;

// One pass down. If a member function returns an error, the communication failed and is unusable. Any other
// error is kept as the local error until close(), and the schedule continues.
template <Comm C>
class ConfigurationPhase {
 public:
  ConfigurationPhase(C& comm, const KylixSettings& settings, Workspace& scratch, KylixRoutes& kylix,
                     Traffic& traffic)
      : exchange_(comm, deadline_, traffic),
        settings_(settings),
        scratch_(scratch),
        kylix_(kylix),
        lists_(settings, scratch, kylix) {
    const int each = comm.size() / settings.replicas;
    all_ranks_ = {0, comm.size(), comm.rank()};
    replica_ = {comm.rank() / each * each, each, comm.rank() % each};
  }

  // Sends the lists, with or without values of the caller's out list. The values must not change as long as
  // bottom_values() is used.
  Status down(const IndexSet& out, std::size_t out_given, const IndexSet& in, std::size_t in_given,
              const std::byte* values) {
    headers_ = scratch_.take<Header>(2);
    kylix_.ranks = all_ranks_.size;
    kylix_.replicas = settings_.replicas;
    kylix_.call = settings_.call;
    kylix_.first_tag = settings_.first_tag;
    attempt([&] { lists_.begin(out, out_given, in, in_given, values); });
    MQ_TRY(exchange_list_stats(out.indices, in.indices));
    for (const Stage& stage : stages_) MQ_TRY(layer(stage));
    attempt([&] { lists_.finish(); });
    return {};
  }

  // The values that down() has combined, for kylix.bottom_out entries, in `scratch`.
  const std::byte* bottom_values() const { return lists_.values(); }

  // Returns ok on all ranks, or an error on each. `more` is an error that the caller found meanwhile.
  Status close(const Status& more) {
    note(Status(more));
    MQ_TRY(compare_replicas());
    deadline_ = Deadline(settings_.timeout_s);
    return common_status(exchange_, all_ranks_, tag(KylixTag::status), settings_.call, kStatusStep,
                         local_error_, headers_);
  }

  const Status& local_error() const { return local_error_; }

 private:
  int tag(KylixTag t) const { return tag_of(settings_.first_tag, t); }
  void note(Status status) {
    if (local_error_.ok()) local_error_ = std::move(status);
  }
  template <class F>
  void attempt(const F& f) {
    if (!local_error_.ok()) return;
    try {
      f();
    } catch (const std::bad_alloc&) {
      note({Code::no_memory, "out of memory"});
    }
  }
  Status wait() {
    deadline_ = Deadline(settings_.timeout_s);
    return exchange_.wait();
  }

  // Sets the stages. There are none if degrees had to be chosen and any rank has an error.
  Status exchange_list_stats(Indices out, Indices in) {
    std::vector<int> degrees(settings_.degrees.begin(), settings_.degrees.end());
    const bool choose = degrees.empty();
    if (replica_.size == 1) {
      kylix_.degrees.assign(1, 1);
      lists_.set_bounds({0, kIndexLimit}, {});
      return {};
    }
    const ListStatsLayout shape(replica_.size, choose);
    std::span<std::uint64_t> blocks;
    attempt([&] {
      blocks = scratch_.take<std::uint64_t>(shape.words() * static_cast<std::size_t>(replica_.size));
      shape.write(out, in, blocks.first(shape.words()));
    });
    bool complete = false;
    deadline_ = Deadline(settings_.timeout_s);
    MQ_TRY(allgather(exchange_, replica_, tag(KylixTag::list_stats),
                     local_error_.ok() ? std::as_writable_bytes(blocks) : std::span<std::byte>{}, complete));
    if (!complete) note({Code::peer_failed, "another rank could not send its list statistics"});
    attempt([&] { decide(shape, blocks, degrees); });
    if (choose) {  // without degrees a rank cannot follow the schedule, so all must have them
      Status damage;
      Status all = common_status(exchange_, replica_, tag(KylixTag::degrees), settings_.call, kDegreesStep,
                                 local_error_, headers_, &damage);
      if (broken(all)) return all;
      const bool ended = !all.ok();
      note(std::move(all));
      note(std::move(damage));
      if (ended) return {};
    }
    stages_ = stages_of(degrees, replica_.size, replica_.me);
    kylix_.degrees = std::move(degrees);
    return {};
  }

  void decide(const ListStatsLayout& shape, std::span<const std::uint64_t> blocks,
              std::vector<int>& degrees) {
    ListStatsByRank all;
    all.out.resize(static_cast<std::size_t>(replica_.size));
    all.in.resize(all.out.size());
    for (std::size_t i = 0; i < all.out.size(); ++i) {
      // Sums must run over the ranks in one order.
      const std::size_t rank = (static_cast<std::size_t>(replica_.me) + i) % all.out.size();
      if (!shape.read(blocks.subspan(i * shape.words(), shape.words()), all.out[rank], all.in[rank]))
        return note({Code::bad_frame, "the list statistics of a rank are invalid"});
    }
    if (degrees.empty())
      degrees = choose_degrees(settings_.network, all, settings_.entry, lists_.with_values());
    lists_.set_bounds(balanced_bounds(all, degrees), degrees);
  }

  Status layer(const Stage& stage) {
    const std::size_t n = stage.members.size();
    std::vector<Link> links(n);
    const std::span<Header> sent = scratch_.take<Header>(n), came = scratch_.take<Header>(n);
    for (std::size_t j = 0; j < n; ++j) sent[j] = came[j] = Header{};
    Layer& to = kylix_.layers.emplace_back();
    to.number = stage.number;
    to.me = stage.me;
    for (const int member : stage.members) {
      to.parts.push_back({.peer = member});
      to.sources.push_back({.peer = member, .out = {}, .in = {}});
    }
    attempt([&] { lists_.cut(stage, to, links, sent); });
    for (std::size_t j = 0; j < n; ++j)
      worked(exchange_.comm(), Work::encode, sent[j].counts[0] + (links[j].same ? 0 : sent[j].counts[1]));
    for (const Header& header : sent)
      if (header.payload_bytes > kMostMessageBytes)
        note({Code::bad_argument, "a message would be longer than 2 GiB: use more ranks or shorter lists"});
    MQ_TRY(exchange_headers(stage, links, sent, came));
    MQ_TRY(exchange_payloads(stage, links, sent, came));
    attempt([&] {
      for (std::size_t j = 0; j < n; ++j)
        if (links[j].announced && !lists_.read(stage, came[j], links[j]))
          return note({Code::bad_frame, "a message is not a list of indices"});
      for (const Link& link : links) {
        const std::size_t entries = link.out.size() + (link.same ? 0 : link.in.size());
        if (link.announced) worked(exchange_.comm(), Work::decode, entries);
        worked(exchange_.comm(), Work::merge, entries);
      }
      note(lists_.merge(to, links));
    });
    return {};
  }

  // Each rank starts with a different peer, so that not all ranks send to the same one at once.
  template <class F>
  Status each_peer(const Stage& stage, const F& f) {
    const std::size_t n = stage.members.size();
    for (std::size_t i = 1; i < n; ++i) {
      const std::size_t j = (stage.me + i) % n;
      MQ_TRY(f(j, replica_.rank(stage.members[j])));
    }
    return {};
  }

  Status exchange_headers(const Stage& stage, std::span<Link> links, std::span<Header> sent,
                          std::span<Header> came) {
    for (Header& header : sent) {
      header.call = settings_.call;
      header.step = step_of(stage.number, KylixStep::lists);
      header.error_code = static_cast<std::uint16_t>(local_error_.code());
      if (!local_error_.ok()) header.payload_bytes = 0;
    }
    const auto swap = [&](std::size_t j, int peer) -> Status {
      MQ_TRY(exchange_.receive(peer, tag(KylixTag::header), std::as_writable_bytes(came.subspan(j, 1)),
                               &links[j].header_got));
      return exchange_.send(peer, tag(KylixTag::header), std::as_bytes(sent.subspan(j, 1)));
    };
    MQ_TRY(each_peer(stage, swap));
    return wait();
  }

  Status exchange_payloads(const Stage& stage, std::span<Link> links, std::span<const Header> sent,
                           std::span<const Header> came) {
    const auto swap = [&](std::size_t j, int peer) -> Status {
      Link& link = links[j];
      Status ok = check_received(came[j], link.header_got, peer, settings_.call,
                                 step_of(stage.number, KylixStep::lists));
      if (ok.ok()) ok = lists_.check_counts(stage, came[j], peer);
      link.announced = ok.ok() && came[j].payload_bytes > 0;
      note(std::move(ok));
      if (link.announced) {
        // Without memory, the message is still received, into an empty buffer, so that the sender can
        // complete.
        attempt([&] { link.wire_in = scratch_.take<std::byte>(came[j].payload_bytes); });
        MQ_TRY(exchange_.receive(peer, tag(KylixTag::payload), link.wire_in, &link.got));
      }
      return sent[j].payload_bytes > 0 ? exchange_.send(peer, tag(KylixTag::payload), link.wire_out)
                                       : Status{};
    };
    MQ_TRY(each_peer(stage, swap));
    return wait();
  }

  // Replicas must have the same lists. Each sends its hash to the first replica of the same rank.
  Status compare_replicas() {
    for (int copy = 1; copy < settings_.replicas; ++copy) {
      const int of = copy * replica_.size + replica_.me;
      if (all_ranks_.me != of && all_ranks_.me != replica_.me) continue;
      headers_[0] = headers_[1] = {};
      headers_[0].call = settings_.call;
      headers_[0].step = kReplicaStep;
      headers_[0].counts[0] = lists_.lists_hash();
      std::size_t got = 0;
      if (all_ranks_.me == of) {
        MQ_TRY(exchange_.send(replica_.me, tag(KylixTag::replica), std::as_bytes(headers_.first(1))));
        MQ_TRY(wait());
        continue;
      }
      MQ_TRY(exchange_.receive(of, tag(KylixTag::replica), std::as_writable_bytes(headers_.last(1)), &got));
      MQ_TRY(wait());
      note(check_received(headers_[1], got, of, settings_.call, kReplicaStep));
      if (headers_[1].counts[0] != lists_.lists_hash())
        note(status_of(Code::mismatch, [&] {
          return "rank " + std::to_string(of) + " has different index lists than the rank that it replicates";
        }));
    }
    return {};
  }

  Deadline deadline_;  // before exchange_, which refers to it
  Exchange<C> exchange_;
  const KylixSettings& settings_;
  Workspace& scratch_;
  KylixRoutes& kylix_;
  ConfigurationLists lists_;
  RankRange all_ranks_, replica_;  // replica_: this rank's replica
  std::vector<Stage> stages_;
  std::span<Header> headers_;
  Status local_error_;
};

}  // namespace mq::sparse
