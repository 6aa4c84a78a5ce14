// auto for the collectives in which ranks have different parts: whatever the times are, results are within
// the limit, and ranks that hold the same vector hold the same bits.

#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/core/choices.hpp"
#include "tests/core/auto_parted.hpp"

namespace mq::test {
namespace {

TEST_F(AutoParted, results_are_within_the_limit_while_it_learns) {
  for (const Parted function : kPartedFunctions)
    for (const std::string limit : {"0", "0.02", "0.3"})
      for (int i = 0; i < 30; ++i) {
        const bool in_place = i % 2 == 1;
        PartedCase c =
            case_of(function, i % 3 == 0 ? 6000 : 12000, in_place, 1, root_of(function, in_place, i));
        const double allowed = limit == "0" ? 1e-6 : std::stod(limit);
        const std::vector<float> wanted = exact(c, i);
        fill(c, i);
        ASSERT_EQ(run(c, Form::blocking, comm, Info{{"mpiq_method", "auto(error=" + limit + ")"}}),
                  MPI_SUCCESS);
        const std::string what = name(function, Form::blocking) + ", limit " + limit + ", call ";
        EXPECT_LE(relative_error(result(c), wanted), allowed) << what << i;
        EXPECT_TRUE(alike(function, result(c))) << what << i;
        if (limit == "0" && !adds(function)) {
          EXPECT_EQ(result(c), wanted) << what << i;
        }
      }
}

TEST_F(AutoParted, awkward_lengths_are_served) {
  for (const Parted function : kPartedFunctions)
    for (const MPI_Count n : {0, 1, size - 1, size + 1, 4097})
      for (int i = 0; i < 8; ++i) {
        PartedCase c = case_of(function, n);
        const std::vector<float> wanted = exact(c, i);
        fill(c, i);
        ASSERT_EQ(run(c, Form::blocking, comm, Info{{"mpiq_method", "auto(error=0.3)"}}), MPI_SUCCESS);
        EXPECT_LE(relative_error(result(c), wanted), 0.3) << name(function, Form::blocking) << " of " << n;
      }
}

TEST_F(AutoParted, no_element_is_off_by_more_than_an_absolute_limit) {
  for (const Parted function : kPartedFunctions)
    for (int i = 0; i < 24; ++i) {
      PartedCase c = case_of(function, 12000, false, 1, i % size);
      const std::vector<float> wanted = exact(c, i);
      fill(c, i);
      ASSERT_EQ(run(c, Form::blocking, comm, Info{{"mpiq_method", "auto(error=abs:0.001)"}}), MPI_SUCCESS);
      EXPECT_LE(greatest_error(result(c), wanted), 0.001 + 1e-5) << name(function, Form::blocking);
    }
}

TEST_F(AutoParted, feedback_serves_sums_and_is_refused_where_nothing_is_added) {
  for (const Parted function : kPartedFunctions) {
    PartedCase c = case_of(function, 12000);
    if (!adds(function)) {
      fill(c, 0);
      expect_error_everywhere(run(c, Form::blocking, comm, Info{{"mpiq_method", "auto(error=feedback)"}}),
                              "auto(error=feedback) serves sums");
      continue;
    }
    // Without a key it is exact; with one the sum of many results is as near as the debt allows.
    std::vector<float> got, all;
    for (int i = 0; i < 30; ++i) {
      const std::vector<float> wanted = exact(c, i);
      const std::string key = "layer of " + name(function, Form::blocking);
      for (const bool has_key : {false, true}) {
        const Info with{{"mpiq_method", "auto(error=feedback)"}, {"mpiq_key", key}},
            without{{"mpiq_method", "auto(error=feedback)"}};
        fill(c, i);
        ASSERT_EQ(run(c, Form::blocking, comm, has_key ? with : without), MPI_SUCCESS);
        if (!has_key) {
          EXPECT_LE(relative_error(result(c), wanted), 1e-6);
        }
      }
      got.resize(c.output), all.resize(c.output);
      for (std::size_t n = 0; n < c.output; ++n) got[n] += result(c)[n], all[n] += wanted[n];
    }
    EXPECT_LE(relative_error(got, all), 0.6) << name(function, Form::blocking);
  }
}

// All ranks begin at the end of the agreement, so what a late rank kept the others waiting is no time of MPI.
TEST_F(AutoParted, a_rank_that_is_always_late_makes_mpi_no_slower) {
  const auto is_ours = [](const ChoiceSummary& all) { return all.known.calls.limit.value == 0.07; };
  constexpr double kLate = 0.03;
  for (int i = 0; i < 12; ++i)
    for (const Parted function : {Parted::bcast, Parted::reduce}) {
      PartedCase c = case_of(function, 12000, false, 1, 0);
      fill(c, i);
      if (rank == size - 1) std::this_thread::sleep_for(std::chrono::duration<double>(kLate));
      ASSERT_EQ(run(c, Form::blocking, comm, Info{{"mpiq_method", "auto(error=0.07)"}}), MPI_SUCCESS);
    }
  int seen = 0;
  for (const ChoiceSummary& all : choice_summaries()) {
    seen += is_ours(all);
    if (is_ours(all)) {
      EXPECT_LT(all.known.dense_s, kLate / 2) << name(all.known.calls.collective);
      EXPECT_GT(all.known.dense_s, 0) << name(all.known.calls.collective);
    }
  }
  EXPECT_EQ(seen, size > 1 ? 2 : 0);
}

TEST_F(AutoParted, requests_take_the_favourite_and_end_in_any_order) {
  for (const Parted function : kPartedFunctions) {
    const Info info{{"mpiq_method", "auto(error=0.02)"}};
    for (int i = 0; i < 20; ++i) {
      PartedCase c = case_of(function, 12000);
      fill(c, i);
      ASSERT_EQ(run(c, Form::blocking, comm, info), MPI_SUCCESS);
    }
    for (const Form form : {Form::once, Form::persistent}) {
      std::vector<PartedCase> cases(6, case_of(function, 12000));
      std::vector<MPIQ_Request> requests(cases.size(), MPIQ_REQUEST_NULL);
      for (std::size_t r = 0; r < cases.size(); ++r) {
        fill(cases[r], static_cast<int>(r));
        ASSERT_EQ(call(cases[r], form, comm, info, &requests[r]), MPI_SUCCESS);
        if (form == Form::persistent) {
          ASSERT_EQ(MPIQ_Start(&requests[r]), MPI_SUCCESS);
        }
      }
      for (std::size_t r = cases.size(); r-- > 0;) ASSERT_EQ(MPIQ_Wait(&requests[r]), MPI_SUCCESS);
      for (std::size_t r = 0; r < cases.size(); ++r) {
        EXPECT_LE(relative_error(result(cases[r]), exact(cases[r], static_cast<int>(r))), 0.02)
            << name(function, form);
        EXPECT_TRUE(alike(function, result(cases[r])));
        if (form == Form::persistent) {
          EXPECT_EQ(MPIQ_Request_free(&requests[r]), MPI_SUCCESS);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mq::test
