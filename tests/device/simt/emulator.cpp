// Blocks run in a window of one or a few; a block's warps in turns, each as far as it comes. All state is the
// host thread's own, so that ranks as threads may each run kernels.

#include "tests/device/simt/emulator.hpp"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/simt.cuh"
#include "tests/device/simt/fiber.hpp"

namespace mq::simt {
namespace {

std::map<std::string_view, Kernel>& table() {
  static std::map<std::string_view, Kernel> kernels;
  return kernels;
}

struct Block;
struct Thread : Here {  // Here comes first: `here` points at it
  std::uint32_t meetings;
  Fiber* fiber;  // null before the thread begins, and when it has ended
  Block* home;
};

// Where the lanes of a warp are, one bit each: they can go on, or wait. Those that have ended are nowhere.
struct Warp {
  std::uint32_t ready = ~0u, at_warp = 0, at_barrier = 0, paused = 0;
};

struct SharedObject {
  const void* type;
  std::byte* at;
};

struct Block {
  std::vector<Thread> thread;
  std::vector<Warp> warp;
  std::vector<std::uint64_t> slots;  // of each warp two times 32, for meetings in turn
  std::vector<std::byte> shared;     // the dynamic part, then objects as they are first asked for
  std::byte* dynamic = nullptr;
  std::size_t used = 0;
  std::vector<SharedObject> objects;
  std::uint32_t sum[2] = {}, barriers = 0;
};

constexpr std::size_t kSharedObjects = 64 << 10;  // bytes, at most

void fiber_main(void* fiber);

struct Emulator {
  FiberPool pool{&fiber_main};
  sim::Context main;  // where run() is
  const Kernel* kernel = nullptr;
  const void* args = nullptr;
  // The warp whose turn it is, the order of its lanes, and those that have not had their turn yet.
  Thread* lanes = nullptr;
  Warp* warp = nullptr;
  std::uint32_t left = 0;
  bool descending = false;
  std::size_t shared_most = 0;  // of a block, objects and the dynamic part together
  std::uint64_t seed = 0;
  std::string error;
  std::vector<std::unique_ptr<Block>> idle;
};
thread_local Emulator the_emulator;
// The same without the question whether it was made, which every use of an object with a constructor asks.
constinit thread_local Emulator* running = nullptr;

bool fail(const char* what) {
  Emulator& e = the_emulator;
  if (e.error.empty()) e.error = (e.kernel ? std::string(e.kernel->name) + ": " : std::string()) + what;
  return false;
}

// The next lane of this turn that can go on, or null. Where all lanes have met at a warp function, all go on.
Thread* next_lane(Emulator& e) {
  if (e.left == 0) {
    if (e.warp->at_warp != ~0u) return nullptr;
    e.warp->at_warp = 0;
    e.left = ~0u;
  }
  const auto lane =
      static_cast<std::uint32_t>(e.descending ? 31 - std::countl_zero(e.left) : std::countr_zero(e.left));
  e.left &= ~(1u << lane);
  return &e.lanes[lane];
}

// Where a lane, or run(), hands the turn on: to `next`, or back to run() if null.
void hand_on(Emulator& e, sim::Context& from, Thread* next) {
  if (next == nullptr) return sim::change_context(from, e.main);
  here = next;
  if (next->fiber == nullptr) next->fiber = e.pool.take();
  sim::change_context(from, next->fiber->context);
}

// A fiber runs threads from their beginnings, one after the other as long as they end.
void fiber_main(void* fiber) {
  Emulator& e = *running;
  auto* const self = static_cast<Fiber*>(fiber);
  for (;;) {
    auto* const t = static_cast<Thread*>(here);
    t->fiber = self;
    e.kernel->run(e.args);
    t->fiber = nullptr;
    Thread* const next = next_lane(e);
    if (next != nullptr && next->fiber == nullptr) {
      here = next;
      continue;
    }
    e.pool.give_back(self);  // runs on until it hands on, and from there when it is taken again
    hand_on(e, self->context, next);
  }
}

// The lane of this thread waits there. Returns when it has its turn again.
void wait(std::uint32_t Warp::*where) {
  Emulator& e = *running;
  auto* const t = static_cast<Thread*>(here);
  e.warp->*where |= 1u << (t->thread % 32);
  hand_on(e, t->fiber->context, next_lane(e));
}

// One turn of a warp: each lane as far as it comes, again while all meet at warp functions. True if a lane
// has moved.
bool turn(Block& b, std::uint32_t w) {
  Emulator& e = *running;
  e.lanes = b.thread.data() + std::size_t{32} * w;
  e.warp = &b.warp[w];
  e.left = std::exchange(e.warp->ready, 0);
  if (e.left == 0) return false;
  hand_on(e, e.main, next_lane(e));
  if (e.warp->at_warp != 0 && e.warp->paused == 0)
    return fail("a warp function that not all lanes of the warp come to");
  return true;
}

// One turn of a block. `over`: all threads have come to their ends.
bool turn(Block& b, std::mt19937_64* random, bool& over) {
  const auto warps = static_cast<std::uint32_t>(b.warp.size());
  std::vector<std::uint32_t> order;
  if (random != nullptr) {
    order.resize(warps);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), *random);
  }
  bool moved = false;
  for (std::uint32_t w = 0; w < warps; ++w) {
    if (random != nullptr) running->descending = ((*random)() & 1) != 0;
    moved |= turn(b, random != nullptr ? order[w] : w);
    if (!running->error.empty()) return false;
  }
  bool met = false, paused = false, elsewhere = false;
  for (Warp& warp : b.warp) {
    met = met || warp.at_barrier != 0;
    paused = paused || warp.paused != 0;
    elsewhere = elsewhere || (warp.at_warp | warp.paused) != 0;
    warp.ready |= std::exchange(warp.paused, 0);
  }
  over = !met && !elsewhere;
  if (met && !elsewhere) {
    for (Warp& warp : b.warp) warp.ready |= std::exchange(warp.at_barrier, 0);
    b.sum[++b.barriers & 1] = 0;
  } else if (!over && !paused && !moved) {
    return fail("a barrier that not all threads of the block come to");
  }
  return true;
}

