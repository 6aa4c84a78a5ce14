// The Fourier transform of 16 to 4096 real numbers, with the same bits on every instruction set: the same
// additions and multiplications in the same order, with the factors of kernels/fft/fourier.hpp.
//
// A real vector of L elements is a complex one of N = L / 2: even elements are real parts, odd ones imaginary
// parts. Its transform is Stockham's: log2(N) steps of N / 2 butterflies from one array to another one. In a
// step, butterflies with the same factor stand side by side, and are computed in registers. So that there are
// enough of them, N >= 512 numbers become a matrix of 32 rows: all columns are transformed, multiplied by
// factors, transposed, and the rows are transformed.
#pragma once
#include "kernels/host/lanes-inl.hpp"

// One number, for what is too short for registers.
template <class T>
struct OneNumber {
  using Reg = T;
  static constexpr int kWidth = 1;
  static MQ_INLINE T load(const std::byte* p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static MQ_INLINE void store(std::byte* p, T v) { std::memcpy(p, &v, sizeof v); }
  static MQ_INLINE T all(T v) { return v; }
  static MQ_INLINE T add(T a, T b) { return a + b; }
  static MQ_INLINE T sub(T a, T b) { return a - b; }
  static MQ_INLINE T mul(T a, T b) { return a * b; }
};

template <class T>
class Fourier {
 public:
  // The number of elements: 16 to kTurn, a power of two.
  MQ_INLINE Fourier() : n_(0), at_(0) {}  // not implicit: that would be compiled for the baseline processor
  // Sets the number of elements: 16 to kTurn, a power of two.
  MQ_INLINE Fourier& with_elements(std::size_t elements) {
    n_ = elements / 2;
    return *this;
  }

  // X[k] = sum of x[j] exp(-2 pi i j k / L) for k = 0 to N, as re[k] and im[k].
  void forward(const T* x, T* re, T* im) {
    for (std::size_t j = 0; j < n_; ++j) {
      this->re()[j] = x[2 * j];
      this->im()[j] = x[2 * j + 1];
    }
    transform();
    const T *zr = this->re(), *zi = this->im();
    re[0] = zr[0] + zi[0];
    im[0] = T{0};
    re[n_] = zr[0] - zi[0];
    im[n_] = T{0};
    const std::size_t step = kTurn / 2 / n_;
    const T *wr = kHalfFactors<T>.re, *wi = kHalfFactors<T>.im;
    for (std::size_t k = 1; k < n_ / 2; ++k) {
      const std::size_t m = n_ - k;
      // half of the sum and the difference of Z[k] and the conjugate of Z[N - k]
      const T er = (zr[k] + zr[m]) * T{0.5}, ei = (zi[k] - zi[m]) * T{0.5};
      const T dr = (zr[k] - zr[m]) * T{0.5}, di = (zi[k] + zi[m]) * T{0.5};
      const T cr = wr[k * step], ci = wi[k * step];
      const T tr = cr * di + ci * dr, ti = ci * di - cr * dr;  // -i w d
      re[k] = er + tr;
      im[k] = ei + ti;
      re[m] = er - tr;
      im[m] = ti - ei;
    }
    re[n_ / 2] = zr[n_ / 2];
    im[n_ / 2] = -zi[n_ / 2];
  }

  // The inverse. im[0] and im[N] count as 0.
  void inverse(const T* re, const T* im, T* x) {
    T *zr = this->im(),
      *zi = this->re();  // exchanged, which makes the transform its own inverse, except for 1 / N
    zr[0] = (re[0] + re[n_]) * T{0.5};
    zi[0] = (re[0] - re[n_]) * T{0.5};
    const std::size_t step = kTurn / 2 / n_;
    const T *wr = kHalfFactors<T>.re, *wi = kHalfFactors<T>.im;
    for (std::size_t k = 1; k < n_ / 2; ++k) {
      const std::size_t m = n_ - k;
      const T er = (re[k] + re[m]) * T{0.5}, ei = (im[k] - im[m]) * T{0.5};
      const T tr = (re[k] - re[m]) * T{0.5}, ti = (im[k] + im[m]) * T{0.5};
      const T cr = wr[k * step], ci = wi[k * step];
      const T dr = ci * tr - cr * ti, di = cr * tr + ci * ti;  // i t / w
      zr[k] = er + dr;
      zi[k] = ei + di;
      zr[m] = er - dr;
      zi[m] = di - ei;
    }
    zr[n_ / 2] = re[n_ / 2];
    zi[n_ / 2] = -im[n_ / 2];
    transform();
    const T scale = T{1} / static_cast<T>(n_);
    for (std::size_t j = 0; j < n_; ++j) {
      x[2 * j] = this->im()[j] * scale;
      x[2 * j + 1] = this->re()[j] * scale;
    }
  }

