// The loops of kernels/narrow_products.hpp. Included once per instruction set, after lanes-inl.hpp.
//
// Rows are taken in pieces that stay in the L1 cache, so that an element of the wide matrix is read once for
// all columns of the narrow one.
#pragma once
#include "kernels/host/lanes-inl.hpp"

template <class T>
struct Products {
  using N = Native<T>;
  using L = Lanes<T>;
  static constexpr std::size_t kPiece = 512;   // rows
  static constexpr std::size_t kTogether = 4;  // columns whose sums are in registers at a time

  static MQ_INLINE const std::byte* at(const void* matrix, std::size_t rows, std::size_t column,
                                       std::size_t row) {
    return static_cast<const std::byte*>(matrix) + (column * rows + row) * sizeof(T);
  }
  static MQ_INLINE std::byte* at(void* matrix, std::size_t rows, std::size_t column, std::size_t row) {
    return static_cast<std::byte*>(matrix) + (column * rows + row) * sizeof(T);
  }
  static MQ_INLINE T number(const void* matrix, std::size_t rows, std::size_t column, std::size_t row) {
    T value;
    std::memcpy(&value, at(matrix, rows, column, row), sizeof value);
    return value;
  }
  // Calls f(i, Whole or Part) for groups of lanes that begin at i.
  template <class F>
  static MQ_INLINE void for_groups(std::size_t n, const F& f) {
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) f(i, Whole{});
    if (i < n) f(i, Part(n - i));
  }

  // A's elements of one column and a piece of its rows. Lanes behind the last row are 0.
  struct Piece {
    alignas(64) T v[kPiece];
    void take(const CarriedMatrix& a, std::size_t column, std::size_t first, std::size_t rows) {
      for_groups(rows, [&](std::size_t i, auto lanes) {
        const L sum =
            L::load(at(a.x, a.m, column, first + i), lanes) + L::load(at(a.e, a.m, column, first + i), lanes);
        sum.store(reinterpret_cast<std::byte*>(v + i), Whole{});
      });
    }
    MQ_INLINE L lanes(std::size_t i) const {
      return L::load(reinterpret_cast<const std::byte*>(v + i), Whole{});
    }
  };

  // sums += the products of kColumns columns of A, in this order.
  template <std::size_t kColumns>
  static void add_columns(const Piece* pieces, const T* factors, std::byte* sums, std::size_t rows) {
    for_groups(rows, [&](std::size_t i, auto lanes) {
      L sum = L::load(sums + i * sizeof(T), lanes);
      for (std::size_t c = 0; c < kColumns; ++c) sum = sum + pieces[c].lanes(i) * L::all(factors[c]);
      sum.store(sums + i * sizeof(T), lanes);
    });
  }

  // The rows are taken in strips, so that a strip of q stays in the L2 cache while columns of A are read in
  // long runs.
  static void multiply(const CarriedMatrix& a, const void* p, std::size_t r, void* q) noexcept {
    constexpr std::size_t kStripBytes = 64 << 10;
    const std::size_t strip = std::max<std::size_t>(1, kStripBytes / (r * kPiece * sizeof(T))) * kPiece;
    std::memset(q, 0, a.m * r * sizeof(T));
    Piece pieces[kTogether];
    T factors[kTogether];
    for (std::size_t top = 0; top < a.m; top += strip)
      for (std::size_t j = 0; j < a.n; j += kTogether) {
        const std::size_t columns = std::min(kTogether, a.n - j);
        for (std::size_t first = top; first < std::min(a.m, top + strip); first += kPiece) {
          const std::size_t rows = std::min(kPiece, a.m - first);
          for (std::size_t c = 0; c < columns; ++c) pieces[c].take(a, j + c, first, rows);
          for (std::size_t k = 0; k < r; ++k) {
            for (std::size_t c = 0; c < columns; ++c) factors[c] = number(p, a.n, k, j + c);
            std::byte* const sums = at(q, a.m, k, first);
            if (columns == kTogether)
              add_columns<kTogether>(pieces, factors, sums, rows);
            else
              for (std::size_t c = 0; c < columns; ++c) add_columns<1>(pieces + c, factors + c, sums, rows);
          }
        }
      }
  }

  // The sums of one element of A^T q: sum i mod 16 gets product i.
  struct Dot {
    static constexpr int kSums = 16;
    static constexpr int kSumRegs = kSums / N::kWidth;
    typename N::Reg sums[kSumRegs];
    MQ_INLINE void clear() {
      for (auto& sum : sums) sum = N::all(0);
    }
    MQ_INLINE void add(const L& x, const L& y) {
      for (int first = 0; first < L::kRegs; first += kSumRegs)
        for (int i = 0; i < kSumRegs; ++i) sums[i] = N::add(sums[i], N::mul(x.r[first + i], y.r[first + i]));
    }
    T value() const {
      T all[kSums];
      for (int i = 0; i < kSumRegs; ++i) N::store(reinterpret_cast<std::byte*>(all + i * N::kWidth), sums[i]);
      for (int half = kSums / 2; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) all[l] += all[l + half];
      return all[0];
    }
  };

  // kColumns columns of p, from k on. Lanes behind the last row add +0 to sums that are never -0.
  template <std::size_t kColumns>
  static void sum_columns(const CarriedMatrix& a, const void* q, std::size_t j, std::size_t k, void* p) {
    Dot dots[kColumns];
    for (Dot& dot : dots) dot.clear();
    for_groups(a.m, [&](std::size_t i, auto lanes) {
      const L v = L::load(at(a.x, a.m, j, i), lanes) + L::load(at(a.e, a.m, j, i), lanes);
      for (std::size_t c = 0; c < kColumns; ++c) dots[c].add(v, L::load(at(q, a.m, k + c, i), lanes));
    });
    for (std::size_t c = 0; c < kColumns; ++c) {
      const T value = dots[c].value();
      std::memcpy(at(p, a.n, k + c, j), &value, sizeof value);
    }
  }

  static void multiply_transposed(const CarriedMatrix& a, const void* q, std::size_t r, void* p) noexcept {
    for (std::size_t j = 0; j < a.n; ++j) {
      std::size_t k = 0;
      for (; k + kTogether <= r; k += kTogether) sum_columns<kTogether>(a, q, j, k, p);
      for (; k < r; ++k) sum_columns<1>(a, q, j, k, p);
    }
  }

  template <class P>
  static MQ_INLINE void deliver_group(const CarriedMatrix& a, const NarrowFactors& f, std::size_t j,
                                      std::size_t i, P lanes, void* result, void* residual) {
    L sum = L::all(0);
    L left = L::load(at(a.x, a.m, j, i), lanes) + L::load(at(a.e, a.m, j, i), lanes);
    for (std::size_t k = 0; k < f.r; ++k) {
      const L p = L::all(number(f.p, a.n, k, j));
      sum = sum + L::load(at(f.q_sum, a.m, k, i), lanes) * p;
      left = left - L::load(at(f.q_own, a.m, k, i), lanes) * p;
    }
    sum.store(at(result, a.m, j, i), lanes);
    L::select(left.finite(), left, L::all(0)).store(at(residual, a.m, j, i), lanes);
  }
  static void deliver(const CarriedMatrix& a, const NarrowFactors& f, void* result, void* residual) noexcept {
    for (std::size_t j = 0; j < a.n; ++j) {
      std::size_t i = 0;
      for (; i + kLanes <= a.m; i += kLanes) deliver_group(a, f, j, i, Whole{}, result, residual);
      if (i < a.m) deliver_group(a, f, j, i, Part(a.m - i), result, residual);
    }
  }
};

template <class... T>
inline constexpr std::array kProducts{
    NarrowProducts{Products<T>::multiply, Products<T>::multiply_transposed, Products<T>::deliver}...};
