// Kernels: found in the image by name, allowed the shared memory they ask for, launched. And the table.
#include <array>

#include "mpi_quant/cuda/device.hpp"

namespace mq::cuda {
namespace {

// The kernel by its name, allowed shared_bytes of dynamic shared memory. The lock is held.
Status prepare(Device& d, const kernels::Launch& launch, CuFunction& out) {
  const Driver& cu = driver();
  auto found = d.kernels.find(launch.kernel);
  if (found == d.kernels.end()) {
    Device::Kernel kernel;
    Status status = tried(d, cu.cuModuleGetFunction, &kernel.function, d.module, launch.kernel);
    if (!status.ok()) return {status.code(), status.text() + ": " + launch.kernel};
    found = d.kernels.emplace(launch.kernel, kernel).first;
  }
  Device::Kernel& kernel = found->second;
  if (launch.shared_bytes > kernel.shared_bytes) {
    MQ_TRY(tried(d, cu.cuFuncSetAttribute, kernel.function, kFunctionDynamicSharedBytes,
                 static_cast<int>(launch.shared_bytes)));
    kernel.shared_bytes = launch.shared_bytes;
  }
  out = kernel.function;
  return {};
}

Status launched(DeviceStream& stream, const kernels::Launch& launch) {
  Device& d = *stream.device;
  if (d.module == nullptr) return {Code::device_failed, d.no_kernels};
  const Entered entered(d);
  MQ_TRY(entered.status());
  CuFunction function = nullptr;
  {
    const std::scoped_lock lock(d.mutex);
    MQ_TRY(prepare(d, launch, function));
  }
  std::size_t bytes = launch.args_bytes;
  // As a buffer, whose size the driver checks against the kernel's.
  std::array<void*, 5> extra{reinterpret_cast<void*>(kLaunchBuffer), const_cast<void*>(launch.args),
                             reinterpret_cast<void*>(kLaunchBufferBytes), &bytes,
                             reinterpret_cast<void*>(kLaunchEnd)};
  Status status = tried(d, driver().cuLaunchKernel, function, launch.grid, 1U, 1U, launch.block, 1U, 1U,
                        launch.shared_bytes, stream.stream, nullptr, extra.data());
  if (!status.ok()) return {status.code(), status.text() + ": " + launch.kernel};
  return {};
}

// After an error nothing more is launched: it would work on what was not made.
void launch_into(void* context, const kernels::Launch& launch) noexcept {
  auto& stream = *static_cast<DeviceStream*>(context);
  if (!stream.launch_error.ok() || launch.grid == 0) return;
  try {
    stream.launch_error = launched(stream, launch);
  } catch (...) {
    stream.launch_error = {Code::no_memory, {}};
  }
}

const kernels::DeviceShape* shape(Device* device) noexcept { return &device->shape; }
const char* name(Device* device) noexcept { return device->name.c_str(); }
const char* no_kernels(Device* device) noexcept {
  return device->module != nullptr ? nullptr : device->no_kernels.c_str();
}

constexpr DeviceApi kTable{
    .version = kDeviceApi,
    .where = where,
    .capturing = capturing,
    .shape = shape,
    .name = name,
    .no_kernels = no_kernels,
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

kernels::Launcher launcher(DeviceStream* stream) noexcept { return {stream, launch_into}; }

Status launch_error(DeviceStream* stream) noexcept { return std::exchange(stream->launch_error, Status{}); }

}  // namespace mq::cuda

// Exported, see mpi_quant_cuda.map.
extern "C" __attribute__((visibility("default"))) mq::CudaApi mpiq_cuda_api;
extern "C" const mq::DeviceApi* mpiq_cuda_api(std::uint32_t version, const char** trouble) {
  if (version != mq::kDeviceApi) {
    *trouble = "is of another version";
    return nullptr;
  }
  return mq::cuda::load_driver(*trouble) ? &mq::cuda::kTable : nullptr;
}
