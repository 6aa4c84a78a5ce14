// The stage of a call that gets all it needs on this rank: checks of arguments, the key's residual, places of
// the vectors, scratch memory. It ends with what the call brings to the agreement: its signature, or its
// local error. No message is sent here.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/core/choices.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/estimates.hpp"
#include "mpi_quant/core/exact_check.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/core/running_call.hpp"
#include "mpi_quant/engine/memory_steps.hpp"

namespace mq {
Status check_arguments(const Call& call, std::optional<kernels::Element> element, bool may_overlap) {
  if (call.count < 0) return {Code::bad_argument, "count " + std::to_string(call.count) + " is negative"};
  // MPI would tell this rank alone, and those that it would have met would wait.
  if (!may_overlap) {
    const bool gathers = call.collective == Collective::allgather;
    if (call.op == MPI_OP_NULL) return {Code::bad_argument, "op is MPI_OP_NULL"};
    if (call.datatype == MPI_DATATYPE_NULL)
      return {Code::bad_argument, std::string(gathers ? "recvtype" : "datatype") + " is MPI_DATATYPE_NULL"};
    if (gathers && call.sendbuf != MPI_IN_PLACE && call.parted->gather.sendtype == MPI_DATATYPE_NULL)
      return {Code::bad_argument, "sendtype is MPI_DATATYPE_NULL"};
  }
  // MPI sums vectors of other types one after the other: a rank that fails at one would let the others wait.
  if (call.group != nullptr) return call.count == 0 ? Status{} : check_group(call, element);
  if (!element || call.count == 0) return {};                        // MPI_BOTTOM may be NULL
  if (call.parted != nullptr && call.parted->is_unusual) return {};  // MPI knows what its types mean
  const bool is_read = call.sendbuf == MPI_IN_PLACE;
  const std::string name = call.collective == Collective::bcast ? "buffer" : "recvbuf";
  const bool is_looked_at = call.collective != Collective::reduce || call.output_range().n > 0;
  if (call.recvbuf == nullptr && (is_read || call.output_range().n > 0))
    return {Code::bad_argument, name + " is NULL"};
  if (call.recvbuf == MPI_IN_PLACE && is_looked_at) return {Code::bad_argument, name + " is MPI_IN_PLACE"};
  if (call.sendbuf == nullptr && call.input_range().n > 0) return {Code::bad_argument, "sendbuf is NULL"};
  if (!may_overlap && overlaps(call, element))
    return {Code::bad_argument, "sendbuf and recvbuf overlap (a sum in place has MPI_IN_PLACE as sendbuf)"};
  return {};
}

void RunningCall::prepare(const Request& request, const Decision& decision, Status local_error,
                          bool rehearsal) noexcept {
  const CallOptions& options = request.options;
  call_ = request.call;
  decision_ = decision;
  rehearsal_ = rehearsal;
  share_.begin();
  from_program_ = request.program != nullptr;
  is_part_ = options.is_part;
  order_ = {env().ok() ? env()->cuda_sync : DeviceSync::legacy, options.stream.has_value(),
            options.stream.value_or(nullptr)};
  stream_ordered_ = options.stream_ordered;
  may_skip_ = options.skip;
  local_error_ = std::move(local_error);
  outcome_ = {};
  tally_ = {};
  maxima_ = {.seed = decision.seed.value_or(env().ok() ? env()->seed : 0)};
  reduction_.residual = nullptr;
  entry_ = nullptr;
  entries_.clear();
  places_.clear();
  const std::optional<kernels::Element> element = element_of(call_.datatype);
  Method& method = decision_.method;
  if (!method.exact() && method.plan == nullptr) {
    const auto count = static_cast<std::size_t>(call_.count);
    const int ranks = state_.channel.comm().size();
    const PlanRow* const own =
        plan_of(call_.collective, method.codec->wire_bound(count, *element, method.params), ranks);
    method.plan = own != nullptr ? own : &choose_plan(count * kernels::element_bytes(*element), ranks);
  }
  if (!method.exact() && method.memory_rule().arrays == 0) decision_.key = {};  // the key has no meaning
  const bool came_with_error = !local_error_.ok();
  gather_name_.clear();
  try {
    // The names of a program's residuals are made up for one address or position.
    if (!adds(call_.collective) && !from_program_ && !decision_.key.empty())
      gather_name_.append(method.memory_rule().keeps_estimates ? kMirrorKey : kGatherKey)
          .append(decision_.key.view());  // in the memory of the call before
    if (exact_ == Exact::here)
      exact_requests_.reserve(call_.group != nullptr ? call_.group->vectors.size() : 1);
    if (local_error_.ok()) local_error_ = check_arguments(call_, element, from_program_);
    if (local_error_.ok() && method.exact() && !from_program_ && call_.comm != MPI_COMM_NULL)
      local_error_ = check_exact(call_, state_.channel.comm().handle());
    if (local_error_.ok() && !method.exact()) local_error_ = prepare_run(element);
    if (from_program_ && !came_with_error)
      local_error_ = decision_.leave_if_no_memory(std::move(local_error_));
  } catch (const std::bad_alloc&) {
    local_error_ = {Code::no_memory, "out of memory"};  // short enough to need no memory
  }
  if (element && local_error_.ok() && !rehearsal)
    bring(state_, decision_.chosen, call_, *element, {entry_ != nullptr ? entry_->data() : nullptr, places_},
          maxima_.heard);
  sign(element);
  stage_ = Stage::idle;
}

void RunningCall::prepare_meeting(const Signature& signature, Status local_error,
                                  std::uint64_t calls) noexcept {
  prepare({.call = {nullptr, nullptr, 0, MPI_BYTE, MPI_SUM, MPI_COMM_NULL}}, {}, std::move(local_error),
          true);
  signature_ = signature;
  signature_.error_code = static_cast<std::uint16_t>(local_error_.code());
  maxima_.calls = calls;
}

// What the method cannot do with these elements, or without a key.
Status RunningCall::check_method() const {
  const Reduction& reduction = reduction_;
  const kernels::MemoryRule& rule = *reduction.memory.rule;
  if (outgrows_vectors(reduction))
    return {Code::bad_argument, std::string(reduction.codec->name) + " with these parameters" +
                                    (reduction.memory.messages() > 1 ? ", in two messages," : "") +
                                    " sends more than the vector, if that has elements of type " +
                                    std::string(name(reduction.element))};
  const bool has_key = !decision_.key.empty() || (call_.group != nullptr && call_.group->has_keys);
  if (rule.ops != nullptr && !has_key && !from_program_)
    return {Code::bad_argument,
            "memory=" + std::string(rule.name) + " needs the name of " +
                (call_.group != nullptr ? "each vector (keys)" : "the vector (info mpiq_key)")};
  return {};
}

// Gets all that a compressed call needs on this rank. The first thing that is missing becomes its local
// error.
Status RunningCall::prepare_run(std::optional<kernels::Element> element) {
  const Method& method = decision_.method;
  const bool keeps_sums =
      call_.collective == Collective::reduce_scatter || call_.collective == Collective::reduce;
  const bool carries_own = keeps_sums && !decision_.key.empty();
  state_.channel.plan_call(*method.plan, *element, method.encodes_own(), carries_own,
                           has_root(call_.collective) ? call_.parted->root : 0, planned_);
  Reduction& reduction = reduction_;
  reduction.plan = &planned_->plan;
  reduction.plan_index = &planned_->index;
  reduction.codec = method.codec;
  reduction.ops = method.codec->ops(*element, env()->isa);
  reduction.convert = kernels::convert(*element, env()->isa);
  reduction.params = method.params;
  const kernels::MemoryRule& rule = method.memory_rule();
  reduction.memory = {&rule, rule.ops == nullptr ? nullptr : rule.ops(*element, env()->isa),
                      method.memory_params, 1, rule.terms(method.memory_params)};
  reduction.memory.mirrors = reduction.memory.keeps_estimates() && !adds(call_.collective);
  reduction.element = *element;
  reduction.count = static_cast<std::size_t>(call_.count);
  reduction.parts = {};
  reduction.vectors = {};
  reduction.vector_ends = {};
  reduction.vectors_bound = 0;
  if (const PartedCall* const parted = call_.parted; parted != nullptr)
    reduction.parts = {parted->ends,   parted->input, parted->output,
                       parted->places, parted->moves, parted->root};
  MQ_TRY(check_method());
  reduction.raw_ops = may_be_raw(reduction) ? raw_codec().ops(*element, env()->isa) : nullptr;
  reduction.input = static_cast<const std::byte*>(call_.input());
  // A rank that is not the root of a reduction may give any value as recvbuf.
  const bool has_output = call_.collective != Collective::reduce || call_.output_range().n > 0;
  reduction.output = has_output ? static_cast<std::byte*>(call_.recvbuf) : nullptr;
  reduction.rank = state_.channel.comm().rank();
  reduction.size = state_.channel.comm().size();
  reduction.divisor = call_.divisor;
  std::tie(reduction.pipelines, reduction.tag_segments) = state_.channel.segments_of(planned_->plan);
  reduction.threads = env()->threads;
  const bool is_group = call_.group != nullptr;  // of vectors in host memory
  MQ_TRY(vectors_.locate(reduction, is_group ? DeviceRows{} : device_rows(mpi_takes_device_memory)));
  if (vectors_.is_captured(order_)) return refuse_capture();
  const kernels::Measures when = reduction.codec->measures(reduction.params);
  bool measures = when != kernels::Measures::nothing && !rehearsal_;
  // A rank may have no elements to send.
  if (is_group) MQ_TRY(place_vectors());
  if (!decision_.key.empty() && kept_of(reduction).n > 0) MQ_TRY(prepare_residual(when, measures));
  if (Execution<MpiComm>::frame_bytes(reduction) > std::numeric_limits<int>::max())
    return {Code::bad_argument, "a message of this method would be longer than 2 GiB"};
  std::byte* scratch = nullptr;
  Status prepared = prepare_memory(when != kernels::Measures::nothing, scratch);
  count_memory();
  MQ_TRY(std::move(prepared));
  if (measures) MQ_TRY(vectors_.measure(reduction, maxima_.measured));
  if (!rehearsal_ && !is_group) MQ_TRY(measure_feedback(reduction, vectors_, entry_, may_skip_, maxima_));
  execution_.prepare(reduction, scratch);
  return {};
}

// Finds the residuals of several vectors, and what the memory rule has to know of each of them.
Status RunningCall::place_vectors() {
  MQ_TRY(refuse_group(*call_.group, decision_.method));
  const GroupCall& group = *call_.group;
  Reduction& reduction = reduction_;
  const kernels::MemoryRule& rule = *reduction.memory.rule;
  std::size_t first = 0;
  for (const GroupCall::Vector& vector : group.vectors) {
    VectorPlace place{first, vector.n, static_cast<const std::byte*>(vector.input()),
                      static_cast<std::byte*>(vector.recvbuf)};
    first += vector.n;
    const Chooser* const chooser = decision_.chosen.chooser;
    place.is_raw = chooser != nullptr && chooser->calls().sends_raw(vector.n);
    if (place.is_raw) reduction.raw_ops = raw_codec().ops(reduction.element, env()->isa);
    if (has_residual(vector)) {
      const Result<Residuals::Entry*> entry = state_.residuals.acquire(
          vector.key.view(), vector.n, reduction.element, static_cast<std::size_t>(rule.arrays));
      if (!entry.ok()) return entry.status();
      if ((*entry)->users > 0)
        return {Code::bad_argument,
                "key \"" + std::string(vector.key.view()) + "\" is in use by a call in flight"};
      MQ_TRY((*entry)->move_to_host());
      entries_.push_back(*entry);
      place.residual = (*entry)->data();
    }
    if (reduction.memory.ops != nullptr && rule.measures(reduction.memory.params)) {
      Reduction alone = reduction;
      alone.input = place.input;
      alone.count = place.n;
      place.factor = memory_factor(alone);
    }
    places_.push_back(place);
  }
  reduction.vectors = places_;
  reduction.vector_ends = group.ends;
  reduction.vectors_bound = payload_bound(reduction, layout_of(reduction));
  return {};
}

// Gets the residual of the key, and the measured parameter that is kept with it.
Status RunningCall::prepare_residual(kernels::Measures when, bool& measures) {
  MQ_TRY(place_residual());
  // A key that only this rank knows settles nothing for the others.
  if (when != kernels::Measures::once_a_key || from_program_) return {};
  const double settled = entry_->settled;
  if (settled <= 0) return {};
  if (!adds(call_.collective))
    maxima_.measured = {settled};  // the agreement tells it to ranks without elements, which have no entry
  else
    reduction_.params = reduction_.codec->settle(reduction_.params, {settled});
  measures = false;
  return {};
}

// Puts the residual into the memory that the reduction reads. If the device has no room for it, the reduction
// is staged through host memory. If that fails too, a key that only this rank knows is dropped.
Status RunningCall::place_residual() {
  Reduction& reduction = reduction_;
  reduction.residual = nullptr;
  entry_ = nullptr;
  const auto place = [&]() -> Status {
    Device* const device = vectors_.residual_device();
    const Result<Residuals::Entry*> entry =
        state_.residuals.acquire(residual_name(), kept_of(reduction).n, reduction.element,
                                 static_cast<std::size_t>(reduction.memory.arrays()), vectors_.api(), device);
    if (!entry.ok()) return entry.status();
    if ((*entry)->users > 0)
      return {Code::bad_argument,
              "mpiq_key \"" + std::string(decision_.key.view()) + "\" is in use by a call in flight"};
    // On the host once the ranks have agreed.
    if (device != nullptr && !reduction.memory.rule->keeps_estimates) (*entry)->end_estimates();
    MQ_TRY((*entry)->move_to(vectors_.api(), device));
    entry_ = *entry;
    reduction.residual = entry_->data();
    return {};
  };
  Status placed = place();
  if (placed.code() == Code::no_memory && vectors_.residual_device() != nullptr) {
    vectors_.stage(reduction);
    placed = place();
  }
  if (placed.code() == Code::device_failed && from_program_)
    placed = place();  // the residual may have gone with the context of its device
  if (placed.ok() || !from_program_ || placed.code() == Code::bad_argument) return placed;
  decision_.key = {};
  return {};
}

// Gets scratch memory. If the reduction has to be staged only now, its residual moves to the host, too.
Status RunningCall::prepare_memory(bool measures, std::byte*& scratch) {
  Reduction& reduction = reduction_;
  const bool was_there = vectors_.is_on_device();
  MQ_TRY(vectors_.prepare(reduction, {order_, stream_ordered_, rehearsal_, measures,
                                      Execution<MpiComm>::scratch_bytes(reduction)}));
  if (vectors_.is_on_device()) {
    scratch = vectors_.frames();
    return {};
  }
  if (was_there && reduction.residual != nullptr) MQ_TRY(place_residual());
  const std::size_t bytes = Execution<MpiComm>::scratch_bytes(reduction);
  if (!scratch_.reserve(bytes))
    return {Code::no_memory, "no memory for " + std::to_string(bytes) + " bytes of scratch"};
  scratch = scratch_.data();
  return {};
}

// Refuses a call during a capture: the library could launch nothing that is not recorded in the program's
// graph. The call of an unmodified program is left to MPI, which may report an error itself.
Status RunningCall::refuse_capture() {
  if (!from_program_)
    return {Code::bad_argument, "the calling thread is capturing a stream: a graph cannot hold this call"};
  decision_.leave_to_mpi(Reason::capture);
  return {};
}

void RunningCall::count_memory() {
  const std::size_t bytes = scratch_.bytes() + vectors_.bytes();
  state_.scratch.host_bytes += bytes - std::exchange(held_bytes_, bytes);
}

void RunningCall::sign(std::optional<kernels::Element> element) {
  const Method& method = decision_.method;
  signature_ = {};
  signature_.count = static_cast<std::uint64_t>(call_.count);
  signature_.element = element ? static_cast<std::uint8_t>(*element) : kOtherElement;
  // Where MPI gets reals, they are not complex numbers to it, and the ranks must not think so.
  if (element && call_.given.is_complex && call_.given.datatype != MPI_DATATYPE_NULL)
    signature_.element |= kPairs;
  if (element && call_.divisor != 1) signature_.element |= kMean;
  signature_.key = from_program_ ? 0 : hash_of_key(residual_name());
  const bool by_auto = !from_program_ && (decision_.chosen.calls != nullptr || decision_.chosen.has_no_class);
  // What auto chooses may differ between ranks for once, and then MPI reduces. The keys are the same.
  if (call_.group != nullptr && (keeps_residuals() || (by_auto && !decision_.ignores_keys)))
    signature_.key = call_.group->key_hash;
  if (from_program_)
    signature_.kind = kIntercepted;
  else if (by_auto)
    signature_.kind = exact_ == Exact::here ? kChosenNonblocking : kChosen;
  else if (rehearsal_)
    signature_.kind = kInit;
  else if (method.exact() && exact_ == Exact::here)
    signature_.kind = kNonblocking;
  signature_.error_code = static_cast<std::uint16_t>(local_error_.code());
  if (!method.exact())
    sign_method();
  else if (!from_program_ && local_error_.ok())
    signature_.params_hash = std::uint64_t{exact_hash(call_)} << 32;
  if (call_.group != nullptr) {
    signature_.kind |= kGroupForm;
    signature_.params_hash = with_parts(signature_.params_hash, call_.group->hash);
  }
  if (call_.parted != nullptr) {
    signature_.kind |= form_bits(call_.collective, call_.parted->counts.is_uneven());
    signature_.params_hash = with_parts(signature_.params_hash, call_.parted->hash);
  }
  if (by_auto) signature_.params_hash = with_limit(signature_.params_hash, decision_.chosen.limit_hash);
}

void RunningCall::sign_method() {
  const Method& method = decision_.method;
  signature_.codec = method.codec->id;
  signature_.params_hash = hash_of(local_error_.ok() ? reduction_.params : method.params) ^
                           memory_hash(method) ^ decision_.agreed_options_hash;
  signature_.plan = static_cast<std::uint8_t>(method.plan->id);
  signature_.memory = method.memory_rule().id;
}

}  // namespace mq
