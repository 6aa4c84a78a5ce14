#include "mpi_quant/report/note.hpp"

#include <algorithm>
#include <bit>
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

std::uint64_t bytes_of(const Call& call) {
  int size = 0;
  if (call.datatype != MPI_DATATYPE_NULL) (void)PMPI_Type_size(call.datatype, &size);
  return static_cast<std::uint64_t>(std::max<MPI_Count>(call.count, 0)) * static_cast<std::uint64_t>(size);
}

}  // namespace

ClassId class_of(const Call& call) {
  int ranks = 0;
  (void)PMPI_Comm_size(call.comm, &ranks);
  return {comm_name(call.comm), ranks, type_name(call.datatype), op_name(call.op),
          static_cast<int>(std::bit_width(bytes_of(call))) - 1};
}

void Note::take(const Call& call, std::uint64_t ticks) const noexcept {
  ThreadRecord* const record = ThreadRecord::mine();
  if (record == nullptr || reason == Reason::handle) return;  // nothing can be asked about invalid handles
  int ranks = 0;
  (void)PMPI_Comm_size(call.comm, &ranks);
  const std::uint64_t bytes = bytes_of(call);
  const CallTraits traits{word_of(call.comm), word_of(call.datatype), word_of(call.op), ranks,
                          static_cast<int>(std::bit_width(bytes)) - 1};
  try {
    Numbers& of_class = record->of(traits, [&] { return class_of(call); });
    add_to(of_class, bytes, ticks);
    if (!site.empty()) add_to(record->site(site), bytes, ticks);
  } catch (const std::bad_alloc&) {
    return;
  }
}

void Note::add_to(Numbers& numbers, std::uint64_t bytes, std::uint64_t ticks) const {
  ++numbers.calls[static_cast<std::size_t>(reason)];
  numbers.bytes += bytes;
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
