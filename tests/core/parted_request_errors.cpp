// The non-blocking and persistent forms of functions in which ranks have different parts: what MPI makes
// alone, and errors, which all ranks get and which name the function.

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/parted_requests.hpp"
#include "tests/core/requests.hpp"

namespace mq::test {
namespace {

constexpr std::array kRequestForms{Form::once, Form::persistent};

class PartedRequestErrors : public PartedRequests {
 protected:
  bool is_odd() const { return rank == size - 1; }
  // The odd rank makes the call of `odd`, the others make the call of `c`.
  void expect_refused(PartedCase c, PartedCase odd, Form form, MPI_Info info, const std::string& of_odd,
                      const std::string& of_others) const {
    expect_error_everywhere(run(is_odd() ? odd : c, form, comm, info), is_odd() ? of_odd : of_others);
  }
};

TEST_F(PartedRequestErrors, calls_that_no_codec_serves_are_mpi_s_own) {
  MPI_Datatype half = MPI_DATATYPE_NULL, row = MPI_DATATYPE_NULL, strided = MPI_DATATYPE_NULL;
  ASSERT_EQ(MPIQ_Type_bfloat16(&half), MPI_SUCCESS);
  MPI_Type_contiguous(3, MPI_FLOAT, &row);
  MPI_Type_vector(2, 1, 1, MPI_FLOAT, &strided);
  MPI_Type_commit(&row);
  MPI_Type_commit(&strided);
  struct Kind {
    MPI_Datatype type;
    MPI_Op op;
    std::size_t each;  // floats of an element
    bool is_added;
  };
  for (const Kind& kind :
       {Kind{MPI_INT, MPI_MAX, 1, true}, Kind{MPI_FLOAT, MPI_MAX, 1, true}, Kind{row, MPI_SUM, 3, true},
        Kind{MPI_C_FLOAT_COMPLEX, MPI_SUM, 2, true}, Kind{strided, MPI_SUM, 2, false}})
    for (const Parted function : kPartedFunctions)
      for (const MPI_Comm on : {comm, MPI_COMM_SELF})
        for (const bool in_place : {false, true}) {
          if (adds(function) && !kind.is_added) continue;
          if (on == MPI_COMM_SELF && size > 1) continue;  // the fixture cuts parts for `comm`
          // Short, because of an error of MPICH 4.0.2: see parted_requests.cpp.
          PartedCase blocking = case_of(function, 100, in_place, kind.each);
          blocking.type = kind.type;
          blocking.op = kind.op;
          PartedCase once = blocking;
          fill(blocking, 1);
          ASSERT_EQ(run(blocking, Form::blocking, on, MPI_INFO_NULL), MPI_SUCCESS);
          for (const Form form : kRequestForms) {
            fill(once, 1);
            ASSERT_EQ(run(once, form, on, MPI_INFO_NULL), MPI_SUCCESS) << name(function, form);
            const std::vector<float> got = result(once), wanted = result(blocking);
            const bool is_same = kind.op == MPI_MAX || !adds(function) ? same_bits(got, wanted)
                                                                       : relative_error(got, wanted) <= 1e-6;
            EXPECT_TRUE(is_same) << name(function, form) << " each=" << kind.each;
          }
        }
  EXPECT_EQ(stats().compressed_calls, 0u);
  // Without a method half types are gathered by MPI and summed by their own codec.
  for (const Parted function : kPartedFunctions) {
    PartedCase blocking = case_of(function, 100);  // twice as many halves have room
    blocking.type = half;
    PartedCase once = blocking;
    fill(blocking, 1);
    fill(once, 1);
    ASSERT_EQ(run(blocking, Form::blocking, comm, MPI_INFO_NULL), MPI_SUCCESS);
    ASSERT_EQ(run(once, Form::once, comm, MPI_INFO_NULL), MPI_SUCCESS);
    EXPECT_TRUE(same_bits(once.receive, blocking.receive)) << name(function, Form::once);
  }
  MPI_Type_free(&row);
  MPI_Type_free(&strided);
}

TEST_F(PartedRequestErrors, an_intercommunicator_is_left_to_mpi) {
  if (size == 1) return;
  MPI_Comm mine = MPI_COMM_NULL, inter = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank == 0 ? 0 : 1, rank, &mine);
  MPI_Intercomm_create(mine, 0, comm, rank == 0 ? 1 : 0, 5, &inter);
  const auto others = static_cast<std::size_t>(rank == 0 ? size - 1 : 1);
  const Info info{{"mpiq_method", "int8"}};
  std::vector<float> x(60 * others, static_cast<float>(rank + 1)), y(60 * others);
  for (const Form form : kRequestForms) {
    Counts counts(others, 60);
    std::vector<MPI_Aint> at;
    for (std::size_t r = 0; r < others; ++r) at.push_back(static_cast<MPI_Aint>(60 * (others - 1 - r)));
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    ASSERT_EQ(
        (form == Form::once ? MPIQ_Iallgatherv : MPIQ_Allgatherv_init)(
            x.data(), 60, MPI_FLOAT, y.data(), counts.data(), at.data(), MPI_FLOAT, inter, info, &request),
        MPI_SUCCESS);
    std::fill(counts.begin(), counts.end(), -1);
    at.assign(others, -1);
    for (int start = 0; start < (form == Form::once ? 1 : 2); ++start) {
      if (form == Form::persistent) {
        std::fill(y.begin(), y.end(), 0.0F);
        ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
      }
      ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
      for (std::size_t r = 0; r < others; ++r)
        EXPECT_EQ(y[60 * (others - 1 - r) + 7], rank == 0 ? static_cast<float>(r + 2) : 1.0F) << r;
    }
    if (form == Form::persistent) {
      ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
    }
  }
  MPI_Comm_free(&inter);
  MPI_Comm_free(&mine);
}

TEST_F(PartedRequestErrors, bad_arguments_of_one_rank_are_errors_on_all_ranks) {
  const Info int8{{"mpiq_method", "int8"}};
  for (const Parted function : kPartedFunctions)
    for (const Form form : kRequestForms) {
      const std::string own = name(function, form), others = "invalid argument";
      const PartedCase c = case_of(function, 300);
      PartedCase odd = c;
      MPIQ_Request request = MPIQ_REQUEST_NULL;
      int code = call(odd, form, comm, int8, is_odd() ? nullptr : &request);
      if (code == MPI_SUCCESS) code = MPIQ_Wait(&request);
      expect_error_everywhere(code, is_odd() ? own + ": request is NULL" : others);
      EXPECT_EQ(request, MPIQ_REQUEST_NULL);
      odd.counts[0] = -1;
      expect_refused(c, odd, form, int8, "is negative", others);
      odd = c;
      if (adds(function)) {
        odd.op = MPI_OP_NULL;
        expect_refused(c, odd, form, int8, "op is MPI_OP_NULL", others);
        expect_refused(c, odd, form, MPI_INFO_NULL, "op is MPI_OP_NULL", others);
        odd = c;
      }
      odd.type = MPI_DATATYPE_NULL;
      expect_refused(c, odd, form, int8, "is MPI_DATATYPE_NULL", others);
      if (function == Parted::bcast || function == Parted::reduce)
        for (const int root : {size, -1}) {
          odd = c;
          odd.root = root;
          expect_refused(c, odd, form, int8, "is no rank", others);
        }
      expect_refused(c, c, form, Info{{"mpiq_method", "int8"}, {"mpiq_matrix", "10x30"}}, "mpiq_matrix",
                     "mpiq_matrix");
      expect_refused(c, c, form, Info{{"mpiq_method", "int8/ring"}}, "mpiq_method", "mpiq_method");
      if (!adds(function)) expect_refused(c, c, form, Info{{"mpiq_op", "avg"}}, "mpiq_op=avg", "mpiq_op=avg");
    }
  const PartedCase c = case_of(Parted::gatherv, 300);
  std::vector<float> y(c.receive.size());
  for (const auto& init : {MPIQ_Iallgatherv, MPIQ_Allgatherv_init})
    for (const bool has_counts : {false, true}) {
      MPIQ_Request request = MPIQ_REQUEST_NULL;
      int code = init(c.send.data(), c.sendcount, MPI_FLOAT, y.data(),
                      has_counts || !is_odd() ? c.counts.data() : nullptr,
                      !has_counts || !is_odd() ? c.at.data() : nullptr, MPI_FLOAT, comm, int8, &request);
      if (code == MPI_SUCCESS) code = MPIQ_Wait(&request);
      const std::string missing = has_counts ? "displs is NULL" : "recvcounts is NULL";
      expect_error_everywhere(code, is_odd() ? missing : "invalid argument");
    }
}

TEST_F(PartedRequestErrors, calls_that_differ_are_errors_on_all_ranks_that_name_the_function) {
  if (size == 1) return;
  const Info int8{{"mpiq_method", "int8"}}, exact{{"mpiq_method", "mpi"}};
  for (const Parted function : kPartedFunctions)
    for (const Form form : kRequestForms) {
      const std::string started = name(function, Form::once) + " or MPIQ_Start";
      const PartedCase c = case_of(function, 300);
      PartedCase longer = case_of(function, is_odd() ? 301 : 300), other = c;
      for (const MPI_Info info : {static_cast<MPI_Info>(int8), static_cast<MPI_Info>(exact)}) {
        const std::string what = form == Form::persistent ? name(function, form) + ": "
                                 : info == int8           ? name(function, Form::blocking) + ": "
                                                          : started + ": ";
        expect_error_everywhere(run(longer, form, comm, info), what);
        if (function != Parted::bcast && function != Parted::reduce) continue;
        other.root = is_odd() ? 0 : size - 1;
        expect_error_everywhere(run(other, form, comm, info), "root 0");
      }
      // Ranks in different functions, also in the allreduce.
      for (const Parted odd : kPartedFunctions) {
        if (odd == function) continue;
        PartedCase mine = case_of(is_odd() ? odd : function, 300);
        const int code = run(mine, form, comm, exact);
        for (const Parted each : {odd, function})
          expect_error_everywhere(code, name(each, form) + (form == Form::once ? " or MPIQ_Start: " : ": "));
      }
      PartedCase mine = c;
      std::vector<float> x(300, 1), y(300);
      int code = MPI_SUCCESS;
      if (is_odd()) {
        MPIQ_Request request = MPIQ_REQUEST_NULL;
        code = (form == Form::once ? MPIQ_Iallreduce : MPIQ_Allreduce_init)(
            x.data(), y.data(), 300, MPI_FLOAT, MPI_SUM, comm, exact, &request);
        if (code == MPI_SUCCESS) code = MPIQ_Wait(&request);
      } else {
        code = run(mine, form, comm, exact);
      }
      expect_error_everywhere(code, form == Form::once ? started : name(function, form));
      // MPI's blocking and non-blocking calls do not meet; compressed ones do.
      if (form == Form::persistent) continue;
      PartedCase same = c;
      fill(same, 0);
      expect_error_everywhere(run(same, is_odd() ? form : Form::blocking, comm, exact), started);
      EXPECT_EQ(run(same, is_odd() ? form : Form::blocking, comm, int8), MPI_SUCCESS);
    }
}

// MPI makes these calls, and refuses them on all ranks. The communicator and other requests of it go on to
// work.
TEST_F(PartedRequestErrors, what_mpi_refuses_is_an_error_of_that_call_alone) {
  const Info int8{{"mpiq_method", "int8"}};
  PartedCase kept_case = case_of(Parted::block, 300);
  MPIQ_Request kept = MPIQ_REQUEST_NULL;
  ASSERT_EQ(call(kept_case, Form::persistent, comm, int8, &kept), MPI_SUCCESS);
  const auto check_kept = [&] {
    fill(kept_case, 0);
    ASSERT_EQ(MPIQ_Start(&kept), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&kept), MPI_SUCCESS);
  };
  std::vector<float> x(10, 1), y(10);
  for (const Form form : kRequestForms) {
    for (const Parted function : kPartedFunctions) {
      PartedCase refused = case_of(function, 100);
      if (adds(function)) {
        refused.op = MPI_BAND;  // of floats
        EXPECT_NE(run(refused, form, comm, MPI_INFO_NULL), MPI_SUCCESS);
        refused.type = MPI_BYTE;
        refused.op = MPI_SUM;
        (void)run(refused, form, comm, MPI_INFO_NULL);  // Open MPI adds bytes
      } else {
        MPI_Type_vector(2, 1, 2, MPI_FLOAT, &refused.type);  // not committed
        expect_error_everywhere(run(refused, form, comm, MPI_INFO_NULL), size > 1 ? "is not committed" : "");
        MPI_Type_free(&refused.type);
      }
      check_kept();
    }
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    int code = (form == Form::once ? MPIQ_Iallreduce : MPIQ_Allreduce_init)(
        x.data(), y.data(), 10, MPI_FLOAT, MPI_BAND, comm, MPI_INFO_NULL, &request);
    if (code == MPI_SUCCESS && form == Form::persistent) code = MPIQ_Start(&request);
    if (code == MPI_SUCCESS) code = MPIQ_Wait(&request);
    EXPECT_NE(code, MPI_SUCCESS);
    if (request != MPIQ_REQUEST_NULL) {
      EXPECT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
    }
    check_kept();
  }
  EXPECT_EQ(MPIQ_Request_free(&kept), MPI_SUCCESS);
}