 private:
  MQ_INLINE T* re() { return work_[at_][0]; }
  MQ_INLINE T* im() { return work_[at_][1]; }
  static MQ_INLINE std::byte* bytes(T* p) { return reinterpret_cast<std::byte*>(p); }
  static MQ_INLINE const std::byte* bytes(const T* p) { return reinterpret_cast<const std::byte*>(p); }

  void transform() {
    if (n_ < 512) return steps(n_, 1);
    const std::size_t columns = n_ / kRows;
    steps(kRows, columns);
    if (n_ == 512) multiply_transposed(kMatrixFactors<T, 512>, columns);
    if (n_ == 1024) multiply_transposed(kMatrixFactors<T, 1024>, columns);
    if (n_ == 2048) multiply_transposed(kMatrixFactors<T, 2048>, columns);
    steps(columns, kRows);
  }

  // Transforms of n numbers, `stride` of them side by side: number j of the i-th is at i + stride j.
  void steps(std::size_t n, std::size_t stride) {
    for (; n > 1; n /= 2, stride *= 2, at_ = 1 - at_) {
      if (stride % Native<T>::kWidth == 0)
        step<Native<T>>(n, stride);
      else
        step<OneNumber<T>>(n, stride);
    }
  }
  template <class N>
  void step(std::size_t n, std::size_t stride) {
    const T *from_re = re(), *from_im = im();
    T *to_re = work_[1 - at_][0], *to_im = work_[1 - at_][1];
    const std::size_t half = n / 2 * stride;
    for (std::size_t p = 0; p < n / 2; ++p) {
      const Factor<T> f = factor<T>(p * (kTurn / n));
      const std::size_t from = p * stride, to = 2 * from;
      for (std::size_t q = 0; q < stride; q += N::kWidth) {
        const std::size_t a = from + q, b = a + half, c = to + q, d = c + stride;
        const auto ar = N::load(bytes(from_re + a)), ai = N::load(bytes(from_im + a));
        const auto br = N::load(bytes(from_re + b)), bi = N::load(bytes(from_im + b));
        N::store(bytes(to_re + c), N::add(ar, br));
        N::store(bytes(to_im + c), N::add(ai, bi));
        const Product<N> r = product<N>(N::sub(ar, br), N::sub(ai, bi), N::all(f.re), N::all(f.im));
        N::store(bytes(to_re + d), r.re);
        N::store(bytes(to_im + d), r.im);
      }
    }
  }
  template <class N>
  struct Product {
    typename N::Reg re, im;
  };
  template <class N, class R>
  static MQ_INLINE Product<N> product(R ar, R ai, R br, R bi) {
    return {N::sub(N::mul(ar, br), N::mul(ai, bi)), N::add(N::mul(ar, bi), N::mul(ai, br))};
  }

  template <std::size_t kNumbers>
  void multiply_transposed(const Factors<T, kNumbers>& factors, std::size_t columns) {
    using N = Native<T>;
    T *from_re = re(), *from_im = im(), *to_re = work_[1 - at_][0], *to_im = work_[1 - at_][1];
    for (std::size_t i = 0; i < kNumbers; i += N::kWidth) {
      const Product<N> r = product<N>(N::load(bytes(from_re + i)), N::load(bytes(from_im + i)),
                                      N::load(bytes(factors.re + i)), N::load(bytes(factors.im + i)));
      N::store(bytes(from_re + i), r.re);
      N::store(bytes(from_im + i), r.im);
    }
    for (std::size_t c = 0; c < columns; ++c)
      for (std::size_t r = 0; r < kRows; ++r) {
        to_re[c * kRows + r] = from_re[r * columns + c];
        to_im[c * kRows + r] = from_im[r * columns + c];
      }
    at_ = 1 - at_;
  }

  std::size_t n_;
  int at_;  // which array holds the numbers
  alignas(64) T work_[2][2][kTurn / 2];
};
