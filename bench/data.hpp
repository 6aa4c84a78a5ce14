// Input vectors from a counter: element = f(seed, rank, index). So any rank can compute any element of any
// other rank, and the exact sum, without communication. A tensor is a range of indices.
//
// A Gaussian copula correlates the ranks. The normal scores of rank r are sqrt(rho) g + sqrt(1 - rho) e_r
// with a common g. Every distribution is a function of the scores, so rho changes no marginal distribution.
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
  normal,    // N(0, 1e-3^2), as dense gradients
  laplace,   // scale 1e-3; heavier tails
  gradient,  // normal; each 1024 elements have a log-normal(ln 1e-3, 1.5) deviation, the same on all ranks
  sparse,    // sparse:p is normal with probability p, otherwise 0
  smooth,    // 8 sines and 1 % noise
  uniform,   // uniform:a is U(-a, a)
  bits,      // random bits; exponents stay below the point where 128 ranks overflow
  zeros,
  constant,  // 1e-3
  ramp,      // (index mod 1024 + rank) * 1e-3
  file,      // file:PATH is the contents of a file, see recording.hpp
};

struct DataSpec {
  Distribution distribution = Distribution::normal;
  double density = 0.01;  // of `sparse`
  double bound = 1;       // of `uniform`
  double rho = 0;
  std::uint64_t seed = 1;
  std::string path = {};  // of `file`
  int steps = 1;          // of its {step}, when they are known
};

// Reads "normal", "sparse:0.01", "uniform:4" and so on. The caller sets rho and seed; check_data checks them.
Result<DataSpec> parse_data(std::string_view text);
Status check_data(const DataSpec&);
std::string to_string(const DataSpec&);  // the word of --data
std::string distribution_names();        // for messages and help

class Generator {
 public:
  // Distribution::file needs the recording; the other distributions ignore it.
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

// Facts that bound what a compressor can reach; stored with each input.
struct DataSummary {
  double entropy_bits = 0;  // of the bytes, 8 is incompressible byte by byte
  double zero_frac = 0;
  int exp_min = 0, exp_max = 0;  // binary exponents of the non-zero finite elements
};
template <class T>
DataSummary summary_of(std::span<const T> x);

}  // namespace mq::bench
