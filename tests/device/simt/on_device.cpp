// The tests of device rows on a real GPU, unchanged: with MPIQ_TEST_DEVICE=cuda launcher() launches through
// libmpi_quant_cuda.so, waiting for each launch as the emulator does, and everything that the test allocates
// with operator new is managed memory, which host and GPU use under the same address. Without it this file
// does nothing. Stacks, statics and what malloc gives are not for kernels.
#include <dlfcn.h>

#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "mpi_quant/base/device.hpp"
#include "tests/device/simt/emulator.hpp"

namespace mq::simt {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{4} << 30;
constexpr std::size_t kLeast = 256;  // of a block, and what blocks are aligned to

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "MPIQ_TEST_DEVICE=cuda: %s\n", what);
  std::_Exit(1);
}

// Blocks of powers of two, which are kept for the next of their size. Pages that no one touches cost nothing.
class Arena {
 public:
  void open(std::byte* memory, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    begin_ = next_ = memory;
    end_ = memory + bytes;
  }
  bool is_open() const { return begin_ != nullptr; }
  bool has(const void* p) const { return begin_ != nullptr && p >= begin_ && p < end_; }
  void* take(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    const std::size_t size = std::bit_ceil(bytes < kLeast ? kLeast : bytes);
    Block*& free = free_[static_cast<std::size_t>(std::countr_zero(size))];
    if (Block* const block = free; block != nullptr) {
      void* const p = block->p;
      free = block->next;
      std::free(block);
      return p;
    }
    if (size > static_cast<std::size_t>(end_ - next_)) return nullptr;
    void* const p = next_;
    next_ += size;
    sizes_.set(p, begin_, size);
    return p;
  }
  void give(void* p) {
    const std::scoped_lock lock(mutex_);
    Block*& free = free_[static_cast<std::size_t>(std::countr_zero(sizes_.of(p, begin_)))];
    auto* const block = static_cast<Block*>(std::malloc(sizeof(Block)));
    if (block == nullptr) return;
    *block = {free, p};
    free = block;
  }

 private:
  struct Block {  // not in the arena: a block that was freed may still be looked at by the host only
    Block* next;
    void* p;
  };
  struct Sizes {  // of each block, by its place
    std::uint8_t* log2 = nullptr;
    void set(void* p, std::byte* begin, std::size_t size) {
      if (log2 == nullptr) log2 = static_cast<std::uint8_t*>(std::calloc(kArenaBytes / kLeast, 1));
      if (log2 == nullptr) give_up("no memory");
      log2[index(p, begin)] = static_cast<std::uint8_t>(std::countr_zero(size));
    }
    std::size_t of(void* p, std::byte* begin) const { return std::size_t{1} << log2[index(p, begin)]; }
    static std::size_t index(void* p, std::byte* begin) {
      return static_cast<std::size_t>(static_cast<std::byte*>(p) - begin) / kLeast;
    }
  };
  std::mutex mutex_;
  std::byte *begin_ = nullptr, *next_ = nullptr, *end_ = nullptr;
  std::array<Block*, 64> free_{};
  Sizes sizes_;
};
constinit Arena arena;

const DeviceApi* api = nullptr;
DeviceStream* stream = nullptr;

void launch_and_wait(void*, const kernels::Launch& launch) noexcept {
  const kernels::Launcher real = api->launcher(stream);
  real.launch(real.context, launch);
  if (Status s = api->launch_error(stream); !s.ok()) return report(s.text().c_str());
  if (Status s = api->synchronize(stream); !s.ok()) report(s.text().c_str());
}

// The driver is opened as a program on the CUDA runtime would: its primary context, current on this thread.
void open_device() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (driver == nullptr) give_up("there is no libcuda.so.1");
  const auto call = [&]<class... Args>(const char* name, Args... args) {
    auto* const function = reinterpret_cast<int (*)(Args...)>(dlsym(driver, name));
    if (function == nullptr || function(args...) != 0) give_up(name);
  };
  int device = 0;
  void* context = nullptr;
  unsigned long long memory = 0;
  constexpr unsigned kGlobal = 1;  // CU_MEM_ATTACH_GLOBAL
  call("cuInit", 0U);
  call("cuDeviceGet", &device, 0);
  call("cuDevicePrimaryCtxRetain", &context, device);
  call("cuCtxSetCurrent", context);
  call("cuMemAllocManaged", &memory, kArenaBytes, kGlobal);
  auto* const begin = reinterpret_cast<std::byte*>(memory);
  api = device_api();
  if (api == nullptr)
    give_up(device_unusable_reason() != nullptr ? device_unusable_reason()
                                                : "libmpi_quant_cuda.so is not found");
  Where where;
  if (Status s = api->where(begin, where); !s.ok()) give_up(s.text().c_str());
  if (where.device == nullptr) give_up("managed memory is not known to be a GPU's");
  if (const char* why = api->no_kernels(where.device); why != nullptr) give_up(why);
  if (Status s = api->make_stream(where.device, stream); !s.ok()) give_up(s.text().c_str());
  std::printf("on %s\n", api->name(where.device));
  arena.open(begin, kArenaBytes);
  use({nullptr, &launch_and_wait});
}

[[maybe_unused]] const bool opened = [] {
  const char* const where = std::getenv("MPIQ_TEST_DEVICE");
  if (where == nullptr || std::strcmp(where, "cuda") != 0) return false;
  open_device();
  return true;
}();

void* take(std::size_t bytes, std::size_t alignment) {
  void* p = nullptr;
  if (arena.is_open())
    p = arena.take(bytes);
  else if (posix_memalign(&p, alignment < sizeof(void*) ? sizeof(void*) : alignment, bytes) != 0)
    p = nullptr;
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

void give(void* p) {
  if (arena.has(p))
    arena.give(p);
  else
    std::free(p);
}

}  // namespace
}  // namespace mq::simt

// The others of the standard library come to these.
void* operator new(std::size_t bytes) { return mq::simt::take(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return mq::simt::take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { mq::simt::give(p); }
void operator delete(void* p, std::size_t) noexcept { mq::simt::give(p); }
void operator delete(void* p, std::align_val_t) noexcept { mq::simt::give(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { mq::simt::give(p); }
