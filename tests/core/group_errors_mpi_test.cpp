// What MPIQ_Allreduce_group refuses, on all ranks: arguments of one rank that cannot be used, methods that
// serve single vectors, and ranks that differ.

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/codec.hpp"
#include "mpi_quant.h"
#include "tests/core/group.hpp"

namespace mq::test {
namespace {

TEST_F(Group, arguments_that_cannot_be_used_are_errors_on_all_ranks) {
  const bool odd = rank == size - 1;
  std::vector<float> x(1000, 1.0F), y(1000), z(1000);
  const void* in[]{x.data(), x.data() + 500};
  void* out[]{y.data(), z.data()};
  MPI_Count counts[]{500, 500};
  const char* keys[]{"a", "b"};
  const Info info{{"mpiq_method", "int8"}};
  const auto call = [&](int n = 2, MPI_Info with = MPI_INFO_NULL) {
    return MPIQ_Allreduce_group(n, in, out, counts, keys, MPI_FLOAT, MPI_SUM, comm,
                                with == MPI_INFO_NULL ? MPI_Info(info) : with);
  };
  // Of one rank alone: it says what, and the others that a rank cannot take part.
  const auto expect_alone = [&](int code, const std::string& what) {
    expect_error_everywhere(code, odd ? what : "invalid argument");
  };
  ASSERT_EQ(call(), MPI_SUCCESS);
  expect_alone(call(odd ? -1 : 2), "n -1 is negative");
  const auto with = [&](auto& place, auto value, const std::string& what) {
    const auto kept = place;
    if (odd) place = value;
    expect_alone(call(), what);
    place = kept;
    EXPECT_EQ(call(), MPI_SUCCESS) << what;
  };
  with(counts[1], MPI_Count{-3}, "counts[1] -3 is negative");
  with(counts[1], MPI_Count{1} << 60, "more than 2^58");
  with(keys[0], static_cast<const char*>(nullptr), "keys[0]");
  with(keys[1], "", "keys[1]");
  const std::string long_key(64, 'k');
  with(keys[1], long_key.c_str(), "keys[1]");
  with(keys[1], "a", "key \"a\" names two vectors");
  with(in[0], static_cast<const void*>(nullptr), "sendbufs[0] is NULL");
  with(out[1], static_cast<void*>(nullptr), "recvbufs[1] is NULL");
  with(out[1], MPI_IN_PLACE, "recvbufs[1] is MPI_IN_PLACE");
  with(out[1], static_cast<void*>(y.data() + 499), "shares memory");
  with(out[1], static_cast<void*>(x.data() + 999), "shares memory");
  with(in[0], static_cast<const void*>(z.data() + 1), "shares memory");
  with(in[1], static_cast<const void*>(z.data()), "shares memory");
  in[1] = x.data() + 1;
  EXPECT_EQ(call(), MPI_SUCCESS) << "inputs may share memory";
  in[1] = MPI_IN_PLACE;
  EXPECT_EQ(call(), MPI_SUCCESS) << "one in place";
  EXPECT_NE(MPIQ_Allreduce_group(2, in, nullptr, counts, keys, MPI_FLOAT, MPI_SUM, comm, info), MPI_SUCCESS);
  EXPECT_NE(MPIQ_Allreduce_group(2, in, out, nullptr, keys, MPI_FLOAT, MPI_SUM, comm, info), MPI_SUCCESS);
}

// Also on one rank, so that a program is not told so only when it runs on several.
TEST_F(Group, methods_and_keys_of_one_vector_are_errors_on_all_ranks) {
  std::vector<float> x(1000, 1.0F);
  void* out[]{x.data(), x.data() + 500};
  const MPI_Count counts[]{500, 500};
  const char* keys[]{"a", "b"};
  const auto call = [&](const char* key, const std::string& value) {
    return MPIQ_Allreduce_group(2, nullptr, out, counts, keys, MPI_FLOAT, MPI_SUM, comm, Info{{key, value}});
  };
  for (const auto& [key, value, what] : {std::array{"mpiq_key", "k", "mpiq_key is of one vector"},
                                         {"mpiq_matrix", "10x100", "mpiq_matrix is of one vector"},
                                         {"mpiq_skip", "false", "mpiq_skip is of one vector"},
                                         {"mpiq_skip", "true", "mpiq_skip is of one vector"},
                                         {"mpiq_stream", "0", "mpiq_stream is of a vector in GPU memory"},
                                         {"mpiq_stream_ordered", "false", "mpiq_stream_ordered is of a"},
                                         {"mpiq_method", "lowrank(rank=2)", "lowrank serves single vectors"},
                                         {"mpiq_method", "topk memory=ef21", "keeps estimates"},
                                         {"mpiq_method", "nonsense", "mpiq_method"},
                                         {"mpiq_what", "1", "unknown key"}})
    expect_error_everywhere(call(key, value), what);
  for (const kernels::Codec& codec : kernels::codecs())
    if (measures(codec)) expect_error_everywhere(call("mpiq_method", std::string(codec.name)), "measures");
  EXPECT_EQ(call("mpiq_seed", "3"), MPI_SUCCESS);
}

// Also on one rank, where nothing is compressed.
TEST_F(Group, a_rule_that_names_a_method_of_one_vector_is_an_error_on_all_ranks) {
  std::vector<float> x(1000, 1.0F);
  void* out[]{x.data(), x.data() + 500};
  const MPI_Count counts[]{500, 500};
  const char* keys[]{"a", "b"};
  const auto call = [&](MPI_Info info) {
    return MPIQ_Allreduce_group(2, nullptr, out, counts, keys, MPI_FLOAT, MPI_SUM, comm, info);
  };
  ASSERT_EQ(MPIQ_Comm_set_policy(comm, "0-2K: mpi; 2K-: topk memory=ef21"), MPI_SUCCESS);
  expect_error_everywhere(call(MPI_INFO_NULL), "memory=ef21 keeps estimates of one vector");
  EXPECT_EQ(call(Info{{"mpiq_method", "mpi"}}), MPI_SUCCESS) << "the rule is not asked";
  for (const kernels::Codec& codec : kernels::codecs()) {
    if (!measures(codec)) continue;
    ASSERT_EQ(MPIQ_Comm_set_policy(comm, (": " + std::string(codec.name)).c_str()), MPI_SUCCESS);
    expect_error_everywhere(call(MPI_INFO_NULL), "measures a vector");
  }
  for (const char* const rules : {"8K-: threshold; : bf16", "reduce_scatter: threshold", ": lowrank", ""}) {
    ASSERT_EQ(MPIQ_Comm_set_policy(comm, rules), MPI_SUCCESS);
    EXPECT_EQ(call(MPI_INFO_NULL), MPI_SUCCESS) << rules;
  }
}

// MPI sums vectors of other types one by one, so a rank that failed at one would let the others wait.
TEST_F(Group, vectors_of_other_types_without_a_place_are_errors_on_all_ranks) {
  const bool odd = rank == size - 1;
  std::vector<int> x(20, 1), y(20);
  const void* in[]{x.data(), x.data() + 10};
  void* out[]{y.data(), y.data() + 10};
  const MPI_Count counts[]{10, 10};
  const Info info{{"mpiq_method", "int8"}};
  const auto expect_alone = [&](auto& place, auto value, const std::string& what) {
    const auto kept = place;
    if (odd) place = value;
    for (const MPI_Info with : {MPI_INFO_NULL, MPI_Info(info)})
      expect_error_everywhere(MPIQ_Allreduce_group(2, in, out, counts, nullptr, MPI_INT, MPI_SUM, comm, with),
                              odd ? what : "invalid argument");
    place = kept;
  };
  expect_alone(in[1], static_cast<const void*>(nullptr), "sendbufs[1] is NULL");
  expect_alone(out[1], static_cast<void*>(nullptr), "recvbufs[1] is NULL");
  expect_alone(out[0], MPI_IN_PLACE, "recvbufs[0] is MPI_IN_PLACE");
  ASSERT_EQ(MPIQ_Allreduce_group(2, in, out, counts, nullptr, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL),
            MPI_SUCCESS);
  EXPECT_EQ(y, std::vector<int>(20, size));
}

// Its sides may have different numbers of vectors.
TEST_F(Group, an_intercommunicator_is_an_error_on_all_ranks) {
  if (size == 1) GTEST_SKIP() << "an intercommunicator has two sides";
  MPI_Comm mine = MPI_COMM_NULL, inter = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank == 0 ? 0 : 1, rank, &mine);
  MPI_Intercomm_create(mine, 0, comm, rank == 0 ? 1 : 0, 5, &inter);
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  std::vector<float> x(30, 1.0F);
  void* out[]{x.data(), x.data() + 10, x.data() + 20};
  const MPI_Count counts[]{10, 10, 10};
  for (const char* const op : {"sum", "avg"})
    for (const int n : {3, rank == 0 ? 2 : 3})
      expect_error_everywhere(MPIQ_Allreduce_group(n, nullptr, out, counts, nullptr, MPI_FLOAT, MPI_SUM,
                                                   inter, Info{{"mpiq_method", "int8"}, {"mpiq_op", op}}),
                              "comm is an intercommunicator");
  MPI_Comm_free(&inter);
  MPI_Comm_free(&mine);
}

// Also without elements, where MPI has nothing to sum.
TEST_F(Group, no_communicator_is_the_error_of_mpi) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::vector<float> x(10, 1.0F);
  void* out[]{x.data()};
  for (const MPI_Count count : {0, 10})
    for (const int n : {0, 1}) {
      const int code = MPIQ_Allreduce_group(n, nullptr, out, &count, nullptr, MPI_FLOAT, MPI_SUM,
                                            MPI_COMM_NULL, MPI_INFO_NULL);
      int error_class = MPI_SUCCESS;
      MPI_Error_class(code, &error_class);
      EXPECT_EQ(error_class, MPI_ERR_COMM) << n << " of " << count;
      MPIQ_Request request = MPIQ_REQUEST_NULL;
      EXPECT_NE(MPIQ_Iallreduce_group(n, nullptr, out, &count, nullptr, MPI_FLOAT, MPI_SUM, MPI_COMM_NULL,
                                      MPI_INFO_NULL, &request),
                MPI_SUCCESS)
          << n << " of " << count;
      EXPECT_EQ(request, MPIQ_REQUEST_NULL);
    }
  EXPECT_EQ(
      MPIQ_Allreduce_group(0, nullptr, nullptr, nullptr, nullptr, MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL),
      MPI_SUCCESS);
}