// Bytes before the dynamic part, which only align it.
std::size_t unused_head(const Block& b) { return static_cast<std::size_t>(b.dynamic - b.shared.data()); }

std::unique_ptr<Block> open_block(const kernels::Launch& launch, std::uint32_t index) {
  Emulator& e = *running;
  std::unique_ptr<Block> b;
  if (e.idle.empty()) {
    b = std::make_unique<Block>();
  } else {
    b = std::move(e.idle.back());
    e.idle.pop_back();
  }
  b->thread.resize(launch.block);
  b->warp.assign(launch.block / 32, Warp{});
  for (std::uint32_t t = 0; t < launch.block; ++t) {
    b->thread[t] = Thread{};
    b->thread[t].thread = t;
    b->thread[t].block = index;
    b->thread[t].threads = launch.block;
    b->thread[t].blocks = launch.grid;
    b->thread[t].home = b.get();
  }
  b->slots.resize(std::size_t{2} * launch.block);
  b->shared.resize(launch.shared_bytes + kSharedObjects + 32);
  const auto address = reinterpret_cast<std::uintptr_t>(b->shared.data());
  b->dynamic = b->shared.data() + (16 - address % 16) % 16;
  std::memset(b->dynamic, 0xa5, launch.shared_bytes);  // what a GPU leaves there is anything
  b->used = unused_head(*b) + (launch.shared_bytes + 15) / 16 * 16;
  b->objects.clear();
  b->sum[0] = b->sum[1] = b->barriers = 0;
  return b;
}

// The kernel cannot go on: its fibers are dropped where they are.
void drop(std::vector<std::unique_ptr<Block>>& window) {
  for (const auto& b : window)
    for (const Thread& t : b->thread)
      if (t.fiber != nullptr) running->pool.abandon(t.fiber);
  window.clear();
}

bool run_grid(const kernels::Launch& launch) {
  Emulator& e = *running;
  std::mt19937_64 random(e.seed);
  std::mt19937_64* const shuffled = e.seed != 0 ? &random : nullptr;
  const std::size_t width = e.seed != 0 ? 1 + e.seed % 4 : 1;
  std::vector<std::uint32_t> order;
  if (shuffled != nullptr) {
    order.resize(launch.grid);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), random);
  }
  e.descending = false;
  std::vector<std::unique_ptr<Block>> window;
  std::uint32_t opened = 0;
  for (std::size_t idle_turns = 0; opened < launch.grid || !window.empty();) {
    while (window.size() < width && opened < launch.grid) {
      window.push_back(open_block(launch, shuffled != nullptr ? order[opened] : opened));
      ++opened;
    }
    const std::size_t at = shuffled != nullptr ? random() % window.size() : 0;
    bool over = false;
    if (!turn(*window[at], shuffled, over)) {
      drop(window);
      return false;
    }
    if (over) {
      e.idle.push_back(std::move(window[at]));
      window.erase(window.begin() + static_cast<std::ptrdiff_t>(at));
      idle_turns = 0;
    } else if (++idle_turns > 300000) {
      drop(window);
      return fail("blocks wait for ever");
    }
  }
  return true;
}

