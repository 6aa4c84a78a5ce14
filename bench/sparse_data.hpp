// Index lists of sparse vectors from a seed. A list is a function of (seed, rank, number). So any rank can
// make the list of any other without communication, and it does not depend on the number of ranks. Except for
// `powerlaw`, each index is held with the same probability. The density is the mean of these probabilities,
// not a quota.
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

// "uniform", "powerlaw:1.1", "clustered:64", "correlated:0.5". The parameter may be left out. The caller sets
// density and seed.
Result<SupportSpec> parse_support(std::string_view text);
std::string to_string(const SupportSpec&);  // the word
std::string support_names();                // for messages and help

class SupportGenerator {
 public:
  // Makes lists of indices below size; density is in (0, 1].
  SupportGenerator(const SupportSpec&, std::uint64_t size);
  // The result is strictly ascending. `number` distinguishes several lists of a rank.
  std::vector<std::int64_t> indices(int rank, std::uint64_t number) const;

 private:
  std::vector<std::int64_t> powerlaw(std::uint64_t stream) const;
  std::vector<std::int64_t> clustered(std::uint64_t stream) const;
  std::vector<std::int64_t> correlated(std::uint64_t stream, std::uint64_t common) const;

  SupportSpec spec_;
  std::uint64_t size_;
  Permutation place_;  // of popularity
  double rate_ = 0;    // c of powerlaw
};

// The c for which the mean of 1 - exp(-c r^-exponent) over r = 1 .. size is the density.
double powerlaw_rate(double density, double exponent, std::uint64_t size);

}  // namespace mq::bench
