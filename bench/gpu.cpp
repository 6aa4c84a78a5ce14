#include "bench/gpu.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <fstream>
#include <new>
#include <type_traits>
#include <utility>

namespace mq::bench {
namespace {

// The driver's interface, version 11 and later, with the names, numbers and types of its manual.
using Result32 = int;
using Context = void*;
using Address = unsigned long long;
constexpr Result32 kSuccess = 0, kOutOfMemory = 2;
constexpr unsigned kPortable = 1;  // CU_MEMHOSTALLOC_PORTABLE
enum Attribute : int {
  kClockRate = 13,
  kMultiprocessors = 16,
  kEcc = 32,
  kMemoryClockRate = 36,
  kL2Bytes = 38,
  kMajor = 75,
  kMinor = 76
};

Status none(std::string text) { return {Code::bad_argument, std::move(text)}; }

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ..." -> "580.65.06"; "" on other systems.
std::string kernel_driver() {
  std::string word;
  std::ifstream file("/proc/driver/nvidia/version");
  while (file >> word)
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
  return "";
}

}  // namespace

struct Gpu::Driver {
  void* library = nullptr;
  int device = 0;
  Context context = nullptr;

  Result32 (*init)(unsigned) = nullptr;
  Result32 (*driver_version)(int*) = nullptr;
  Result32 (*error_string)(Result32, const char**) = nullptr;
  Result32 (*device_count)(int*) = nullptr;
  Result32 (*device_get)(int*, int) = nullptr;
  Result32 (*device_name)(char*, int, int) = nullptr;
  Result32 (*device_uuid)(char*, int) = nullptr;
  Result32 (*device_attribute)(int*, int, int) = nullptr;
  Result32 (*device_bytes)(std::size_t*, int) = nullptr;
  Result32 (*retain)(Context*, int) = nullptr;
  Result32 (*release)(int) = nullptr;
  Result32 (*set_current)(Context) = nullptr;
  Result32 (*synchronize)() = nullptr;
  Result32 (*mem_alloc)(Address*, std::size_t) = nullptr;
  Result32 (*mem_free)(Address) = nullptr;
  Result32 (*host_alloc)(void**, std::size_t, unsigned) = nullptr;
  Result32 (*host_free)(void*) = nullptr;
  Result32 (*copy)(Address, Address, std::size_t) = nullptr;
  Result32 (*set_bytes)(Address, unsigned char, std::size_t, void*) = nullptr;

  // Returns the name of the first function that is missing, or null.
  const char* find_all() {
    const char* missing = nullptr;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr && missing == nullptr) missing = name;
    };
    find(init, "cuInit");
    find(driver_version, "cuDriverGetVersion");
    find(error_string, "cuGetErrorString");
    find(device_count, "cuDeviceGetCount");
    find(device_get, "cuDeviceGet");
    find(device_name, "cuDeviceGetName");
    find(device_attribute, "cuDeviceGetAttribute");
    find(retain, "cuDevicePrimaryCtxRetain");
    find(release, "cuDevicePrimaryCtxRelease_v2");
    find(set_current, "cuCtxSetCurrent");
    find(synchronize, "cuCtxSynchronize");
    find(mem_alloc, "cuMemAlloc_v2");
    find(mem_free, "cuMemFree_v2");
    find(host_alloc, "cuMemHostAlloc");
    find(host_free, "cuMemFreeHost");
    find(copy, "cuMemcpy");
    find(set_bytes, "cuMemsetD8Async");
    const char* const needed = missing;
    find(device_uuid, "cuDeviceGetUuid_v2");  // it tells the parts of one GPU apart
    if (device_uuid == nullptr) find(device_uuid, "cuDeviceGetUuid");
    find(device_bytes, "cuDeviceTotalMem_v2");
    return needed;
  }
  int attribute(Attribute which) const {
    int value = -1;
    return device_attribute(&value, which, device) == kSuccess ? value : -1;
  }
};

namespace {

Address address(const void* p) { return reinterpret_cast<Address>(p); }

}  // namespace

Gpu::Gpu(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}

// The driver stays mapped, because it has threads of its own.
Gpu::~Gpu() {
  if (driver_->context != nullptr) (void)driver_->release(driver_->device);
}

std::string Gpu::text(int error) const {
  const char* words = nullptr;
  if (driver_->error_string(error, &words) != kSuccess || words == nullptr)
    return fmt::format("CUDA error {}", error);
  return fmt::format("{} (CUDA error {})", words, error);
}

void Gpu::check(int error, const char* what) const {
  if (error == kOutOfMemory) throw std::bad_alloc();
  if (error != kSuccess) throw GpuError(fmt::format("{}: {}", what, text(error)));
}

