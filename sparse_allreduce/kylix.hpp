// Sparse allreduce by a nested butterfly of heterogeneous degrees: Zhao and Canny: Kylix, ICPP 2014.
//
// Each rank contributes values for one set of indices (out) and wants values for another set (in). The index
// space is cut into ranges, one for each rank. Values move towards the rank of their range through layers of
// groups of d_0, d_1 ... ranks, which combine them on the way. Results return through the same ranks. If many
// ranks hold the same indices, lists shrink from layer to layer. Then a few layers of decreasing degree need
// fewer messages than direct exchange, and send little more.
//
//   configure()         configuration phase: exchanges lists only. Afterwards KylixReduction reduces values
//                       along the routes, any number of times: start(), then advance() until done() or
//                       finish()
//   configure_reduce()  exchanges lists and values in one pass down; routes and reduction can be used again
//
// Messages of each rank:
//
// - list statistics: ceil(log2 p) messages of some KiB together (list_stats.hpp)
// - lists: sum(d_l - 1) messages of positions, each with a header
// - status: ceil(log2 p) headers
// - values: see kylix_reduction.hpp
//
// Difference from the paper: ranges are contiguous and are cut so that the work is equal; the paper permutes
// the indices randomly for that. So parts of sorted lists are contiguous, and positions compress well.
//
// Errors: configure and configure_reduce succeed on all ranks or on none. If the code is timed_out or
// mpi_failed, the communication is unusable (see broken()): this rank's messages may stay in flight for ever,
// and the memory that they use is abandoned. After any other error, all ranks have followed the schedule.
// Nothing throws. After an error, `kylix` and `reduction` can only be used for another configure.
#pragma once

#include "sparse_allreduce/configuration_phase.hpp"
#include "sparse_allreduce/kylix_reduction.hpp"

namespace mq::sparse {

// Completes a run that was started. Blocks, and calls comm.idle() while there is nothing to do.
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
Status configure(Pass pass, C& comm, const KylixSettings& settings, const IndexSet& out,
                 std::size_t out_given, const void* out_values, const IndexSet& in, std::size_t in_given,
                 void* in_values, Workspace& scratch, KylixRoutes& kylix, KylixReduction<C>* reduction,
                 Traffic& traffic) {
  ConfigurationPhase<C> phase(comm, settings, scratch, kylix, traffic);
  alignas(8) static constexpr std::byte kNone[8]{};
  const auto* values = static_cast<const std::byte*>(out_values);
  if (pass == Pass::values && values == nullptr) values = kNone;  // for an empty list
  MQ_TRY(phase.down(out, out_given, in, in_given, values));
  Status prepared;
  if (reduction != nullptr && phase.local_error().ok())
    prepared = reduction->prepare(kylix, settings.entry, settings.timeout_s);
  MQ_TRY(phase.close(prepared));
  if (pass == Pass::lists) return {};
  MQ_TRY(reduction->start_at_bottom(comm, phase.bottom_values(), in_values));
  return finish(comm, *reduction);
}

template <Comm C>
Status guarded_configure(Pass pass, C& comm, const KylixSettings& settings, const IndexSet& out,
                         std::size_t out_given, const void* out_values, const IndexSet& in,
                         std::size_t in_given, void* in_values, Workspace& scratch, KylixRoutes& kylix,
                         KylixReduction<C>* reduction, Traffic& traffic) noexcept {
  Status status;
  try {
    status = configure(pass, comm, settings, out, out_given, out_values, in, in_given, in_values, scratch,
                       kylix, reduction, traffic);
  } catch (const std::bad_alloc&) {
    // There was no memory even for a message's header, so this rank no longer follows the schedule.
    status = {Code::mpi_failed, "out of memory"};
  }
  if (broken(status)) {
    scratch.leak();
    if (reduction != nullptr) reduction->leak();
  }
  return status;
}

}  // namespace detail

// Collective and blocking. Makes `kylix`. If `reduction` is not null, prepares it for runs of settings.entry;
// it is null on all ranks or on none. out_given and in_given are the lengths of the caller's lists, from
// which the sets were made. settings.degrees and the sets are not needed afterwards. The sets may be in
// `scratch`, which is not reset here and may be reset afterwards. No run may be in progress that uses
// `kylix`.
template <Comm C>
Status configure(C& comm, const KylixSettings& settings, const IndexSet& out, std::size_t out_given,
                 const IndexSet& in, std::size_t in_given, Workspace& scratch, KylixRoutes& kylix,
                 KylixReduction<C>* reduction, Traffic& traffic) noexcept {
  return detail::guarded_configure<C>(detail::Pass::lists, comm, settings, out, out_given, nullptr, in,
                                      in_given, nullptr, scratch, kylix, reduction, traffic);
}

// Like configure, and also reduces: it reads the values of the caller's out list and writes the values of the
// caller's in list. Both are aligned to the element. `reduction` is prepared for further runs and counts its
// messages in its own traffic(). An error in the reduction itself (bad_frame, peer_failed) occurs on all
// ranks that depend on the failed part.
template <Comm C>
Status configure_reduce(C& comm, const KylixSettings& settings, const IndexSet& out, std::size_t out_given,
                        const void* out_values, const IndexSet& in, std::size_t in_given, void* in_values,
                        Workspace& scratch, KylixRoutes& kylix, KylixReduction<C>& reduction,
                        Traffic& traffic) noexcept {
  return detail::guarded_configure<C>(detail::Pass::values, comm, settings, out, out_given, out_values, in,
                                      in_given, in_values, scratch, kylix, &reduction, traffic);
}

}  // namespace mq::sparse
