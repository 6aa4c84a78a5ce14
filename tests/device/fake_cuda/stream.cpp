// The fake driver's streams, events and captures. An operation waits for the one before it in its stream and
// for those its stream was told to wait for; the legacy stream and blocking streams wait for one another.
#include <algorithm>
#include <chrono>

#include "tests/device/fake_cuda/state.hpp"

namespace mq::fake {
namespace {

template <class T>
T* alive(const std::set<T*>& all, void* handle) {
  auto* const object = static_cast<T*>(handle);
  return all.count(object) != 0 && object->is_alive ? object : nullptr;
}

Event* event_of(CuEvent handle) { return alive(state().events, handle); }

void invalidate(const Context& context) {
  for (Stream* stream : state().streams)
    if (stream->is_captured && stream->context == &context) stream->is_invalidated = true;
}

bool is_capturing_blocking(const Context& context) {
  return std::any_of(state().streams.begin(), state().streams.end(), [&](const Stream* s) {
    return s->context == &context && s->is_captured && s->is_blocking;
  });
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

CuResult ask(const test::Lazy& operation, int& queries) {
  return test::LazyStream::is_due(operation, state().queries, queries) ? complete(operation) : kNotReady;
}

}  // namespace

CuResult stream_of(CuStream handle, Stream*& stream) {
  Context* context = nullptr;
  if (const CuResult error = current(context); error != kSuccess) return error;
  if (handle == nullptr || handle == reinterpret_cast<CuStream>(kStreamLegacy)) {
    stream = context->legacy;
  } else if (handle == reinterpret_cast<CuStream>(kStreamPerThread)) {
    Stream*& own = context->per_thread[std::this_thread::get_id()];
    if (own == nullptr) {
      own = new Stream;
      own->context = context;
      own->is_default = true;
      state().streams.insert(own);
    }
    stream = own;
  } else {
    stream = alive(state().streams, handle);
  }
  return stream == nullptr ? kInvalidHandle : kSuccess;
}

CuResult unsafe() {
  if (thread().capture_mode == kCaptureModeRelaxed) return kSuccess;
  for (Stream* s : state().streams) {
    if (!s->is_captured || s->capture_mode == kCaptureModeRelaxed) continue;
    if (s->capture_mode != 0 && s->capturer != std::this_thread::get_id()) continue;
    s->is_invalidated = true;
    return kCaptureUnsupported;
  }
  return kSuccess;
}

CuResult enqueue(Stream& stream, std::function<CuResult()> run, test::Lazy after, test::Lazy* made) {
  State& s = state();
  Context& context = *stream.context;
  if (stream.is_captured) return stream.is_invalidated ? kCaptureInvalidated : kSuccess;  // into a graph
  const bool is_legacy = &stream == context.legacy;
  if (is_legacy && is_capturing_blocking(context)) {
    invalidate(context);
    return kCaptureImplicit;
  }
  std::vector<test::Lazy> first{std::move(after)};
  if (is_legacy) {
    for (Stream* other : s.streams)
      if (other->context == &context && other != &stream && other->is_blocking)
        first.push_back(other->work.last());
  } else if (stream.is_blocking) {
    first.push_back(context.legacy->work.last());
  }
  const test::Lazy operation = stream.work.push(std::move(run), std::move(first));
  if (made != nullptr) *made = operation;
  return s.is_eager ? complete(operation) : kSuccess;
}

CuResult complete(const test::Lazy& operation) {
  if (operation == nullptr || operation->is_done) return kSuccess;
  give_access(true);
  const CuResult error = test::LazyStream::complete(operation);
  give_access(false);
  if (error == test::LazyStream::kDropped) return kContextIsDestroyed;
  if (sticks(error)) state().sticky = error;
  return error;
}

CuResult drain(Stream& stream) {
  if (stream.is_captured) {
    stream.is_invalidated = true;
    return kCaptureUnsupported;
  }
  return complete(stream.work.last());
}

CuResult drain(Context& context, bool with_captured) {
  const auto all = state().streams;
  for (Stream* stream : all)
    if (stream->context == &context && (with_captured || !stream->is_captured))
      if (const CuResult error = drain(*stream); error != kSuccess) return error;
  return kSuccess;
}

extern "C" {

CuResult cuStreamCreate(CuStream* out, unsigned flags) {
  Call call("cuStreamCreate");
  Context* context = nullptr;
  if (call.result == kSuccess) call.result = current(context);
  if (call.result != kSuccess) return call.result;
  auto* const stream = new Stream;
  stream->context = context;
  stream->is_blocking = (flags & kStreamNonBlocking) == 0;
  state().streams.insert(stream);
  *out = reinterpret_cast<CuStream>(stream);
  return kSuccess;
}

// What it holds still runs when something waits for it.
CuResult cuStreamDestroy_v2(CuStream handle) {
  Call call("cuStreamDestroy_v2");
  if (call.result != kSuccess) return call.result;
  Stream* const stream = alive(state().streams, handle);
  if (stream == nullptr) return kInvalidHandle;
  stream->is_alive = false;
  return kSuccess;
}

CuResult cuStreamGetCtx(CuStream handle, CuContext* context) {
  Call call("cuStreamGetCtx");
  Stream* stream = nullptr;
  if (call.result == kSuccess) call.result = stream_of(handle, stream);
  if (call.result == kSuccess) *context = reinterpret_cast<CuContext>(stream->context);
  return call.result;
}

CuResult cuStreamSynchronize(CuStream handle) {
  Call call("cuStreamSynchronize");
  Stream* stream = nullptr;
  if (call.result == kSuccess) call.result = stream_of(handle, stream);
  if (call.result == kSuccess) call.result = unsafe();
  return call.result == kSuccess ? drain(*stream) : call.result;
}

CuResult cuStreamQuery(CuStream handle) {
  Call call("cuStreamQuery");
  Stream* stream = nullptr;
  if (call.result == kSuccess) call.result = stream_of(handle, stream);
  if (call.result == kSuccess) call.result = unsafe();
  return call.result == kSuccess ? ask(stream->work.last(), stream->queries) : call.result;
}

CuResult cuStreamWaitEvent(CuStream handle, CuEvent event_handle, unsigned) {
  Call call("cuStreamWaitEvent");
  Stream* stream = nullptr;
  if (call.result == kSuccess) call.result = stream_of(handle, stream);
  if (call.result != kSuccess) return call.result;
  const Event* const event = event_of(event_handle);
  if (event == nullptr) return kInvalidHandle;
  if (stream->is_captured != event->is_captured) {
    stream->is_invalidated = true;
    return kCaptureIsolation;
  }
  if (event->recorded == nullptr) return kSuccess;
  return enqueue(
      *stream, [] { return kSuccess; }, event->recorded);
}

CuResult cuEventCreate(CuEvent* out, unsigned flags) {
  Call call("cuEventCreate");
  Context* context = nullptr;
  if (call.result == kSuccess) call.result = current(context);
  if (call.result != kSuccess) return call.result;
  auto* const event = new Event;
  event->context = context;
  event->has_timing = (flags & kEventNoTiming) == 0;
  state().events.insert(event);
  *out = reinterpret_cast<CuEvent>(event);
  return kSuccess;
}

CuResult cuEventDestroy_v2(CuEvent handle) {
  Call call("cuEventDestroy_v2");
  if (call.result != kSuccess) return call.result;
  Event* const event = event_of(handle);
  if (event == nullptr) return kInvalidHandle;
  event->is_alive = false;
  event->recorded = nullptr;
  return kSuccess;
}

CuResult cuEventRecord(CuEvent handle, CuStream stream_handle) {
  Call call("cuEventRecord");
  Stream* stream = nullptr;
  if (call.result == kSuccess) call.result = stream_of(stream_handle, stream);
  if (call.result != kSuccess) return call.result;
  Event* const event = event_of(handle);
  if (event == nullptr || event->context != stream->context) return kInvalidHandle;
  event->is_captured = stream->is_captured;
  event->queries = 0;
  event->recorded = nullptr;
  const auto reached = std::make_shared<double>(0);
  event->reached_s = reached;
  return enqueue(
      *stream,
      [reached] {
        *reached = now_s();
        return kSuccess;
      },
      nullptr, &event->recorded);
}

CuResult cuEventQuery(CuEvent handle) {
  Call call("cuEventQuery");
  if (call.result == kSuccess) call.result = unsafe();
  if (call.result != kSuccess) return call.result;
  Event* const event = event_of(handle);
  if (event == nullptr) return kInvalidHandle;
  return ask(event->recorded, event->queries);
}

CuResult cuEventSynchronize(CuEvent handle) {
  Call call("cuEventSynchronize");
  if (call.result == kSuccess) call.result = unsafe();
  if (call.result != kSuccess) return call.result;
  const Event* const event = event_of(handle);
  if (event == nullptr) return kInvalidHandle;
  return complete(event->recorded);
}

CuResult cuEventElapsedTime(float* milliseconds, CuEvent from_handle, CuEvent to_handle) {
  Call call("cuEventElapsedTime");
  if (call.result != kSuccess) return call.result;
  const Event *const from = event_of(from_handle), *const to = event_of(to_handle);
  if (from == nullptr || to == nullptr || !from->has_timing || !to->has_timing) return kInvalidHandle;
  if (from->recorded == nullptr || to->recorded == nullptr) return kInvalidHandle;
  if (!from->recorded->is_done || !to->recorded->is_done) return kNotReady;
  *milliseconds = static_cast<float>((*to->reached_s - *from->reached_s) * 1e3);
  return kSuccess;
}

CuResult cuStreamIsCapturing(CuStream handle, int* status) {
  Call call("cuStreamIsCapturing");
  Stream* stream = nullptr;
  if (call.result == kSuccess) call.result = stream_of(handle, stream);
  if (call.result != kSuccess) return call.result;
  if (stream == stream->context->legacy && is_capturing_blocking(*stream->context)) return kCaptureImplicit;
  *status = stream->is_invalidated ? 2 : stream->is_captured ? 1 : 0;
  return kSuccess;
}

CuResult cuStreamBeginCapture_v2(CuStream handle, int mode) {
  Call call("cuStreamBeginCapture_v2");
  Stream* stream = nullptr;
  if (call.result == kSuccess) call.result = stream_of(handle, stream);
  if (call.result != kSuccess) return call.result;
  if (stream == stream->context->legacy || stream->is_captured) return kCaptureUnsupported;
  stream->is_captured = true;
  stream->is_invalidated = false;
  stream->capture_mode = mode;
  stream->capturer = std::this_thread::get_id();
  return kSuccess;
}

CuResult cuStreamEndCapture(CuStream handle, void** graph) {
  Call call("cuStreamEndCapture");
  Stream* stream = nullptr;
  if (call.result == kSuccess) call.result = stream_of(handle, stream);
  if (call.result != kSuccess) return call.result;
  *graph = nullptr;
  if (!stream->is_captured) return kCaptureUnmatched;
  stream->is_captured = false;
  return std::exchange(stream->is_invalidated, false) ? kCaptureInvalidated : kSuccess;
}

}  // extern "C"

}  // namespace mq::fake
