// memory=ef21 in MPIQ_Allgatherv and MPIQ_Bcast under MPI: parts that change little need few bits, errors do
// not stay, and ranks whose estimates differ start again together.

#include <gtest/gtest.h>
#include <mpi.h>

#include <dlfcn.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/parts.hpp"

namespace {
int sends_until_damage = -1;  // < 0: never
}

// In front of MPI's own: the library calls PMPI_ names only.
extern "C" int PMPI_Isend(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                          MPI_Request* request) {
  using Function = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "PMPI_Isend"));
  static std::vector<char> damaged;  // the library sends bytes
  if (sends_until_damage >= 0 && sends_until_damage-- == 0) {
    damaged.assign(static_cast<const char*>(buf), static_cast<const char*>(buf) + count);
    damaged[0] ^= 1;
    buf = damaged.data();
  }
  return real(buf, count, type, dest, tag, comm, request);
}

namespace mq::test {
namespace {

// memory=ef21: all ranks keep one estimate of the gathered vector.
class Mirror : public Parts {
 protected:
  using Places = std::vector<MPI_Aint>;
  // Gathers part `rank` of the vector that all ranks know, cut by `counts`.
  int gather(const std::vector<float>& vector, const Counts& counts, std::vector<float>& y,
             const Info& info) const {
    const Places at = places_in_order(counts);
    const auto first = vector.begin() + at[static_cast<std::size_t>(rank)];
    const std::vector<float> x(first, first + static_cast<std::ptrdiff_t>(own(counts)));
    y.assign(vector.size(), -7);
    return MPIQ_Allgatherv(x.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, y.data(), counts.data(),
                           at.data(), MPI_FLOAT, comm, info);
  }
  // One that all ranks know: each makes its part.
  std::vector<float> vector_of(const Counts& counts) const {
    const std::vector<float> x = input<float>(own(counts));
    const Places at = places_in_order(counts);
    const std::vector<int> n(counts.begin(), counts.end()), displs(at.begin(), at.end());
    std::vector<float> all(
        static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), MPI_Count{0})));
    MPI_Allgatherv(x.data(), static_cast<int>(x.size()), MPI_FLOAT, all.data(), n.data(), displs.data(),
                   MPI_FLOAT, comm);
    return all;
  }
  static Places places_in_order(const Counts& counts) {
    Places at;
    MPI_Aint next = 0;
    for (const MPI_Count n : counts) at.push_back(std::exchange(next, next + static_cast<MPI_Aint>(n)));
    return at;
  }
};

TEST_F(Mirror, parts_that_change_little_are_gathered_with_few_bits_and_errors_do_not_stay) {
  if (size == 1) return;
  for (const char* const codec : {"int4", "topk(k=0.25)", "onebit", "natural"})
    for (const Counts& counts : {equal(3000), uneven(5000)}) {
      const Info info{{"mpiq_method", std::string(codec) + " memory=ef21"}, {"mpiq_key", "w"}};
      std::vector<float> vector = vector_of(counts), y;
      ASSERT_EQ(gather(vector, counts, y, info), MPI_SUCCESS) << codec;
      EXPECT_TRUE(same_bits(y, vector)) << codec << ": the first call is exact";
      std::vector<float> change = input<float>(vector.size());
      MPI_Bcast(change.data(), static_cast<int>(change.size()), MPI_FLOAT, 0, comm);
      for (std::size_t i = 0; i < vector.size(); ++i) vector[i] += change[i] *= 1e-3F;
      double before = norm(y, vector);
      const double moved = before;
      for (int call = 0; call < 12; ++call) {
        ASSERT_EQ(gather(vector, counts, y, info), MPI_SUCCESS) << codec;
        EXPECT_TRUE(same_on_all_ranks(y)) << codec;
        const double error = norm(y, vector);
        EXPECT_LE(error, before * (1 + 1e-6) + 2e-4 * moved) << codec << " call " << call;
        before = error;
      }
      EXPECT_LT(before, 0.4 * moved) << codec;
      ASSERT_EQ(MPIQ_Residual_reset(comm, "w"), MPI_SUCCESS);
      EXPECT_EQ(stats().residual_bytes, 0u) << "forgotten";
    }
}

