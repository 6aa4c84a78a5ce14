// Sparse allreduce by a nested butterfly of heterogeneous degrees: Zhao and Canny: Kylix, ICPP 2014.
//
// Idea: each rank contributes values of a set of indices (out) and wants those of another (in). The index
// space is cut into ranges, a rank each; values move towards the rank of their range through layers of groups
// of d_0, d_1 ... ranks, which combine them on the way, and results return through the same ranks. Where many
// ranks hold the same indices, lists shrink from layer to layer, and few layers of decreasing degree need
// fewer messages than direct exchange at little more volume.
//
//   configure()           lists only; then KylixReduction reduces values by the routes, any number of times:
//                         start(), advance() until done(), or finish()
//   configure_reduce()    lists and values in one pass down; routes and reduction are left for more runs
//
// Steps and bytes, per rank: survey ceil(log2 p) messages of some KiB together (survey.hpp); lists sum(d_l -
// 1) messages of positions, and a header each; a verdict of ceil(log2 p) headers; values as
// kylix_reduction.hpp says. Our own choice: ranges are contiguous and cut where the work is equal (the paper
// permutes indices randomly for that), so that parts of sorted lists are contiguous and positions compress.
//
// Errors: of configure and configure_reduce, the same on all ranks in this sense: all succeed, or none. If
// the code is timed_out or mpi_failed the communication is broken (see broken()); this rank's messages may be
// under way for ever, and memory that they use is given up. Else all ranks have kept to the schedule. Nothing
// throws. After an error, kylix and reduction are good for another configure only.
#pragma once

#include "sparse_allreduce/kylix_reduction.hpp"
#include "sparse_allreduce/kylix_setup.hpp"

namespace mq::sparse {

// A run to its end: blocks, comm.idle() is called while there is nothing to do. Started already.
template <Comm C>
Status finish(C& comm, KylixReduction<C>& reduction) {
  while (!reduction.done()) {
    bool moved = false;
    MQ_TRY(reduction.advance(comm, moved));
    if (moved)
      comm.busy();
    else
      comm.idle();
  }
  return reduction.failure();
}

namespace detail {

enum class Pass { lists, values };

template <Comm C>
Status configure(Pass pass, C& comm, const KylixSetting& setting, const IndexSet& out, std::size_t out_given,
                 const void* out_values, const IndexSet& in, std::size_t in_given, void* in_values,
                 Workspace& scratch, Kylix& kylix, KylixReduction<C>* reduction, Traffic& traffic) {
  KylixSetup<C> setup(comm, setting, scratch, kylix, traffic);
  alignas(8) static constexpr std::byte kNone[8]{};
  const auto* values = static_cast<const std::byte*>(out_values);
  if (pass == Pass::values && values == nullptr) values = kNone;  // of an empty list
  MQ_TRY(setup.down(out, out_given, in, in_given, values));
  Status prepared;
  if (reduction != nullptr && setup.trouble().ok())
    prepared = reduction->prepare(kylix, setting.entry, setting.timeout_s);
  MQ_TRY(setup.close(prepared));
  if (pass == Pass::lists) return {};
  MQ_TRY(reduction->start_at_bottom(comm, setup.bottom_values(), in_values));
  return finish(comm, *reduction);
}

template <Comm C>
Status guarded_configure(Pass pass, C& comm, const KylixSetting& setting, const IndexSet& out,
                         std::size_t out_given, const void* out_values, const IndexSet& in,
                         std::size_t in_given, void* in_values, Workspace& scratch, Kylix& kylix,
                         KylixReduction<C>* reduction, Traffic& traffic) noexcept {
  Status status;
  try {
    status = configure(pass, comm, setting, out, out_given, out_values, in, in_given, in_values, scratch,
                       kylix, reduction, traffic);
  } catch (const std::bad_alloc&) {
    status = {Code::mpi_failed,
              "out of memory"};  // not even memory for what a message needs: the schedule is left
  }
  if (broken(status)) {
    scratch.leak();
    if (reduction != nullptr) reduction->leak();
  }
  return status;
}

}  // namespace detail

// Collective, and blocks. Makes kylix, and prepares `reduction` for runs of setting.entry if it is not null
// (on all ranks, or on none). *_given: how long the caller's lists are, of which the sets are made. Neither
// setting.degrees nor the sets need live on. The sets may be in scratch, which is not reset here and is free
// to be reset afterwards. kylix must not be in use by a run under way.
template <Comm C>
Status configure(C& comm, const KylixSetting& setting, const IndexSet& out, std::size_t out_given,
                 const IndexSet& in, std::size_t in_given, Workspace& scratch, Kylix& kylix,
                 KylixReduction<C>* reduction, Traffic& traffic) noexcept {
  return detail::guarded_configure<C>(detail::Pass::lists, comm, setting, out, out_given, nullptr, in,
                                      in_given, nullptr, scratch, kylix, reduction, traffic);
}

// The same, and also reduces: values of the caller's out list, aligned to the element, to those of the
// caller's in list. `reduction` is prepared for further runs; what it sends is in its own traffic(). An error
// in the reduction itself (bad_frame, peer_failed) is one on all ranks that depend on what failed.
template <Comm C>
Status configure_reduce(C& comm, const KylixSetting& setting, const IndexSet& out, std::size_t out_given,
                        const void* out_values, const IndexSet& in, std::size_t in_given, void* in_values,
                        Workspace& scratch, Kylix& kylix, KylixReduction<C>& reduction,
                        Traffic& traffic) noexcept {
  return detail::guarded_configure<C>(detail::Pass::values, comm, setting, out, out_given, out_values, in,
                                      in_given, in_values, scratch, kylix, &reduction, traffic);
}

}  // namespace mq::sparse
