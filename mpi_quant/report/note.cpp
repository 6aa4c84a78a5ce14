#include "mpi_quant/report/note.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "mpi_quant/datatypes.hpp"

namespace mq {
namespace {

// A handle as a word, whatever it is.
template <class T>
std::uintptr_t word_of(T handle) {
  std::uintptr_t word = 0;
  static_assert(sizeof handle <= sizeof word);
  std::memcpy(&word, &handle, sizeof handle);
  return word;
}

std::string type_name(MPI_Datatype type) {
  char text[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  if (type != MPI_DATATYPE_NULL) (void)PMPI_Type_get_name(type, text, &length);
  return text[0] != '\0' ? text : "unnamed type";
}

std::string op_name(MPI_Op op) {
  struct Known {
    MPI_Op op;
    const char* name;
  };
  const Known table[]{{MPI_SUM, "MPI_SUM"},   {MPI_MAX, "MPI_MAX"},       {MPI_MIN, "MPI_MIN"},
                      {MPI_PROD, "MPI_PROD"}, {MPI_LAND, "MPI_LAND"},     {MPI_LOR, "MPI_LOR"},
                      {MPI_LXOR, "MPI_LXOR"}, {MPI_BAND, "MPI_BAND"},     {MPI_BOR, "MPI_BOR"},
                      {MPI_BXOR, "MPI_BXOR"}, {MPI_MAXLOC, "MPI_MAXLOC"}, {MPI_MINLOC, "MPI_MINLOC"}};
  for (const Known& known : table)
    if (op == known.op) return known.name;
  return "user op";
}

std::string comm_name(MPI_Comm comm) {
  char text[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  if (comm != MPI_COMM_NULL) (void)PMPI_Comm_get_name(comm, text, &length);
  return text;
}

std::uint64_t type_bytes(MPI_Datatype type) {
  int size = 0;
  if (type != MPI_DATATYPE_NULL) (void)PMPI_Type_size(type, &size);
  return static_cast<std::uint64_t>(size);
}

std::uint64_t count_of(const Call& call) {
  return static_cast<std::uint64_t>(std::max<MPI_Count>(call.count, 0));
}

int ranks_of(MPI_Comm comm) {
  int ranks = 0;
  (void)PMPI_Comm_size(comm, &ranks);
  return ranks;
}

Counter counter_of(ThreadRecord& record, const Call& call) {
  const CallTraits traits{word_of(call.comm), word_of(call.datatype), word_of(call.op), ranks_of(call.comm)};
  return record.of(traits, count_of(call), [&](std::uint64_t& bytes) {
    bytes = type_bytes(call.datatype);
    return class_of(call);
  });
}

void add_call(Numbers& numbers, Reason reason, std::uint64_t bytes) {
  ++numbers.calls[static_cast<std::size_t>(reason)];
  numbers.bytes += bytes;
}

}  // namespace

ClassId class_of(const Call& call) {
  return {comm_name(call.comm), ranks_of(call.comm), type_name(call.datatype), op_name(call.op),
          log2_of(count_of(call) * type_bytes(call.datatype))};
}

ExactCall::ExactCall(const Call& call, Reason reason) noexcept {
  constexpr std::uint64_t kAllTimed = 64, kOneOf = 16;
  ThreadRecord* const record = ThreadRecord::mine();
  if (record == nullptr || reason == Reason::handle) return;  // nothing can be asked about invalid handles
  try {
    const Counter counter = counter_of(*record, call);
    const std::uint64_t before = counter.numbers->calls[static_cast<std::size_t>(reason)];
    add_call(*counter.numbers, reason, counter.bytes);
    if (before >= kAllTimed && before % kOneOf != 0) return;
    numbers_ = counter.numbers;
    weight_ = before < kAllTimed ? 1 : kOneOf;
    begin_ = ticks();
  } catch (const std::bad_alloc&) {
    return;
  }
}

void Note::take(const Call& call, std::uint64_t ticks) const noexcept {
  ThreadRecord* const record = ThreadRecord::mine();
  if (record == nullptr) return;
  try {
    const Counter counter = counter_of(*record, call);
    add_to(*counter.numbers, counter.bytes, ticks);
    if (!site.empty()) add_to(record->site(site), counter.bytes, ticks);
  } catch (const std::bad_alloc&) {
    return;
  }
}

void Note::add_to(Numbers& numbers, std::uint64_t bytes, std::uint64_t ticks) const {
  add_call(numbers, reason, bytes);
  numbers.seconds += static_cast<double>(ticks);
  if (method.empty() && wire_bytes_ == 0) return;
  // What was lossy once is never called lossless.
  if (!method.empty() && (numbers.method.empty() || !lossless(method) || lossless(numbers.method)))
    numbers.method = method;
  if (feedback != Feedback::none) ++numbers.feedback[static_cast<std::size_t>(feedback)];
  if (reason == Reason::compressed) numbers.compressed_bytes += bytes;
  numbers.wire_bytes += wire_bytes_;
  numbers.encode_s += encode_s_;
  numbers.decode_s += decode_s_;
  numbers.wait_s += wait_s_;
  if (guard_error < 0) return;
  ++numbers.guarded;
  numbers.guard_error_sum += guard_error;
  numbers.guard_error_max = std::max(numbers.guard_error_max, guard_error);
}

}  // namespace mq
