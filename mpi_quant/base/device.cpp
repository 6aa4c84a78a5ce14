#include "mpi_quant/base/device.hpp"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/immortal.hpp"

namespace mq {
namespace {

std::atomic<const DeviceApi*> table{nullptr};
std::atomic<const char*> unusable_reason{nullptr};
std::atomic<const char*> staging{nullptr};
std::atomic<bool> is_settled{false};  // there is a table, or there will never be one
std::atomic<std::uint64_t> seen{0};   // objects that were mapped when there was no driver

// How many objects the process has ever mapped. While the number stays the same, no driver was loaded.
std::uint64_t objects_mapped() {
  std::uint64_t adds = 0;
  (void)dl_iterate_phdr(
      [](dl_phdr_info* first, std::size_t, void* count) {
        *static_cast<std::uint64_t*>(count) = first->dlpi_adds;
        return 1;
      },
      &adds);
  return adds;
}

// The folder of the object file that holds this code, with a slash at its end; "" if it has none.
std::string own_folder() {
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &self) == 0 || self.dli_fname == nullptr) return {};
  const std::string path = self.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

const char* for_ever(const std::string& text) {
  char* const copy = new char[text.size() + 1];
  return std::strcpy(copy, text.c_str());
}

// Opens libmpi_quant_cuda.so: beside this library, where a program that is linked with the engine has its
// libraries, or where the loader finds it. It is never closed, because its functions are given away.
void* open_library(std::string& reason) {
  const std::string name = "libmpi_quant_cuda.so." MPIQ_SOVERSION, folder = own_folder();
  for (const char* const place : {"", "../" MPIQ_LIBDIR "/", "../lib/"}) {
    if (folder.empty()) break;
    if (void* const library = dlopen((folder + place + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* const why = dlerror();
    if (why != nullptr && std::strstr(why, "No such file") == nullptr) reason = why;
  }
  if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const char* const why = dlerror();
  if (reason.empty()) reason = why != nullptr ? why : name + " was not found";
  return nullptr;
}

const DeviceApi* load() {
  std::string reason;
  void* const library = open_library(reason);
  if (library == nullptr) {
    unusable_reason = for_ever("cannot recognise GPU memory: " + reason);
    return nullptr;
  }
  auto* const get = reinterpret_cast<CudaApi*>(dlsym(library, "mpiq_cuda_api"));
  const char* why = "no mpiq_cuda_api";
  const DeviceApi* const found = get != nullptr ? get(kDeviceApi, &why) : nullptr;
  if (found != nullptr && found->version == kDeviceApi) return found;
  unusable_reason = for_ever(std::string("cannot recognise GPU memory: libmpi_quant_cuda.so: ") +
                             (found != nullptr ? "is of another version" : why));
  return nullptr;
}

// Looks for a driver, and for the table if there is one.
void look() {
  static Immortal<std::mutex> mutex;  // functions in atexit may call, too
  const std::scoped_lock lock(*mutex);
  const std::uint64_t mapped = objects_mapped();
  if (is_settled || mapped == seen) return;
  const Result<Env>& e = env();
  if (e.ok() && (*e).cuda) {
    // A process without a driver cannot have device memory, and the library must not start a driver.
    // libcuda.so, without the number, may be the stub of the toolkit.
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver == nullptr) {
      seen = mapped;
      return;
    }
    table = load();  // the driver stays open, because the table calls it
  }
  is_settled = true;
}

}  // namespace

const DeviceApi* device_api() noexcept {
  // Nearly always nothing is new. Then the lock is not taken.
  if (!is_settled.load(std::memory_order_acquire) && objects_mapped() != seen) {
    try {
      look();
    } catch (...) {  // out of memory: the next call looks again
    }
  }
  return table.load(std::memory_order_acquire);
}

const char* device_unusable_reason() noexcept { return unusable_reason.load(std::memory_order_acquire); }

const char* staging_reason() noexcept { return staging.load(std::memory_order_acquire); }
void note_no_kernels(const char* why) noexcept { staging.store(why, std::memory_order_release); }

Result<Where> where(const void* p) noexcept {
  Where found;
  const DeviceApi* const api = device_api();
  if (api == nullptr) return found;
  if (Status status = api->where(p, found); !status.ok()) return status;
  return found;
}

}  // namespace mq
