// Info mpiq_op=avg under MPI: every collective that adds, in its blocking, non-blocking and persistent forms,
// by every codec, by MPI and by lowrank; and what cannot be a mean.

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/codec.hpp"
#include "kernels/convert.hpp"
#include "mpi_quant.h"
#include "mpi_quant/core/mean.hpp"
#include "tests/core/parts.hpp"

namespace {
bool has_memory = true;
}

// In front of the C library's own: where Buffer gets its memory.
extern "C" void* aligned_alloc(std::size_t align, std::size_t bytes) noexcept {
  void* memory = nullptr;
  return has_memory && posix_memalign(&memory, align, bytes) == 0 ? memory : nullptr;
}

namespace mq::test {
namespace {

class Mean : public Parts {
 protected:
  template <class T>
  std::vector<T> exact(const std::vector<T>& x) const {
    std::vector<T> sum(x.size());
    MPI_Allreduce(x.data(), sum.data(), static_cast<int>(x.size()), mpi_type<T>(), MPI_SUM, comm);
    return divided(sum);
  }
  template <class T>
  std::vector<T> divided(std::vector<T> sum) const {
    for (T& v : sum) v /= static_cast<T>(size);
    return sum;
  }
  template <class T>
  int allreduce(const std::vector<T>& x, std::vector<T>& y, MPI_Info info) const {
    return MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(x.size()), mpi_type<T>(), MPI_SUM, comm,
                          info);
  }
  template <class T>
  int iallreduce(const std::vector<T>& x, std::vector<T>& y, MPI_Info info) const {
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    const int code = MPIQ_Iallreduce(x.data(), y.data(), static_cast<MPI_Count>(x.size()), mpi_type<T>(),
                                     MPI_SUM, comm, info, &request);
    return code != MPI_SUCCESS ? code : MPIQ_Wait(&request);
  }
};

// Every codec: within its bound of the mean of the exact sum, with the same bits on all ranks.
TEST_F(Mean, of_every_codec_is_within_its_bound_of_the_exact_mean) {
  const auto check = [&]<class T>(T) {
    for (const kernels::Codec& codec : kernels::codecs())
      for (const std::size_t n : {std::size_t{1}, std::size_t{5000}, std::size_t{70001}}) {
        const Info info{{"mpiq_method", std::string(codec.name)}, {"mpiq_op", "avg"}};
        const std::vector<T> x = input<T>(n), wanted = exact(x);
        std::vector<T> y(n), in_place = x;
        ASSERT_EQ(allreduce(x, y, info), MPI_SUCCESS) << codec.name;
        EXPECT_LE(norm(y, wanted), 8 * loss(codec) * norms_of_all_ranks(x) / size) << codec.name << " " << n;
        EXPECT_TRUE(same_on_all_ranks(y)) << codec.name << " " << n;
        ASSERT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, in_place.data(), static_cast<MPI_Count>(n), mpi_type<T>(),
                                 MPI_SUM, comm, info),
                  MPI_SUCCESS);
        if (repeats(codec)) {
          EXPECT_TRUE(same_bits(y, in_place)) << codec.name << " " << n;
        }
      }
  };
  check(float{});
  if (size <= 3) check(double{});
}

// By codecs and by MPI, the mean is the sum that the same call gives, divided by the ranks, bit for bit.
TEST_F(Mean, is_the_sum_of_the_same_call_divided) {
  for (const char* const method :
       {"mpi", "raw", "int8", "bf16/ring", "onebit/allgather", "topk/halving_doubling"})
    for (const bool with_key : {false, true}) {
      if (with_key && std::string(method) == "mpi") continue;
      const auto info = [&](const char* op) {
        std::vector<std::pair<std::string, std::string>> pairs{{"mpiq_method", method}, {"mpiq_op", op}};
        if (with_key) pairs.emplace_back("mpiq_key", op);
        return pairs;
      };
      const std::vector<float> x = input<float>(6000);
      for (int turn = 0; turn < 3; ++turn) {
        std::vector<float> sum(x.size()), mean(x.size()), later(x.size());
        Info of_sum{}, of_mean{}, of_later{};
        for (const auto& [key, value] : info("sum")) MPI_Info_set(of_sum, key.c_str(), value.c_str());
        for (const auto& [key, value] : info("avg")) MPI_Info_set(of_mean, key.c_str(), value.c_str());
        for (const auto& [key, value] : info("avg"))
          MPI_Info_set(of_later, key.c_str(), key == "mpiq_key" ? "later" : value.c_str());
        ASSERT_EQ(allreduce(x, sum, of_sum), MPI_SUCCESS);
        ASSERT_EQ(allreduce(x, mean, of_mean), MPI_SUCCESS);
        EXPECT_TRUE(same_bits(mean, divided(sum))) << method << " turn " << turn;
        ASSERT_EQ(iallreduce(x, later, of_later), MPI_SUCCESS);
        if (std::string(method) != "mpi") {
          EXPECT_TRUE(same_bits(later, mean)) << method << " non-blocking, turn " << turn;
        } else {
          EXPECT_LE(relative_error(later, mean), 1e-6);
        }
      }
    }
}

