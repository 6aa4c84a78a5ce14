// Element types and shapes at the public interface: half types, matrices, odd alignment, memory.

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/convert.hpp"
#include "mpi_quant.h"
#include "mpi_quant/plan/plan.hpp"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

constexpr kernels::Element kHalves[]{kernels::Element::f16, kernels::Element::bf16};

class Types : public Api {
 protected:
  static MPI_Datatype datatype(kernels::Element half) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    EXPECT_EQ(half == kernels::Element::f16 ? MPIQ_Type_float16(&type) : MPIQ_Type_bfloat16(&type),
              MPI_SUCCESS);
    return type;
  }
  static std::vector<std::uint16_t> narrow(const std::vector<float>& x, kernels::Element half) {
    std::vector<std::uint16_t> h(x.size());
    kernels::convert(half, kernels::Isa::scalar)->narrow(x.data(), h.data(), nullptr, x.size());
    return h;
  }
  static std::vector<float> widen(const std::vector<std::uint16_t>& h, kernels::Element half) {
    std::vector<float> x(h.size());
    kernels::convert(half, kernels::Isa::scalar)->widen(h.data(), x.data(), h.size());
    return x;
  }
};

TEST_F(Types, half_vectors_are_summed_in_float_by_every_codec_and_plan) {
  for (const kernels::Element half : kHalves) {
    const MPI_Datatype type = datatype(half);
    const double rounding = half == kernels::Element::f16 ? 0x1p-11 : 0x1p-8;
    for (const std::size_t n : {1, 99, 5001, 150000}) {
      const std::vector<std::uint16_t> x = narrow(input<float>(n), half);
      const std::vector<float> values = widen(x, half);
      std::vector<float> exact(n);
      MPI_Allreduce(values.data(), exact.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM, comm);
      const double norms = norms_of_all_ranks(values);
      for (const kernels::Codec& codec : kernels::codecs())
        for (const PlanRow& plan : plans()) {
          const std::string method = std::string(codec.name) + "/" + std::string(plan.name);
          const Info info{{"mpiq_method", method}};
          std::vector<std::uint16_t> y(n), z = x;
          const int code =
              MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(n), type, MPI_SUM, comm, info);
          // Its codes may be as long as floats.
          constexpr std::size_t kLong = 1 << 20;  // the length of this vector decides nothing
          if (size > 1 && codec.wire_bound(kLong, half, kernels::preset_params(codec)) > 3 * kLong) {
            expect_error_everywhere(code, "sends more than the vector");
            continue;
          }
          ASSERT_EQ(code, MPI_SUCCESS);
          ASSERT_EQ(
              MPIQ_Allreduce(MPI_IN_PLACE, z.data(), static_cast<MPI_Count>(n), type, MPI_SUM, comm, info),
              MPI_SUCCESS);
          EXPECT_TRUE(same_on_all_ranks(y)) << method << " n=" << n;
          EXPECT_TRUE(size == 1 || !repeats(codec) || same_bits(y, z)) << method << " n=" << n;
          const double stages = 1 + std::ceil(std::log2(size));
          EXPECT_LE(norm(widen(y, half), exact), (loss(codec) * stages + rounding) * norms + 1e-6)
              << method << " n=" << n;
        }
    }
  }
}

TEST_F(Types, half_vectors_without_a_method_are_rounded_once_a_stage) {
  for (const kernels::Element half : kHalves) {
    const std::vector<float> ones(3000, 0.5F);
    const std::vector<std::uint16_t> x = narrow(ones, half);
    std::vector<std::uint16_t> y(x.size());
    ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), 3000, datatype(half), MPI_SUM, comm, MPI_INFO_NULL),
              MPI_SUCCESS);
    for (const float v : widen(y, half)) ASSERT_EQ(v, 0.5F * static_cast<float>(size));
    std::vector<std::uint16_t> alone(x.size());
    ASSERT_EQ(
        MPIQ_Allreduce(x.data(), alone.data(), 3000, datatype(half), MPI_SUM, MPI_COMM_SELF, MPI_INFO_NULL),
        MPI_SUCCESS);
    EXPECT_TRUE(same_bits(alone, x)) << "one rank: the identity";
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    std::fill(alone.begin(), alone.end(), std::uint16_t{0});
    ASSERT_EQ(MPIQ_Iallreduce(x.data(), alone.data(), 3000, datatype(half), MPI_SUM, MPI_COMM_SELF,
                              MPI_INFO_NULL, &request),
              MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
    EXPECT_TRUE(same_bits(alone, x));
    EXPECT_NE(MPIQ_Allreduce(x.data(), y.data(), 3000, datatype(half), MPI_MAX, comm, MPI_INFO_NULL),
              MPI_SUCCESS)
        << "MPI cannot compare them, and must say so";
  }
  EXPECT_EQ(datatype(kernels::Element::f16), datatype(kernels::Element::f16)) << "one handle";
}

