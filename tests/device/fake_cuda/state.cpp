#include "tests/device/fake_cuda/state.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace mq::fake {
namespace {

int number(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? std::atoi(text) : otherwise;
}

State* made() {
  auto* const s = new State;  // for ever: objects of the program may outlive every destructor
  s->devices = number("FAKE_CUDA_DEVICES", s->devices);
  s->processors = number("FAKE_CUDA_PROCESSORS", s->processors);
  s->shared_bytes = number("FAKE_CUDA_SHARED", s->shared_bytes);
  s->queries = number("FAKE_CUDA_QUERIES", s->queries);
  s->is_eager = number("FAKE_CUDA_EAGER", 0) != 0;
  s->is_strict = number("FAKE_CUDA_STRICT", 0) != 0;
  s->traces = number("FAKE_CUDA_TRACE", 0) != 0;
  const char* const image = std::getenv("FAKE_CUDA_IMAGE");
  s->refuses_images = image != nullptr && std::strcmp(image, "refuse") == 0;
  if (const char* const failures = std::getenv("FAKE_CUDA_FAIL")) {
    std::istringstream list(failures);
    for (std::string function, nth, code;
         std::getline(list, function, ':') && std::getline(list, nth, ':') && std::getline(list, code, ',');)
      s->failures[function] = {std::atol(nth.c_str()), std::atoi(code.c_str())};
  }
  for (int i = 0; i < s->devices; ++i) {
    s->contexts.push_back(std::make_unique<Context>());
    s->contexts.back()->ordinal = i;
    s->contexts.back()->is_primary = true;
  }
  return s;
}

}  // namespace

State& state() {
  static State& s = *made();
  return s;
}

Thread& thread() {
  static thread_local Thread t;
  return t;
}

bool sticks(CuResult code) {
  constexpr std::array kNot{701, 704, 705, 708, 709, 712, 713};
  return code >= 700 && code < 720 && std::find(kNot.begin(), kNot.end(), code) == kNot.end();
}

CuResult planned(const char* function) {
  State& s = state();
  const auto failure = s.failures.find(std::string_view(function));
  if (failure == s.failures.end()) return kSuccess;
  const CuResult code = failure->second.code;
  if (failure->second.nth > 1) {
    --failure->second.nth;
    return kSuccess;
  }
  if (failure->second.nth == 1) s.failures.erase(failure);
  if (sticks(code)) s.sticky = code;
  return code;
}

Call::Call(const char* function, bool needs_init) : lock_(state().mutex) {
  State& s = state();
  ++s.calls[function];
  result = planned(function);
  if (result == kSuccess && needs_init) result = s.is_initialized ? s.sticky : kNotInitialized;
  if (s.traces) std::fprintf(stderr, "fake CUDA: %s%s\n", function, result == kSuccess ? "" : " fails");
}

extern "C" {

CuResult cuGetErrorName(CuResult code, const char** text) {
  constexpr std::array<std::pair<CuResult, const char*>, 11> kNames{
      {{kSuccess, "CUDA_SUCCESS"},
       {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
       {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
       {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
       {kDeinitialized, "CUDA_ERROR_DEINITIALIZED"},
       {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
       {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
       {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
       {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
       {kContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
       {kNotFound, "CUDA_ERROR_NOT_FOUND"}}};
  for (const auto& [known, name] : kNames)
    if (known == code) {
      *text = name;
      return kSuccess;
    }
  *text = nullptr;
  return kInvalidValue;
}

CuResult cuGetErrorString(CuResult code, const char** text) { return cuGetErrorName(code, text); }

}  // extern "C"

}  // namespace mq::fake

using namespace mq::fake;

void fake_cuda_fail(const char* function, long nth, int code) {
  const std::scoped_lock lock(state().mutex);
  state().failures[function] = {nth, code};
}

void fake_cuda_forget() {
  State& s = state();
  const std::scoped_lock lock(s.mutex);
  s.failures.clear();
  s.calls.clear();
  s.ran.clear();
  s.sticky = kSuccess;
}

void fake_cuda_strict(bool is_strict) {
  const std::scoped_lock lock(state().mutex);
  state().is_strict = is_strict;
}

void fake_cuda_place(void* p) {
  const std::scoped_lock lock(state().mutex);
  state().place = p;
}

long fake_cuda_calls(const char* function) {
  State& s = state();
  const std::scoped_lock lock(s.mutex);
  if (function != nullptr) return s.calls[function];
  long sum = 0;
  for (const auto& [name, n] : s.calls) sum += n;
  return sum;
}

long fake_cuda_ran(const char* kernel) {
  State& s = state();
  const std::scoped_lock lock(s.mutex);
  if (kernel != nullptr) return s.ran[kernel];
  long sum = 0;
  for (const auto& [name, n] : s.ran) sum += n;
  return sum;
}

long fake_cuda_living(const char* what) {
  State& s = state();
  const std::scoped_lock lock(s.mutex);
  const std::string_view word = what;
  long n = 0;
  for (const Stream* stream : s.streams) {
    if (word == "pending") n += static_cast<long>(stream->work.waiting());
    if (word == "streams" && stream->is_alive && !stream->is_default) ++n;
  }
  if (word == "events")
    n = std::count_if(s.events.begin(), s.events.end(), [](auto* e) { return e->is_alive; });
  if (word == "modules")
    n = std::count_if(s.modules.begin(), s.modules.end(), [](auto* m) { return m->is_alive; });
  for (const auto& [p, a] : s.allocations) {
    const bool is_device = a.kind == Kind::device || a.kind == Kind::pool || a.kind == Kind::managed;
    n += word == "device" && is_device ? 1 : word == "pinned" && a.kind == Kind::pinned ? 1 : 0;
    if (word == "device bytes" && is_device) n += static_cast<long>(a.bytes);
  }
  return n;
}