// MPI would add by one rank's operation or another's, or would wait for ever.
TEST_F(PartedRequestErrors, ranks_with_different_operations_or_types_get_an_error) {
  if (size == 1) return;
  for (const Form form : {Form::blocking, Form::once, Form::persistent})
    for (const Parted function : kPartedFunctions) {
      if (!adds(function)) continue;
      const PartedCase c = case_of(function, 100);
      PartedCase odd = c;
      odd.op = MPI_MAX;
      expect_refused(c, odd, form, MPI_INFO_NULL, "operation and type", "operation and type");
      PartedCase ints = c, others = c;
      ints.type = MPI_INT;
      others.type = MPI_UNSIGNED;
      expect_refused(ints, others, form, MPI_INFO_NULL, "operation and type", "operation and type");
      fill(odd, 0);
      EXPECT_EQ(run(odd, form, comm, MPI_INFO_NULL), MPI_SUCCESS) << "the same on all ranks";
    }
}

// A displacement is one rank's own, and an MPI before version 4 takes an int.
TEST_F(PartedRequestErrors, a_displacement_that_mpi_cannot_take_is_an_error_on_all_ranks) {
  int version = 0, subversion = 0;
  MPI_Get_version(&version, &subversion);
  if (size == 1 || version >= 4) return;
  for (const Form form : {Form::blocking, Form::once, Form::persistent}) {
    PartedCase c = case_of(Parted::gatherv, 100), odd = c;
    c.counts.back() = odd.counts.back() = 0;
    if (rank == size - 1) c.sendcount = odd.sendcount = 0;
    odd.at.back() = MPI_Aint{1} << 33;
    expect_refused(c, odd, form, MPI_INFO_NULL, "more than this MPI library takes", "invalid argument");
    fill(c, 0);
    EXPECT_EQ(run(c, form, comm, MPI_INFO_NULL), MPI_SUCCESS);
  }
}

