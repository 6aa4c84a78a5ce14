// Types whose elements are several reals: complex numbers and contiguous types. A call with them has the
// result of the call with the reals, bit for bit.

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "mpi_quant.h"
#include "tests/core/parts.hpp"

namespace mq::test {
namespace {

// A type of `each` reals, and the type of one.
struct Rows {
  MPI_Datatype type, real;
  MPI_Count each;
  bool is_derived;
};

MPI_Datatype committed(MPI_Datatype type) {
  MPI_Type_commit(&type);
  return type;
}

MPI_Datatype contiguous(int n, MPI_Datatype of) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(n, of, &type);
  return committed(type);
}

MPI_Datatype resized(MPI_Datatype of, MPI_Aint extent) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(of, 0, extent, &type);
  return committed(type);
}

class Reals : public Parts {
 protected:
  static constexpr int kRows = 3000;

  // Calls f for each type that has rows of floats or doubles, and frees what was made.
  void for_all(const std::function<void(const Rows&)>& f) const {
    MPI_Datatype dup = MPI_DATATYPE_NULL, f90 = MPI_DATATYPE_NULL;
    MPI_Type_dup(MPI_C_DOUBLE_COMPLEX, &dup);
    MPI_Type_create_f90_complex(6, 30, &f90);
    MPI_Datatype three = contiguous(3, MPI_FLOAT), wide = resized(three, 12),
                 pairs = contiguous(2, MPI_COMPLEX);
    f({MPI_C_FLOAT_COMPLEX, MPI_FLOAT, 2, false});
    f({MPI_C_DOUBLE_COMPLEX, MPI_DOUBLE, 2, false});
    f({MPI_CXX_FLOAT_COMPLEX, MPI_FLOAT, 2, false});
    f({MPI_DOUBLE_COMPLEX, MPI_DOUBLE, 2, false});
    f({f90, MPI_FLOAT, 2, false});
    f({dup, MPI_DOUBLE, 2, true});
    f({wide, MPI_FLOAT, 3, true});
    f({pairs, MPI_FLOAT, 4, true});
    for (MPI_Datatype* const made : {&dup, &pairs, &wide, &three}) MPI_Type_free(made);
  }
  // Bytes of so many reals: of a float or a double each. MPI adds multiples of 1/8 exactly, in whatever
  // order.
  std::vector<std::byte> values(const Rows& rows, MPI_Count reals) const {
    const auto n = static_cast<std::size_t>(reals);
    std::vector<std::byte> bytes(n * (rows.real == MPI_FLOAT ? sizeof(float) : sizeof(double)));
    const auto copy = [&](auto x) {
      for (auto& v : x) v = std::nearbyint(8 * v) / 8;
      std::memcpy(bytes.data(), x.data(), bytes.size());
    };
    rows.real == MPI_FLOAT ? copy(input<float>(n)) : copy(input<double>(n));
    return bytes;
  }
};

using Bytes = std::vector<std::byte>;

TEST_F(Reals, an_allreduce_has_the_bits_of_one_of_reals_with_keys_too) {
  for_all([&](const Rows& rows) {
    for (const std::string method : {"onebit", "bf16", "bound(abs=0.01)", "mpi"}) {
      const MPI_Count n = kRows, reals = n * rows.each;
      Bytes x = values(rows, reals), y(x.size()), z = y, w = y;
      for (int call = 0; call < 2; ++call) {
        const Info info{{"mpiq_method", method}, {"mpiq_key", "rows"}};
        ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), n, rows.type, MPI_SUM, comm, info), MPI_SUCCESS);
        ASSERT_EQ(MPIQ_Allreduce(x.data(), z.data(), reals, rows.real, MPI_SUM, comm,
                                 Info{{"mpiq_method", method}, {"mpiq_key", "reals"}}),
                  MPI_SUCCESS);
        EXPECT_EQ(y, z) << method << ", call " << call;
        EXPECT_TRUE(same_on_all_ranks(y));
      }
      MPIQ_Request request = MPIQ_REQUEST_NULL;
      const Info plain{{"mpiq_method", method}};
      ASSERT_EQ(MPIQ_Iallreduce(x.data(), y.data(), n, rows.type, MPI_SUM, comm, plain, &request),
                MPI_SUCCESS);
      ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
      ASSERT_EQ(MPIQ_Allreduce(x.data(), z.data(), reals, rows.real, MPI_SUM, comm, plain), MPI_SUCCESS);
      EXPECT_EQ(y, z) << method;
      if (!rows.is_derived && method == "mpi") {
        MPI_Allreduce(x.data(), w.data(), static_cast<int>(n), rows.type, MPI_SUM, comm);
        EXPECT_EQ(y, w) << "MPI's own sum";
      }
      ASSERT_EQ(MPIQ_Residual_reset(comm, nullptr), MPI_SUCCESS);
    }
  });
}