Result<std::shared_ptr<const Gpu>> Gpu::open(int local_rank) {
  auto driver = std::make_unique<Driver>();
  Driver& d = *driver;
  d.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (d.library == nullptr) return none("there is no GPU driver (libcuda.so.1) on this machine");
  if (const char* missing = d.find_all(); missing != nullptr)
    return none(fmt::format("the GPU driver has no {}: too old", missing));
  std::shared_ptr<Gpu> gpu(new Gpu(std::move(driver)));
  int count = 0;
  const auto failed = [&](const char* what, Result32 error) {
    return none(fmt::format("{}: {}", what, gpu->text(error)));
  };
  if (const Result32 e = d.init(0); e != kSuccess) return failed("the GPU driver does not start", e);
  if (const Result32 e = d.device_count(&count); e != kSuccess || count < 1)
    return e != kSuccess ? failed("counting GPUs", e) : none("the driver shows no GPU");
  if (const Result32 e = d.device_get(&d.device, local_rank % count); e != kSuccess)
    return failed("choosing a GPU", e);
  if (const Result32 e = d.retain(&d.context, d.device); e != kSuccess) return failed("using a GPU", e);
  if (const Result32 e = d.set_current(d.context); e != kSuccess) return failed("using a GPU", e);
  return std::shared_ptr<const Gpu>(std::move(gpu));
}

GpuRow Gpu::info() const {
  const Driver& d = *driver_;
  GpuRow row;
  std::array<char, 128> name{};
  std::array<char, 16> uuid{};
  if (d.device_name(name.data(), name.size() - 1, d.device) == kSuccess) row.name = std::string(name.data());
  if (d.device_uuid != nullptr && d.device_uuid(uuid.data(), d.device) == kSuccess) {
    std::string text = "GPU-";
    for (std::size_t i = 0; i < uuid.size(); ++i)
      text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                          static_cast<unsigned char>(uuid[i]));
    row.gpu_uuid = text;
  }
  int version = -1;
  if (d.driver_version(&version) == kSuccess) row.cuda_version = version;
  row.driver = kernel_driver();
  if (const int major = d.attribute(kMajor); major > 0)
    row.capability = fmt::format("{}.{}", major, d.attribute(kMinor));
  row.multiprocessors = d.attribute(kMultiprocessors);
  row.clock_sm_kHz = d.attribute(kClockRate);
  row.clock_mem_kHz = d.attribute(kMemoryClockRate);
  row.ecc = static_cast<std::int8_t>(d.attribute(kEcc));
  row.l2_B = d.attribute(kL2Bytes);
  std::size_t bytes = 0;
  if (d.device_bytes != nullptr && d.device_bytes(&bytes, d.device) == kSuccess)
    row.mem_B = static_cast<std::int64_t>(bytes);
  return row;
}

void* Gpu::allocate(std::size_t bytes) const {
  Address p = 0;
  check(driver_->mem_alloc(&p, bytes), "memory of the GPU");
  return reinterpret_cast<void*>(p);
}

void* Gpu::allocate_pinned(std::size_t bytes) const {
  void* p = nullptr;
  check(driver_->host_alloc(&p, bytes, kPortable), "pinned memory");
  return p;
}

void Gpu::free(void* p) const noexcept {
  if (p != nullptr) (void)driver_->mem_free(address(p));
}

void Gpu::free_pinned(void* p) const noexcept {
  if (p != nullptr) (void)driver_->host_free(p);
}

void Gpu::to_device(void* device, const void* host, std::size_t bytes) const {
  check(driver_->copy(address(device), address(host), bytes), "copy to the GPU");
  // A copy from pageable memory may return as soon as the bytes are staged.
  wait();
}

void Gpu::to_host(void* host, const void* device, std::size_t bytes) const {
  check(driver_->copy(address(host), address(device), bytes), "copy from the GPU");
}

void Gpu::within(void* to, const void* from, std::size_t bytes) const {
  check(driver_->copy(address(to), address(from), bytes), "copy on the GPU");
  wait();
}

void Gpu::zero(void* device, std::size_t bytes) const {
  check(driver_->set_bytes(address(device), 0, bytes, nullptr), "zeros on the GPU");
  wait();
}

void Gpu::wait() const { check(driver_->synchronize(), "waiting for the GPU"); }

GpuMemory::GpuMemory(std::shared_ptr<const Gpu> gpu, Kind kind, std::size_t bytes)
    : gpu_(std::move(gpu)), kind_(kind) {
  if (gpu_) data_ = kind == Kind::device ? gpu_->allocate(bytes) : gpu_->allocate_pinned(bytes);
}

GpuMemory::GpuMemory(GpuMemory&& other) noexcept
    : gpu_(std::move(other.gpu_)), kind_(other.kind_), data_(std::exchange(other.data_, nullptr)) {}

GpuMemory& GpuMemory::operator=(GpuMemory&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(kind_, other.kind_);
  std::swap(data_, other.data_);
  return *this;
}

GpuMemory::~GpuMemory() {
  if (!gpu_) return;
  if (kind_ == Kind::device)
    gpu_->free(data_);
  else
    gpu_->free_pinned(data_);
}

}  // namespace mq::bench
