#include "mpi_quant/core/errors.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>

#include "mpi_quant/base/family.h"
#include "mpi_quant/base/stub.h"
#include "mpi_quant/core/real_mpi.hpp"

// Weak, because it is new in MPI 5.
extern "C" __attribute__((weak)) int PMPI_Abi_get_version(int* major, int* minor);

namespace mq {
namespace {

// False before MPI_Init and after MPI_Finalize, when MPI ends a process that calls an error handler.
bool has_handlers() {
  int initialized = 0, finalized = 0;
  return PMPI_Initialized(&initialized) == MPI_SUCCESS && initialized != 0 &&
         PMPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0;
}

// The error code, with its text set. The class and the codes are made once, when they are first needed,
// because MPI has room for a limited number. The class is the library's own, because MPICH 4.0.2 loses the
// text of a code that is added to a predefined class.
int error_code(const Status& status) {
  static std::mutex mutex;
  static int error_class = 0;
  static std::array<int, kCodes> codes{};
  const std::scoped_lock lock(mutex);
  int& code = codes[static_cast<std::size_t>(status.code())];
  if (!has_handlers()) return code != 0 ? code : MPI_ERR_OTHER;  // nor can MPI take a text then
  if (error_class == 0) {
    if (PMPI_Add_error_class(&error_class) != MPI_SUCCESS) return MPI_ERR_OTHER;
    (void)PMPI_Add_error_string(error_class, "error of mpi_quant");
  }
  if (code == 0 && PMPI_Add_error_code(error_class, &code) != MPI_SUCCESS) return MPI_ERR_OTHER;
  std::array<char, MPI_MAX_ERROR_STRING> text{};  // no std::string, because there may be no memory for one
  (void)std::snprintf(text.data(), text.size(), "mpi_quant: %s", status.text().c_str());
  (void)PMPI_Add_error_string(code, text.data());
  return code;
}

// The version text of the MPI library of the process. No handle is needed to ask for it, so every family
// answers.
const char* mpi_version() {
  static std::array<char, MPIQ_VERSION_BYTES> version{};
  static const bool asked = [] {
    int length = 0;
    return PMPI_Get_library_version(version.data(), &length) == MPI_SUCCESS;
  }();
  return asked ? version.data() : "";
}

const void* object_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// The family of the MPI library of the process. Null if it is none of those that are known. Another library
// of the process may have PMPI_Abi_get_version too, so it counts only where the version text comes from.
const char* family_of_process() {
  static const char* const family = [] {
    const auto get = &PMPI_Abi_get_version;
    const bool is_its_own = object_of(reinterpret_cast<const void*>(get)) ==
                            object_of(reinterpret_cast<const void*>(&PMPI_Get_library_version));
    return mpiq_family_of(mpi_version(), mpiq_abi_major(is_its_own ? get : nullptr));
  }();
  return family;
}

// Calls the error handler of MPI_COMM_WORLD in the MPI that the process runs. The handle is passed as a word
// that can hold a handle of any family.
void call_foreign_errhandler(int code) {
  const mpiq_slot world = mpiq_world_of(family_of_process(), dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world"));
  const auto function = reinterpret_cast<void (*)()>(&PMPI_Comm_call_errhandler);
  if (world != 0) (void)reinterpret_cast<int (*)(mpiq_slot, int)>(function)(world, code);
}

// A communicator of this rank alone while it lives, also if its error handler throws. MPI_COMM_SELF will not
// do: another thread may raise an error on it meanwhile, or set a handler. Handles are only handed back to
// MPI and never compared with constants: the library may know other values of them than the MPI of the
// process.
class Alone {
 public:
  explicit Alone(MPI_Errhandler handler) {
    exists_ = PMPI_Comm_split(MPI_COMM_SELF, 0, 0, &comm_) == MPI_SUCCESS;
    if (exists_) (void)PMPI_Comm_set_errhandler(comm_, handler);
  }
  ~Alone() {
    if (exists_) (void)PMPI_Comm_free(&comm_);
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;
  bool exists() const { return exists_; }
  MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  bool exists_ = false;
};

}  // namespace

bool mpi_fits() noexcept {
  static const bool fits = [] {
    const char* const family = family_of_process();
    return family == nullptr || std::string_view(family) == kFamily;
  }();
  return fits;
}

Status misfit() {
  constexpr std::size_t kMostOfVersion = 60;
  std::string version(mpi_version());
  version.resize(std::min({version.find_first_of("\n,"), version.size(), kMostOfVersion}));
  std::replace(version.begin(), version.end(), '\t', ' ');
  return {Code::bad_argument, std::string("libmpi_quant_") + kFamily +
                                  " does not fit the MPI of this program, " + version +
                                  ": link libmpi_quant_" + family_of_process()};
}

int code_of(const Status& status) { return status.ok() ? MPI_SUCCESS : error_code(status); }

int raise(MPI_Comm comm, const Status& status) {
  if (status.ok()) return MPI_SUCCESS;
  const int code = error_code(status);
  if (!has_handlers()) return code;
  if (mpi_fits())
    (void)PMPI_Comm_call_errhandler(comm, code);
  else
    call_foreign_errhandler(code);
  return code;
}

KeptHandler::KeptHandler(MPI_Comm comm) noexcept {
  if (PMPI_Comm_get_errhandler(comm, &handler_) != MPI_SUCCESS) handler_ = MPI_ERRHANDLER_NULL;
}

// A request may be freed after MPI_Finalize.
KeptHandler::~KeptHandler() {
  if (handler_ != MPI_ERRHANDLER_NULL && has_handlers()) (void)PMPI_Errhandler_free(&handler_);
}

int KeptHandler::raise(const Status& status) const {
  if (status.ok() || handler_ == MPI_ERRHANDLER_NULL || !has_handlers()) return code_of(status);
  const Alone alone(handler_);
  return alone.exists() ? mq::raise(alone.comm(), status) : code_of(status);
}

}  // namespace mq
