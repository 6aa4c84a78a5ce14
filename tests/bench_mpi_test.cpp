// The parts of the benchmark that need several ranks: the check of a result, and the choice of MPI's
// algorithm.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "bench/check.hpp"
#include "bench/data.hpp"
#include "bench/elements.hpp"
#include "bench/mpi_algorithm.hpp"

namespace mq::bench {
namespace {

int rank_of_world() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
int world() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

template <class T>
class Check : public ::testing::Test {
 protected:
  static constexpr std::size_t kCount = 1003;
  static kernels::Element element() {
    for (const kernels::Element e : kernels::kElements)
      if (with_type(e, []<class U>(U) { return std::is_same_v<T, U>; })) return e;
    return kernels::Element::f32;
  }
  // The sum in the order of the ranks, as a correct reduction makes it: half types in float, rounded once.
  static std::vector<T> sum(const Generator& g, std::uint64_t first) {
    using Wide = std::conditional_t<sizeof(T) == 8, double, float>;
    std::vector<T> x(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      Wide s = 0;
      for (int r = 0; r < world(); ++r) s += static_cast<Wide>(static_cast<double>(g.value<T>(r, first + i)));
      x[i] = static_cast<T>(static_cast<double>(s));
    }
    return x;
  }
};
using Types = ::testing::Types<float, double, Float16, Bfloat16>;
TYPED_TEST_SUITE(Check, Types);

TYPED_TEST(Check, a_correct_sum_has_no_wrong_element_and_one_that_is_off_has_one) {
  for (const char* word : {"normal", "laplace", "uniform:4", "ramp", "zeros"}) {
    const Generator g(*parse_data(word));
    const Checker checker(g, TestFixture::element(), 77, TestFixture::kCount, MPI_COMM_WORLD);
    auto x = TestFixture::sum(g, 77);
    Verdict v = checker.compare(x.data(), true);
    EXPECT_EQ(v.n_wrong, 0) << word;
    EXPECT_TRUE(v.replicas_equal);
    EXPECT_LE(v.rel_l2, 2 * world() * Rounding<TypeParam>::unit) << word;
    const double magnitude = world() * std::max(1.0, std::abs(static_cast<double>(x[500])));
    x[500] = static_cast<TypeParam>(static_cast<double>(x[500]) + 8 * magnitude * Rounding<TypeParam>::unit);
    v = checker.compare(x.data(), true);
    EXPECT_EQ(v.n_wrong, 1) << word;
    EXPECT_EQ(checker.compare(x.data(), false).n_wrong, 0) << "finite is all that a lossy result must be";
  }
}

TYPED_TEST(Check, ranks_that_differ_in_a_bit_are_noticed) {
  if (world() == 1) GTEST_SKIP() << "one rank has no replica";
  const Generator g(*parse_data("normal"));
  const Checker checker(g, TestFixture::element(), 0, TestFixture::kCount, MPI_COMM_WORLD);
  auto x = TestFixture::sum(g, 0);
  if (rank_of_world() == 1) reinterpret_cast<unsigned char*>(x.data())[0] ^= 1;
  EXPECT_FALSE(checker.compare(x.data(), false).replicas_equal);
}

// ---- the algorithm of MPI's own reduction

float sum_of(float mine, const std::string& algorithm) {
  const MpiAlgorithm chosen(algorithm);
  std::vector<float> x(4096, mine);
  MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return x[1234];
}

TEST(MpiAlgorithms, all_give_the_sum_and_leave_the_choice_as_it_was) {
  const std::string before = mpi_algorithm_in_force();
  for (const std::string& name : mpi_algorithms()) {
    EXPECT_EQ(sum_of(static_cast<float>(rank_of_world() + 1), name),
              static_cast<float>(world() * (world() + 1) / 2))
        << name;
    EXPECT_EQ(mpi_algorithm_in_force(), before) << name;
    const MpiAlgorithm chosen(name);
    EXPECT_EQ(mpi_algorithm_in_force(), name);
  }
}

}  // namespace
}  // namespace mq::bench
