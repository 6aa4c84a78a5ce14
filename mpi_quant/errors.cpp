// See errors.hpp.

#include "mpi_quant/errors.hpp"

#include <array>
#include <mutex>

namespace mq {
namespace {

int error_class_of(Code code) {
  switch (code) {
    case Code::ok: return MPI_SUCCESS;
    case Code::bad_policy:
    case Code::bad_argument: return MPI_ERR_ARG;
    case Code::bad_info: return MPI_ERR_INFO_VALUE;
    case Code::no_memory: return MPI_ERR_NO_MEM;
    case Code::mpi_failed: return MPI_ERR_INTERN;
    case Code::mismatch:
    case Code::bad_frame:
    case Code::peer_failed: return MPI_ERR_OTHER;
  }
  return MPI_ERR_UNKNOWN;
}

// The code with its text set. Codes are made once, when first needed, because MPI has room for a limited
// number.
int error_code(const Status& status) {
  static std::mutex mutex;
  static std::array<int, kCodes> codes{};
  const std::scoped_lock lock(mutex);
  int& code = codes[static_cast<std::size_t>(status.code())];
  if (code == 0 && PMPI_Add_error_code(error_class_of(status.code()), &code) != MPI_SUCCESS) {
    code = 0;
    return MPI_ERR_OTHER;
  }
  std::string text = "mpi_quant: " + status.text();
  if (text.size() >= MPI_MAX_ERROR_STRING) text.resize(MPI_MAX_ERROR_STRING - 1);
  (void)PMPI_Add_error_string(code, text.c_str());
  return code;
}

}  // namespace

int raise(MPI_Comm comm, const Status& status) {
  if (status.ok()) return MPI_SUCCESS;
  const int code = error_code(status);
  (void)PMPI_Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace mq
