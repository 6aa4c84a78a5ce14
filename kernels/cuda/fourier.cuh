// The Fourier transform of host/fourier-inl.hpp on a GPU, by one thread block: the same butterflies with the same factors, so the
// same bits. The order of the butterflies of a step does not matter, because they share no number.
#pragma once

#include "kernels/cuda/fft.hpp"
#include "kernels/cuda/simt.cuh"

namespace mq::simt {

#ifdef __CUDACC__
__device__
#endif
    constexpr kernels::QuarterTurn kQuarterTurnTable = kernels::make_quarter_turn();

// kernels::factor, and for k up to a turn.
template <class T>
MQ_DEVICE kernels::Factor<T> turn_factor(std::uint32_t k) {
  constexpr std::uint32_t kTurn = kernels::kTurn, kQuarter = kTurn / 4;
  const bool beyond = k > kTurn / 2;
  if (beyond) k -= kTurn / 2;
  const auto& cosine = kQuarterTurnTable.cosine;
  const kernels::Factor<T> f =
      k <= kQuarter ? kernels::Factor<T>{static_cast<T>(cosine[k]), static_cast<T>(-cosine[kQuarter - k])}
                    : kernels::Factor<T>{static_cast<T>(-cosine[2 * kQuarter - k]),
                                         static_cast<T>(-cosine[k - kQuarter])};
  return beyond ? kernels::Factor<T>{-f.re, -f.im} : f;
}

template <class T>
class BlockFourier {
 public:
  // elements: 16 to kTurn, a power of two. All threads must call all functions.
  MQ_DEVICE BlockFourier(kernels::cuda::FftNumbers<T>& numbers, std::uint32_t elements)
      : numbers_(numbers), n_(elements / 2) {}

  // x(i): element i. Coefficients 0 to n / 2 go to re and im.
  template <class X>
  MQ_DEVICE void forward(const X& x, T* re, T* im) {
    for (std::uint32_t j = thread(); j < n_; j += threads()) {
      this->re()[j] = x(2 * j);
      this->im()[j] = x(2 * j + 1);
    }
    barrier();
    transform();
    const T *zr = this->re(), *zi = this->im();
    for (std::uint32_t k = thread(); k <= n_ / 2; k += threads()) {
      if (k == 0) {
        re[0] = zr[0] + zi[0];
        re[n_] = zr[0] - zi[0];
        im[0] = im[n_] = T{0};
      } else if (k == n_ / 2) {
        re[k] = zr[k];
        im[k] = -zi[k];
      } else {
        forward_pair(k, zr, zi, re, im);
      }
    }
    barrier();
  }
  // The inverse; element(i) gives the results.
  MQ_DEVICE void inverse(const T* re, const T* im) {
    T *zr = this->im(),
      *zi = this->re();  // exchanged, which makes the transform its own inverse but for 1 / n
    for (std::uint32_t k = thread(); k <= n_ / 2; k += threads()) {
      if (k == 0) {
        zr[0] = (re[0] + re[n_]) * T{0.5F};
        zi[0] = (re[0] - re[n_]) * T{0.5F};
      } else if (k == n_ / 2) {
        zr[k] = re[k];
        zi[k] = -im[k];
      } else {
        inverse_pair(k, re, im, zr, zi);
      }
    }
    barrier();
    transform();
  }
  MQ_DEVICE T element(std::uint32_t i) {
    return (i % 2 == 0 ? im()[i / 2] : re()[i / 2]) * (T{1} / static_cast<T>(n_));
  }

 private:
  MQ_DEVICE T* re() { return numbers_.of[at_][0]; }
  MQ_DEVICE T* im() { return numbers_.of[at_][1]; }
  MQ_DEVICE std::uint32_t half_step() const { return static_cast<std::uint32_t>(kernels::kTurn) / 2 / n_; }

  MQ_DEVICE void forward_pair(std::uint32_t k, const T* zr, const T* zi, T* re, T* im) const {
    const std::uint32_t m = n_ - k;
    const kernels::Factor<T> c = turn_factor<T>(k * half_step());
    const T er = (zr[k] + zr[m]) * T{0.5F}, ei = (zi[k] - zi[m]) * T{0.5F};
    const T dr = (zr[k] - zr[m]) * T{0.5F}, di = (zi[k] + zi[m]) * T{0.5F};
    const T tr = c.re * di + c.im * dr, ti = c.im * di - c.re * dr;
    re[k] = er + tr;
    im[k] = ei + ti;
    re[m] = er - tr;
    im[m] = ti - ei;
  }
  MQ_DEVICE void inverse_pair(std::uint32_t k, const T* re, const T* im, T* zr, T* zi) const {
    const std::uint32_t m = n_ - k;
    const kernels::Factor<T> c = turn_factor<T>(k * half_step());
    const T er = (re[k] + re[m]) * T{0.5F}, ei = (im[k] - im[m]) * T{0.5F};
    const T tr = (re[k] - re[m]) * T{0.5F}, ti = (im[k] + im[m]) * T{0.5F};
    const T dr = c.im * tr - c.re * ti, di = c.re * tr + c.im * ti;
    zr[k] = er + dr;
    zi[k] = ei + di;
    zr[m] = er - dr;
    zi[m] = di - ei;
  }
  MQ_DEVICE void transform() {
    if (n_ < 512) return steps(n_, 1);
    constexpr std::uint32_t kRows = kernels::kRows;
    steps(kRows, n_ / kRows);
    multiply_transposed(n_ / kRows);
    steps(n_ / kRows, kRows);
  }
  MQ_DEVICE void steps(std::uint32_t n, std::uint32_t stride) {
    MQ_UNROLL(1)
    for (; n > 1; n /= 2, stride *= 2) {
      const T *from_re = re(), *from_im = im();
      T *to_re = numbers_.of[1 - at_][0], *to_im = numbers_.of[1 - at_][1];
      const std::uint32_t half = n_ / 2, turn = static_cast<std::uint32_t>(kernels::kTurn) / n;
      for (std::uint32_t a = thread(); a < half; a += threads()) {
        const std::uint32_t p = a / stride, b = a + half, c = a + p * stride, d = c + stride;
        const kernels::Factor<T> f = turn_factor<T>(p * turn);
        const T ar = from_re[a], ai = from_im[a], br = from_re[b], bi = from_im[b];
        to_re[c] = ar + br;
        to_im[c] = ai + bi;
        const T sr = ar - br, si = ai - bi;
        to_re[d] = sr * f.re - si * f.im;
        to_im[d] = sr * f.im + si * f.re;
      }
      at_ = 1 - at_;
      barrier();
    }
  }
  MQ_DEVICE void multiply_transposed(std::uint32_t columns) {
    constexpr std::uint32_t kRows = kernels::kRows;
    const T *from_re = re(), *from_im = im();
    T *to_re = numbers_.of[1 - at_][0], *to_im = numbers_.of[1 - at_][1];
    const std::uint32_t step = static_cast<std::uint32_t>(kernels::kTurn) / n_;
    for (std::uint32_t i = thread(); i < n_; i += threads()) {
      const std::uint32_t r = i / columns, c = i % columns;
      const kernels::Factor<T> f = turn_factor<T>(r * c * step);
      const T ar = from_re[i], ai = from_im[i];
      to_re[c * kRows + r] = ar * f.re - ai * f.im;
      to_im[c * kRows + r] = ar * f.im + ai * f.re;
    }
    at_ = 1 - at_;
    barrier();
  }

  kernels::cuda::FftNumbers<T>& numbers_;
  std::uint32_t n_;
  int at_ = 0;
};

}  // namespace mq::simt
