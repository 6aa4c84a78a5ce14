#include "mpi_quant/cuda/device.hpp"

#include <array>
#include <memory>
#include <utility>

#include "mpi_quant/cuda/image.hpp"

namespace mq::cuda {
namespace {

std::atomic<Device*> devices{nullptr};
std::mutex opening;

// The device that this thread holds, and its context once it was entered.
struct Held {
  Device* device = nullptr;
  ContextEntry entry;
};
thread_local Held held;

Status reason(int ordinal, const char* what) noexcept {
  return status_of(Code::device_failed, [&] { return "GPU " + std::to_string(ordinal) + ": " + what; });
}

Status was_reset(const Device& device) noexcept {
  return reason(device.ordinal, "its context was destroyed (cudaDeviceReset?), and the data in it is lost");
}

// Whether the context still is the one with which the device was opened.
bool is_there(Device& device) noexcept {
  if (device.gone) return false;
  unsigned long long id = 0;
  const auto& get_id = driver().cuCtxGetId;
  if (device.context_id != 0 && (get_id(device.context, &id) != kSuccess || id != device.context_id))
    device.gone = true;
  return !device.gone;
}

Status read_shape(Device& d, CuDevice handle) noexcept {
  const Driver& cu = driver();
  int unified = 0, processors = 0, shared = 0, optin = 0;
  MQ_TRY(call_driver(d, cu.cuDeviceGetAttribute, &unified, kDeviceUnifiedAddressing, handle));
  if (unified == 0) return reason(d.ordinal, "has no unified addresses");  // needed for pinned memory
  MQ_TRY(call_driver(d, cu.cuDeviceGetAttribute, &processors, kDeviceMultiprocessors, handle));
  MQ_TRY(call_driver(d, cu.cuDeviceGetAttribute, &shared, kDeviceSharedBytes, handle));
  MQ_TRY(call_driver(d, cu.cuDeviceGetAttribute, &optin, kDeviceSharedBytesOptin, handle));
  d.shape.multiprocessors = static_cast<std::uint32_t>(processors > 0 ? processors : 1);
  d.shape.shared_bytes = static_cast<std::uint32_t>(optin > shared ? optin : shared);
  std::array<char, 256> name{};
  MQ_TRY(call_driver(d, cu.cuDeviceGetName, name.data(), static_cast<int>(name.size() - 1), handle));
  d.name = name.data();
  return {};
}

// A context of the program is used as it is. Null means the primary context, which stays retained for ever.
Status open(int ordinal, CuContext context, Device*& out) {
  const Driver& cu = driver();
  auto d = std::make_unique<Device>();
  d->ordinal = ordinal;
  CuDevice handle = 0;
  MQ_TRY(call_driver(*d, cu.cuDeviceGet, &handle, ordinal));
  CuContext primary = nullptr;
  MQ_TRY(call_driver(*d, cu.cuDevicePrimaryCtxRetain, &primary, handle));
  d->is_primary = context == nullptr || context == primary;
  d->context = d->is_primary ? primary : context;
  const auto fill = [&]() -> Status {
    if (cu.cuCtxGetId.f != nullptr) MQ_TRY(call_driver(*d, cu.cuCtxGetId, d->context, &d->context_id));
    MQ_TRY(read_shape(*d, handle));
    const ContextScope scope(*d);
    if (scope.ok()) load_image(*d);
    return scope.status();
  };
  const Status filled = fill();
  if (!filled.ok() || !d->is_primary) (void)cu.cuDevicePrimaryCtxRelease_v2(handle);
  if (!filled.ok()) return filled;
  out = d.release();
  return {};
}

Device* find(int ordinal, CuContext context) noexcept {
  for (Device* d = devices.load(std::memory_order_acquire); d != nullptr; d = d->next)
    if (d->ordinal == ordinal && (context == nullptr ? d->is_primary : d->context == context) && is_there(*d))
      return d;
  return nullptr;
}

Status device_of(int ordinal, CuContext context, Device*& out) noexcept {
  out = find(ordinal, context);
  if (out != nullptr) return {};
  try {
    const std::scoped_lock lock(opening);
    out = find(ordinal, context);
    if (out != nullptr) return {};
    MQ_TRY(open(ordinal, context, out));
    out->next = devices.load(std::memory_order_relaxed);
    devices.store(out, std::memory_order_release);
    return {};
  } catch (...) {
    return {Code::no_memory, "out of memory"};
  }
}

struct Attributes {
  CuContext context = nullptr;
  unsigned type = 0;  // 0: memory unknown to the driver
  unsigned is_managed = 0;
  int ordinal = -1;
};

CuResult attributes_of(const void* p, Attributes& a) noexcept {
  std::array<int, 4> names{kPointerContext, kPointerMemoryType, kPointerIsManaged, kPointerDeviceOrdinal};
  std::array<void*, 4> values{&a.context, &a.type, &a.is_managed, &a.ordinal};
  return driver().cuPointerGetAttributes(static_cast<unsigned>(names.size()), names.data(), values.data(),
                                         reinterpret_cast<CuAddress>(p));
}

// The first GPU from number `from` on whose primary context is in use; -1 if there is none.
int first_active(int from) noexcept {
  const Driver& cu = driver();
  int count = 0, active = 0;
  unsigned flags = 0;
  CuDevice handle = 0;
  if (cu.cuDeviceGetCount(&count) != kSuccess) return -1;
  for (int i = from; i < count; ++i)
    if (cu.cuDeviceGet(&handle, i) == kSuccess &&
        cu.cuDevicePrimaryCtxGetState(handle, &flags, &active) == kSuccess && active != 0)
      return i;
  return -1;
}

// If the calling thread has no current context, or a destroyed one, some drivers do not answer. Then this
// asks again in each primary context that is in use. If none is in use, there is no device memory.
CuResult attributes_elsewhere(const void* p, Attributes& a) noexcept {
  const Driver& cu = driver();
  CuResult result = kSuccess;
  for (int i = first_active(0); i >= 0; i = first_active(i + 1)) {
    CuDevice handle = 0;
    CuContext context = nullptr;
    if ((result = cu.cuDeviceGet(&handle, i)) != kSuccess) return result;
    if ((result = cu.cuDevicePrimaryCtxRetain(&context, handle)) != kSuccess) return result;
    if ((result = cu.cuCtxPushCurrent_v2(context)) == kSuccess) {
      a = {};
      result = attributes_of(p, a);
      if (result == kInvalidContext) result = kSuccess;  // this context is valid, but no context knows p
      (void)cu.cuCtxPopCurrent_v2(&context);
    }
    (void)cu.cuDevicePrimaryCtxRelease_v2(handle);
    if (result == kSuccess && a.type != 0) return result;
  }
  return result;
}

// Managed memory may name no GPU. Then this returns the calling thread's GPU, or the first one in use.
int any_gpu() noexcept {
  const Driver& cu = driver();
  CuContext context = nullptr;
  CuDevice handle = 0;
  if (cu.cuCtxGetCurrent(&context) == kSuccess && context != nullptr &&
      cu.cuCtxGetDevice(&handle) == kSuccess)
    return handle;  // a handle equals the ordinal
  return first_active(0);
}

}  // namespace

Status ContextEntry::enter(Device& device) noexcept {
  const Driver& cu = driver();
  if (!is_there(device)) return was_reset(device);
  MQ_TRY(call_driver(device, cu.cuThreadExchangeStreamCaptureMode, &mode));
  has_mode = true;
  MQ_TRY(call_driver(device, cu.cuCtxPushCurrent_v2, device.context));
  is_pushed = true;
  return {};
}

void ContextEntry::leave() noexcept {
  const Driver& cu = driver();
  CuContext popped = nullptr;
  if (is_pushed) (void)cu.cuCtxPopCurrent_v2(&popped);
  if (has_mode) (void)cu.cuThreadExchangeStreamCaptureMode(&mode);
}

ContextScope::ContextScope(Device& device) noexcept {
  if (held.device != &device) {
    status_ = own_.enter(device);
  } else if (!held.entry.is_pushed) {
    status_ = held.entry.enter(device);
    if (!status_.ok()) std::exchange(held.entry, {}).leave();
  } else if (device.gone) {
    status_ = was_reset(device);
  }
}

ContextScope::~ContextScope() { own_.leave(); }

void hold(Device* device) noexcept { held = {device, {}}; }

void release(Device*) noexcept { std::exchange(held, {}).entry.leave(); }

Status where(const void* p, Where& out) noexcept {
  out = {};
  Attributes a;
  CuResult result = attributes_of(p, a);
  if (result == kInvalidContext || result == kContextIsDestroyed) result = attributes_elsewhere(p, a);
  // kDeinitialized: the process is ending, and no device memory is left.
  if (result == kNotInitialized || result == kDeinitialized || result == kInvalidValue) return {};
  if (result != kSuccess) return failure(-1, driver().cuPointerGetAttributes.name, result);
  const bool is_device = a.is_managed != 0 || a.type == kMemoryDevice || a.type == kMemoryUnified;
  if (!is_device) return {};
  if (a.ordinal < 0) a.ordinal = any_gpu();
  if (a.ordinal < 0) return {};  // managed memory that no GPU has ever touched
  // Managed memory, pools and mapped ranges belong to no context, or may be used in any context.
  MQ_TRY(device_of(a.ordinal, a.is_managed != 0 ? nullptr : a.context, out.device));
  out.memory = Memory::device;
  return {};
}

}  // namespace mq::cuda