TEST_F(Group, non_blocking_ones_that_differ_or_cannot_be_made_are_errors_on_all_ranks) {
  const bool odd = rank == size - 1;
  const auto expect_alone = [&](int code, const std::string& what) {
    expect_error_everywhere(code, odd ? what : "invalid argument");
  };
  const Info info{{"mpiq_method", "int8"}}, exact{{"mpiq_method", "mpi"}};
  Vectors<float> v = vectors<float>({300, 300}), w = vectors<float>({300, odd ? 299U : 300U});
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  std::vector<void*> out = v.out();
  const std::vector<MPI_Count> counts = v.counts();
  const auto start_with = [&](int n, MPIQ_Request* to) {
    const int code = MPIQ_Iallreduce_group(n, v.in().data(), out.data(), counts.data(), nullptr, MPI_FLOAT,
                                           MPI_SUM, comm, info, to);
    return code == MPI_SUCCESS && to != nullptr ? MPIQ_Wait(to) : code;
  };
  expect_alone(start_with(odd ? -1 : 2, &request), "MPIQ_Iallreduce_group: n -1 is negative");
  if (odd) out[1] = nullptr;
  expect_alone(start_with(2, &request), "recvbufs[1] is NULL");
  out = v.out();
  expect_alone(start_with(2, odd ? nullptr : &request), "MPIQ_Iallreduce_group: request is NULL");
  EXPECT_EQ(request, MPIQ_REQUEST_NULL);
  // So is a request that is NULL in the other functions that start calls.
  for (auto* const make : {&MPIQ_Iallreduce, &MPIQ_Allreduce_init}) {
    const int code =
        make(v.x[0].data(), v.y[0].data(), 300, MPI_FLOAT, MPI_SUM, comm, info, odd ? nullptr : &request);
    expect_alone(code == MPI_SUCCESS ? MPIQ_Wait(&request) : code, "request is NULL");
  }
  EXPECT_EQ(request, MPIQ_REQUEST_NULL);
  // MPI would find these in its own function, on this rank alone.
  const auto sum_with = [&](MPI_Datatype type, MPI_Op op) {
    return MPIQ_Allreduce_group(2, v.in().data(), out.data(), counts.data(), nullptr, type, op, comm, exact);
  };
  const auto start_op = [&](MPI_Op op) {
    const int code = MPIQ_Iallreduce_group(2, v.in().data(), out.data(), counts.data(), nullptr, MPI_FLOAT,
                                           op, comm, exact, &request);
    return code == MPI_SUCCESS ? MPIQ_Wait(&request) : code;
  };
  expect_error_everywhere(sum_with(MPI_FLOAT, odd ? MPI_OP_NULL : MPI_SUM), odd ? "op is MPI_OP_NULL" : "");
  expect_error_everywhere(start_op(odd ? MPI_OP_NULL : MPI_SUM), odd ? "op is MPI_OP_NULL" : "");
  expect_error_everywhere(start_op(MPI_OP_NULL), "op is MPI_OP_NULL");
  EXPECT_EQ(sum_with(MPI_FLOAT, MPI_SUM), MPI_SUCCESS) << "the communicator still works";
  expect_error_everywhere(start_and_wait(v, Info{{"mpiq_method", "lowrank(rank=2)"}}),
                          "MPIQ_Iallreduce_group: info mpiq_method: lowrank serves single vectors");
  if (size == 1) return;
  expect_error_everywhere(start_and_wait(w, info), "MPIQ_Allreduce_group");
  expect_error_everywhere(start_and_wait(w, exact), "MPIQ_Iallreduce_group");
  expect_error_everywhere(odd ? start_and_wait(v, exact) : sum(v, exact), "MPIQ_Iallreduce_group");
  expect_error_everywhere(start_and_wait(v, info, odd ? "a" : "b"), "calls differ");
  EXPECT_EQ(odd ? start_and_wait(v, info) : sum(v, info), MPI_SUCCESS) << "compressed ones meet";
  // A key of a group in flight.
  w = v;
  ASSERT_EQ(start(v, info, "k", request), MPI_SUCCESS);
  expect_error_everywhere(sum(w, info, "k"), "key \"k0\" is in use by a call in flight");
  expect_error_everywhere(one(w.x[1], w.y[1], Info{{"mpiq_method", "int8"}, {"mpiq_key", "k1"}}),
                          "in use by");
  ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
  for (std::size_t i = 0; i < v.x.size(); ++i) EXPECT_TRUE(same_on_all_ranks(v.y[i]));
  EXPECT_EQ(sum(w, info, "k"), MPI_SUCCESS);
}