TEST_F(PartedRequestErrors, a_key_serves_one_call_at_a_time_whichever_functions_these_are) {
  if (size == 1) return;
  const Info info{{"mpiq_method", "int8"}, {"mpiq_key", "w"}};
  const auto n = static_cast<MPI_Count>(300 * size);
  const auto check = [&](PartedCase first, PartedCase second) {
    MPIQ_Request a = MPIQ_REQUEST_NULL, b = MPIQ_REQUEST_NULL;
    fill(first, 0);
    fill(second, 0);
    ASSERT_EQ(call(first, Form::persistent, comm, info, &a), MPI_SUCCESS);
    for (int turn = 0; turn < 2; ++turn) {
      ASSERT_EQ(MPIQ_Start(&a), MPI_SUCCESS);
      EXPECT_NE(MPIQ_Start(&a), MPI_SUCCESS) << "it is active";
      ASSERT_EQ(call(second, Form::once, comm, info, &b), MPI_SUCCESS);
      expect_error_everywhere(MPIQ_Wait(&b), "key \"w\" is in use by a call in flight");
      ASSERT_EQ(MPIQ_Wait(&a), MPI_SUCCESS);
      ASSERT_EQ(call(second, Form::once, comm, info, &b), MPI_SUCCESS);
      ASSERT_EQ(MPIQ_Wait(&b), MPI_SUCCESS);
    }
    ASSERT_EQ(MPIQ_Request_free(&a), MPI_SUCCESS);
  };
  check(case_of(Parted::block, 300), case_of(Parted::reduce, n));
  check(case_of(Parted::gather, 300), case_of(Parted::gather, 300, true));
}

