// The factors of the Fourier transform (fft/fourier-inl.hpp), made at compile time by additions,
// multiplications and divisions alone. So they have the same bits wherever the library runs.
#pragma once

#include <cstddef>

namespace mq::kernels {

inline constexpr std::size_t kTurn =
    4096;  // the longest real vector; angles are multiples of 1 / kTurn of a turn

struct QuarterTurn {
  double cosine[kTurn / 4 + 1];
};
// By their Taylor series up to an eighth of a turn.
constexpr QuarterTurn make_quarter_turn() {
  QuarterTurn quarter{};
  for (std::size_t k = 0; k <= kTurn / 8; ++k) {
    const double x = static_cast<double>(k) * (6.283185307179586476925 / kTurn), square = x * x;
    double cosine = 1, sine = 1;  // sine: divided by x
    for (double i = 20; i > 0; i -= 2) {
      cosine = 1 - cosine * square / (i * (i - 1));
      sine = 1 - sine * square / (i * (i + 1));
    }
    quarter.cosine[k] = cosine;
    quarter.cosine[kTurn / 4 - k] = sine * x;
  }
  return quarter;
}
inline constexpr QuarterTurn kQuarterTurn = make_quarter_turn();

// exp(-2 pi i k / kTurn) for k up to half a turn.
template <class T>
struct Factor {
  T re, im;
};
template <class T>
constexpr Factor<T> factor(std::size_t k) {
  constexpr std::size_t kQuarter = kTurn / 4;
  return k <= kQuarter ? Factor<T>{static_cast<T>(kQuarterTurn.cosine[k]),
                                   static_cast<T>(-kQuarterTurn.cosine[kQuarter - k])}
                       : Factor<T>{static_cast<T>(-kQuarterTurn.cosine[2 * kQuarter - k]),
                                   static_cast<T>(-kQuarterTurn.cosine[k - kQuarter])};
}

// Factors of consecutive elements, as arrays.
template <class T, std::size_t kCount>
struct Factors {
  T re[kCount], im[kCount];
};
// Of the first half of a vector of kTurn, for the step between complex and real transforms.
template <class T>
constexpr Factors<T, kTurn / 4 + 1> make_half_factors() {
  Factors<T, kTurn / 4 + 1> all{};
  for (std::size_t k = 0; k <= kTurn / 4; ++k) {
    all.re[k] = factor<T>(k).re;
    all.im[k] = factor<T>(k).im;
  }
  return all;
}
template <class T>
inline constexpr Factors<T, kTurn / 4 + 1> kHalfFactors = make_half_factors<T>();
// Of the matrix: row r, column c, for N numbers.
inline constexpr std::size_t kRows = 32;
template <class T, std::size_t kNumbers>
constexpr Factors<T, kNumbers> make_matrix_factors() {
  Factors<T, kNumbers> all{};
  constexpr std::size_t kColumns = kNumbers / kRows, kStep = kTurn / kNumbers;
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t c = 0; c < kColumns; ++c) {
      const std::size_t k = r * c * kStep;  // less than a turn
      const Factor<T> f = factor<T>(k <= kTurn / 2 ? k : k - kTurn / 2);
      all.re[r * kColumns + c] = k <= kTurn / 2 ? f.re : -f.re;
      all.im[r * kColumns + c] = k <= kTurn / 2 ? f.im : -f.im;
    }
  return all;
}
template <class T, std::size_t kNumbers>
inline constexpr Factors<T, kNumbers> kMatrixFactors = make_matrix_factors<T, kNumbers>();

}  // namespace mq::kernels
