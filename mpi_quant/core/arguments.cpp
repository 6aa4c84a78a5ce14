// The checks of a call's arguments that come before the agreement.
#include <algorithm>
#include <cstdint>
#include <string>

#include "mpi_quant/core/call_run.hpp"

namespace mq {

bool overlaps(const Call& call, std::optional<kernels::Element> element) {
  if (!element || call.count <= 0 || call.sendbuf == MPI_IN_PLACE) return false;
  const auto from = reinterpret_cast<std::uintptr_t>(call.sendbuf),
             to = reinterpret_cast<std::uintptr_t>(call.recvbuf);
  return std::max(from, to) - std::min(from, to) <
         static_cast<std::uintptr_t>(call.count) * kernels::element_bytes(*element);
}

Status check_arguments(const Call& call, std::optional<kernels::Element> element, bool may_overlap) {
  if (call.count < 0) return {Code::bad_argument, "count " + std::to_string(call.count) + " is negative"};
  if (!element || call.count == 0) return {};  // MPI_BOTTOM may be NULL
  if (call.recvbuf == nullptr) return {Code::bad_argument, "recvbuf is NULL"};
  if (call.recvbuf == MPI_IN_PLACE) return {Code::bad_argument, "recvbuf is MPI_IN_PLACE"};
  if (call.sendbuf == nullptr) return {Code::bad_argument, "sendbuf is NULL"};
  if (!may_overlap && overlaps(call, element))
    return {Code::bad_argument, "sendbuf and recvbuf overlap (a sum in place has MPI_IN_PLACE as sendbuf)"};
  return {};
}

}  // namespace mq