TEST_F(Types, half_vectors_without_elements_are_no_error) {
  for (const kernels::Element half : kHalves)
    for (const Info& info : {Info{}, Info{{"mpiq_method", "int8"}}, Info{{"mpiq_key", "empty"}}}) {
      const MPI_Datatype type = datatype(half);
      std::uint16_t x = 1, y = 2;
      EXPECT_EQ(MPIQ_Allreduce(&x, &y, 0, type, MPI_SUM, comm, info), MPI_SUCCESS);
      EXPECT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, &y, 0, type, MPI_SUM, comm, info), MPI_SUCCESS);
      MPIQ_Request request = MPIQ_REQUEST_NULL;
      EXPECT_EQ(MPIQ_Iallreduce(&x, &y, 0, type, MPI_SUM, comm, info, &request), MPI_SUCCESS);
      EXPECT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
      ASSERT_EQ(MPIQ_Allreduce_init(&x, &y, 0, type, MPI_SUM, comm, info, &request), MPI_SUCCESS);
      for (int start = 0; start < 2; ++start) {
        EXPECT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
        EXPECT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
      }
      EXPECT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
      EXPECT_EQ(y, 2);
      EXPECT_EQ(MPIQ_Allreduce(&x, &y, 1, type, MPI_SUM, comm, info), MPI_SUCCESS) << "the next call";
      (void)MPIQ_Residual_reset(comm, nullptr);
    }
}

TEST_F(Types, feedback_keeps_what_a_half_type_cannot_hold) {
  // 1 + 2^-10 in steps that bfloat16 cannot represent: without a residual every call would lose the same.
  if (size == 1) return;
  const kernels::Element half = kernels::Element::bf16;
  const std::size_t n = 4000;
  const std::vector<float> x = widen(narrow(input<float>(n), half), half);
  const std::vector<std::uint16_t> h = narrow(x, half);
  std::vector<float> exact(n), mean(n);
  MPI_Allreduce(x.data(), exact.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM, comm);
  std::vector<std::uint16_t> y(n);
  std::vector<double> sum(n);
  const int calls = 64;
  double first = 0;
  for (int t = 0; t < calls; ++t) {
    ASSERT_EQ(MPIQ_Allreduce(h.data(), y.data(), static_cast<MPI_Count>(n), datatype(half), MPI_SUM, comm,
                             Info{{"mpiq_method", "bf16"}, {"mpiq_key", "h"}}),
              MPI_SUCCESS);
    const std::vector<float> got = widen(y, half);
    if (t == 0) first = relative_error(got, exact);
    for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(got[i]);
  }
  for (std::size_t i = 0; i < n; ++i) mean[i] = static_cast<float>(sum[i] / calls);
  EXPECT_GT(first, 1e-4);
  EXPECT_LT(relative_error(mean, exact), first / 8);
}

TEST_F(Types, a_matrix_is_reduced_column_by_column) {
  // Columns whose scales differ by 10^6 keep their own means.
  const std::size_t rows = 1000, ld = 1003, columns = 7, n = ld * (columns - 1) + rows;
  std::vector<float> x = input<float>(n), exact(n), y(n);
  for (std::size_t i = 0; i < n; ++i) x[i] *= i / ld % 2 ? 1e-3F : 1e3F;
  MPI_Allreduce(x.data(), exact.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM, comm);
  const auto call = [&](const char* matrix) {
    return MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(n), MPI_FLOAT, MPI_SUM, comm,
                          Info{{"mpiq_method", "onebit(means=column)"}, {"mpiq_matrix", matrix}});
  };
  ASSERT_EQ(call("1000x7:1003"), MPI_SUCCESS);
  if (size > 1)
    for (std::size_t c = 0; c < columns; ++c) {
      const auto column = [&](const std::vector<float>& v) {
        const auto begin = v.begin() + static_cast<std::ptrdiff_t>(c * ld);
        return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(rows));
      };
      EXPECT_LT(relative_error(column(y), column(exact)), 0.95) << "column " << c;
    }
  const std::string columns_of_one = "1x" + std::to_string(n);
  if (size > 1) expect_error_everywhere(call(columns_of_one.c_str()), "sends more than the vector");
  for (const char* const bad :
       {"1000x7", "1003x7:1000", "x", "1000x7:1003:1", "0x7", "-1x7", "1000x6:1003", "1e3x7"})
    expect_error_everywhere(call(bad), "mpiq_matrix");
}

