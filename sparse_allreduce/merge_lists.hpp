// Merges two lists; see merge.hpp. Separate because this loop is tuned for the processor.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "sparse_allreduce/sparse.hpp"

namespace mq::sparse {

// Which list has the next index is unpredictable, so the code computes it without a branch. Whether both
// lists have the index is predictable, because it is either rare or usual, so that is a branch.
//
// Each step waits for the step before it (load, compare, add). To use this waiting time, the lists are cut
// into two halves with an equal number of entries, and one loop merges the halves in turns. Afterwards the
// second result is moved to the end of the first.
template <class T, class O>
class ListMerge {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

 public:
  // The output has room for na + nb entries.
  ListMerge(const std::uint64_t* ai, const T* av, std::size_t na, const std::uint64_t* bi, const T* bv,
            std::size_t nb, std::uint64_t* oi, T* ov)
      : ai_(ai), bi_(bi), av_(av), bv_(bv), na_(na), nb_(nb), oi_(oi), ov_(ov) {}

  std::size_t run() const {
    std::size_t ma = 0, mb = 0;
    halves(ma, mb);
    const std::size_t middle = ma + mb;
    std::size_t i = 0, j = 0, k = 0, p = ma, q = mb, r = middle;
    const std::uint64_t *const ai = ai_, *const bi = bi_;
    const T *const av = av_, *const bv = bv_;
    std::uint64_t* const oi = oi_;
    T* const ov = ov_;
    for (;;) {
      std::size_t steps = std::min(std::min(ma - i, mb - j), std::min(na_ - p, nb_ - q));
      if (steps == 0) break;
      for (; steps > 0; --steps) {
        step(ai, av, bi, bv, oi, ov, i, j, k);
        step(ai, av, bi, bv, oi, ov, p, q, r);
      }
    }
    finish(i, ma, j, mb, k);
    finish(p, na_, q, nb_, r);
    const std::size_t rest = r - middle;
    if (k != middle && rest > 0) {
      std::memmove(oi + k, oi + middle, rest * sizeof *oi);
      std::memmove(ov + k, ov + middle, rest * sizeof *ov);
    }
    return k + rest;
  }

  // The same for several values per entry.
  std::size_t run_rows(std::size_t stride) const {
    std::size_t i = 0, j = 0, k = 0;
    const auto copy = [&](const std::uint64_t* from, const T* values, std::size_t at) {
      oi_[k] = from[at];
      std::memcpy(ov_ + k++ * stride, values + at * stride, stride * sizeof(T));
    };
    while (i < na_ && j < nb_) {
      if (ai_[i] < bi_[j]) {
        copy(ai_, av_, i++);
      } else if (bi_[j] < ai_[i]) {
        copy(bi_, bv_, j++);
      } else {
        const T *const a = av_ + i++ * stride, *const b = bv_ + j * stride;
        T* const o = ov_ + k * stride;
        for (std::size_t s = 0; s < stride; ++s) o[s] = O::apply(a[s], b[s]);
        oi_[k++] = bi_[j++];
      }
    }
    while (i < na_) copy(ai_, av_, i++);
    while (j < nb_) copy(bi_, bv_, j++);
    return k;
  }

 private:
  static void step(const std::uint64_t* ai, const T* av, const std::uint64_t* bi, const T* bv,
                   std::uint64_t* oi, T* ov, std::size_t& i, std::size_t& j, std::size_t& k) {
    const std::uint64_t x = ai[i], y = bi[j];
    const T a = av[i], b = bv[j];
    if (x == y) [[unlikely]] {
      oi[k] = x;
      ov[k] = O::apply(a, b);
      ++i;
      ++j;
    } else {
      const std::size_t first = x < y;
      const std::uint64_t mask = -std::uint64_t{first};
      const auto u = std::bit_cast<Bits>(a), v = std::bit_cast<Bits>(b);
      oi[k] = y ^ ((x ^ y) & mask);
      ov[k] = std::bit_cast<T>(static_cast<Bits>(v ^ ((u ^ v) & static_cast<Bits>(mask))));
      i += first;
      j += 1 - first;
    }
    ++k;
  }
  void finish(std::size_t i, std::size_t na, std::size_t j, std::size_t nb, std::size_t& k) const {
    while (i < na && j < nb) step(ai_, av_, bi_, bv_, oi_, ov_, i, j, k);
    const std::size_t a = na - i, b = nb - j;
    std::copy_n(ai_ + i, a, oi_ + k);
    std::copy_n(av_ + i, a, ov_ + k);
    std::copy_n(bi_ + j, b, oi_ + k + a);
    std::copy_n(bv_ + j, b, ov_ + k + a);
    k += a + b;
  }
  // Finds where to cut both lists: before an index that has about half of all entries below it.
  void halves(std::size_t& ma, std::size_t& mb) const {
    const auto below = [&](std::uint64_t index) {
      return static_cast<std::size_t>(std::lower_bound(bi_, bi_ + nb_, index) - bi_);
    };
    std::size_t low = 0, high = na_;
    while (low < high) {
      const std::size_t m = (low + high) / 2;
      if (m + below(ai_[m]) < (na_ + nb_) / 2)
        low = m + 1;
      else
        high = m;
    }
    ma = low;
    mb = low < na_ ? below(ai_[low]) : nb_;
  }

  const std::uint64_t *ai_, *bi_;
  const T *av_, *bv_;
  std::size_t na_, nb_;
  std::uint64_t* oi_;
  T* ov_;
};

}  // namespace mq::sparse
