// What tests of the public interface under MPI share: infos, a fixture with a communicator of its own, norms.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/codec.hpp"
#include "mpi_quant.h"
#include "mpi_quant/plan/plan.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {

template <class T>
MPI_Datatype mpi_type() {
  return sizeof(T) == 4 ? MPI_FLOAT : MPI_DOUBLE;
}

// An MPI_Info from key, value pairs.
class Info {
 public:
  Info(std::initializer_list<std::pair<std::string, std::string>> pairs) {
    MPI_Info_create(&info_);
    for (const auto& [key, value] : pairs) MPI_Info_set(info_, key.c_str(), value.c_str());
  }
  ~Info() { MPI_Info_free(&info_); }
  Info(const Info&) = delete;
  Info& operator=(const Info&) = delete;
  operator MPI_Info() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

class Api : public testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
  }
  void TearDown() override {
    still_works();
    MPI_Comm_free(&comm);
  }
  template <class T>
  std::vector<T> input(std::size_t n, Input kind = Input::normal) const {
    return make_input<T>(kind, n, seed() + static_cast<std::uint64_t>(rank));
  }
  template <class T>
  bool same_on_all_ranks(const std::vector<T>& x) const {
    // By a hash of 64 bits: the vectors themselves would take as long as the calls that are tested.
    const std::string_view bytes{reinterpret_cast<const char*>(x.data()), x.size() * sizeof(T)};
    const std::uint64_t hash = std::hash<std::string_view>{}(bytes), both[2]{hash, ~hash};
    std::uint64_t most[2]{};
    MPI_Allreduce(both, most, 2, MPI_UINT64_T, MPI_MAX, comm);
    return most[0] == ~most[1];
  }
  static std::string text_of(int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return text;
  }
  // All ranks got an error, and its text names `what`.
  void expect_error_everywhere(int code, const std::string& what) const {
    EXPECT_NE(code, MPI_SUCCESS) << "rank " << rank << ": " << what;
    if (code != MPI_SUCCESS) {
      EXPECT_NE(text_of(code).find(what), std::string::npos) << text_of(code);
    }
  }
  template <class T>
  double norms_of_all_ranks(const std::vector<T>& x) const {
    double mine = 0, sum = 0;
    for (const T v : x) mine += static_cast<double>(v) * static_cast<double>(v);
    mine = std::sqrt(mine);
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
    return sum;
  }
  // A compressed call on the same communicator succeeds, whatever happened before.
  void still_works() const {
    const std::vector<float> x(1000, 0.5F);
    std::vector<float> y(1000);
    ASSERT_EQ(
        MPIQ_Allreduce(x.data(), y.data(), 1000, MPI_FLOAT, MPI_SUM, comm, Info{{"mpiq_method", "onebit"}}),
        MPI_SUCCESS);
    for (const float v : y) ASSERT_EQ(v, 0.5F * static_cast<float>(size));
  }
  // Whether a sweep over all plans leaves this one out. With MPIQ_NODE_RANKS all plans but hierarchical are
  // what they are without (plan_test.cpp), where the same test runs them.
  static bool is_swept_elsewhere(const PlanRow& plan) {
    return std::getenv("MPIQ_NODE_RANKS") != nullptr && plan.name != "hierarchical";
  }
  MPIQ_Stats stats() const {
    MPIQ_Stats s = MPIQ_STATS_INIT;
    EXPECT_EQ(MPIQ_Comm_get_stats(comm, &s), MPI_SUCCESS);
    return s;
  }
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;
};

// |x - y|, Euclidean.
template <class T>
double norm(const std::vector<T>& x, const std::vector<T>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    sum += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
  return std::sqrt(sum);
}

template <class T>
double relative_error(const std::vector<T>& x, const std::vector<T>& reference) {
  const double energy = norm(reference, std::vector<T>(reference.size()));
  return energy > 0 ? norm(x, reference) / energy : 0;
}

// Whether two calls with one input give the same bits: not where elements are rounded at random, differently
// in each call.
inline bool repeats(const kernels::Codec& codec) {
  return codec.lossless || !codec.unbiased(kernels::preset_params(codec));
}

// What one encode of n normal numbers may lose, relative to their norm.
inline double loss(const kernels::Codec& codec) {
  if (codec.lossless) return 1e-6;  // the additions
  const double bound = codec.error_bound(kernels::preset_params(codec));
  // The greatest of a block of 4096 normal numbers is below 5. No code loses more than by sending nothing.
  return bound > 0 ? std::min(1.0, 5 * bound) : 1;
}

}  // namespace mq::test
