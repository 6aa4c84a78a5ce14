// What the fake driver is made of; one lock guards it all. Objects are marked when they are destroyed and
// kept, so that a stale handle is an error and not a crash.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/device/fake_cuda/fake.hpp"
#include "tests/device/lazy_stream.hpp"

namespace mq::fake {

inline constexpr CuResult kInvalidDevice = 101, kInvalidHandle = 400, kNotSupported = 801,
                          kCaptureUnsupported = 900, kCaptureInvalidated = 901, kCaptureUnmatched = 903,
                          kCaptureIsolation = 905;

struct Stream;
struct Context {
  int ordinal = 0;
  bool is_primary = false, is_alive = false;
  int retained = 0;
  unsigned long long id = 0;
  Stream* legacy = nullptr;
  std::map<std::thread::id, Stream*> per_thread;
};

struct Stream {
  Context* context = nullptr;
  test::LazyStream work;
  bool is_blocking = true, is_alive = true;  // blocking: in order with the legacy stream
  bool is_default = false;                   // the legacy or a thread's
  int queries = 0;                           // in a row that found work
  bool is_captured = false, is_invalidated = false;
  int capture_mode = 0;
  std::thread::id capturer;
};

struct Event {
  Context* context = nullptr;
  bool is_alive = true, has_timing = true, is_captured = false;
  test::Lazy recorded;                // null: never
  std::shared_ptr<double> reached_s;  // when
  int queries = 0;
};

struct Module {
  Context* context = nullptr;
  bool is_alive = true;
};

constexpr int kStaticShared = 1 << 10;  // shared memory that every kernel is said to have of itself
struct Kernel {
  Module* module = nullptr;
  std::string name;
  bool is_loaded = false;
  int shared_bytes = (48 << 10) - kStaticShared;
};

enum class Kind { device, pool, managed, pinned, registered };
struct Allocation {
  std::size_t bytes = 0, mapped_bytes = 0;
  Kind kind = Kind::device;
  Context* context = nullptr;
};

struct Failure {
  long nth = 0;  // 0: all
  CuResult code = kSuccess;
};

struct State {
  std::mutex mutex;
  bool is_initialized = false, is_open = false;  // open: device memory has access rights
  CuResult sticky = kSuccess;
  int devices = 1, processors = 4, shared_bytes = 232448, queries = 2;
  bool is_eager = false, refuses_images = false, traces = false, is_strict = false;
  unsigned long long last_id = 0;
  std::vector<std::unique_ptr<Context>> contexts;  // the first: the primary ones
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<Module*> modules;
  std::map<std::pair<Module*, std::string>, std::unique_ptr<Kernel>> kernels;
  std::set<Kernel*> handles;  // of the kernels
  std::map<std::uintptr_t, Allocation> allocations;
  void* place = nullptr;  // of the next one
  std::map<std::string, Failure, std::less<>> failures;
  std::map<std::string, long, std::less<>> calls, ran;
};
State& state();

struct Thread {
  std::vector<Context*> stack;
  int capture_mode = 0;  // global
};
Thread& thread();

// The frame of every function: the lock, the count, what is to fail.
class Call {
 public:
  explicit Call(const char* function, bool needs_init = true);
  CuResult result = kSuccess;

 private:
  std::scoped_lock<std::mutex> lock_;
};
// The failure that is planned for a call of this name.
CuResult planned(const char* function);
bool sticks(CuResult);

// The current context, if it can be used; else the error.
CuResult current(Context*& context);
void activate(Context& context);
void destroy(Context& context);
Context* context_of(CuContext handle);  // null: there is no such context

// Streams. Resolves null, legacy and per-thread; the current context's.
CuResult stream_of(CuStream handle, Stream*& stream);
CuResult enqueue(Stream& stream, std::function<CuResult()> run, test::Lazy after = nullptr,
                 test::Lazy* made = nullptr);
CuResult complete(const test::Lazy& operation);  // runs it, and all that comes first
CuResult drain(Stream& stream);
// Drains all streams. with_captured: this breaks the capture of a stream, as the driver's documentation says
// of all calls that wait for a context. Else captured streams are left out.
CuResult drain(Context& context, bool with_captured);
CuResult unsafe();  // an error if a capture forbids a call that may synchronise

// Memory.
std::map<std::uintptr_t, Allocation>::iterator allocation_at(std::uintptr_t p);
bool is_whole(std::uintptr_t p, std::size_t bytes);  // inside of one allocation, or in none at all
void give_access(bool to_host);
void release(std::map<std::uintptr_t, Allocation>::iterator);

}  // namespace mq::fake
