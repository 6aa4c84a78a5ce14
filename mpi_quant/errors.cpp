#include "mpi_quant/errors.hpp"

#include <array>
#include <mutex>

namespace mq {
namespace {

// The code with its text set. Class and codes are made once, when first needed, because MPI has room for a
// limited number. The class is our own: MPICH 4.0.2 loses the text of a code that is added to a predefined
// class.
int error_code(const Status& status) {
  static std::mutex mutex;
  static int error_class = 0;
  static std::array<int, kCodes> codes{};
  const std::scoped_lock lock(mutex);
  int& code = codes[static_cast<std::size_t>(status.code())];
  if (error_class == 0) {
    if (PMPI_Add_error_class(&error_class) != MPI_SUCCESS) return MPI_ERR_OTHER;
    (void)PMPI_Add_error_string(error_class, "error of mpi_quant");
  }
  if (code == 0 && PMPI_Add_error_code(error_class, &code) != MPI_SUCCESS) return MPI_ERR_OTHER;
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