// All ranks choose the same lines here. So the result has three lines of the sum, and nothing else.
TEST_F(Types, meprop_sends_whole_lines_of_the_matrix) {
  if (size == 1) return;
  const std::size_t line = 100, lines = 60, n = line * lines;
  std::vector<float> x(n, 1.0F / 16), y(n);
  for (const std::size_t i : {7, 20, 59})
    for (std::size_t j = 0; j < line; ++j) x[i * line + j] = static_cast<float>(1 + j % 5);
  ASSERT_EQ(
      MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(n), MPI_FLOAT, MPI_SUM, comm,
                     Info{{"mpiq_method", "meprop(k=0.05,lines=60)/allgather"}, {"mpiq_matrix", "100x60"}}),
      MPI_SUCCESS);
  for (std::size_t i = 0; i < n; ++i)
    ASSERT_EQ(y[i], x[i] >= 1 ? static_cast<float>(size) * x[i] : 0.0F) << i;
}

TEST_F(Types, any_alignment_gives_the_same_bits) {
  const std::size_t n = 20000;
  const std::vector<float> x = input<float>(n);
  for (const kernels::Codec& codec : kernels::codecs()) {
    if (!repeats(codec)) continue;
    const Info info{{"mpiq_method", std::string(codec.name)}};
    std::vector<float> expected(n);
    ASSERT_EQ(
        MPIQ_Allreduce(x.data(), expected.data(), static_cast<MPI_Count>(n), MPI_FLOAT, MPI_SUM, comm, info),
        MPI_SUCCESS);
    for (const std::size_t shift : {1, 4, 7}) {  // another on every rank
      std::vector<std::byte> in(n * 4 + 64), out(n * 4 + 64);
      const std::size_t at = shift * static_cast<std::size_t>(rank + 1) % 61;
      std::copy_n(reinterpret_cast<const std::byte*>(x.data()), n * 4, in.data() + at);
      // One rank has nothing to gain from us: MPI may insist on alignment.
      if (size == 1) continue;
      ASSERT_EQ(MPIQ_Allreduce(in.data() + at, out.data() + at, static_cast<MPI_Count>(n), MPI_FLOAT, MPI_SUM,
                               comm, info),
                MPI_SUCCESS);
      std::vector<float> got(n);
      std::copy_n(out.data() + at, n * 4, reinterpret_cast<std::byte*>(got.data()));
      EXPECT_TRUE(same_bits(got, expected)) << codec.name << " shift " << shift;
    }
  }
}

TEST_F(Types, scratch_is_a_tenth_of_a_long_vector) {
  if (size != 2) return;  // with more ranks chunks are shorter, or as long
  const std::size_t n = std::size_t{16} << 20;
  std::vector<float> x(n, 1.0F);
  for (const kernels::Codec& codec : kernels::codecs()) {
    MPI_Count bound = 0;
    ASSERT_EQ(MPIQ_Wire_bound(std::string(codec.name).c_str(), static_cast<MPI_Count>(n), MPI_FLOAT, &bound),
              MPI_SUCCESS);
    if (bound > static_cast<MPI_Count>(n) / 32 * 9) continue;  // more than 2.25 bits an element
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &copy);
    ASSERT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, x.data(), static_cast<MPI_Count>(n), MPI_FLOAT, MPI_SUM, copy,
                             Info{{"mpiq_method", std::string(codec.name)}}),
              MPI_SUCCESS);
    MPIQ_Stats s = MPIQ_STATS_INIT;
    ASSERT_EQ(MPIQ_Comm_get_stats(copy, &s), MPI_SUCCESS);
    EXPECT_LE(s.scratch_bytes, 4 * n / 10) << codec.name;
    EXPECT_EQ(s.residual_bytes, 0u);
    MPI_Comm_free(&copy);
  }
}

}  // namespace
}  // namespace mq::test
