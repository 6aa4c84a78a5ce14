#include "mpi_quant/preload/site.hpp"

#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace mq {
namespace {

std::string_view file_name(const char* path) {
  const std::string_view all = path != nullptr ? path : "";
  return all.substr(all.rfind('/') + 1);
}

// True for an object of the MPI library, of its language layers, or of this library.
bool is_between(std::string_view object) {
  for (const std::string_view known :
       {"libmpi", "libpmpi", "libmpich", "libmpifort", "libmpicxx", "libboost_mpi"})
    if (object.starts_with(known)) return true;  // libmpi_quant among them
  return object.starts_with("MPI.") && object.find(".so") != std::string_view::npos;  // mpi4py's module
}

std::string hex(std::uintptr_t number) {
  std::array<char, 20> text;
  return {text.data(), std::to_chars(text.begin(), text.end(), number, 16).ptr};
}

}  // namespace

std::string call_site() {
  std::array<void*, 24> frames;
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  for (int i = 0; i < depth; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)]);
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(address), &info) == 0) continue;
    const std::string_view object = file_name(info.dli_fname);
    if (is_between(object)) continue;
    std::string site(object);
    if (info.dli_sname != nullptr)
      return site.append("!").append(info.dli_sname).append("+0x") +
             hex(address - reinterpret_cast<std::uintptr_t>(info.dli_saddr));
    return site.append("+0x") + hex(address - reinterpret_cast<std::uintptr_t>(info.dli_fbase));
  }
  return "";
}

}  // namespace mq
