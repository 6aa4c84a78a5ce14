#include "mpi_quant/base/real_mpi.hpp"

#include <dlfcn.h>

#include "mpi_quant/base/front.h"

namespace mq {
namespace {

// The preload library knows it, if there is one.
template <class F>
F real(const mpiq_front* front, const char* name, F own) {
  void* const found = front != nullptr ? front->real(name) : nullptr;
  return found != nullptr ? reinterpret_cast<F>(found) : own;
}

}  // namespace

const RealMpi& real_mpi() noexcept {
  static const RealMpi real_functions = [] {
    const auto* front = static_cast<const mpiq_front*>(dlsym(RTLD_DEFAULT, "mpiq_front_v1"));
    if (front != nullptr && front->version != MPIQ_FRONT_VERSION) front = nullptr;
    RealMpi r;
    r.allreduce = real(front, "PMPI_Allreduce", &PMPI_Allreduce);
    r.iallreduce = real(front, "PMPI_Iallreduce", &PMPI_Iallreduce);
#if MPI_VERSION >= 4
    r.allreduce_c = real(front, "PMPI_Allreduce_c", &PMPI_Allreduce_c);
    r.iallreduce_c = real(front, "PMPI_Iallreduce_c", &PMPI_Iallreduce_c);
#endif
    return r;
  }();
  return real_functions;
}

bool mpi_takes_device_memory() noexcept {
  static const bool takes = [] {
    constexpr int kCuda = 0;  // MPIX_GPU_SUPPORT_CUDA
    int is_supported = 0;
    if (auto* const query =
            reinterpret_cast<int (*)(int, int*)>(dlsym(RTLD_DEFAULT, "MPIX_GPU_query_support"));
        query != nullptr && query(kCuda, &is_supported) == MPI_SUCCESS && is_supported != 0)
      return true;
    auto* const ask = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
    return ask != nullptr && ask() != 0;
  }();
  return takes;
}

}  // namespace mq