TEST_F(Reals, keys_and_matrices_and_bounds_count_reals) {
  const std::vector<float> x = input<float>(2000);
  std::vector<float> y(2000), z(2000);
  const Info key{{"mpiq_method", "onebit"}, {"mpiq_key", "k"}};
  ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), 1000, MPI_COMPLEX8, MPI_SUM, comm, key), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), 2000, MPI_FLOAT, MPI_SUM, comm, key), MPI_SUCCESS);
  EXPECT_EQ(MPIQ_Residual_flush(y.data(), 1000, MPI_C_FLOAT_COMPLEX, comm, "k"), MPI_SUCCESS);
  const std::string method = "onebit(means=column)";
  ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), 1000, MPI_C_FLOAT_COMPLEX, MPI_SUM, comm,
                           Info{{"mpiq_method", method}, {"mpiq_matrix", "40x25"}}),
            MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Allreduce(x.data(), z.data(), 2000, MPI_FLOAT, MPI_SUM, comm,
                           Info{{"mpiq_method", method}, {"mpiq_matrix", "80x25"}}),
            MPI_SUCCESS);
  EXPECT_TRUE(same_bits(y, z));
  MPI_Count pairs = 0, reals = 1;
  EXPECT_EQ(MPIQ_Wire_bound("int8", 1000, MPI_C_DOUBLE_COMPLEX, &pairs), MPI_SUCCESS);
  EXPECT_EQ(MPIQ_Wire_bound("int8", 2000, MPI_DOUBLE, &reals), MPI_SUCCESS);
  EXPECT_EQ(pairs, reals);
  const int code = MPIQ_Wire_bound("int8", 1000, MPI_INT, &pairs);
  EXPECT_NE(text_of(code).find("MPI_C_DOUBLE_COMPLEX"), std::string::npos) << text_of(code);
}

TEST_F(Reals, parts_and_roots_have_the_bits_of_calls_of_reals) {
  const Info info{{"mpiq_method", "onebit"}};
  for_all([&](const Rows& rows) {
    const auto real_counts = [&](Counts counts) {
      for (MPI_Count& n : counts) n *= rows.each;
      return counts;
    };
    const Counts counts = uneven(kRows), counts_r = real_counts(counts);
    const MPI_Count n = kRows, all = n * size, mine = counts[static_cast<std::size_t>(rank)];
    const Bytes x = values(rows, 4 * all * rows.each);
    Bytes y(x.size()), z = y;
    const auto same = [&](int one, int other, const char* what) {
      EXPECT_EQ(one, MPI_SUCCESS) << what;
      EXPECT_EQ(other, MPI_SUCCESS) << what;
      EXPECT_EQ(y, z) << what;
      y.assign(y.size(), {});
      z = y;
    };
    same(MPIQ_Reduce_scatter_block(x.data(), y.data(), n, rows.type, MPI_SUM, comm, info),
         MPIQ_Reduce_scatter_block(x.data(), z.data(), n * rows.each, rows.real, MPI_SUM, comm, info),
         "block");
    for (const Info& how : {Info{{"mpiq_method", "onebit"}}, Info{{"mpiq_method", "mpi"}}})
      same(MPIQ_Reduce_scatter(x.data(), y.data(), counts.data(), rows.type, MPI_SUM, comm, how),
           MPIQ_Reduce_scatter(x.data(), z.data(), counts_r.data(), rows.real, MPI_SUM, comm, how),
           "scatter");
    same(MPIQ_Reduce(x.data(), y.data(), n, rows.type, MPI_SUM, size - 1, comm, info),
         MPIQ_Reduce(x.data(), z.data(), n * rows.each, rows.real, MPI_SUM, size - 1, comm, info), "reduce");
    y = z = x;
    same(MPIQ_Bcast(y.data(), n, rows.type, 0, comm, info),
         MPIQ_Bcast(z.data(), n * rows.each, rows.real, 0, comm, info), "bcast");
    same(MPIQ_Allgather(x.data(), n, rows.type, y.data(), n, rows.type, comm, info),
         MPIQ_Allgather(x.data(), n * rows.each, rows.real, z.data(), n * rows.each, rows.real, comm, info),
         "gather");
    std::vector<MPI_Aint> displs, displs_r;
    for (MPI_Aint at = 1; displs.size() < counts.size(); at += counts[displs.size() - 1] + 2) {
      displs.push_back(at);
      displs_r.push_back(at * static_cast<MPI_Aint>(rows.each));
    }
    for (const Info& how : {Info{{"mpiq_method", "onebit"}}, Info{{"mpiq_method", "mpi"}}})
      same(MPIQ_Allgatherv(x.data(), mine, rows.type, y.data(), counts.data(), displs.data(), rows.type, comm,
                           how),
           MPIQ_Allgatherv(x.data(), mine * rows.each, rows.real, z.data(), counts_r.data(), displs_r.data(),
                           rows.real, comm, how),
           "gatherv");
  });
}

