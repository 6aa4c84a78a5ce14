#include "mpi_quant/core/real_mpi.hpp"

#include <dlfcn.h>

#include "mpi_quant/base/stub.h"

#if MPI_VERSION >= 4
// Weak, because libraries with the same ABI but an older standard lack them.
extern "C" {
#  define MQ_DECLARE(member, Name) __attribute__((weak)) decltype(PMPI_##Name##_c) PMPI_##Name##_c;
MQ_REAL_MPI(MQ_DECLARE)
#  undef MQ_DECLARE
}
#endif

namespace mq {
namespace {

// If the preload library is there, it knows the real function.
template <class F>
F real(const mpiq_stub* stub, const char* name, F own) {
  void* const found = stub != nullptr ? stub->real(name) : nullptr;
  return found != nullptr ? reinterpret_cast<F>(found) : own;
}

// True if MPI has a bool control variable of this name, and it is false. Open MPI 4 says how it was built.
// Support that was built but is not turned on is of no use: Open MPI then takes all pointers for host memory.
bool is_turned_off(const char* variable) noexcept {
  int level = MPI_THREAD_SINGLE, index = 0, values = 0;
  (void)PMPI_Query_thread(&level);  // Open MPI 4 adopts the level that it is given here
  if (PMPI_T_init_thread(level, &level) != MPI_SUCCESS) return false;
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  int value = 1;
  bool is_off = PMPI_T_cvar_get_index(variable, &index) == MPI_SUCCESS &&
                PMPI_T_cvar_handle_alloc(index, nullptr, &handle, &values) == MPI_SUCCESS;
  if (is_off) {
    is_off = values == 1 && PMPI_T_cvar_read(handle, &value) == MPI_SUCCESS && value == 0;
    (void)PMPI_T_cvar_handle_free(&handle);
  }
  (void)PMPI_T_finalize();
  return is_off;
}

}  // namespace

const RealMpi& real_mpi() noexcept {
  static const RealMpi real_functions = [] {
    const auto* stub = static_cast<const mpiq_stub*>(dlsym(RTLD_DEFAULT, "mpiq_stub_v1"));
    if (stub != nullptr && stub->version != MPIQ_STUB_VERSION) stub = nullptr;
    RealMpi r;
#define MQ_FIND(member, Name) r.member = real(stub, "PMPI_" #Name, &PMPI_##Name);
    MQ_REAL_MPI(MQ_FIND)
#undef MQ_FIND
#if MPI_VERSION >= 4
#  define MQ_FIND(member, Name) r.member##_c = real(stub, "PMPI_" #  Name "_c", &PMPI_##Name##_c);
    MQ_REAL_MPI(MQ_FIND)
#  undef MQ_FIND
#endif
    return r;
  }();
  return real_functions;
}

bool mpi_takes_device_memory() noexcept {
  static const bool takes = [] {
    constexpr int kCuda = 0;  // MPIX_GPU_SUPPORT_CUDA
    int is_supported = 0;
    // If this function exists the other is not asked, because MPICH 3.4's fails an assertion.
    if (auto* const query =
            reinterpret_cast<int (*)(int, int*)>(dlsym(RTLD_DEFAULT, "MPIX_GPU_query_support")))
      return query(kCuda, &is_supported) == MPI_SUCCESS && is_supported != 0;
    auto* const ask = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
    return ask != nullptr && ask() != 0 && !is_turned_off("opal_cuda_support");
  }();
  return takes;
}

}  // namespace mq
