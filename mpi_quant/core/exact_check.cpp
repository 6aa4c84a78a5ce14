#include "mpi_quant/core/exact_check.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/parted_call.hpp"
#include "mpi_quant/core/request.hpp"
#include "mpi_quant/engine/frame.hpp"

namespace mq {
namespace {

// MPI tells when it is to pack no element of it.
Status check_committed(MPI_Datatype type, const char* name, MPI_Comm comm) {
  if (type == MPI_DATATYPE_NULL || element_of(type)) return {};
  char byte = 0;
  int position = 0;
  if (PMPI_Pack(&byte, 0, type, &byte, sizeof byte, &position, comm) == MPI_SUCCESS) return {};
  return {Code::bad_argument, std::string(name) + " is not committed, or no datatype"};
}

// 0: a sum.
std::uint32_t number_of(MPI_Op op) {
  const std::array known{MPI_SUM, MPI_MAX, MPI_MIN,  MPI_PROD, MPI_LAND,   MPI_BAND,
                         MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR, MPI_MAXLOC, MPI_MINLOC};
  return static_cast<std::uint32_t>(std::find(known.begin(), known.end(), op) - known.begin());
}

// The name of a type that the program has derived is its own.
std::uint64_t hash_of_type(MPI_Datatype type) {
  int size = 0, length = 0;
  (void)PMPI_Type_size(type, &size);
  Hash hash;
  hash.add(size);
  std::array<char, MPI_MAX_OBJECT_NAME> name{};
  if (is_predefined(type) && PMPI_Type_get_name(type, name.data(), &length) == MPI_SUCCESS)
    hash.add(hash_of(std::string_view(name.data(), static_cast<std::size_t>(length))));
  return hash.value();
}

}  // namespace

Status check_exact(const Call& call, MPI_Comm comm) {
  const bool gathers = call.collective == Collective::allgather;
  MQ_TRY(check_committed(call.mpi_type(), gathers ? "recvtype" : "datatype", comm));
  if (call.parted == nullptr) return {};
  if (gathers && call.sendbuf != MPI_IN_PLACE)
    MQ_TRY(check_committed(call.parted->gather.sendtype, "sendtype", comm));
  return check_ints(call);
}

std::uint32_t exact_hash(const Call& call) {
  if (!adds(call.collective)) return 0;
  const std::uint32_t op = number_of(call.op);
  const bool is_known = element_of(call.datatype).has_value();
  if (op == 0 && is_known) return 0;
  return static_cast<std::uint32_t>(
      mixed(Hash{}.add(op).add(is_known ? 0 : hash_of_type(call.datatype)).value()));
}

Status start_status(int code, const char* function) noexcept {
  Status status = mpi_status(code, function);
  int error_class = MPI_SUCCESS;
  if (status.ok() || PMPI_Error_class(code, &error_class) != MPI_SUCCESS) return status;
  for (const int alike : {MPI_ERR_OP, MPI_ERR_TYPE, MPI_ERR_COUNT})
    if (error_class == alike) return {Code::bad_argument, status.text()};
  return status;
}

}  // namespace mq