TEST_F(Reals, a_part_may_be_sent_as_reals_and_received_as_rows) {
  MPI_Datatype three = contiguous(3, MPI_FLOAT);
  const std::vector<float> x = input<float>(3 * kRows);
  std::vector<float> y(x.size() * static_cast<std::size_t>(size)), z = y;
  const Info info{{"mpiq_method", "onebit"}};
  ASSERT_EQ(MPIQ_Allgather(x.data(), 3 * kRows, MPI_FLOAT, y.data(), kRows, three, comm, info), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Allgather(x.data(), 3 * kRows, MPI_FLOAT, z.data(), 3 * kRows, MPI_FLOAT, comm, info),
            MPI_SUCCESS);
  EXPECT_TRUE(same_bits(y, z));
  if (size > 1)
    expect_error_everywhere(MPIQ_Allgather(x.data(), kRows, MPI_FLOAT, y.data(), kRows, three, comm, info),
                            "sendcount is 3000, but recvcount of this rank is 3000, and the types differ");
  MPI_Type_free(&three);
}

TEST_F(Reals, a_new_type_with_the_handle_of_a_freed_one_is_looked_at_anew) {
  if (size == 1) return;
  const Info info{{"mpiq_method", "onebit"}};
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<float> x = input<float>(3000);
    const std::vector<float> before = x;
    MPI_Datatype floats = contiguous(3, MPI_FLOAT);
    ASSERT_EQ(MPIQ_Bcast(x.data(), 1000, floats, 0, comm, info), MPI_SUCCESS);
    EXPECT_FALSE(same_bits(x, before)) << "encoded, also on the root";
    MPI_Type_free(&floats);
    std::vector<std::int32_t> numbers(3000);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int32_t>(i * 7919) + rank;
    MPI_Datatype integers = contiguous(3, MPI_INT32_T);
    ASSERT_EQ(MPIQ_Bcast(numbers.data(), 1000, integers, 0, comm, info), MPI_SUCCESS);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      ASSERT_EQ(numbers[i], static_cast<std::int32_t>(i * 7919)) << "integers are no floats";
    MPI_Type_free(&integers);
  }
}

TEST_F(Reals, types_with_gaps_are_left_to_mpi) {
  MPI_Datatype gaps = resized(MPI_FLOAT, 8);
  std::vector<float> x = input<float>(4000);
  const std::vector<float> before = x;
  ASSERT_EQ(MPIQ_Bcast(x.data(), 2000, gaps, 0, comm, Info{{"mpiq_method", "onebit"}}), MPI_SUCCESS);
  std::vector<float> root = before;
  MPI_Bcast(root.data(), 4000, MPI_FLOAT, 0, comm);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], i % 2 == 0 ? root[i] : before[i]) << i;
  MPI_Type_free(&gaps);
}

