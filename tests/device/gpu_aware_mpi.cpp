#include "tests/device/gpu_aware_mpi.hpp"

#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <string_view>
#include <vector>

#include "tests/device/fake_cuda/fake.hpp"

namespace mq::test {
namespace {

// A message of bytes under way, by the address of its request, which stays where it is.
struct Carried {
  std::vector<std::byte> host;
  void* to = nullptr;  // of a receive
};
std::map<const MPI_Request*, Carried> under_way;
long carried = 0, asked = 0;

std::string_view takes() {
  const char* const text = std::getenv("GPU_AWARE_MPI");
  return text == nullptr ? "1" : text;
}

template <class F>
F beneath(F, const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

Carried& carry(const MPI_Request* request, int bytes) {
  ++carried;
  Carried& message = under_way[request];
  message.host.assign(static_cast<std::size_t>(bytes), std::byte{});
  return message;
}

}  // namespace

long messages_in_device_memory() { return carried; }
long times_asked() { return asked; }
bool takes_device_memory() { return takes() == "1"; }

}  // namespace mq::test

using namespace mq::test;

// The library sends MPI_BYTE only.
#pragma GCC visibility push(default)
extern "C" {
#ifdef OPEN_MPI
int MPIX_Query_cuda_support() {
  ++asked;
  return takes() != "0";
}

// Of Debian's it is false.
int PMPI_T_cvar_get_index(const char* name, int* index) {
  static auto* const get = beneath(&PMPI_T_cvar_get_index, "PMPI_T_cvar_get_index");
  return takes() == "off" ? get(name, index) : MPI_T_ERR_INVALID_NAME;
}
#else
int MPIX_GPU_query_support(int, int* is_supported) {
  ++asked;
  *is_supported = takes_device_memory();
  return MPI_SUCCESS;
}

int MPIX_Query_cuda_support() { std::abort(); }  // as in MPICH 3.4
#endif

int PMPI_Isend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request* request) {
  static auto* const send = beneath(&PMPI_Isend, "PMPI_Isend");
  if (!fake_cuda_holds(buffer)) return send(buffer, count, type, to, tag, comm, request);
  Carried& message = carry(request, count);
  fake_cuda_carry(message.host.data(), buffer, message.host.size());
  return send(message.host.data(), count, type, to, tag, comm, request);
}

int PMPI_Irecv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
               MPI_Request* request) {
  static auto* const receive = beneath(&PMPI_Irecv, "PMPI_Irecv");
  if (!fake_cuda_holds(buffer)) return receive(buffer, count, type, from, tag, comm, request);
  Carried& message = carry(request, count);
  message.to = buffer;
  return receive(message.host.data(), count, type, from, tag, comm, request);
}

int PMPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  static auto* const test = beneath(&PMPI_Test, "PMPI_Test");
  const int code = test(request, flag, status);
  const auto at = under_way.find(request);
  if (at == under_way.end() || (code == MPI_SUCCESS && *flag == 0)) return code;
  Carried& message = at->second;
  if (message.to != nullptr && code == MPI_SUCCESS) {
    int bytes = 0;
    (void)PMPI_Get_count(status, MPI_BYTE, &bytes);
    fake_cuda_carry(message.to, message.host.data(), static_cast<std::size_t>(std::max(bytes, 0)));
  }
  under_way.erase(at);
  return code;
}
}
#pragma GCC visibility pop
