#include "mpi_quant/report/reported_call.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "mpi_quant/core/datatypes.hpp"

namespace mq {
namespace {

// A handle as an integer, whatever its type is in this MPI library.
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

std::string name_of(MPI_Op op) {
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

std::string op_name(const Call& call) {
  if (call.collective == Collective::allreduce) return name_of(call.op);
  const std::string collective(name(call.collective));
  return adds(call.collective) ? collective + "(" + name_of(call.op) + ")" : collective;
}

std::string comm_name(MPI_Comm comm) {
  char text[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  if (comm != MPI_COMM_NULL) (void)PMPI_Comm_get_name(comm, text, &length);
  return text;
}

// MPI gives the handles of freed objects to new ones. So a communicator is identified by a number in one of
// its attributes, and the size of a type is asked for every time.
std::uintptr_t number_of(MPI_Comm comm) {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    (void)PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &made, nullptr);
    return made;
  }();
  static std::atomic<std::uintptr_t> numbers = 2;
  if (comm == MPI_COMM_WORLD) return 1;
  if (comm == MPI_COMM_SELF) return 2;
  void* value = nullptr;
  int found = 0;
  if (key == MPI_KEYVAL_INVALID || PMPI_Comm_get_attr(comm, key, &value, &found) != MPI_SUCCESS) return 0;
  if (found) return reinterpret_cast<std::uintptr_t>(value);
  const std::uintptr_t number = ++numbers;
  (void)PMPI_Comm_set_attr(comm, key, reinterpret_cast<void*>(number));
  return number;
}

std::uint64_t bytes_of(const Call& call) {
  int size = 0;
  if (call.datatype == MPI_FLOAT)
    size = sizeof(float);
  else if (call.datatype == MPI_DOUBLE)
    size = sizeof(double);
  else if (call.datatype != MPI_DATATYPE_NULL)
    (void)PMPI_Type_size(call.datatype, &size);
  return static_cast<std::uint64_t>(std::max<MPI_Count>(call.count, 0)) * static_cast<std::uint64_t>(size);
}

Numbers& numbers_of(ThreadRecord& record, const Call& call, std::uint64_t bytes) {
  const CallTraits traits{number_of(call.comm), word_of(call.mpi_type()), word_of(call.op), log2_of(bytes),
                          static_cast<int>(call.collective)};
  return record.of(traits, [&] { return class_of(call); });
}

void add_call(Numbers& numbers, Reason reason, std::uint64_t bytes) {
  ++numbers.calls[static_cast<std::size_t>(reason)];
  numbers.bytes += bytes;
}

}  // namespace

ClassId class_of(const Call& call) {
  int ranks = 0;
  (void)PMPI_Comm_size(call.comm, &ranks);
  return {comm_name(call.comm), ranks, type_name(call.mpi_type()), op_name(call), log2_of(bytes_of(call))};
}

ExactCall::ExactCall(const Call& call, Reason reason) noexcept {
  constexpr std::uint64_t kAllTimed = 64, kOneOf = 16;
  ThreadRecord* const record = ThreadRecord::mine();
  // an invalid handle must not be used in any call
  if (record == nullptr || reason == Reason::handle) return;
  try {
    const std::uint64_t bytes = bytes_of(call);
    Numbers& numbers = numbers_of(*record, call, bytes);
    const std::uint64_t before = numbers.calls[static_cast<std::size_t>(reason)];
    add_call(numbers, reason, bytes);
    if (before >= kAllTimed && before % kOneOf != 0) return;
    numbers_ = &numbers;
    weight_ = before < kAllTimed ? 1 : kOneOf;
    begin_ = ticks();
  } catch (const std::bad_alloc&) {
    return;
  }
}

void ReportedCall::take(const Call& call, std::uint64_t ticks) const noexcept {
  ThreadRecord* const record = ThreadRecord::mine();
  if (record == nullptr) return;
  try {
    const std::uint64_t bytes = bytes_of(call);
    add_to(numbers_of(*record, call, bytes), bytes, ticks);
    if (!site.empty()) add_to(record->site(std::string(site)), bytes, ticks);
  } catch (const std::bad_alloc&) {
    return;
  }
}

void ReportedCall::add_to(Numbers& numbers, std::uint64_t bytes, std::uint64_t ticks) const {
  add_call(numbers, reason, bytes);
  numbers.seconds += static_cast<double>(ticks);
  if (method.empty() && work.wire_bytes == 0) return;
  // If a class had one lossy call, its method is never reported as lossless.
  if (!method.empty() && (numbers.method.empty() || !lossless(method) || lossless(numbers.method)))
    numbers.method = method;
  if (feedback != FeedbackOutcome::none) ++numbers.feedback[static_cast<std::size_t>(feedback)];
  if (reason == Reason::compressed) numbers.compressed_bytes += bytes;
  numbers.wire_bytes += work.wire_bytes;
  numbers.overflows += work.overflows;
  numbers.encode_s += work.encode_s;
  numbers.decode_s += work.decode_s;
  numbers.wait_s += work.wait_s;
  if (guard_error < 0) return;
  ++numbers.guarded;
  numbers.guard_error_sum += guard_error;
  numbers.guard_error_max = std::max(numbers.guard_error_max, guard_error);
}

}  // namespace mq
