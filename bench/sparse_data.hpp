// Index lists of sparse vectors, from a seed: a list is a function of (seed, rank, number), so any rank can
// make any other's without communication, and whatever the number of ranks is. Each index is held with the
// same probability everywhere but in `powerlaw`; the density is the mean of these probabilities, not a quota.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/permutation.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

enum class Support : std::uint8_t {
  uniform,     // every index alike, ranks independent
  powerlaw,    // powerlaw:a: the r-th most popular index with probability 1 - exp(-c r^-a), the same order of
               // popularity on all ranks, scattered over the index space; ranks independent given that
  clustered,   // clustered:l: runs of consecutive indices, l long on average; ranks independent
  correlated,  // correlated:rho: as uniform, but whether two ranks hold an index is correlated by rho
};

struct SupportSpec {
  Support support = Support::uniform;
  double parameter = 0;  // exponent, length of runs or correlation
  double density = 0.01;
  std::uint64_t seed = 1;
};

// "uniform", "powerlaw:1.1", "clustered:64", "correlated:0.5"; the parameter may be left out. Density and
// seed are the caller's.
Result<SupportSpec> parse_support(std::string_view text);
std::string to_string(const SupportSpec&);  // the word
std::string support_names();                // for messages and help

class SupportGenerator {
 public:
  // Of lists of indices below size; density in (0, 1].
  SupportGenerator(const SupportSpec&, std::uint64_t size);
  // Strictly ascending. `number` tells several lists of a rank apart.
  std::vector<std::int64_t> indices(int rank, std::uint64_t number) const;

 private:
  std::vector<std::int64_t> powerlaw(std::uint64_t stream) const;
  std::vector<std::int64_t> clustered(std::uint64_t stream) const;
  std::vector<std::int64_t> correlated(std::uint64_t stream, std::uint64_t common) const;

  SupportSpec spec_;
  std::uint64_t size_;
  Permutation place_;  // of popularity
  double rate_ = 0;    // of powerlaw: c
};

// The c for which the mean over r = 1 .. size of 1 - exp(-c r^-exponent) is the density.
double powerlaw_rate(double density, double exponent, std::uint64_t size);

}  // namespace mq::bench