TEST_F(Reals, complex_numbers_do_not_meet_reals) {
  if (size == 1) return;
  const std::vector<float> x(2000, 1);
  std::vector<float> y(2000);
  const bool odd = rank == size - 1;
  const int code =
      MPIQ_Allreduce(x.data(), y.data(), odd ? 1000 : 2000, odd ? MPI_C_FLOAT_COMPLEX : MPI_FLOAT, MPI_SUM,
                     comm, Info{{"mpiq_method", "onebit"}});
  expect_error_everywhere(code, "count 1000 complex f32");
}

// MPI gets complex numbers on the ranks with a type of its own, and floats where the program has derived one.
TEST_F(Reals, complex_numbers_do_not_meet_a_duplicate_of_their_type) {
  if (size == 1) return;
  MPI_Datatype dup = MPI_DATATYPE_NULL;
  MPI_Type_dup(MPI_C_FLOAT_COMPLEX, &dup);
  const std::vector<float> x(2000, 1);
  std::vector<float> y(2000);
  for (const std::string method : {"mpi", "onebit"})
    expect_error_everywhere(
        MPIQ_Allreduce(x.data(), y.data(), 1000, rank == size - 1 ? dup : MPI_C_FLOAT_COMPLEX, MPI_SUM, comm,
                       Info{{"mpiq_method", method}}),
        "complex f32");
  MPI_Type_free(&dup);
}

// Rows of three: an operation that takes the elements apart in another way gets other numbers.
void keep_greatest_row(void* in, void* inout, int* n, MPI_Datatype*) {
  const auto* const a = static_cast<const float*>(in);
  auto* const b = static_cast<float*>(inout);
  for (int i = 0; i < *n; ++i)
    if (a[3 * i] > b[3 * i]) std::copy_n(a + 3 * i, 3, b + 3 * i);
}

TEST_F(Reals, other_operations_get_the_elements_of_the_program) {
  MPI_Datatype three = contiguous(3, MPI_FLOAT);
  MPI_Op greatest = MPI_OP_NULL;
  MPI_Op_create(keep_greatest_row, 1, &greatest);
  const int n = kRows;
  const std::vector<float> x = input<float>(static_cast<std::size_t>(3 * n * size));
  std::vector<float> y(x.size()), z(x.size());
  const Info info{{"mpiq_method", "onebit"}};
  ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), n, three, greatest, comm, info), MPI_SUCCESS);
  MPI_Allreduce(x.data(), z.data(), n, three, greatest, comm);
  EXPECT_TRUE(same_bits(y, z));
  ASSERT_EQ(MPIQ_Reduce(x.data(), y.data(), n, three, greatest, 0, comm, info), MPI_SUCCESS);
  MPI_Reduce(x.data(), z.data(), n, three, greatest, 0, comm);
  EXPECT_TRUE(same_bits(y, z));
  ASSERT_EQ(MPIQ_Reduce_scatter_block(x.data(), y.data(), n, three, greatest, comm, info), MPI_SUCCESS);
  MPI_Reduce_scatter_block(x.data(), z.data(), n, three, greatest, comm);
  EXPECT_TRUE(same_bits(y, z));
  MPI_Op_free(&greatest);
  MPI_Type_free(&three);
}