TEST_F(Mirror, ranks_that_differ_start_again_together_and_calls_that_fail_change_nothing) {
  if (size == 1) return;
  const Counts counts = uneven(4000);
  const Info info{{"mpiq_method", "int4 memory=ef21"}, {"mpiq_key", "w"}};
  const bool odd = rank == size - 1;
  std::vector<float> vector = vector_of(counts), y;
  const auto move = [&](float by) {
    for (float& v : vector) v *= by;
  };
  const auto call = [&](const Counts& cut, const Info& with) { return gather(vector, cut, y, with); };
  ASSERT_EQ(call(counts, info), MPI_SUCCESS);
  // One rank has lost its estimate, or has scaled it.
  for (const int what : {0, 1}) {
    move(1.01F);
    ASSERT_EQ(call(counts, info), MPI_SUCCESS);
    EXPECT_FALSE(same_bits(y, vector)) << "it goes on";
    if (odd) {
      ASSERT_EQ(what == 0 ? MPIQ_Residual_reset(comm, "w") : MPIQ_Residual_scale(comm, "w", 2), MPI_SUCCESS);
    }
    ASSERT_EQ(call(counts, info), MPI_SUCCESS);
    EXPECT_TRUE(same_bits(y, vector)) << "an exact call starts again: " << what;
  }
  // Calls that fail on all ranks, another rule, and the same vector cut otherwise: the estimate goes on.
  move(1.01F);
  const double moved = norm(y, vector);
  Counts turned = counts;
  std::rotate(turned.begin(), turned.begin() + 1, turned.end());
  const Info carry{{"mpiq_method", "int4"}, {"mpiq_key", "w"}};
  expect_error_everywhere(call(odd ? turned : counts, info), "recvcounts");
  expect_error_everywhere(call(counts, odd ? carry : info), "the ranks' calls differ");
  ASSERT_EQ(call(counts, carry), MPI_SUCCESS);
  ASSERT_EQ(call(turned, info), MPI_SUCCESS);
  EXPECT_TRUE(same_on_all_ranks(y));
  EXPECT_LT(norm(y, vector), 0.3 * moved);
  EXPECT_FALSE(same_bits(y, vector)) << "no new beginning";
  // A rank that lets its part stand.
  const std::vector<float> stands = y;
  move(2);
  const auto skip = [&](bool is_asked) {
    return Info{
        {"mpiq_method", "raw memory=ef21"}, {"mpiq_key", "w"}, {"mpiq_skip", is_asked ? "true" : "false"}};
  };
  ASSERT_EQ(call(counts, skip(true)), MPI_SUCCESS);
  EXPECT_TRUE(same_bits(y, stands)) << "all ranks";
  ASSERT_EQ(call(counts, skip(rank == 0)), MPI_SUCCESS);
  const auto end = static_cast<std::size_t>(counts[0]);
  for (std::size_t i = 0; i < y.size(); ++i)
    ASSERT_NEAR(y[i], i < end ? stands[i] : vector[i], 1e-5F * std::abs(vector[i])) << i;
  // Another length.
  vector.resize(vector.size() + 1);
  ++turned[0];
  expect_error_everywhere(call(turned, info), "mpiq_key \"w\" belongs to");
}