// The launcher's context is the shared memory that its blocks may have.
void launch_now(void* context, const kernels::Launch& launch) noexcept {
  run(launch, static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(context)));
}

}  // namespace

constinit thread_local Here* here = nullptr;

bool add_kernel(const Kernel& kernel) {
  if (!table().emplace(kernel.name, kernel).second) std::fprintf(stderr, "two kernels %s\n", kernel.name);
  return true;
}

const std::uint64_t* meet_warp(std::uint64_t value) {
  auto* const t = static_cast<Thread*>(here);
  std::uint64_t* const slots =
      t->home->slots.data() + std::size_t{64} * (t->thread / 32) + std::size_t{32} * (t->meetings++ & 1);
  slots[t->thread % 32] = value;
  wait(&Warp::at_warp);
  return slots;
}

std::uint32_t meet_block(std::uint32_t value) {
  Block& b = *static_cast<Thread*>(here)->home;
  std::uint32_t& sum = b.sum[b.barriers & 1];
  sum += value;
  wait(&Warp::at_barrier);
  return sum;
}

void pause() { wait(&Warp::paused); }

std::byte* dynamic_shared() { return static_cast<Thread*>(here)->home->dynamic; }

std::byte* shared_object(const void* type, std::size_t bytes) {
  Block& b = *static_cast<Thread*>(here)->home;
  for (const SharedObject& o : b.objects)
    if (o.type == type) return o.at;
  if (b.used + bytes > b.shared.size() || b.used + bytes > unused_head(b) + running->shared_most) {
    fail("more shared memory than a block has");
    b.used = 0;  // somewhere, for the thread goes on until it waits
  }
  std::byte* const at = b.shared.data() + b.used;
  std::memset(at, 0xa5, bytes);
  b.used += (bytes + 15) / 16 * 16;
  b.objects.push_back({type, at});
  return at;
}

void set_order(std::uint64_t seed) noexcept { the_emulator.seed = seed; }
const char* error() noexcept { return the_emulator.error.c_str(); }
void clear_error() noexcept { the_emulator.error.clear(); }
bool known(const char* kernel) noexcept { return table().count(kernel) != 0; }
std::uint32_t args_bytes(const char* kernel) noexcept {
  return static_cast<std::uint32_t>(table().find(kernel)->second.args_bytes);
}
std::vector<const char*> names() {
  std::vector<const char*> all;
  for (const auto& [name, kernel] : table()) all.push_back(kernel.name);
  return all;
}

bool run(const kernels::Launch& launch, std::uint32_t shared_most) noexcept {
  Emulator& e = the_emulator;
  running = &e;
  const auto found = table().find(launch.kernel);
  if (found == table().end()) return fail((std::string("no kernel ") + launch.kernel).c_str());
  e.kernel = &found->second;
  if (!e.error.empty()) return false;
  if (launch.args_bytes != e.kernel->args_bytes || launch.args_bytes > kernels::kMaxArgsBytes)
    return fail("arguments of another size");
  if (launch.runs == 0 || launch.runs > kernels::most_runs(launch.args_bytes))
    return fail("more runs than a launch may have");
  if (launch.block == 0 || launch.block % 32 != 0 || launch.block > e.kernel->threads || launch.grid == 0)
    return fail("threads or blocks that it cannot have");
  if (launch.shared_bytes > shared_most) return fail("more shared memory than a block has");
  alignas(16) std::byte args[kernels::kMaxArgsBytes];
  e.args = args;
  e.shared_most = shared_most;
  const unsigned environment = _mm_getcsr();
  _mm_setcsr(0x1f80);  // a GPU knows nothing of the program's
  bool ok = true;
  for (std::uint32_t i = 0; i < launch.runs && ok; ++i) {
    const std::uint32_t at = e.seed % 2 == 0 ? i : launch.runs - 1 - i;
    std::memcpy(args, static_cast<const std::byte*>(launch.args) + at * launch.args_bytes, launch.args_bytes);
    ok = run_grid(launch);
  }
  _mm_setcsr(environment);
  e.kernel = nullptr;
  return ok;
}

namespace {
constinit kernels::Launcher elsewhere{};
}
kernels::Launcher launcher(std::uint32_t shared_most) noexcept {
  void* const context = reinterpret_cast<void*>(std::uintptr_t{shared_most});  // NOLINT: a number
  return on_device() ? elsewhere : kernels::Launcher{context, &launch_now};
}
void use(const kernels::Launcher& launcher) noexcept { elsewhere = launcher; }
bool on_device() noexcept { return elsewhere.launch != nullptr; }
void report(const char* error) noexcept {
  if (the_emulator.error.empty()) the_emulator.error = error;
}

}  // namespace mq::simt
