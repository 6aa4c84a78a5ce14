#include "mpi_quant/base/arena.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace mq {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Buffer::~Buffer() { std::free(data_); }

bool Buffer::allocate_zeroed(std::size_t bytes) {
  const std::size_t align = bytes >= kHugePage ? kHugePage : kLine;
  if (bytes > SIZE_MAX - align) return false;
  const std::size_t rounded = (bytes + align - 1) / align * align;
  auto* const fresh = rounded ? static_cast<std::byte*>(std::aligned_alloc(align, rounded)) : nullptr;
  if (rounded && fresh == nullptr) return false;
  if (align == kHugePage) (void)madvise(fresh, rounded, MADV_HUGEPAGE);  // a hint: without it, ordinary pages
  if (rounded) std::memset(fresh, 0, rounded);
  std::free(data_);
  data_ = fresh;
  bytes_ = rounded;
  return true;
}

bool Buffer::reserve(std::size_t bytes) { return bytes <= bytes_ || allocate_zeroed(bytes); }

}  // namespace mq
