// auto by a file (MPIQ_KNOWLEDGE) in the collectives in which ranks have different parts: the line of the
// collective counts, and a result that loses more than samples show is replaced by MPI's own.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/core/choices.hpp"
#include "tests/core/auto_parted.hpp"

namespace mq::test {
namespace {

// The build's file (CMakeLists.txt) names topk for the limit 0.1, and int8 for 0.05.
class AutoPartedByFile : public AutoParted {
 protected:
  static constexpr MPI_Count kWhole = 40000;
  // A vector, or parts together, of kWhole elements.
  PartedCase whole_case(Parted function, bool in_place = false) const {
    const bool has_root = function == Parted::bcast || function == Parted::reduce;
    return case_of(function, has_root ? kWhole : kWhole / size, in_place, 1,
                   root_of(function, in_place, size - 1));
  }
  static ChoiceSummary summary(Parted function, double limit) {
    const Collective collective = function == Parted::block    ? Collective::reduce_scatter
                                  : function == Parted::gather ? Collective::allgather
                                  : function == Parted::bcast  ? Collective::bcast
                                                               : Collective::reduce;
    ChoiceSummary all;
    for (const ChoiceSummary& each : choice_summaries())
      if (each.known.calls.collective == collective && each.known.calls.limit.value == limit) all.add(each);
    return all;
  }
};

TEST_F(AutoPartedByFile, the_line_of_the_collective_counts) {
  for (const Parted function : {Parted::block, Parted::gather, Parted::bcast, Parted::reduce}) {
    PartedCase c = whole_case(function);
    const std::uint64_t before = compressed();
    for (int i = 0; i < 3; ++i) {
      const std::vector<float> wanted = exact(c, i);
      fill(c, i);
      ASSERT_EQ(run(c, Form::blocking, comm, Info{{"mpiq_method", "auto(error=0.05)"}}), MPI_SUCCESS);
      EXPECT_LE(relative_error(result(c), wanted), 0.05);
    }
    EXPECT_EQ(compressed() - before, 3u) << name(function, Form::blocking);
    const ChoiceSummary all = summary(function, 0.05);
    EXPECT_EQ(to_string(all.known.method), "int8") << name(function, Form::blocking);
    EXPECT_GE(all.totals.judgements, 1u) << name(function, Form::blocking);
    EXPECT_GT(all.totals.worst_error, 0) << name(function, Form::blocking);
    EXPECT_LT(all.totals.worst_error, 0.05) << name(function, Form::blocking);
  }
}

// Almost all of a vector is in a run that a sample misses. The first result is judged, and replaced.
TEST_F(AutoPartedByFile, a_result_that_loses_more_than_its_sample_is_replaced) {
  for (const Parted function : {Parted::block, Parted::gather, Parted::bcast, Parted::reduce})
    for (const bool in_place : {false, true}) {
      PartedCase c = whole_case(function, in_place);
      const auto put = [&](PartedCase& into, int turn) {
        fill(into, turn);
        std::vector<float>& x = into.in_place ? into.receive : into.send;
        const std::size_t begin = into.in_place ? into.brings_at : 0, run = into.input / 8;
        if (into.input == 0) return;
        for (std::size_t i = run; i < into.input; ++i) x[begin + i] = 0;
      };
      for (int i = 0; i < 3; ++i) {
        PartedCase other = c;
        put(other, i);
        ASSERT_EQ(run(other, Form::blocking, comm, Info{{"mpiq_method", "mpi"}}), MPI_SUCCESS);
        put(c, i);
        ASSERT_EQ(run(c, Form::blocking, comm, Info{{"mpiq_method", "auto(error=0.1)"}}), MPI_SUCCESS);
        EXPECT_LE(relative_error(result(c), result(other)), adds(function) ? 1e-6 : 0)
            << name(function, Form::blocking) << ", in place " << in_place << ", call " << i;
      }
      const Chooser::Totals totals = summary(function, 0.1).totals;
      EXPECT_GE(totals.judgements, 1u) << name(function, Form::blocking);
      EXPECT_GT(totals.worst_error, 0.1) << name(function, Form::blocking);
    }
}

}  // namespace
}  // namespace mq::test
