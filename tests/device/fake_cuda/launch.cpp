// The fake driver's kernels: names in the emulator's table. Of the image only the kind is looked at.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/device/fake_cuda/state.hpp"
#include "tests/device/simt/emulator.hpp"

namespace mq::fake {
namespace {

constexpr CuResult kLaunchFailed = 719;

// Memory of the host that is none of the driver's: a GPU cannot reach it. (Heap, stack, constants.)
bool is_of_host(std::uintptr_t p) {
  if (p < 65536 || p >> 47 != 0 || allocation_at(p) != state().allocations.end()) return false;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(p / page * page), 1, &resident) == 0;
}

// Another GPU's own memory, to which no test gives a GPU access.
bool is_elsewhere(std::uintptr_t p, const Context& context) {
  const auto a = allocation_at(p);
  return a != state().allocations.end() && (a->second.kind == Kind::device || a->second.kind == Kind::pool) &&
         a->second.context->ordinal != context.ordinal;
}

// The emulator would follow any pointer. Not always looked for: what padding holds may look like one.
bool leads_astray(const std::vector<std::byte>& args, const Context& context) {
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= args.size(); at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, args.data() + at, sizeof word);
    const bool is_host = is_of_host(word);
    if (!is_host && !is_elsewhere(word, context)) continue;
    std::fprintf(stderr, "fake CUDA: byte %zu of a kernel's arguments is a pointer to %s memory\n", at,
                 is_host ? "the host's" : "another GPU's");
    return true;
  }
  return false;
}

CuResult run(const std::string& name, kernels::Launch launch, const std::vector<std::byte>& args,
             const Context& context) {
  State& s = state();
  ++s.ran[name];
  if (const CuResult error = planned("kernel"); error != kSuccess) return error;
  if (s.is_strict && leads_astray(args, context)) {
    std::fprintf(stderr, "fake CUDA: it is kernel %s\n", name.c_str());
    return kIllegalAddress;
  }
  launch.kernel = name.c_str();
  launch.args = args.data();
  if (simt::run(launch)) return kSuccess;
  std::fprintf(stderr, "fake CUDA: %s\n", simt::error());
  simt::clear_error();
  return kLaunchFailed;
}

Kernel* kernel_of(CuFunction handle) {
  auto* const kernel = reinterpret_cast<Kernel*>(handle);
  return state().handles.count(kernel) != 0 && kernel->module->is_alive ? kernel : nullptr;
}

// The arguments that CU_LAUNCH_PARAM_BUFFER gives.
bool read_args(void** extra, std::vector<std::byte>& args) {
  const void* from = nullptr;
  std::size_t bytes = 0;
  for (; extra != nullptr && reinterpret_cast<std::uintptr_t>(*extra) != kLaunchEnd; extra += 2) {
    const auto key = reinterpret_cast<std::uintptr_t>(*extra);
    if (key == kLaunchBuffer) from = extra[1];
    if (key == kLaunchBufferBytes) bytes = *static_cast<const std::size_t*>(extra[1]);
  }
  if (from == nullptr) return false;
  args.resize(bytes);
  std::memcpy(args.data(), from, bytes);
  return true;
}

}  // namespace

