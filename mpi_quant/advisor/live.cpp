#include "mpi_quant/advisor/live.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/link_meter.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/own_comm.hpp"
#include "mpi_quant/core/parted_call.hpp"
#include "mpi_quant/core/private_comm.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/engine/execute.hpp"
#include "mpi_quant/policy/words.hpp"
#include "mpi_quant/report/reported_call.hpp"

namespace mq {
namespace {

Advisor& advisor() {
  static Advisor& a =
      // never destroyed, because a program may make calls while static objects are destroyed
      *new Advisor(env()->isa);
  return a;
}

// What all ranks measure: calls of `count` elements.
struct Sample {
  std::uint64_t count = 0;  // 0: nothing
  std::uint64_t element = 0;
};

// The class that took the most time, of those that were sampled and whose calls all ranks of the program
// make. Larger vectors than kLargest are left out, because measuring them would take long.
const ClassAdvice* representative(std::span<const ClassAdvice> classes, Collective collective, int ranks) {
  constexpr double kLargest = 64 << 20;
  for (const ClassAdvice& c : classes)
    if (c.collective == collective && c.id.ranks == ranks && !c.methods.empty() && c.bytes <= kLargest)
      return &c;
  return nullptr;
}

// Collective over a communicator of our own, of at least two ranks: all get the same model.
Result<LinkModel> measure_link(MPI_Comm comm, int size) {
  const Result<Nodes> nodes = nodes_of(comm);
  MpiComm messages(comm, waiting_of(nodes.ok() ? nodes->ranks : size));
  const Deadline never;
  Traffic traffic;
  Buffer memory;
  std::optional<LinkMeter<MpiComm>> meter;
  try {
    if (memory.reserve(kLinkMemory))
      meter.emplace(messages, 0, never, traffic, std::span(memory.data(), kLinkMemory));
  } catch (const std::bad_alloc&) {
  }
  const int failed_here = meter ? 0 : 1;
  int failed = 0;  // on any rank: all ranks have the memory, or none goes on
  MQ_TRY(mpi_status(real_mpi().allreduce(&failed_here, &failed, 1, MPI_INT, MPI_MAX, comm), "MPI_Allreduce"));
  if (failed != 0) return Status{Code::no_memory, "no memory to measure the link"};
  LinkModel link;
  Status status = meter->measure(link);
  if (status.ok()) return link;
  memory.leak();  // messages may be in flight
  return status;
}

// Values of all magnitudes and signs. They have little influence on the time of any codec.
template <class T>
void fill(T* x, std::size_t n) {
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double u = static_cast<double>(state >> 11) * 0x1p-53 - 0.5;
    x[i] = static_cast<T>(u * u * u);
  }
}

// The vectors that this rank uses for the checks.
struct CheckVectors {
  Buffer input, output;
  std::size_t bytes = 0;
  bool make(const Sample& sample) {
    const auto element = static_cast<kernels::Element>(sample.element);
    bytes = sample.count * kernels::element_bytes(element);
    if (!input.reserve(bytes) || !output.reserve(bytes)) return false;
    if (element == kernels::Element::f64)
      fill(reinterpret_cast<double*>(input.data()), sample.count);
    else
      fill(reinterpret_cast<float*>(input.data()), sample.count);
    return true;
  }
};

// A call of all ranks of the program. Its vector may be shorter by a few elements, so that all parts are
// equal. A broadcast is in the output, because it may change the root's vector, too.
Call imitation(Collective collective, const Sample& sample, CheckVectors& vectors, int ranks,
               PartedCall& parted) {
  const bool is_wide = sample.element == static_cast<std::uint64_t>(kernels::Element::f64);
  const MPI_Datatype type = is_wide ? MPI_DOUBLE : MPI_FLOAT;
  const auto count = static_cast<MPI_Count>(sample.count), each = count / ranks;
  void *const in = vectors.input.data(), *const out = vectors.output.data();
  constexpr int kRoot = 0;
  switch (collective) {
    case Collective::allreduce: break;
    case Collective::reduce_scatter:
      return reduce_scatter_call(in, out, {each}, type, MPI_SUM, MPI_COMM_WORLD, parted);
    case Collective::allgather:
      return allgather_call(in, out, {each, type, type}, {each}, MPI_COMM_WORLD, parted);
    case Collective::bcast: return bcast_call(out, count, type, kRoot, MPI_COMM_WORLD, parted);
    case Collective::reduce: return reduce_call(in, out, count, type, MPI_SUM, kRoot, MPI_COMM_WORLD, parted);
  }
  return {in, out, count, type, MPI_SUM, MPI_COMM_WORLD};
}

// Makes one call with a method, or MPI's own. False if this rank sees that the call cannot be made.
Result<bool> make(const Method& method, const Call& call) {
  if (method.exact()) {
    MQ_TRY(mpi_status(exact_call(call, {}), "MPI"));
    return true;
  }
  Request request{.call = call};
  request.options.method = method;
  return requested_call(request).delivered;
}

// The seconds of such a call: the median of three, of the slowest rank. Below 0 if the call cannot be made.
Result<double> measured_seconds(const Method& method, const Call& call, CheckVectors& vectors) {
  std::array<double, 3> times{};
  // -1: a call that is not timed, so that memory is ready
  for (int i = -1; i < static_cast<int>(times.size()); ++i) {
    if (call.collective == Collective::bcast)
      std::memcpy(vectors.output.data(), vectors.input.data(), vectors.bytes);
    MQ_TRY(mpi_status(PMPI_Barrier(call.comm), "MPI_Barrier"));
    const double start = now_s();
    const Result<bool> made = make(method, call);
    if (!made.ok()) return made.status();
    double mine = *made ? now_s() - start : std::numeric_limits<double>::max(), slowest = 0;
    MQ_TRY(mpi_status(real_mpi().allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, call.comm),
                      "MPI_Allreduce"));
    if (slowest == std::numeric_limits<double>::max()) return -1.0;
    if (i >= 0) times[static_cast<std::size_t>(i)] = slowest;
  }
  std::sort(times.begin(), times.end());
  return times[1];
}