TEST_F(Mean, persistent_calls_give_it_each_time) {
  for (const char* const method : {"mpi", "int8"}) {
    const Info info{{"mpiq_method", method}, {"mpiq_op", "avg"}};
    std::vector<float> x(3000), y(3000);
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    ASSERT_EQ(MPIQ_Allreduce_init(x.data(), y.data(), 3000, MPI_FLOAT, MPI_SUM, comm, info, &request),
              MPI_SUCCESS);
    for (int turn = 1; turn <= 3; ++turn) {
      std::fill(x.begin(), x.end(), static_cast<float>(turn * (rank + 1)));
      ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
      ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
      const double wanted = turn * (size + 1) / 2.0;
      for (const float v : y) ASSERT_NEAR(v, wanted, 0.01 * wanted) << method;
    }
    ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
  }
}

TEST_F(Mean, of_parts_and_of_a_reduction_to_a_root) {
  for (const char* const method : {"mpi", "int8", "onebit"}) {
    const Info sum{{"mpiq_method", method}}, avg{{"mpiq_method", method}, {"mpiq_op", "avg"}};
    const auto n = static_cast<MPI_Count>(700 * size);
    const std::vector<float> x = input<float>(static_cast<std::size_t>(n));
    std::vector<float> a(700), b(700);
    ASSERT_EQ(MPIQ_Reduce_scatter_block(x.data(), a.data(), 700, MPI_FLOAT, MPI_SUM, comm, sum), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Reduce_scatter_block(x.data(), b.data(), 700, MPI_FLOAT, MPI_SUM, comm, avg), MPI_SUCCESS);
    EXPECT_TRUE(same_bits(b, divided(a))) << method;
    std::vector<float> in_place = x;
    ASSERT_EQ(MPIQ_Reduce_scatter_block(MPI_IN_PLACE, in_place.data(), 700, MPI_FLOAT, MPI_SUM, comm, avg),
              MPI_SUCCESS);
    in_place.resize(700);
    EXPECT_TRUE(same_bits(in_place, b)) << method;

    const Counts counts = uneven(500);
    std::vector<float> c(own(counts)), d(own(counts));
    const std::vector<float> longer = input<float>(static_cast<std::size_t>(500 + 3 * size) * counts.size());
    for (const auto& [info, out] : {std::pair{&sum, &c}, std::pair{&avg, &d}})
      ASSERT_EQ(
          MPIQ_Reduce_scatter(longer.data(), out->data(), counts.data(), MPI_FLOAT, MPI_SUM, comm, *info),
          MPI_SUCCESS);
    EXPECT_TRUE(same_bits(d, divided(c))) << method;

    for (const std::size_t length : {std::size_t{900}, std::size_t{90000}}) {
      const std::vector<float> y = input<float>(length), sevens(length, 7.0F);
      std::vector<float> whole = sevens, mean = sevens;
      for (const auto& [info, out] : {std::pair{&sum, &whole}, std::pair{&avg, &mean}})
        ASSERT_EQ(MPIQ_Reduce(y.data(), out->data(), static_cast<MPI_Count>(length), MPI_FLOAT, MPI_SUM,
                              size - 1, comm, *info),
                  MPI_SUCCESS);
      const bool is_root = rank == size - 1;
      EXPECT_TRUE(same_bits(mean, is_root ? divided(whole) : sevens)) << method << " " << length;
    }
  }
}

