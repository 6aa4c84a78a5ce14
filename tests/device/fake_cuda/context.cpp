// The fake driver's devices and contexts.
#include <algorithm>
#include <cstring>
#include <string>

#include "tests/device/fake_cuda/state.hpp"

namespace mq::fake {

namespace {

CuResult primary_of(CuDevice device, Context*& context) {
  if (device < 0 || device >= state().devices) return kInvalidDevice;
  context = state().contexts[static_cast<std::size_t>(device)].get();
  return kSuccess;
}

CuContext handle(Context* context) { return reinterpret_cast<CuContext>(context); }

}  // namespace

Context* context_of(CuContext asked) {
  for (const auto& context : state().contexts)
    if (handle(context.get()) == asked) return context.get();
  return nullptr;
}

CuResult current(Context*& context) {
  if (thread().stack.empty() || thread().stack.back() == nullptr) return kInvalidContext;
  context = thread().stack.back();
  return context->is_alive ? kSuccess : kContextIsDestroyed;
}

void activate(Context& context) {
  if (context.is_alive) return;
  context.is_alive = true;
  context.id = ++state().last_id;
  context.legacy = new Stream;
  context.legacy->context = &context;
  context.legacy->is_default = true;
  state().streams.insert(context.legacy);
}

void destroy(Context& context) {
  State& s = state();
  context.is_alive = false;
  for (Stream* stream : s.streams)
    if (stream->context == &context) {
      stream->is_alive = stream->is_captured = false;
      stream->work.drop();
    }
  for (Event* event : s.events)
    if (event->context == &context) event->is_alive = false;
  for (Module* module : s.modules)
    if (module->context == &context) module->is_alive = false;
  for (auto a = s.allocations.begin(); a != s.allocations.end();) {
    const auto next = std::next(a);
    if (a->second.context == &context && a->second.kind != Kind::registered) release(a);
    a = next;
  }
  context.per_thread.clear();
}

extern "C" {

CuResult cuInit(unsigned) {
  Call call("cuInit", false);
  if (call.result == kSuccess) state().is_initialized = true;
  return call.result;
}

CuResult cuDriverGetVersion(int* version) {
  *version = 12040;
  return kSuccess;
}

CuResult cuDeviceGetCount(int* count) {
  Call call("cuDeviceGetCount");
  *count = state().devices;
  return call.result;
}

CuResult cuDeviceGet(CuDevice* device, int ordinal) {
  Call call("cuDeviceGet");
  if (call.result != kSuccess) return call.result;
  *device = ordinal;
  Context* context = nullptr;
  return primary_of(ordinal, context);
}

CuResult cuDeviceGetName(char* name, int bytes, CuDevice device) {
  Call call("cuDeviceGetName");
  if (call.result != kSuccess) return call.result;
  const std::string text = "Fake GPU " + std::to_string(device);
  std::strncpy(name, text.c_str(), static_cast<std::size_t>(bytes));
  return kSuccess;
}

CuResult cuDeviceGetUuid(CuUuid* id, CuDevice device) {
  Call call("cuDeviceGetUuid");
  if (call.result != kSuccess) return call.result;
  *id = {};
  id->bytes[15] = static_cast<char>(device + 1);
  return kSuccess;
}

CuResult cuDeviceTotalMem_v2(std::size_t* bytes, CuDevice) {
  Call call("cuDeviceTotalMem_v2");
  *bytes = std::size_t{1} << 34;
  return call.result;
}

CuResult cuDeviceGetAttribute(int* value, int attribute, CuDevice) {
  Call call("cuDeviceGetAttribute");
  if (call.result != kSuccess) return call.result;
  switch (attribute) {
    case 13: *value = 1000000; return kSuccess;  // kHz
    case 32: *value = 0; return kSuccess;        // ECC
    case 36: *value = 1000000; return kSuccess;  // of the memory
    case 38: *value = 1 << 20; return kSuccess;  // bytes of L2
    case 75: *value = 8; return kSuccess;        // compute capability 8.0
    case 76: *value = 0; return kSuccess;
    case kDeviceSharedBytes: *value = 48 << 10; return kSuccess;
    case kDeviceSharedBytesOptin: *value = state().shared_bytes; return kSuccess;
    case kDeviceMultiprocessors: *value = state().processors; return kSuccess;
    case kDeviceUnifiedAddressing: *value = 1; return kSuccess;
    default: return kInvalidValue;
  }
}

CuResult cuDevicePrimaryCtxGetState(CuDevice device, unsigned* flags, int* active) {
  Call call("cuDevicePrimaryCtxGetState");
  Context* context = nullptr;
  if (call.result == kSuccess) call.result = primary_of(device, context);
  if (call.result != kSuccess) return call.result;
  *flags = 0;
  *active = context->is_alive ? 1 : 0;
  return kSuccess;
}

CuResult cuDevicePrimaryCtxRetain(CuContext* out, CuDevice device) {
  Call call("cuDevicePrimaryCtxRetain");
  Context* context = nullptr;
  if (call.result == kSuccess) call.result = primary_of(device, context);
  if (call.result != kSuccess) return call.result;
  activate(*context);
  ++context->retained;
  *out = handle(context);
  return kSuccess;
}

CuResult cuDevicePrimaryCtxRelease_v2(CuDevice device) {
  Call call("cuDevicePrimaryCtxRelease_v2");
  Context* context = nullptr;
  if (call.result == kSuccess) call.result = primary_of(device, context);
  if (call.result != kSuccess) return call.result;
  if (context->retained == 0) return kInvalidContext;
  if (--context->retained == 0) destroy(*context);
  return kSuccess;
}

CuResult cuDevicePrimaryCtxReset_v2(CuDevice device) {
  Call call("cuDevicePrimaryCtxReset_v2");
  Context* context = nullptr;
  if (call.result == kSuccess) call.result = primary_of(device, context);
  if (call.result == kSuccess) destroy(*context);
  return call.result;
}

CuResult cuCtxCreate_v2(CuContext* out, unsigned, CuDevice device) {
  Call call("cuCtxCreate_v2");
  Context* primary = nullptr;
  if (call.result == kSuccess) call.result = primary_of(device, primary);
  if (call.result != kSuccess) return call.result;
  state().contexts.push_back(std::make_unique<Context>());
  Context& context = *state().contexts.back();
  context.ordinal = device;
  activate(context);
  thread().stack.push_back(&context);
  *out = handle(&context);
  return kSuccess;
}

CuResult cuCtxDestroy_v2(CuContext asked) {
  Call call("cuCtxDestroy_v2");
  if (call.result != kSuccess) return call.result;
  Context* const context = context_of(asked);
  if (context == nullptr || context->is_primary || !context->is_alive) return kInvalidContext;
  destroy(*context);
  auto& stack = thread().stack;
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  return kSuccess;
}

CuResult cuCtxPushCurrent_v2(CuContext asked) {
  Call call("cuCtxPushCurrent_v2");
  if (call.result != kSuccess) return call.result;
  Context* const context = context_of(asked);
  if (context == nullptr) return kInvalidContext;
  if (!context->is_alive) return kContextIsDestroyed;
  thread().stack.push_back(context);
  return kSuccess;
}

// Fails only as planned: a program whose context died can pop it.
CuResult cuCtxPopCurrent_v2(CuContext* out) {
  Call call("cuCtxPopCurrent_v2", false);
  if (thread().stack.empty()) return kInvalidContext;
  *out = handle(thread().stack.back());
  thread().stack.pop_back();
  return call.result;
}

CuResult cuCtxSetCurrent(CuContext asked) {
  Call call("cuCtxSetCurrent");
  if (call.result != kSuccess) return call.result;
  Context* const context = context_of(asked);
  if (asked != nullptr && context == nullptr) return kInvalidContext;
  if (!thread().stack.empty()) thread().stack.pop_back();
  if (context != nullptr) thread().stack.push_back(context);
  return kSuccess;
}

CuResult cuCtxGetCurrent(CuContext* out) {
  Call call("cuCtxGetCurrent");
  *out = thread().stack.empty() ? nullptr : handle(thread().stack.back());
  return call.result;
}

CuResult cuCtxGetDevice(CuDevice* device) {
  Call call("cuCtxGetDevice");
  Context* context = nullptr;
  if (call.result == kSuccess) call.result = current(context);
  if (call.result == kSuccess) *device = context->ordinal;
  return call.result;
}

CuResult cuCtxGetId(CuContext asked, unsigned long long* id) {
  Call call("cuCtxGetId");
  if (call.result != kSuccess) return call.result;
  const Context* const context = context_of(asked);
  if (context == nullptr || !context->is_alive) return kContextIsDestroyed;
  *id = context->id;
  return kSuccess;
}

CuResult cuCtxSynchronize() {
  Call call("cuCtxSynchronize");
  Context* context = nullptr;
  if (call.result == kSuccess) call.result = current(context);
  return call.result == kSuccess ? drain(*context, true) : call.result;
}

CuResult cuThreadExchangeStreamCaptureMode(int* mode) {
  Call call("cuThreadExchangeStreamCaptureMode");
  if (call.result == kSuccess) std::swap(*mode, thread().capture_mode);
  return call.result;
}

}  // extern "C"

}  // namespace mq::fake