extern "C" {

CuResult cuModuleLoadDataEx(CuModule* out, const void* image, unsigned n, int* options, void** values) {
  Call call("cuModuleLoadDataEx");
  Context* context = nullptr;
  if (call.result == kSuccess) call.result = current(context);
  if (call.result == kSuccess) call.result = unsafe();
  if (call.result != kSuccess) return call.result;
  // PTX begins with a comment, and so do both images if they were made without nvcc.
  if (image != nullptr && std::strncmp(static_cast<const char*>(image), "//", 2) == 0) ++state().calls["ptx"];
  if (state().refuses_images || image == nullptr) {
    for (unsigned i = 0; i < n; ++i)
      if (options[i] == kJitErrorLog) std::strcpy(static_cast<char*>(values[i]), "the fake takes no image");
    return kInvalidImage;
  }
  auto* const module = new Module;
  module->context = context;
  state().modules.insert(module);
  *out = reinterpret_cast<CuModule>(module);
  return kSuccess;
}

CuResult cuModuleUnload(CuModule handle) {
  Call call("cuModuleUnload");
  if (call.result != kSuccess) return call.result;
  auto* const module = reinterpret_cast<Module*>(handle);
  if (state().modules.count(module) == 0 || !module->is_alive) return kInvalidHandle;
  module->is_alive = false;
  return kSuccess;
}

CuResult cuModuleGetFunction(CuFunction* out, CuModule handle, const char* name) {
  Call call("cuModuleGetFunction");
  if (call.result != kSuccess) return call.result;
  auto* const module = reinterpret_cast<Module*>(handle);
  if (state().modules.count(module) == 0 || !module->is_alive) return kInvalidHandle;
  if (!simt::known(name)) return kNotFound;
  auto& kernel = state().kernels[{module, name}];
  if (kernel == nullptr) {
    kernel = std::make_unique<Kernel>();
    kernel->module = module;
    kernel->name = name;
    state().handles.insert(kernel.get());
  }
  *out = reinterpret_cast<CuFunction>(kernel.get());
  return kSuccess;
}

CuResult cuModuleGetFunctionCount(unsigned* n, CuModule) {
  Call call("cuModuleGetFunctionCount");
  *n = static_cast<unsigned>(simt::names().size());
  return call.result;
}

CuResult cuModuleEnumerateFunctions(CuFunction* out, unsigned n, CuModule handle) {
  {
    Call call("cuModuleEnumerateFunctions");
    if (call.result != kSuccess) return call.result;
  }
  const std::vector<const char*> names = simt::names();
  for (unsigned i = 0; i < n && i < names.size(); ++i)
    if (const CuResult result = cuModuleGetFunction(out + i, handle, names[i]); result != kSuccess)
      return result;
  return kSuccess;
}

CuResult cuFuncLoad(CuFunction handle) {
  Call call("cuFuncLoad");
  if (call.result != kSuccess) return call.result;
  Kernel* const kernel = kernel_of(handle);
  if (kernel == nullptr) return kInvalidHandle;
  kernel->is_loaded = true;
  return kSuccess;
}

CuResult cuFuncGetAttribute(int* value, int attribute, CuFunction handle) {
  Call call("cuFuncGetAttribute");
  if (call.result != kSuccess) return call.result;
  if (kernel_of(handle) == nullptr) return kInvalidHandle;
  *value = kStaticShared;
  return attribute == kFunctionSharedBytes ? kSuccess : kInvalidValue;
}

CuResult cuFuncSetAttribute(CuFunction handle, int attribute, int value) {
  Call call("cuFuncSetAttribute");
  if (call.result != kSuccess) return call.result;
  Kernel* const kernel = kernel_of(handle);
  if (kernel == nullptr) return kInvalidHandle;
  if (attribute == kFunctionSharedCarveout) {
    ++state().calls[value == 100 ? "carveout 100" : "other carveout"];
    return value >= -1 && value <= 100 ? kSuccess : kInvalidValue;
  }
  if (attribute != kFunctionDynamicSharedBytes || value < 0 || value + kStaticShared > state().shared_bytes)
    return kInvalidValue;
  kernel->shared_bytes = value;
  return kSuccess;
}

CuResult cuLaunchKernel(CuFunction function, unsigned grid, unsigned grid_y, unsigned grid_z, unsigned block,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CuStream stream_handle,
                        void** pointers, void** extra) {
  Call call("cuLaunchKernel");
  Stream* stream = nullptr;
  if (call.result == kSuccess) call.result = stream_of(stream_handle, stream);
  if (call.result != kSuccess) return call.result;
  Kernel* const kernel = kernel_of(function);
  if (kernel == nullptr || kernel->module->context != stream->context) return kInvalidHandle;
  std::vector<std::byte> args;
  if (grid == 0 || block == 0 || block > 1024 || grid_y == 0 || grid_z * block_y * block_z != 1 ||
      pointers != nullptr)
    return kInvalidValue;
  if (shared_bytes > static_cast<unsigned>(kernel->shared_bytes) || !read_args(extra, args))
    return kInvalidValue;
  if (!std::exchange(kernel->is_loaded, true)) ++state().calls["lazy load"];
  // A real driver compares the size of the buffer with the size of the kernel's parameters.
  const std::uint32_t bytes = simt::args_bytes(kernel->name.c_str()), most = kernels::most_runs(bytes);
  if (args.size() != std::size_t{bytes} * most || grid_y > most) return kInvalidValue;
  args.resize(std::size_t{bytes} * grid_y);
  kernels::Launch launch{nullptr, grid, block, shared_bytes, nullptr, bytes, grid_y};
  return enqueue(*stream, [name = kernel->name, launch, args, context = stream->context] {
    return run(name, launch, args, *context);
  });
}

}  // extern "C"

}  // namespace mq::fake