TEST_F(Group, ranks_that_differ_get_an_error_and_keep_their_residuals) {
  if (size == 1) GTEST_SKIP() << "no other rank differs";
  const bool odd = rank == size - 1;
  const std::vector<float> x(600, 1.0F);
  std::vector<float> y(600);
  const auto call = [&](std::vector<MPI_Count> counts, std::vector<const char*> keys, const char* method) {
    std::vector<const void*> in;
    std::vector<void*> out;
    std::size_t at = 0;
    for (const MPI_Count n : counts) {
      in.push_back(x.data() + at);
      out.push_back(y.data() + at);
      at += static_cast<std::size_t>(n);
    }
    return MPIQ_Allreduce_group(static_cast<int>(counts.size()), in.data(), out.data(), counts.data(),
                                keys.empty() ? nullptr : keys.data(), MPI_FLOAT, MPI_SUM, comm,
                                Info{{"mpiq_method", method}});
  };
  ASSERT_EQ(call({300, 300}, {"a", "b"}, "int8"), MPI_SUCCESS);
  for (const char* const method : {"int8", "mpi"}) {
    expect_error_everywhere(
        call(odd ? std::vector<MPI_Count>{200, 400} : std::vector<MPI_Count>{300, 300}, {}, method),
        "MPIQ_Allreduce_group");
    expect_error_everywhere(
        call(odd ? std::vector<MPI_Count>{300, 300, 0} : std::vector<MPI_Count>{300, 300}, {}, method),
        "MPIQ_Allreduce_group");
    const int code = odd ? call({600}, {}, method)
                         : MPIQ_Allreduce(x.data(), y.data(), 600, MPI_FLOAT, MPI_SUM, comm,
                                          Info{{"mpiq_method", method}});
    expect_error_everywhere(code, "MPIQ_Allreduce_group");
  }
  expect_error_everywhere(call({300, 300}, {"a", odd ? "c" : "b"}, "int8"), "calls differ");
  expect_error_everywhere(
      call({300, 300}, odd ? std::vector<const char*>{} : std::vector<const char*>{"a", "b"}, "int8"),
      "calls differ");
  expect_error_everywhere(call({300, 300}, {"a", "b"}, odd ? "int8" : "onebit"), "calls differ");
  expect_error_everywhere(call({299, 301}, {"a", "b"}, "int8"), "key");
  int n = 0;
  ASSERT_EQ(MPIQ_Residual_list(comm, 0, nullptr, &n), MPI_SUCCESS);
  EXPECT_EQ(n, 2) << "failed calls leave no residuals";
  expect_error_everywhere(call({300, 300}, {"d", "d"}, "int8"), "key \"d\" names two vectors");
  ASSERT_EQ(MPIQ_Residual_list(comm, 0, nullptr, &n), MPI_SUCCESS);
  EXPECT_EQ(n, 2) << "nor does one that gives two vectors one key";
  ASSERT_EQ(call({300, 300}, {"a", "b"}, "int8"), MPI_SUCCESS);
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  ASSERT_EQ(MPIQ_Iallreduce(x.data(), y.data(), 300, MPI_FLOAT, MPI_SUM, comm,
                            Info{{"mpiq_method", "int8"}, {"mpiq_key", "b"}}, &request),
            MPI_SUCCESS);
  std::vector<float> z(600);
  void* out[]{z.data(), z.data() + 300};
  const MPI_Count counts[]{300, 300};
  const char* const keys[]{"a", "b"};
  expect_error_everywhere(MPIQ_Allreduce_group(2, nullptr, out, counts, keys, MPI_FLOAT, MPI_SUM, comm,
                                               Info{{"mpiq_method", "int8"}}),
                          "key \"b\" is in use by a call in flight");
  ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
}

}  // namespace
}  // namespace mq::test