TEST_F(PartedRequestErrors, persistent_requests_that_are_started_in_different_orders_are_errors) {
  if (size == 1) return;
  for (const char* const method : {"int8", "mpi"}) {
    const Info info{{"mpiq_method", method}};
    std::array<PartedCase, 2> cases{case_of(Parted::block, 500), case_of(Parted::bcast, 500)};
    std::array<MPIQ_Request, 2> pair{};
    for (std::size_t i = 0; i < 2; ++i)
      ASSERT_EQ(call(cases[i], Form::persistent, comm, info, &pair[i]), MPI_SUCCESS);
    const std::size_t first = rank == 0 ? 0 : 1;
    ASSERT_EQ(MPIQ_Start(&pair[first]), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Start(&pair[1 - first]), MPI_SUCCESS);
    for (MPIQ_Request& r : pair) expect_error_everywhere(MPIQ_Wait(&r), "the ranks' calls differ");
    for (MPIQ_Request& r : pair) {  // started alike they work again
      ASSERT_EQ(MPIQ_Start(&r), MPI_SUCCESS);
      ASSERT_EQ(MPIQ_Wait(&r), MPI_SUCCESS);
      ASSERT_EQ(MPIQ_Request_free(&r), MPI_SUCCESS);
    }
  }
}

TEST_F(PartedRequestErrors, no_communicator_is_an_error_and_a_freed_one_serves_its_requests) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (const Parted function : kPartedFunctions) {
    PartedCase c = case_of(function, 100), blocking = c;
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    for (const Form form : kRequestForms) {
      const int code = call(c, form, MPI_COMM_NULL, MPI_INFO_NULL, &request);
      expect_error_everywhere(code, "comm is MPI_COMM_NULL");
      EXPECT_EQ(request, MPIQ_REQUEST_NULL);
    }
    for (const char* const method : {"int8", "mpi"}) {
      const Info info{{"mpiq_method", method}};
      MPI_Comm freed = MPI_COMM_NULL;
      MPI_Comm_dup(comm, &freed);
      ASSERT_EQ(call(c, Form::persistent, freed, info, &request), MPI_SUCCESS);
      MPI_Comm_free(&freed);
      fill(blocking, 0);
      ASSERT_EQ(run(blocking, Form::blocking, comm, info), MPI_SUCCESS);
      for (int turn = 0; turn < 2; ++turn) {
        fill(c, 0);
        ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
        ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
        EXPECT_LE(relative_error(result(c), result(blocking)), 1e-6) << name(function, Form::persistent);
      }
      ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
    }
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

}  // namespace
}  // namespace mq::test