// The receiver of an unreadable message has no result, and others have.
TEST_F(Mirror, a_call_that_failed_on_one_rank_is_followed_by_an_exact_one) {
  if (size == 1) return;
  const Counts counts = equal(3000);
  const Info info{{"mpiq_method", "int4 memory=ef21"}, {"mpiq_key", "w"}};
  std::vector<float> vector = vector_of(counts), y;
  ASSERT_EQ(gather(vector, counts, y, info), MPI_SUCCESS);
  for (float& v : vector) v *= 1.01F;
  int agreement = 0;  // messages of a rank
  while ((1 << agreement) < size) ++agreement;
  if (rank == 0) sends_until_damage = agreement;  // the first frame goes to rank 1
  const int code = gather(vector, counts, y, info);
  sends_until_damage = -1;
  EXPECT_EQ(code != MPI_SUCCESS, rank == 1) << text_of(code);
  for (float& v : vector) v *= 1.01F;
  for (const bool is_exact : {true, false}) {
    ASSERT_EQ(gather(vector, counts, y, info), MPI_SUCCESS);
    EXPECT_TRUE(same_on_all_ranks(y));
    EXPECT_EQ(same_bits(y, vector), is_exact);
    for (float& v : vector) v *= 1.01F;
  }
}

TEST_F(Mirror, what_it_does_not_serve_is_an_error_everywhere) {
  if (size == 1) return;
  const Counts counts = equal(1000);
  const std::vector<float> vector = vector_of(counts);
  std::vector<float> y;
  expect_error_everywhere(gather(vector, counts, y, Info{{"mpiq_method", "int4 memory=ef21"}}),
                          "needs the name of the vector");
  expect_error_everywhere(
      gather(vector, counts, y, Info{{"mpiq_method", "int4 memory=lazy"}, {"mpiq_key", "w"}}),
      "memory=lazy serves allreduce only");
  EXPECT_EQ(stats().residual_bytes, 0u);
}

TEST_F(Mirror, a_value_that_is_not_finite_is_forgotten) {
  if (size == 1) return;
  const Counts counts = equal(900);
  const Info info{{"mpiq_method", "int8 memory=ef21"}, {"mpiq_key", "w"}};
  const std::vector<float> vector = vector_of(counts);
  std::vector<float> y, wild = vector;
  wild[5] = std::numeric_limits<float>::quiet_NaN();
  for (const int call : {0, 1, 2, 3, 4, 5}) {
    const std::vector<float>* const sent = call == 1 ? &wild : &vector;
    ASSERT_EQ(gather(*sent, counts, y, info), MPI_SUCCESS);
    EXPECT_TRUE(same_on_all_ranks(y));
    EXPECT_EQ(std::isfinite(y[5]), sent == &vector);
  }
  EXPECT_LT(relative_error(y, vector), 1e-5);
}

TEST_F(Mirror, of_a_broadcast_serves_every_root_and_an_allgather_of_as_many_elements) {
  if (size == 1) return;
  const Counts counts = equal(2000);
  const Info info{{"mpiq_method", "int4 memory=ef21"}, {"mpiq_key", "w"}};
  std::vector<float> vector = vector_of(counts), y;
  double moved = 0;
  for (int call = 0; call < 4; ++call) {
    const int root = call % size;
    y = rank == root ? vector : std::vector<float>(vector.size(), -7);
    ASSERT_EQ(MPIQ_Bcast(y.data(), static_cast<MPI_Count>(y.size()), MPI_FLOAT, root, comm, info),
              MPI_SUCCESS);
    EXPECT_TRUE(same_on_all_ranks(y));
    EXPECT_EQ(same_bits(y, vector), call == 0) << "the first call is exact, call " << call;
    EXPECT_LT(norm(y, vector), call == 0 ? 1e-30 : 0.2 * moved) << call;
    const std::vector<float> known = y;
    for (float& v : vector) v *= 1.01F;
    moved = norm(known, vector);
  }
  ASSERT_EQ(gather(vector, counts, y, info), MPI_SUCCESS);
  EXPECT_LT(norm(y, vector), 0.2 * moved);
  EXPECT_EQ(stats().residual_bytes, vector.size() * sizeof(float)) << "one estimate";
}

}  // namespace
}  // namespace mq::test
