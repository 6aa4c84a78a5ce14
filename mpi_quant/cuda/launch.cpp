// Finds kernels in the image by name, allows them the shared memory they need, and launches them. Also
// defines the table.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "mpi_quant/cuda/device.hpp"
#include "mpi_quant/cuda/image.hpp"

namespace mq::cuda {
namespace {

constexpr std::uint32_t kSharedBytes = 48 << 10;  // static and dynamic; needs no permission

// A small kernel. If the driver finds it, the image has code for the GPU.
constexpr char kProbe[] = "encode_nothing";

// Loads all kernels of the module now. Otherwise a driver that loads lazily does it at a kernel's first
// launch, which may wait for all work of the context: for ever, if a kernel of the program waits there for a
// rank that waits for us.
CuResult load_kernels(const Driver& cu, CuModule module, const char*& function) {
  if (cu.cuModuleGetFunctionCount.f == nullptr || cu.cuModuleEnumerateFunctions.f == nullptr ||
      cu.cuFuncLoad.f == nullptr)
    return kSuccess;
  unsigned n = 0;
  function = cu.cuModuleGetFunctionCount.name;
  if (const CuResult result = cu.cuModuleGetFunctionCount(&n, module); result != kSuccess) return result;
  std::vector<CuFunction> kernels(n);
  function = cu.cuModuleEnumerateFunctions.name;
  if (const CuResult result = cu.cuModuleEnumerateFunctions(kernels.data(), n, module); result != kSuccess)
    return result;
  function = cu.cuFuncLoad.name;
  for (const CuFunction kernel : kernels)
    if (const CuResult result = cu.cuFuncLoad(kernel); result != kSuccess) return result;
  return kSuccess;
}

CuResult load(const Driver& cu, const void* from, CuModule& module, std::array<char, 1024>& log,
              const char*& function) {
  std::array<int, 2> options{kJitErrorLog, kJitErrorLogBytes};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  log.fill(0);
  function = cu.cuModuleLoadDataEx.name;
  CuResult result = cu.cuModuleLoadDataEx(&module, from, 2U, options.data(), values.data());
  if (result != kSuccess) return result;
  function = cu.cuModuleGetFunction.name;
  CuFunction probe = nullptr;
  result = cu.cuModuleGetFunction(&probe, module, kProbe);
  if (result == kSuccess) result = load_kernels(cu, module, function);
  if (result != kSuccess) (void)cu.cuModuleUnload(module);
  return result;
}

// The entry of the kernel with this name, or a free entry for it; null: the table is full.
Device::Kernel* entry_of(Device& d, const char* name) noexcept {
  std::size_t at = (reinterpret_cast<std::uintptr_t>(name) * 0x9e3779b97f4a7c15U) >> 32;
  for (std::size_t probes = 0; probes < Device::kMostKernels; ++probes, ++at) {
    Device::Kernel& kernel = d.kernels[at % Device::kMostKernels];
    const char* const there = kernel.name.load(std::memory_order_acquire);
    if (there == name || there == nullptr) return &kernel;
  }
  return nullptr;
}

// Adds the kernel of this name to the table. The caller holds the lock.
Status resolve(Device& d, const char* name, Device::Kernel*& out) {
  const Driver& cu = driver();
  out = entry_of(d, name);
  if (out == nullptr) return {Code::device_failed, "the table of kernels is full"};
  if (out->name.load(std::memory_order_relaxed) == name) return {};  // another thread has added it meanwhile
  int fixed = 0;
  Status status = call_driver(d, cu.cuModuleGetFunction, &out->function, d.module.load(), name);
  if (status.ok())
    status = call_driver(d, cu.cuFuncGetAttribute, &fixed, kFunctionSharedBytes, out->function);
  if (!status.ok()) return {status.code(), status.text() + ": " + name};
  // Kernels that want different parts of a multiprocessor's memory as shared memory cannot run there
  // together: encodes would wait for decodes to end. So all want the same, as much as there is. A wish only:
  // without it the driver chooses.
  (void)cu.cuFuncSetAttribute(out->function, kFunctionSharedCarveout, 100);
  out->shared_bytes = kSharedBytes - std::min(static_cast<std::uint32_t>(fixed), kSharedBytes);
  out->name.store(name, std::memory_order_release);
  return {};
}

// Finds the kernel and allows it the dynamic shared memory of the launch.
Status prepare(Device& d, const kernels::Launch& launch, CuFunction& out) {
  Device::Kernel* kernel = entry_of(d, launch.kernel);
  const bool is_known = kernel != nullptr && kernel->name.load(std::memory_order_acquire) == launch.kernel;
  if (!is_known || launch.shared_bytes > kernel->shared_bytes) {
    const std::scoped_lock lock(d.mutex);
    MQ_TRY(resolve(d, launch.kernel, kernel));
    if (launch.shared_bytes > kernel->shared_bytes) {
      MQ_TRY(call_driver(d, driver().cuFuncSetAttribute, kernel->function, kFunctionDynamicSharedBytes,
                         static_cast<int>(launch.shared_bytes)));
      kernel->shared_bytes = launch.shared_bytes;
    }
  }
  out = kernel->function;
  return {};
}

Status launched(DeviceStream& stream, const kernels::Launch& launch) {
  Device& d = *stream.device;
  if (d.module == nullptr) return {Code::device_failed, d.no_kernels.load()};
  const ContextScope scope(d);
  MQ_TRY(scope.status());
  CuFunction function = nullptr;
  MQ_TRY(prepare(d, launch, function));
  // As one buffer, because the driver then checks its size against the kernel's parameters: the args of as
  // many runs as a launch may have.
  alignas(16) std::array<std::byte, kernels::kArgsOfRuns> args;  // what is not used stays unset
  std::memcpy(args.data(), launch.args, std::size_t{launch.args_bytes} * launch.runs);
  std::size_t bytes = std::size_t{launch.args_bytes} * kernels::most_runs(launch.args_bytes);
  std::array<void*, 5> extra{reinterpret_cast<void*>(kLaunchBuffer), args.data(),
                             reinterpret_cast<void*>(kLaunchBufferBytes), &bytes,
                             reinterpret_cast<void*>(kLaunchEnd)};
  Status status =
      call_driver(d, driver().cuLaunchKernel, function, launch.grid, launch.runs, 1U, launch.block, 1U, 1U,
                  launch.shared_bytes, stream.stream, nullptr, extra.data());
  if (!status.ok()) return {status.code(), status.text() + ": " + launch.kernel};
  return {};
}

// After an error nothing more is launched, because later kernels depend on the results of earlier ones.
void launch_into(void* context, const kernels::Launch& launch) noexcept {
  auto& stream = *static_cast<DeviceStream*>(context);
  if (!stream.launch_error.ok() || launch.grid == 0) return;
  try {
    stream.launch_error = launched(stream, launch);
  } catch (...) {
    stream.launch_error = {Code::no_memory, "out of memory"};
  }
}

const kernels::DeviceShape* shape(Device* device) noexcept { return &device->shape; }
const char* name(Device* device) noexcept { return device->name.c_str(); }
// Why there are no kernels; null if there are. Tries to load them again if there was not enough memory
// before.
const char* no_kernels(Device* device) noexcept {
  Device& d = *device;
  if (d.module == nullptr && d.may_load_later) {
    try {
      const std::scoped_lock lock(d.mutex);
      const ContextScope scope(d);
      if (d.module == nullptr && scope.ok()) load_image(d);
    } catch (...) {  // no memory for a new text: the previous one stays
    }
  }
  return d.module != nullptr ? nullptr : d.no_kernels.load();
}

constexpr DeviceApi kTable{
    .version = kDeviceApi,
    .where = where,
    .capturing = capturing,
    .shape = shape,
    .name = name,
    .no_kernels = no_kernels,
    .hold = hold,
    .release = release,
    .make_stream = make_stream,
    .wrap_stream = wrap_stream,
    .free_stream = free_stream,
    .follow = follow,
    .follow_stream = follow_stream,
    .lead_stream = lead_stream,
    .synchronize = synchronize,
    .make_event = make_event,
    .free_event = free_event,
    .record = record,
    .query = query,
    .wait_event = wait_event,
    .elapsed = elapsed,
    .allocate = allocate,
    .free = free,
    .allocate_pinned = allocate_pinned,
    .free_pinned = free_pinned,
    .copy = copy,
    .zero = zero,
    .launcher = launcher,
    .launch_error = launch_error,
};

}  // namespace

void load_image(Device& d) {
  std::array<char, 1024> log{};
  const char* function = nullptr;
  CuModule module = nullptr;
  CuResult result = load(driver(), image(), module, log, function);
  // The driver is older than the compiler, or there are no binaries for the GPU. Compiling takes seconds;
  // drivers keep the outcome.
  if (result != kSuccess && result != kOutOfMemory) result = load(driver(), ptx(), module, log, function);
  d.may_load_later = result == kOutOfMemory;
  if (result == kSuccess) {
    d.module = module;
    return;
  }
  std::string text = failure(d.ordinal, function, result).text();
  if (log[0] != '\0') text += std::string(": ") + log.data();
  const char* const before = d.no_kernels;
  if (before != nullptr && text == before) return;
  char* const copy = new char[text.size() + 1];  // never freed
  std::copy_n(text.c_str(), text.size() + 1, copy);
  d.no_kernels = copy;
}

kernels::Launcher launcher(DeviceStream* stream) noexcept { return {stream, launch_into}; }

Status launch_error(DeviceStream* stream) noexcept { return std::exchange(stream->launch_error, Status{}); }

}  // namespace mq::cuda

// Exported; see mpi_quant_cuda.map.
extern "C" __attribute__((visibility("default"))) mq::CudaApi mpiq_cuda_api;
extern "C" const mq::DeviceApi* mpiq_cuda_api(std::uint32_t version, const char** reason) {
  if (version != mq::kDeviceApi) {
    *reason = "is of another version";
    return nullptr;
  }
  return mq::cuda::load_driver(*reason) ? &mq::cuda::kTable : nullptr;
}