// A key may serve sums and means in turn: what a mean leaves out has the unit of the vectors.
TEST_F(Mean, residuals_have_the_unit_of_the_vectors) {
  const std::vector<float> x = input<float>(4000);
  std::vector<double> got(x.size());
  std::vector<float> y(x.size());
  constexpr int kSteps = 6;
  for (int step = 0; step <= kSteps; ++step) {
    const bool is_mean = step % 2 == 0, is_last = step == kSteps;
    const std::vector<float> zero(x.size());
    const Info info{
        {"mpiq_method", is_last ? "raw" : "onebit"}, {"mpiq_key", "k"}, {"mpiq_op", is_mean ? "avg" : "sum"}};
    ASSERT_EQ(allreduce(is_last ? zero : x, y, info), MPI_SUCCESS);
    for (std::size_t i = 0; i < y.size(); ++i) got[i] += static_cast<double>(y[i]) * (is_mean ? size : 1);
  }
  const std::vector<float> mean = exact(x);
  std::vector<double> wanted(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) wanted[i] = kSteps * static_cast<double>(mean[i]) * size;
  EXPECT_LE(norm(got, wanted), 1e-5 * kSteps * norms_of_all_ranks(x));
}

TEST_F(Mean, by_lowrank_and_by_auto) {
  constexpr MPI_Count kRows = 40, kColumns = 30;
  std::vector<float> x(kRows * kColumns), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(1 + i % kRows) * static_cast<float>(rank + 1);
  ASSERT_EQ(allreduce(x, y,
                      Info{{"mpiq_method", "lowrank(rank=1)"},
                           {"mpiq_op", "avg"},
                           {"mpiq_key", "m"},
                           {"mpiq_matrix", "40x30"}}),
            MPI_SUCCESS);
  EXPECT_LE(relative_error(y, exact(x)), 1e-4) << "of rank one, so nothing is left out";
  EXPECT_TRUE(same_on_all_ranks(y));
  const std::vector<float> z = input<float>(100000);
  std::vector<float> mean(z.size());
  for (int turn = 0; turn < 12; ++turn) {
    ASSERT_EQ(allreduce(z, mean, Info{{"mpiq_method", "auto(error=0.01)"}, {"mpiq_op", "avg"}}), MPI_SUCCESS);
    EXPECT_LE(relative_error(mean, exact(z)), 0.02) << "turn " << turn;
  }
}

TEST_F(Mean, of_complex_numbers_rows_and_half_types) {
  for (const char* const method : {"mpi", "int8"}) {
    const Info info{{"mpiq_method", method}, {"mpiq_op", "avg"}};
    std::vector<std::complex<float>> x(2000, {static_cast<float>(rank), 1.0F}), y(x.size());
    ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), 2000, MPI_C_FLOAT_COMPLEX, MPI_SUM, comm, info),
              MPI_SUCCESS);
    for (const auto v : y) {
      ASSERT_NEAR(v.real(), (size - 1) / 2.0, 0.02 * size);
      ASSERT_NEAR(v.imag(), 1, 0.02 * size);
    }
    MPI_Datatype row = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(4, MPI_FLOAT, &row);
    MPI_Type_commit(&row);
    std::vector<float> of_rows(4000);
    ASSERT_EQ(MPIQ_Allreduce(x.data(), of_rows.data(), 1000, row, MPI_SUM, comm, info), MPI_SUCCESS);
    EXPECT_NEAR(of_rows[3999], 1, 0.02 * size);
    MPI_Type_free(&row);
    for (const auto& [half, type_of] : {std::pair{kernels::Element::f16, &MPIQ_Type_float16},
                                        std::pair{kernels::Element::bf16, &MPIQ_Type_bfloat16}}) {
      MPI_Datatype type = MPI_DATATYPE_NULL;
      ASSERT_EQ(type_of(&type), MPI_SUCCESS);
      const std::vector<float> values(3000, 3.0F);
      std::vector<std::uint16_t> in(values.size()), out(values.size());
      kernels::convert(half, kernels::Isa::scalar)->narrow(values.data(), in.data(), nullptr, in.size());
      ASSERT_EQ(MPIQ_Allreduce(in.data(), out.data(), 3000, type, MPI_SUM, comm, info), MPI_SUCCESS);
      std::vector<float> mean(out.size());
      kernels::convert(half, kernels::Isa::scalar)->widen(out.data(), mean.data(), out.size());
      for (const float v : mean) ASSERT_NEAR(v, 3, 0.1);
    }
  }
}

// After MPI's sum no message is left that could tell other ranks of an error, so the division must not fail.
TEST_F(Mean, of_a_sum_that_mpi_has_made_needs_no_memory) {
  for (const auto& [half, type_of] : {std::pair{kernels::Element::f16, &MPIQ_Type_float16},
                                      std::pair{kernels::Element::bf16, &MPIQ_Type_bfloat16}}) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    ASSERT_EQ(type_of(&type), MPI_SUCCESS);
    std::vector<float> values(5000), mean(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(3 * (i % 64));
    std::vector<std::uint16_t> x(values.size());
    const kernels::ConvertOps& convert = *kernels::convert(half, kernels::Isa::scalar);
    convert.narrow(values.data(), x.data(), nullptr, x.size());
    Call call{MPI_IN_PLACE, x.data(), 5000, type, MPI_SUM, comm};
    call.divisor = 3;
    has_memory = false;
    const Status divided = divide_result(call);
    has_memory = true;
    ASSERT_TRUE(divided.ok()) << divided.text();
    convert.widen(x.data(), mean.data(), x.size());
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(mean[i], values[i] / 3) << i;
  }
}

