// The table's functions that order work: streams, events, and waiting for each other. memory.cpp and
// launch.cpp put work into streams.
#include <memory>
#include <new>

#include "mpi_quant/cuda/device.hpp"

namespace mq::cuda {
namespace {

CuStream special(std::uintptr_t which) noexcept { return reinterpret_cast<CuStream>(which); }

CuStream of_program(void* stream) noexcept {
  return stream == nullptr ? special(kStreamLegacy) : static_cast<CuStream>(stream);
}

bool is_default(CuStream stream) noexcept {
  return stream == special(kStreamLegacy) || stream == special(kStreamPerThread);
}

// Whether a stream is being captured. Asking does not break a capture, but using the stream may.
bool is_captured(CuStream stream) noexcept {
  int capture = kCaptureNone;
  const CuResult result = driver().cuStreamIsCapturing(stream, &capture);
  // The legacy stream itself cannot be captured. kCaptureImplicit says that a stream that waits for it is.
  return result == kCaptureImplicit || (result == kSuccess && capture != kCaptureNone);
}

Status not_captured(const Device& device, CuStream stream) noexcept {
  if (!is_captured(stream)) return {};
  return status_of(Code::device_failed, [&] {
    return "GPU " + std::to_string(device.ordinal) + ": a graph is being captured from the program's stream";
  });
}

// The context of a stream of the program. A default stream belongs to the current context.
Status context_of(Device& device, CuStream stream, CuContext& context) noexcept {
  context = device.context;
  return is_default(stream) ? Status{} : call_driver(device, driver().cuStreamGetCtx, stream, &context);
}

// Waits for a stream of another context. An event works only in its own context, so this makes one there.
Status follow_elsewhere(DeviceStream& ours, CuStream stream, CuContext context) noexcept {
  const Driver& cu = driver();
  Device& device = *ours.device;
  CuEvent event = nullptr;
  CuContext popped = nullptr;
  MQ_TRY(call_driver(device, cu.cuCtxPushCurrent_v2, context));
  Status status = call_driver(device, cu.cuEventCreate, &event, kEventNoTiming);
  if (status.ok()) status = call_driver(device, cu.cuEventRecord, event, stream);
  (void)cu.cuCtxPopCurrent_v2(&popped);
  if (status.ok()) status = call_driver(device, cu.cuStreamWaitEvent, ours.stream, event, 0U);
  if (event != nullptr) (void)cu.cuEventDestroy_v2(event);  // takes effect when the event was reached
  return status;
}

Status make(Device* device, CuStream stream, DeviceStream*& out) noexcept {
  const Driver& cu = driver();
  std::unique_ptr<DeviceStream> made(new (std::nothrow) DeviceStream);
  if (made == nullptr) return {Code::no_memory, "out of memory"};
  const ContextScope scope(*device);
  MQ_TRY(scope.status());
  made->device = device;
  made->is_ours = stream == nullptr;
  made->stream = stream;
  if (stream != nullptr) {
    CuContext context = nullptr;
    MQ_TRY(context_of(*device, stream, context));
    if (context != device->context)
      return {Code::device_failed, "the stream belongs to another GPU than the vector"};
  }
  MQ_TRY(call_driver(*device, cu.cuEventCreate, &made->order, kEventNoTiming));
  if (made->is_ours) {
    const Status status = call_driver(*device, cu.cuStreamCreate, &made->stream, kStreamNonBlocking);
    if (!status.ok()) {
      (void)cu.cuEventDestroy_v2(made->order);
      return status;
    }
  }
  out = made.release();
  return {};
}

}  // namespace

bool capturing(Device* device, void* stream) noexcept {
  const ContextScope scope(*device);
  if (!scope.ok()) return false;
  const CuStream asked = of_program(stream);
  return is_captured(asked) || (asked == special(kStreamLegacy) && is_captured(special(kStreamPerThread)));
}

Status make_stream(Device* device, DeviceStream*& out) noexcept { return make(device, nullptr, out); }

Status wrap_stream(Device* device, void* stream, DeviceStream*& out) noexcept {
  return make(device, of_program(stream), out);
}

void free_stream(DeviceStream* stream) noexcept {
  const std::unique_ptr<DeviceStream> freed(stream);
  if (stream == nullptr) return;
  const ContextScope scope(*stream->device);
  if (!scope.ok()) return;
  (void)driver().cuEventDestroy_v2(stream->order);
  if (stream->is_ours) (void)driver().cuStreamDestroy_v2(stream->stream);
}

Status follow(DeviceStream* stream, DeviceSync sync) noexcept {
  if (sync == DeviceSync::none) return {};
  if (sync != DeviceSync::device)
    return follow_stream(stream, special(sync == DeviceSync::legacy ? kStreamLegacy : kStreamPerThread));
  const ContextScope scope(*stream->device);
  MQ_TRY(scope.status());
  MQ_TRY(not_captured(*stream->device, special(kStreamLegacy)));
  return call_driver(*stream->device, driver().cuCtxSynchronize);
}

Status follow_stream(DeviceStream* ours, void* stream) noexcept {
  const Driver& cu = driver();
  Device& device = *ours->device;
  const CuStream theirs = of_program(stream);
  const ContextScope scope(device);
  MQ_TRY(scope.status());
  CuContext context = nullptr;
  MQ_TRY(context_of(device, theirs, context));
  MQ_TRY(not_captured(device, theirs));
  if (context != device.context) return follow_elsewhere(*ours, theirs, context);
  MQ_TRY(call_driver(device, cu.cuEventRecord, ours->order, theirs));
  return call_driver(device, cu.cuStreamWaitEvent, ours->stream, ours->order, 0U);
}

Status lead_stream(DeviceStream* ours, void* stream) noexcept {
  const Driver& cu = driver();
  Device& device = *ours->device;
  const CuStream theirs = of_program(stream);
  const ContextScope scope(device);
  MQ_TRY(scope.status());
  MQ_TRY(not_captured(device, theirs));
  MQ_TRY(call_driver(device, cu.cuEventRecord, ours->order, ours->stream));
  return call_driver(device, cu.cuStreamWaitEvent, theirs, ours->order, 0U);
}

Status synchronize(DeviceStream* stream) noexcept {
  const ContextScope scope(*stream->device);
  MQ_TRY(scope.status());
  return call_driver(*stream->device, driver().cuStreamSynchronize, stream->stream);
}

Status make_event(Device* device, bool is_timed, DeviceEvent*& out) noexcept {
  std::unique_ptr<DeviceEvent> made(new (std::nothrow) DeviceEvent);
  if (made == nullptr) return {Code::no_memory, "out of memory"};
  const ContextScope scope(*device);
  MQ_TRY(scope.status());
  made->device = device;
  MQ_TRY(call_driver(*device, driver().cuEventCreate, &made->event, is_timed ? 0U : kEventNoTiming));
  out = made.release();
  return {};
}

void free_event(DeviceEvent* event) noexcept {
  const std::unique_ptr<DeviceEvent> freed(event);
  if (event == nullptr) return;
  const ContextScope scope(*event->device);
  if (scope.ok()) (void)driver().cuEventDestroy_v2(event->event);
}

Status record(DeviceEvent* event, DeviceStream* stream) noexcept {
  const ContextScope scope(*event->device);
  MQ_TRY(scope.status());
  return call_driver(*event->device, driver().cuEventRecord, event->event, stream->stream);
}

Status query(DeviceEvent* event, bool& done) noexcept {
  done = false;
  const ContextScope scope(*event->device);
  MQ_TRY(scope.status());
  const CuResult result = driver().cuEventQuery(event->event);
  if (result == kNotReady) return {};
  done = result == kSuccess;
  return done ? Status{} : failure(event->device->ordinal, driver().cuEventQuery.name, result);
}

Status wait_event(DeviceStream* stream, DeviceEvent* event) noexcept {
  const ContextScope scope(*stream->device);
  MQ_TRY(scope.status());
  return call_driver(*stream->device, driver().cuStreamWaitEvent, stream->stream, event->event, 0U);
}

Status elapsed(DeviceEvent* from, DeviceEvent* to, double& seconds) noexcept {
  float milliseconds = 0;
  const ContextScope scope(*from->device);
  MQ_TRY(scope.status());
  MQ_TRY(call_driver(*from->device, driver().cuEventElapsedTime, &milliseconds, from->event, to->event));
  seconds = static_cast<double>(milliseconds) * 1e-3;
  return {};
}

}  // namespace mq::cuda