TEST_F(Reals, half_types_are_found_by_their_names) {
  // A predefined type of two bytes, with the name that another MPI library gives to its bfloat16.
  MPI_Type_set_name(MPI_INT16_T, "MPIX_BFLOAT16");
  MPI_Datatype own = MPI_DATATYPE_NULL;
  ASSERT_EQ(MPIQ_Type_bfloat16(&own), MPI_SUCCESS);
  MPI_Datatype pairs = contiguous(2, own), again = MPI_DATATYPE_NULL;
  MPI_Type_dup(own, &again);
  std::vector<std::uint16_t> x(4000), y(4000), z(4000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint16_t>(0x3f80 + i % 100);  // 1 to 1.8
  const Info info{{"mpiq_method", "bf16"}};
  ASSERT_EQ(MPIQ_Allreduce(x.data(), z.data(), 4000, own, MPI_SUM, comm, info), MPI_SUCCESS);
  for (const auto& [type, count] : {std::pair{MPI_INT16_T, 4000}, {again, 4000}, {pairs, 2000}}) {
    std::fill(y.begin(), y.end(), std::uint16_t{0});
    EXPECT_EQ(MPIQ_Allreduce(x.data(), y.data(), count, type, MPI_SUM, size > 1 ? comm : MPI_COMM_SELF, info),
              MPI_SUCCESS);
    EXPECT_EQ(y, z);
  }
  MPI_Type_set_name(MPI_INT16_T, "MPI_INT16_T");
  MPI_Type_free(&pairs);
  MPI_Type_free(&again);
}

// MPI's own half type: with the method mpi, or without one, MPI sums it, and not the codec of the type.
TEST_F(Reals, half_types_that_mpi_sums_are_left_to_mpi_if_no_codec_is_named) {
#ifdef MPIX_C_FLOAT16
  const MPI_Datatype half = MPIX_C_FLOAT16;
#else
  const MPI_Datatype half = MPI_DATATYPE_NULL;
#endif
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  if (half != MPI_DATATYPE_NULL) MPI_Type_get_name(half, name, &length);
  std::uint16_t one = 0x3c00, sum = 0;
  if (length == 0 || MPI_Allreduce(&one, &sum, 1, half, MPI_SUM, MPI_COMM_SELF) != MPI_SUCCESS)
    GTEST_SKIP() << "this MPI sums no half type";
  const auto n = static_cast<MPI_Count>(1000 * size);
  std::vector<std::uint16_t> x(static_cast<std::size_t>(n)), expected(x.size()), part(1000);
  for (std::size_t i = 0; i < x.size(); ++i)  // 1 to 2 and 2^11: half numbers round their sums
    x[i] = static_cast<std::uint16_t>(rank == 0 ? 0x6800 : 0x3c00 + i % 1024);
  MPI_Allreduce(x.data(), expected.data(), static_cast<int>(n), half, MPI_SUM, comm);
  std::vector<std::uint16_t> sum_at_root(x.size());
  MPI_Reduce(x.data(), sum_at_root.data(), static_cast<int>(n), half, MPI_SUM, 0, comm);
  MPI_Reduce_scatter_block(x.data(), part.data(), 1000, half, MPI_SUM, comm);
  for (const Info& info : {Info{}, Info{{"mpiq_method", "mpi"}}, Info{{"mpiq_key", "k"}}}) {
    std::vector<std::uint16_t> y(x.size());
    ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), n, half, MPI_SUM, comm, info), MPI_SUCCESS);
    EXPECT_EQ(y, expected);
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    std::fill(y.begin(), y.end(), std::uint16_t{0});
    ASSERT_EQ(MPIQ_Iallreduce(x.data(), y.data(), n, half, MPI_SUM, comm, info, &request), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
    std::fill(y.begin(), y.end(), std::uint16_t{0});
    ASSERT_EQ(MPIQ_Reduce(x.data(), y.data(), n, half, MPI_SUM, 0, comm, info), MPI_SUCCESS);
    if (rank == 0) {
      EXPECT_EQ(y, sum_at_root);
    }
    std::vector<std::uint16_t> mine(1000);
    ASSERT_EQ(MPIQ_Reduce_scatter_block(x.data(), mine.data(), 1000, half, MPI_SUM, comm, info), MPI_SUCCESS);
    EXPECT_EQ(mine, part);
  }
  EXPECT_EQ(stats().compressed_calls, 0u);
  std::vector<std::uint16_t> y(x.size());
  ASSERT_EQ(MPIQ_Allreduce(x.data(), y.data(), n, half, MPI_SUM, comm, Info{{"mpiq_method", "f16"}}),
            MPI_SUCCESS);
  EXPECT_EQ(stats().compressed_calls, size > 1 ? 1u : 0u) << "a codec by its name serves the type";
}

}  // namespace
}  // namespace mq::test
