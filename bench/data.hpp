// Input vectors from a counter: element = f(seed, rank, index), so that any rank can recompute any element of
// any other, and the exact sum with it, without communication. A tensor is a range of indices.
//
// Ranks are correlated by a Gaussian copula: the normal scores of rank r are sqrt(rho) g + sqrt(1 - rho) e_r
// with a common g, and every distribution is a function of the scores, so rho changes no marginal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "bench/recording.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

enum class Distribution : std::uint8_t {
  normal,    // N(0, 1e-3^2): dense gradients
  laplace,   // scale 1e-3: heavier tails
  gradient,  // N with a log-normal(ln 1e-3, 1.5) deviation for each 1024 elements, the same on all ranks
  sparse,    // sparse:p is normal with probability p, else 0
  smooth,    // 8 sines and 1 % noise
  uniform,   // uniform:a is U(-a, a)
  bits,      // random bits, exponents kept below the point where 128 ranks overflow
  zeros,
  constant,  // 1e-3
  ramp,      // (index mod 1024 + rank) * 1e-3
  file,      // file:PATH is what stands there, see recording.hpp
};

struct DataSpec {
  Distribution distribution = Distribution::normal;
  double density = 0.01;  // of sparse
  double bound = 1;       // of uniform
  double rho = 0;
  std::uint64_t seed = 1;
  std::string path = {};  // of file
  int steps = 1;          // of its {step}, once they are known
};

// "normal", "sparse:0.01", "uniform:4" and so on. rho and seed are set by the caller and checked by
// check_data.
Result<DataSpec> parse_data(std::string_view text);
Status check_data(const DataSpec&);
std::string to_string(const DataSpec&);  // the word of --data
std::string distribution_names();        // for messages and help

class Generator {
 public:
  // A recording is what Distribution::file is about, and nothing to the others.
  explicit Generator(const DataSpec&, std::shared_ptr<const Recording> recording = nullptr);
  template <class T>  // of elements.hpp
  T value(int rank, std::uint64_t index) const;
  template <class T>
  void fill(std::span<T> x, int rank, std::uint64_t first) const;

 private:
  double score(int rank, std::uint64_t index) const;     // N(0, 1)
  double fraction(int rank, std::uint64_t index) const;  // U(0, 1), a function of the score if rho > 0
  double smooth(int rank, std::uint64_t index) const;
  DataSpec spec_;
  std::shared_ptr<const Recording> recording_;
  double common_ = 0, own_ = 1;  // sqrt(rho), sqrt(1 - rho)
};

// What a compressor can hope for: stored with each input.
struct DataFacts {
  double entropy_bits = 0;  // of the bytes, 8 is incompressible byte by byte
  double zero_frac = 0;
  int exp_min = 0, exp_max = 0;  // binary exponents of the non-zero finite elements
};
template <class T>
DataFacts facts(std::span<const T> x);

}  // namespace mq::bench
