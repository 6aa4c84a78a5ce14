#include "bench/nccl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "bench/check.hpp"

namespace mq::bench {
namespace {

// NCCL's interface, version 2, with the names, numbers and types of its manual.
struct UniqueId {
  char internal[128];
};
constexpr int kSum = 0;

int type_number(kernels::Element element) {
  switch (element) {
    case kernels::Element::f16: return 6;
    case kernels::Element::f32: return 7;
    case kernels::Element::f64: return 8;
    case kernels::Element::bf16: return 9;
  }
  return 7;
}

Status no(std::string text) { return {Code::bad_argument, std::move(text)}; }

using Uuid = std::array<char, 48>;

// Whether two ranks have the same GPU, which NCCL does not support. Collective.
bool shared(const std::string& gpu_uuid, MPI_Comm comm) {
  int size = 1;
  PMPI_Comm_size(comm, &size);
  Uuid mine{};
  std::copy_n(gpu_uuid.data(), std::min(gpu_uuid.size(), mine.size() - 1), mine.data());
  std::vector<Uuid> all(static_cast<std::size_t>(size));
  PMPI_Allgather(mine.data(), static_cast<int>(mine.size()), MPI_CHAR, all.data(),
                 static_cast<int>(mine.size()), MPI_CHAR, comm);
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) != all.end();
}

}  // namespace

struct Nccl::Library {
  Library() {
#ifdef MQ_NCCL_LIBRARY
    handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) handle = dlopen(MQ_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == nullptr || driver == nullptr) return;
    const auto find = [](void* from, auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(from, name));
      return function != nullptr;
    };
    complete = find(handle, unique_id, "ncclGetUniqueId") && find(handle, init, "ncclCommInitRank") &&
               find(handle, allreduce, "ncclAllReduce") && find(handle, destroy, "ncclCommDestroy") &&
               find(handle, error_string, "ncclGetErrorString") &&
               find(driver, synchronize, "cuStreamSynchronize");
#endif
  }
  void* handle = nullptr;
  bool complete = false;
  int (*unique_id)(UniqueId*) = nullptr;
  int (*init)(void**, int, UniqueId, int) = nullptr;
  int (*allreduce)(const void*, void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*destroy)(void*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*synchronize)(void*) = nullptr;
};

const Nccl::Library& Nccl::library() {
  static const Library only;
  return only;
}

Result<std::unique_ptr<Nccl>> Nccl::make(kernels::Element element, MPI_Count count,
                                         const std::string& gpu_uuid, MPI_Comm comm) {
  const Library& nccl = library();
  if (!all_agree(nccl.complete, comm)) {
#ifdef MQ_NCCL_LIBRARY
    return no("NCCL cannot be loaded on some rank");
#else
    return no("built without NCCL");
#endif
  }
  if (shared(gpu_uuid, comm)) return no("NCCL takes one GPU for each rank, and some ranks share one");
  int rank = 0, size = 1, error = 0;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  UniqueId id{};
  if (rank == 0) error = nccl.unique_id(&id);
  PMPI_Bcast(&error, 1, MPI_INT, 0, comm);
  std::unique_ptr<Nccl> made(new Nccl(nccl, type_number(element), static_cast<std::size_t>(count)));
  if (error == 0) {
    PMPI_Bcast(&id, sizeof id, MPI_BYTE, 0, comm);
    error = nccl.init(&made->comm_, size, id, rank);
    if (error != 0) made->comm_ = nullptr;
  }
  int worst = error;
  PMPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MAX, comm);
  if (worst != 0) return no(fmt::format("NCCL: {}", nccl.error_string(worst)));
  return made;
}

Nccl::~Nccl() {
  if (comm_ != nullptr) (void)library_.destroy(comm_);
}

bool Nccl::operator()(const void* send, void* receive) const {
  return library_.allreduce(send, receive, count_, type_, kSum, comm_, nullptr) == 0 &&
         library_.synchronize(nullptr) == 0;
}

}  // namespace mq::bench
