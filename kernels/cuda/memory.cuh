// Memory rules on a GPU. The files of the rules are the host's, compiled here with the lanes of a GPU
// (memory_lanes.cuh).
//
// A rule runs in kernels of its own, before (if it prepares something) and after the codec's kernels, not
// inside them: eight kernels, not some for each codec, rule and type. That costs memory traffic. A float with
// feedback takes 12 bytes of it in a codec's encode. The kernels of a rule add 8 bytes for decay, 36 for
// momentum, 12 for ef21 and 20 for lazy, where fused ones would add 0, 8, 0 and 4. But what one kernel leaves
// for the next is a group of segments, a few MiB, which the L2 cache of a GPU holds.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "kernels/cuda/memory.hpp"
#include "kernels/cuda/memory_lanes.cuh"
#include "kernels/memory_sums.hpp"

namespace mq::kernels::on_gpu {
#include "memory_rule_files.hpp"  // made by cmake/mpiq_kernel_objects.cmake

template <class... Rule>
struct Rules {};
template <class First, class... Rest>
MQ_DEVICE Rules<Rest...> without_first(Rules<First, Rest...>);
#define MQ_MEMORY(name, Type) , Type
using AllRules = decltype(without_first(Rules<void
#include "kernels/memory/registry.def"
                                              >{}));
#undef MQ_MEMORY

// Which functions a rule has.
template <class Rule, class T>
concept HasBefore = requires(const MemoryTile& tile) {
  Rule::template before<T>(tile);
};
template <class Rule, class T>
concept HasAfter = requires(const MemoryTile& tile) {
  Rule::template after<T>(tile);
};
template <class Rule, class T>
concept HasDeliver = requires(const MemoryTile& tile) {
  Rule::template deliver<T>(tile, nullptr);
};
template <class Rule, class T>
concept HasSkip = requires(const MemoryTile& tile) {
  Rule::template skip<T>(tile);
};

template <class Rule, class T, MemoryFunction F>
MQ_DEVICE void run_function(const memory_rows::Run& a) {
  if constexpr (F == MemoryFunction::before && HasBefore<Rule, T>) (void)Rule::template before<T>(a.tile);
  if constexpr (F == MemoryFunction::after && HasAfter<Rule, T>) Rule::template after<T>(a.tile);
  if constexpr (F == MemoryFunction::deliver && HasDeliver<Rule, T>) Rule::template deliver<T>(a.tile, a.sum);
  if constexpr (F == MemoryFunction::skip && HasSkip<Rule, T>) Rule::template skip<T>(a.tile);
}

template <class T, MemoryFunction F, class... Rule>
MQ_DEVICE void run_rule(const memory_rows::Run& a, Rules<Rule...>) {
  std::uint32_t number = 0;
  ((number++ == a.rule ? run_function<Rule, T, F>(a) : void()), ...);
}

// An element as a double.
MQ_DEVICE double number_at(const std::byte* array, Element element, std::uint64_t i) {
  if (element == Element::f64) return simt::load<double>(array + 8 * i);
  if (element == Element::f32) return static_cast<double>(simt::load<float>(array + 4 * i));
  const auto half = simt::load<std::uint16_t>(array + 2 * i);
  return static_cast<double>(element == Element::f16 ? simt::F16Code::to(half) : simt::Bf16Code::to(half));
}

// Sixteen lanes add one part, each one of the partial sums, and write the kTerms sums of it.
template <std::uint32_t kTerms, class Term>
MQ_DEVICE void sum_parts(const memory_rows::Sums& a, const Term& term) {
  using memory_sums::kPart;
  using memory_sums::kSums;
  const std::uint64_t parts = memory_sums::parts_of(a.n);
  const std::uint32_t k = simt::lane() % kSums, which = simt::lane() / kSums;
  const std::uint64_t warps = std::uint64_t{simt::blocks()} * simt::warps();
  for (std::uint64_t pair = std::uint64_t{simt::block()} * simt::warps() + simt::warp(); 2 * pair < parts;
       pair += warps) {
    const std::uint64_t part = 2 * pair + which, begin = part * kPart;
    const std::uint64_t end = simt::smaller<std::uint64_t>(begin + kPart, a.n);
    double sum[kTerms] = {};
    MQ_UNROLL(1)
    for (std::uint64_t i = begin + k; i < end; i += kSums) term(i, sum);
    for (std::uint32_t half = kSums / 2; half > 0; half /= 2)
      for (std::uint32_t t = 0; t < kTerms; ++t) sum[t] += simt::shuffle_down(sum[t], half);
    if (k == 0 && part < parts)
      for (std::uint32_t t = 0; t < kTerms; ++t) a.sums[part * kTerms + t] = sum[t];
  }
}

MQ_DEVICE void sum_squares(const memory_rows::Sums& a) {
  sum_parts<1>(a, [&](std::uint64_t i, double* sum) {
    sum[0] += memory_sums::square(number_at(a.x, a.element, i), a.scale);
  });
}

MQ_DEVICE void sum_distances(const memory_rows::Sums& a) {
  const Element kept = a.element == Element::f64 ? Element::f64 : Element::f32;
  sum_parts<2>(a, [&](std::uint64_t i, double* sum) {
    const Distances d = memory_sums::distances(number_at(a.x, a.element, i), number_at(a.minus_h, kept, i),
                                               number_at(a.last, kept, i), a.scale);
    sum[0] += d.from_estimate;
    sum[1] += d.from_last;
  });
}

MQ_DEVICE void join_messages(const memory_rows::Join& a) {
  const DeviceEncoded first = *a.first_encoded, second = *a.second_encoded;
  if (a.second != nullptr)
    simt::copy_bytes(a.payload + 8 + first.bytes, a.second, static_cast<std::uint32_t>(second.bytes),
                     simt::block() * simt::threads() + simt::thread(), simt::blocks() * simt::threads());
  if (simt::block() != 0) return;
  if (simt::thread() < 8)
    a.payload[simt::thread()] = static_cast<std::byte>(first.bytes >> (8 * simt::thread()));
  if (simt::thread() == 0)
    *a.encoded = {8 + first.bytes + second.bytes, simt::greater(first.nonfinite, second.nonfinite),
                  first.overflows + second.overflows};
}

MQ_DEVICE void give_nothing(const memory_rows::Nothing& a) {
  const std::uint64_t step = std::uint64_t{simt::blocks()} * simt::threads(),
                      own = std::uint64_t{simt::block()} * simt::threads() + simt::thread();
  const bool in_words = simt::aligned(a.x, 4) && simt::aligned(a.base, 4);
  const std::uint64_t words = in_words ? a.bytes / 4 : 0;
  simt::in_batches<4>(
      own, words, step,
      [&](std::uint64_t i) {
        return a.base != nullptr ? reinterpret_cast<const std::uint32_t*>(a.base)[i] : 0u;
      },
      [&](std::uint64_t i, std::uint32_t v) { reinterpret_cast<std::uint32_t*>(a.x)[i] = v; });
  simt::in_batches<4>(
      4 * words + own, a.bytes, step,
      [&](std::uint64_t i) { return a.base != nullptr ? a.base[i] : std::byte{0}; },
      [&](std::uint64_t i, std::byte v) { a.x[i] = v; });
}

}  // namespace mq::kernels::on_gpu

