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
#include "bench/clock.hpp"
#include "bench/collective_call.hpp"
#include "bench/data.hpp"
#include "bench/elements.hpp"
#include "bench/mpi_algorithm.hpp"
#include "bench/samples.hpp"
#include "bench/start.hpp"

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
    ResultErrors v = checker.compare(x.data(), true);
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

// What a correct call gives this rank.
template <class T>
std::vector<T> correct(mq::Collective collective, const std::vector<T>& sum, const Generator& g,
                       std::uint64_t first) {
  const Part mine = output_of(collective, sum.size(), world(), rank_of_world());
  if (collective == mq::Collective::bcast) {
    std::vector<T> x;
    for (std::uint64_t i = 0; i < mine.count; ++i) x.push_back(g.value<T>(kRoot, first + i));
    return x;
  }
  if (collective != mq::Collective::allgather)
    return {sum.begin() + static_cast<std::ptrdiff_t>(mine.begin),
            sum.begin() + static_cast<std::ptrdiff_t>(mine.end())};
  std::vector<T> x;
  for (int r = 0; r < world(); ++r)
    for (std::uint64_t i = 0; i < part_of(sum.size(), world(), r).count; ++i)
      x.push_back(g.value<T>(r, first + i));
  return x;
}

TYPED_TEST(Check, each_rank_s_part_of_a_sum_the_parts_of_all_and_the_vector_of_a_root_are_checked) {
  for (const mq::Collective collective : kMeasured) {
    const Generator g(*parse_data("laplace"));
    const Checker checker(g, TestFixture::element(), 77, TestFixture::kCount, MPI_COMM_WORLD, collective);
    auto x = correct(collective, TestFixture::sum(g, 77), g, 77);
    ResultErrors v = checker.compare(x.data(), true);
    EXPECT_EQ(v.n_wrong, 0);
    EXPECT_TRUE(v.replicas_equal);
    EXPECT_LE(v.rel_l2, 2 * world() * Rounding<TypeParam>::unit);
    // The first element of rank 0's part is wrong: on rank 0, or where it has arrived.
    if (!x.empty() && (has_replicas(collective) || rank_of_world() == 0))
      x[0] = static_cast<TypeParam>(2 * std::abs(static_cast<double>(x[0])) + 1);
    v = checker.compare(x.data(), true);
    EXPECT_EQ(v.n_wrong, 1) << name(collective);
    EXPECT_TRUE(v.replicas_equal) << "the same mistake on all ranks";
    EXPECT_EQ(checker.compare(x.data(), false).n_wrong, 0);
  }
}

TYPED_TEST(Check, of_a_reduce_scatter_no_two_ranks_hold_the_same_and_of_an_allgather_all) {
  if (world() == 1) GTEST_SKIP() << "one rank has no replica";
  const Generator g(*parse_data("normal"));
  for (const mq::Collective collective : {mq::Collective::reduce_scatter, mq::Collective::allgather}) {
    const Checker checker(g, TestFixture::element(), 0, TestFixture::kCount, MPI_COMM_WORLD, collective);
    auto x = correct(collective, TestFixture::sum(g, 0), g, 0);
    if (rank_of_world() == 1) reinterpret_cast<unsigned char*>(x.data())[0] ^= 1;
    EXPECT_EQ(checker.compare(x.data(), false).replicas_equal, collective == mq::Collective::reduce_scatter);
    if (collective == mq::Collective::allgather) {
      EXPECT_EQ(checker.compare(x.data(), true).n_wrong, 1) << "also of a part that rank 1 does not check";
    }
  }
}

// ---- the collectives as calls

// Both ways of a call give the same, whatever the lengths of the parts, in place and out of place.
TEST(CollectiveCalls, of_this_library_give_what_those_of_mpi_give) {
  constexpr float kUnused = -7;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpiq_method", "raw");
  for (const mq::Collective collective : kMeasured)
    for (const int count : {0, 1, world() - 1, 12 * world(), 12 * world() + 1})
      for (const bool in_place : {false, true}) {
        const CollectiveCall call(collective, count, MPI_FLOAT, MPI_COMM_WORLD);
        const auto n = static_cast<std::size_t>(count);
        std::vector<float> x(call.input().count), results[2];
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) + 100.0F * rank_of_world();
        for (std::vector<float>& y : results) {
          y.assign(n + 1, kUnused);
          if (in_place)
            std::copy(x.begin(), x.end(), y.begin() + static_cast<std::ptrdiff_t>(call.input().begin));
          const void* const send = in_place ? MPI_IN_PLACE : x.data();
          const int code = &y == &results[0] ? call.mpi(send, y.data()) : call.ours(send, y.data(), info);
          ASSERT_EQ(code, MPI_SUCCESS);
          EXPECT_EQ(y[n], kUnused) << "behind the vector";
          y.resize(call.output().count);
        }
        EXPECT_EQ(results[0], results[1]) << name(collective) << ' ' << count << ' ' << in_place;
      }
  MPI_Info_free(&info);
}