// Runs the checks of one collective. All ranks do the same, but only rank 0 knows the predictions, so only it
// gets the checks.
Status validate(std::span<const ClassAdvice> classes, Collective collective, int ranks, int rank,
                std::vector<Validation>& validations) {
  const ClassAdvice* const chosen = rank == 0 ? representative(classes, collective, ranks) : nullptr;
  Sample sample;
  if (chosen != nullptr)
    sample = {static_cast<std::uint64_t>(chosen->bytes) / kernels::element_bytes(chosen->element),
              static_cast<std::uint64_t>(chosen->element)};
  MQ_TRY(mpi_status(real_mpi().bcast(&sample, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast"));
  if (sample.count < static_cast<std::uint64_t>(ranks)) return {};
  CheckVectors vectors;
  int ready = vectors.make(sample), all_ready = 0;
  PartedCall parted;
  Call call{};
  try {
    call = imitation(collective, sample, vectors, ranks, parted);
  } catch (const std::bad_alloc&) {
    ready = 0;
  }
  MQ_TRY(mpi_status(real_mpi().allreduce(&ready, &all_ready, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD),
                    "MPI_Allreduce"));
  if (all_ready == 0) return {};
  const auto check = [&](std::string_view text, const Method& method,
                         std::optional<double> predicted_s) -> Status {
    const Result<double> seconds = measured_seconds(method, call, vectors);
    if (!seconds.ok()) return seconds.status();
    if (rank == 0 && *seconds >= 0 && predicted_s)
      validations.push_back({std::string(text), chosen->id, chosen->bytes, *predicted_s, *seconds});
    return {};
  };
  MQ_TRY(check(kExact, {}, chosen ? chosen->dense_s : std::nullopt));
  for (const Candidate& candidate : candidates()) {
    std::optional<double> predicted_s;
    if (chosen != nullptr)
      for (const MethodAdvice& m : chosen->methods)
        if (m.method == candidate.text) predicted_s = m.predicted_s;
    MQ_TRY(check(candidate.text, candidate.method, predicted_s));
  }
  return {};
}

// The part of the vector that this rank has, for the advisor. None if the advisor cannot look at it: it reads
// values and times codecs with the processor, so it ignores vectors on a GPU.
std::optional<Vectors> vectors_of(const Call& call) {
  const std::optional<kernels::Element> element = element_of(call.datatype);
  if (!element || (call.parted != nullptr && call.parted->is_unusual)) return {};
  Vectors of{.input = static_cast<const std::byte*>(call.input()),
             .input_range = call.input_range(),
             .element = *element};
  if (adds(call.collective)) {
    of.result = static_cast<const std::byte*>(call.recvbuf);
    of.result_range = call.output_range();
  }
  // Only the root of a reduction may be in place. MPI will refuse this call.
  if (call.collective == Collective::reduce && of.result_range.n == 0 && call.sendbuf == MPI_IN_PLACE)
    return {};
  for (const auto& [pointer, range] :
       {std::pair(of.input, of.input_range), std::pair(of.result, of.result_range)}) {
    if (range.n == 0) continue;
    const Result<bool> is_far = is_on_device(pointer);
    if (pointer == nullptr || !is_far.ok() || *is_far) return {};
  }
  return of;
}

}  // namespace

AdvisedCall::AdvisedCall(const Call& call, bool wanted) noexcept {
  const std::optional<Vectors> vectors = wanted ? vectors_of(call) : std::nullopt;
  if (!vectors) return;
  try {
    id_ = class_of(call);
  } catch (const std::bad_alloc&) {
    return;
  }
  vectors_ = *vectors;
  is_kept_ = adds(call.collective) && call.sendbuf == MPI_IN_PLACE;
  if (is_kept_) kept_ = advisor().keep(*id_, vectors_);
}

void AdvisedCall::after(bool succeeded) noexcept {
  if (!id_ || !succeeded) return;
  if (is_kept_)
    advisor().see(*id_, kept_, vectors_);
  else
    advisor().see(*id_, vectors_);
}

Samples own_samples() { return advisor().samples(); }
double advisor_seconds() { return advisor().spent_s(); }

Result<Field> measure_field(const Evidence& evidence) {
  int rank = 0, size = 1;
  MQ_TRY(mpi_status(PMPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank"));
  MQ_TRY(mpi_status(PMPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size"));
  Field field;
  if (size == 1) return field;
  MPI_Comm comm = MPI_COMM_NULL;
  MQ_TRY(split_off(MPI_COMM_WORLD, comm));
  const Result<LinkModel> link = measure_link(comm, size);
  (void)PMPI_Comm_free(&comm);
  if (!link.ok()) return link.status();
  field.link = *link;
  Evidence measured = evidence;
  measured.link = field.link;
  std::vector<ClassAdvice> classes;
  try {
    if (rank == 0) classes = advise(measured);
  } catch (const std::bad_alloc&) {
    classes.clear();  // the other ranks wait to hear what is measured; no class means nothing
  }
  for (const Collective collective : kCollectives)
    MQ_TRY(validate(classes, collective, size, rank, field.validations));
  return field;
}

}  // namespace mq