TEST_F(Mean, what_cannot_be_one_is_an_error_on_all_ranks) {
  const Info avg{{"mpiq_op", "avg"}}, int8{{"mpiq_op", "avg"}, {"mpiq_method", "int8"}};
  std::vector<float> x = input<float>(2000), y(static_cast<std::size_t>(2000 * size));
  std::vector<int> whole(2000, 1), sum(2000);
  for (const MPI_Info info : {MPI_Info(avg), MPI_Info(int8)}) {
    expect_error_everywhere(MPIQ_Allreduce(whole.data(), sum.data(), 2000, MPI_INT, MPI_SUM, comm, info),
                            "mpiq_op=avg needs a datatype");
    expect_error_everywhere(MPIQ_Allreduce(x.data(), y.data(), 2000, MPI_FLOAT, MPI_MAX, comm, info),
                            "MPI_SUM");
    expect_error_everywhere(MPIQ_Reduce(x.data(), y.data(), 2000, MPI_FLOAT, MPI_MIN, 0, comm, info),
                            "MPI_SUM");
    expect_error_everywhere(MPIQ_Bcast(x.data(), 2000, MPI_FLOAT, 0, comm, info), "serves sums");
    expect_error_everywhere(MPIQ_Allgather(x.data(), 2000, MPI_FLOAT, y.data(), 2000, MPI_FLOAT, comm, info),
                            "serves sums");
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    const int code = MPIQ_Iallreduce(whole.data(), sum.data(), 2000, MPI_INT, MPI_SUM, comm, info, &request);
    expect_error_everywhere(code != MPI_SUCCESS ? code : MPIQ_Wait(&request), "mpiq_op=avg needs a datatype");
    expect_error_everywhere(
        MPIQ_Allreduce_init(whole.data(), sum.data(), 2000, MPI_INT, MPI_SUM, comm, info, &request),
        "mpiq_op=avg needs a datatype");
  }
  expect_error_everywhere(
      MPIQ_Allreduce(x.data(), y.data(), 2000, MPI_FLOAT, MPI_SUM, comm, Info{{"mpiq_op", "max"}}),
      "neither sum nor avg");
  ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), 2000, MPI_FLOAT, MPI_SUM, comm, Info{{"mpiq_op", "sum"}}),
            MPI_SUCCESS);
}

TEST_F(Mean, ranks_that_differ_get_an_error_and_no_intercommunicator_is_served) {
  if (size == 1) return;
  std::vector<float> x = input<float>(2000), y(2000);
  const bool odd = rank == size - 1;
  for (const char* const method : {"mpi", "int8"}) {
    const Info info{{"mpiq_method", method}, {"mpiq_op", odd ? "avg" : "sum"}};
    expect_error_everywhere(allreduce(x, y, info), "f32, avg");
    expect_error_everywhere(iallreduce(x, y, info), "f32, avg");
    expect_error_everywhere(MPIQ_Reduce(x.data(), y.data(), 2000, MPI_FLOAT, MPI_SUM, 0, comm, info),
                            "f32, avg");
  }
  std::vector<int> whole(2000, 1), sum(2000);
  expect_error_everywhere(MPIQ_Allreduce(whole.data(), sum.data(), 2000, MPI_INT, MPI_SUM, comm,
                                         Info{{"mpiq_op", odd ? "avg" : "sum"}}),
                          odd ? "needs a datatype" : "unusable info");
  MPI_Comm mine = MPI_COMM_NULL, inter = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank == 0 ? 0 : 1, rank, &mine);
  MPI_Intercomm_create(mine, 0, comm, rank == 0 ? 1 : 0, 5, &inter);
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  expect_error_everywhere(
      MPIQ_Allreduce(x.data(), y.data(), 2000, MPI_FLOAT, MPI_SUM, inter, Info{{"mpiq_op", "avg"}}),
      "intercommunicators");
  MPI_Comm_free(&inter);
  MPI_Comm_free(&mine);
}

}  // namespace
}  // namespace mq::test