// ---- clocks, starts and samples

constexpr double kApart_s = 1000;  // of the clocks of neighbouring ranks: as machines that were booted apart

double other_clock() { return (now_s() + kApart_s * rank_of_world()) * (1 + 1e-4 * rank_of_world()); }

TEST(Clocks, that_are_apart_and_drift_become_one) {
  GlobalClock clock(MPI_COMM_WORLD, other_clock);
  for (int i = 0; i < 5; ++i) {
    clock.adjust();
    double mine = clock.at(other_clock()), first = mine;
    const double truth = now_s();
    double error = mine - truth;  // rank 0's clock is the true one, as all of these ranks can read it
    PMPI_Bcast(&first, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    EXPECT_LT(std::abs(error), 1.0) << "of " << kApart_s * rank_of_world()
                                    << ", where a reading may take a time slice";
    EXPECT_GE(mine + 1.0, first);
  }
  EXPECT_EQ(clock.half_round_trip_s() > 0, rank_of_world() > 0);
}

TEST(Clocks, of_one_machine_need_no_correction) {
  const GlobalClock clock;
  for (const double t : {0.0, 1.5, 1e6}) EXPECT_EQ(clock.at(t), t);
}

TEST(Starts, are_never_before_the_time_agreed_on) {
  const GlobalClock clock;
  for (const Sync sync : {Sync::barrier, Sync::round, Sync::none}) {
    Starter start(sync, &clock, MPI_COMM_WORLD);
    for (int i = 0; i < 20; ++i) {
      const bool in_time = start() == Began::in_time;
      EXPECT_TRUE(in_time || sync == Sync::round) << name(sync) << " has no time to miss";
    }
    const double before = start.ahead_s();
    start.adapt(0.05);
    EXPECT_EQ(start.ahead_s(), before) << "few are late: the rest will do";
    start.adapt(0.5);
    EXPECT_EQ(start.ahead_s() > before, sync == Sync::round);
  }
}

TEST(Starts, are_together_though_the_clocks_are_apart) {
  const GlobalClock clock(MPI_COMM_WORLD, other_clock);
  const Starter start(Sync::round, &clock, MPI_COMM_WORLD);
  for (int i = 0; i < 5; ++i) {
    (void)start();
    double first = -now_s(), last = -first;  // by the clock that all of these ranks can read
    PMPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    PMPI_Allreduce(MPI_IN_PLACE, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    EXPECT_LT(last + first, kApart_s / 2);
  }
}

TEST(Samples, are_reduced_for_each_repetition_and_the_worst_start_is_that_of_all) {
  const int r = rank_of_world(), p = world();
  std::vector<Sample> mine(3);
  for (std::size_t k = 0; k < mine.size(); ++k) {
    mine[k].start_s = 10.0 * static_cast<double>(k) + 0.25 * r;
    mine[k].end_s =
        mine[k].start_s + 1 + (static_cast<int>(k) == r ? 2 : 0);  // another rank is slow each time
    mine[k].phase_s = {0.5, 0.125 * r, 0};
    if (k == 1 && r == p - 1) mine[k].began = Began::late;
    if (k == 2 && r == 0) mine[k].began = Began::held_up;
  }
  const auto all = over_ranks(mine, true, MPI_COMM_WORLD);
  ASSERT_EQ(all.size(), 3U);
  for (std::size_t k = 0; k < 3; ++k) {
    const bool slow = static_cast<int>(k) < p;
    EXPECT_EQ(all[k].t_max, slow ? 3 : 1);
    EXPECT_EQ(all[k].skew_in, 0.25 * (p - 1));
    EXPECT_GE(all[k].t_span, all[k].t_max);
    EXPECT_LE(all[k].t_span, all[k].t_max + all[k].skew_in);
    EXPECT_EQ(all[k].began, k == 0 ? Began::in_time : k == 1 ? Began::late : Began::held_up);
    EXPECT_EQ(all[k].phase_s[0], 0.5);
    EXPECT_EQ(all[k].phase_s[0] + all[k].phase_s[1] + all[k].phase_s[2] + all[k].phase_s[3], all[k].t_max);
  }
  EXPECT_TRUE(std::isnan(over_ranks(mine, false, MPI_COMM_WORLD)[0].t_span)) << "no clock for all";
  const auto times = of_every_rank(mine, MPI_COMM_WORLD);
  ASSERT_EQ(times.size(), r == 0 ? 3 * static_cast<std::size_t>(p) : 0U);
  for (std::size_t i = 0; i < times.size(); ++i)
    EXPECT_EQ(times[i], i / static_cast<std::size_t>(p) == i % static_cast<std::size_t>(p) ? 3 : 1) << i;
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
