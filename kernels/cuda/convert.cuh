// Vectors of the half types from and to floats (kernels/convert.hpp): four elements a thread where addresses
// allow it.
#pragma once

#include "kernels/cuda/convert.hpp"
#include "kernels/cuda/elements.cuh"

namespace mq::simt {

template <class Half>
MQ_DEVICE void widen(const kernels::dense::WidenElements& a) {
  const std::uint64_t all = std::uint64_t{blocks()} * threads();
  const std::uint64_t own = std::uint64_t{block()} * threads() + thread();
  std::uint64_t done = 0;
  if (packs<std::uint16_t>(a.half) && packs<float>(a.out)) {
    done = a.n / kPack * kPack;
    MQ_UNROLL(4)
    for (std::uint64_t i = own * kPack; i < done; i += all * kPack) {
      const Pack<std::uint16_t> half = load_pack<std::uint16_t>(a.half + 2 * i);
      Pack<float> out;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kPack; ++j) out.of[j] = Half::to(half.of[j]);
      store_pack(a.out + 4 * i, out);
    }
  }
  MQ_UNROLL(4)
  for (std::uint64_t i = done + own; i < a.n; i += all)
    store(a.out + 4 * i, Half::to(load<std::uint16_t>(a.half + 2 * i)));
}

// What the rounding of v to `rounded` lost is added.
MQ_DEVICE float kept_of(float before, float v, float rounded) {
  return is_finite(rounded) ? before + (v - rounded) : before;
}

template <class Half>
MQ_DEVICE void narrow(const kernels::dense::NarrowElements& a) {
  const std::uint64_t all = std::uint64_t{blocks()} * threads();
  const std::uint64_t own = std::uint64_t{block()} * threads() + thread();
  std::uint64_t done = 0;
  if (packs<std::uint16_t>(a.half) && packs<float>(a.v) && packs<float>(a.residual)) {
    done = a.n / kPack * kPack;
    MQ_UNROLL(4)
    for (std::uint64_t i = own * kPack; i < done; i += all * kPack) {
      const Pack<float> v = load_pack<float>(a.v + 4 * i);
      Pack<std::uint16_t> half;
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kPack; ++j) half.of[j] = Half::from(v.of[j]);
      store_pack(a.half + 2 * i, half);
      if (a.residual == nullptr) continue;
      Pack<float> kept = load_pack<float>(a.residual + 4 * i);
      MQ_UNROLL(4)
      for (std::uint32_t j = 0; j < kPack; ++j)
        kept.of[j] = kept_of(kept.of[j], v.of[j], Half::to(half.of[j]));
      store_pack(a.residual + 4 * i, kept);
    }
  }
  MQ_UNROLL(4)
  for (std::uint64_t i = done + own; i < a.n; i += all) {
    const float v = load<float>(a.v + 4 * i);
    const std::uint16_t half = Half::from(v);
    store(a.half + 2 * i, half);
    if (a.residual != nullptr)
      store(a.residual + 4 * i, kept_of(load<float>(a.residual + 4 * i), v, Half::to(half)));
  }
}

}  // namespace mq::simt

MQ_KERNEL(widen_f16, mq::kernels::dense::WidenElements, 256) { mq::simt::widen<mq::simt::F16Code>(args); }
MQ_KERNEL(widen_bf16, mq::kernels::dense::WidenElements, 256) { mq::simt::widen<mq::simt::Bf16Code>(args); }
MQ_KERNEL(narrow_f16, mq::kernels::dense::NarrowElements, 256) { mq::simt::narrow<mq::simt::F16Code>(args); }
MQ_KERNEL(narrow_bf16, mq::kernels::dense::NarrowElements, 256) {
  mq::simt::narrow<mq::simt::Bf16Code>(args);
}
