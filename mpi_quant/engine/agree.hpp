// The agreement that opens every call. All ranks learn whether all signatures are equal. Only then may a rank
// wait for data or touch a residual. It is apart from the executor, which may rely on it.
//
// Dissemination (Hensgen, Finkel, Manber 1988): in round k, rank r sends what it knows to r + 2^k and learns
// what r - 2^k knows. After ceil(log2 p) rounds it knows about everyone. What a rank knows is a Hello: the
// lowest rank that it has heard of, and the lowest rank whose signature differs from that one's; one with
// which it could not split comes first. Two such summaries merge into the summary of both sets, so all ranks
// end with the same one. The schedule depends only on the number of ranks, so calls that disagree in
// everything else still meet in it.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "mpi_quant/base/comm.hpp"
#include "mpi_quant/engine/frame.hpp"

namespace mq {

// True if intercepted calls, or calls by auto, differ only in their methods. The ranks then reduce exactly
// instead of failing, because they choose by what only one rank may know.
bool may_split(const Signature& a, const Signature& b);

// Merges the summaries of two sets of ranks into the summary of their union.
inline Hello merge(const Hello& a, const Hello& b) {
  const bool a_first = a.first_rank <= b.first_rank;
  Hello low = a_first ? a : b;
  const Hello& high = a_first ? b : a;
  const auto offer = [&](int rank, const Signature& signature) {
    if (signature == low.first) return;
    if (low.differs) {
      const bool had_error = !may_split(low.first, low.other), has_error = !may_split(low.first, signature);
      if (had_error != has_error ? had_error : low.other_rank <= rank) return;
    }
    low.differs = 1;
    low.other_rank = rank;
    low.other = signature;
  };
  offer(high.first_rank, high.first);
  if (high.differs) offer(high.other_rank, high.other);
  low.maxima = greatest(a.maxima, b.maxima);
  return low;
}

// The signature of a collective function that is no reduction ("MPIQ_Residual_flush"). Ranks in such a
// function have to agree on the function only. The first sixteen characters after "MPIQ_" count.
Signature signature_of_function(std::string_view function);

// What a summary of all ranks means: ok, or the error, which names both ranks and their calls.
Status agreed_status(const Hello& summary);
// True if all ranks reduce exactly, because some may_split() and no others differ.
bool splits(const Hello& summary);

// The agreement of one call, to be advanced until it is done. The object must stay where it is while the
// agreement is under way. After an error it must stay for ever, because a message may still arrive in it.
template <Comm C>
class Agreement {
 public:
  // No other agreement that is under way on comm may use this tag.
  Status start(C& comm, const Signature& mine, const Maxima& maxima, int tag) {
    known_ = {};
    known_.first_rank = comm.rank();
    known_.first = mine;
    known_.maxima = maxima;
    tag_ = tag;
    distance_ = 1;
    return post(comm);
  }
  // A returned error means that the communication failed. A disagreement is in summary().
  Status advance(C& comm, std::uint64_t& messages_sent, bool& moved) {
    while (!done()) {
      if (!received_) MQ_TRY(comm.test(receive_, received_, bytes_));
      std::size_t ignored = 0;
      if (!sent_) MQ_TRY(comm.test(send_, sent_, ignored));
      if (!received_ || !sent_) return {};
      moved = true;
      ++messages_sent;
      learn();
      distance_ *= 2;
      MQ_TRY(post(comm));
    }
    return {};
  }
  bool done() const { return received_ && sent_; }
  const Hello& summary() const { return known_; }

 private:
  Status post(C& comm) {
    const int p = comm.size();
    received_ = sent_ = distance_ >= p;
    if (done()) return {};
    from_ = (comm.rank() - distance_ + p) % p;
    MQ_TRY(comm.receive(from_, tag_, std::as_writable_bytes(std::span(&heard_, 1)), receive_));
    return comm.send((comm.rank() + distance_) % p, tag_, std::as_bytes(std::span(&known_, 1)), send_);
  }
  void learn() {
    if (bytes_ != sizeof heard_ || heard_.magic != kHelloMagic || heard_.version != kWireVersion) {
      // Keeps to the schedule, so that nobody waits. Every rank learns of the error.
      heard_ = known_;
      heard_.first_rank = from_;
      heard_.first.error_code = static_cast<std::uint16_t>(Code::bad_frame);
      heard_.differs = 0;
    }
    known_ = merge(known_, heard_);
  }

  Hello known_, heard_;
  typename C::Request send_{}, receive_{};
  std::size_t bytes_ = 0;  // length of the received message
  int tag_ = 0, distance_ = 1, from_ = 0;
  bool sent_ = true, received_ = true;
};

}  // namespace mq