#define MQ_MEMORY_KERNEL(function, name, T)                                   \
  MQ_KERNEL(memory_##function##_##name, mq::kernels::memory_rows::Run, 256) { \
    mq::kernels::on_gpu::run_rule<T, mq::kernels::MemoryFunction::function>(  \
        args, mq::kernels::on_gpu::AllRules{});                               \
  }
#define MQ_MEMORY_KERNELS(function)      \
  MQ_MEMORY_KERNEL(function, f32, float) \
  MQ_MEMORY_KERNEL(function, f64, double)
MQ_MEMORY_KERNELS(before)
MQ_MEMORY_KERNELS(after)
MQ_MEMORY_KERNELS(deliver)
MQ_MEMORY_KERNELS(skip)
#undef MQ_MEMORY_KERNELS
#undef MQ_MEMORY_KERNEL
MQ_KERNEL(memory_squares, mq::kernels::memory_rows::Sums, 256) { mq::kernels::on_gpu::sum_squares(args); }
MQ_KERNEL(memory_distances, mq::kernels::memory_rows::Sums, 256) { mq::kernels::on_gpu::sum_distances(args); }
MQ_KERNEL(memory_join, mq::kernels::memory_rows::Join, 256) { mq::kernels::on_gpu::join_messages(args); }
MQ_KERNEL(memory_nothing, mq::kernels::memory_rows::Nothing, 256) { mq::kernels::on_gpu::give_nothing(args); }
