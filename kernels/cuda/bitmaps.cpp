// The launches of the bitmap functions (bitmaps.cuh).

#include <algorithm>

#include "kernels/cuda/bitmaps_args.hpp"
#include "kernels/cuda/names.hpp"

namespace mq::kernels {
namespace cuda {
namespace {

std::size_t parts_of(std::size_t words) { return (words + kBitmapPart - 1) / kBitmapPart; }

// Number of thread blocks for this many pieces of work; each block takes several in turn.
std::size_t grid_of(std::size_t pieces, const DeviceShape& shape, std::size_t each_multiprocessor = 16) {
  const std::size_t most = each_multiprocessor * std::max(shape.multiprocessors, 1u);
  return std::clamp<std::size_t>((pieces + kBitmapThreads - 1) / kBitmapThreads, 1, most);
}

std::size_t scratch_bytes(std::size_t words) noexcept { return ChainState::bytes_of(parts_of(words)); }

void make(const std::uint64_t* indices, std::size_t n, std::uint64_t base, std::byte* bitmap,
          std::size_t words, const DeviceShape& shape, const Launcher& launch) noexcept {
  const MakeBitmapArgs a{indices, bitmap, n, base, words};
  if (words > 0) launch(names::bitmap_clear, grid_of(words, shape), kBitmapThreads, 0, a);
  if (n > 0) launch(names::bitmap_make, grid_of(n, shape), kBitmapThreads, 0, a);
}

void count(const std::byte* bitmap, std::size_t words, std::uint64_t* n, const DeviceShape& shape,
           const Launcher& launch) noexcept {
  const CountBitmapArgs a{bitmap, words, n};
  launch(names::bitmap_count_begin, 1, 32, 0, a);
  // Few thread blocks, because each adds to *n, which may be in host memory.
  if (words > 0) launch(names::bitmap_count, grid_of(words, shape, 2), kBitmapThreads, 0, a);
}

void visit(Kernel kernel, VisitBitmapArgs a, std::byte* scratch, const Launcher& launch) {
  const auto parts = static_cast<std::uint32_t>(parts_of(a.words));
  if (parts == 0) return;
  a.state = reinterpret_cast<ChainState*>(scratch);
  begin_chain(a.state, nullptr, parts, launch);
  launch(kernel, parts, kBitmapThreads, 0, a);
}

template <class T>
struct Visits {
  static constexpr NamesByType kFold = MQ_NAMES_BY_TYPE(bitmap_fold, ),
                               kList = MQ_NAMES_BY_TYPE(bitmap_list, );
  static void list(const std::byte* bitmap, std::size_t words, std::uint64_t base, std::uint64_t* indices,
                   std::size_t n, std::byte* scratch, const Launcher& launch) noexcept {
    collect(nullptr, bitmap, words, base, indices, nullptr, n, scratch, launch);
  }
  static void fold(Fold how, void* into, const std::byte* bitmap, std::size_t words, const std::byte* values,
                   std::size_t n, std::byte* scratch, const Launcher& launch) noexcept {
    VisitBitmapArgs a{};
    a.bitmap = bitmap;
    a.words = words;
    a.n = n;
    a.to = static_cast<std::byte*>(into);
    a.values = values;
    a.fold = how;
    visit(name_for<T>(kFold), a, scratch, launch);
  }
  static void collect(const void* from, const std::byte* bitmap, std::size_t words, std::uint64_t base,
                      std::uint64_t* indices, void* values, std::size_t n, std::byte* scratch,
                      const Launcher& launch) noexcept {
    VisitBitmapArgs a{};
    a.bitmap = bitmap;
    a.words = words;
    a.base = base;
    a.n = n;
    a.indices = indices;
    a.from = static_cast<const std::byte*>(from);
    a.to = static_cast<std::byte*>(values);
    visit(name_for<T>(kList), a, scratch, launch);
  }
  static constexpr DeviceBitmapOps kOps{&scratch_bytes, &make, &count, &list, &fold, &collect};
};

}  // namespace
}  // namespace cuda

const DeviceBitmapOps& device_bitmaps(Element element) noexcept {
  return compute_element(element) == Element::f64 ? cuda::Visits<double>::kOps : cuda::Visits<float>::kOps;
}

}  // namespace mq::kernels
