#include "mpi_quant/cuda/driver.hpp"

#include <dlfcn.h>

#include <cstring>
#include <string>

namespace mq::cuda {
namespace {

Driver functions;

// For functions that the driver does not export by name; available since CUDA 11.3. cudaVersion is the
// version of the declarations in driver.hpp.
using GetProcAddress = CuResult(const char* symbol, void** function, int cuda_version, std::uint64_t flags);
constexpr int kCudaVersion = 12000;

// Returns the address of a driver function. The exported name comes first, because it identifies the
// signature.
void* address(void* library, const char* name) {
  if (void* const exported = dlsym(library, name)) return exported;
  auto* const get = reinterpret_cast<GetProcAddress*>(dlsym(library, "cuGetProcAddress"));
  std::string plain = name;
  if (const std::size_t version = plain.rfind("_v"); version != std::string::npos) plain.resize(version);
  void* found = nullptr;
  return get != nullptr && get(plain.c_str(), &found, kCudaVersion, 0) == kSuccess ? found : nullptr;
}

template <class F>
bool find(void* library, F& function) {
  function.f = reinterpret_cast<typename F::Pointer>(address(library, function.name));
  return function.f != nullptr;
}

const char* text_of(const decltype(Driver::cuGetErrorName)& function, CuResult result) {
  const char* text = nullptr;
  return function.f != nullptr && function(result, &text) == kSuccess && text != nullptr ? text
                                                                                         : "unknown error";
}

}  // namespace

bool load_driver(const char*& reason) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);  // stays open
  if (library == nullptr) {
    reason = "no CUDA driver is mapped";
    return false;
  }
#define MQ_CUDA_FIND(function, ...)                              \
  if (!find(library, functions.function)) {                      \
    reason = "the CUDA driver is too old: it has no " #function; \
    return false;                                                \
  }
  MQ_CUDA_FUNCTIONS(MQ_CUDA_FIND)
#undef MQ_CUDA_FIND
#define MQ_CUDA_FIND(function, ...) (void)find(library, functions.function);
  MQ_CUDA_OPTIONAL_FUNCTIONS(MQ_CUDA_FIND)
#undef MQ_CUDA_FIND
  return true;
}

const Driver& driver() noexcept { return functions; }

Status failure(int ordinal, const char* function, CuResult result) noexcept {
  const Code code = result == kOutOfMemory ? Code::no_memory : Code::device_failed;
  return status_of(code, [&] {
    const std::string gpu = ordinal < 0 ? "" : "GPU " + std::to_string(ordinal) + ": ";
    return gpu + function + ": " + text_of(driver().cuGetErrorString, result) + " (" +
           text_of(driver().cuGetErrorName, result) + ")";
  });
}

}  // namespace mq::cuda
