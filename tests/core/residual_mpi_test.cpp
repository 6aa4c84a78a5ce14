// Residuals through the public interface, under real MPI: nothing is lost between results, residuals and what
// a flush delivers; keys can be forgotten, scaled, listed and moved; and ranks that do not fit together get
// errors.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/codec.hpp"
#include "kernels/convert.hpp"
#include "mpi_quant/plan/plan.hpp"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

class Residual : public Api {
 protected:
  template <class T>
  int reduce(const std::string& key, const std::vector<T>& x, std::vector<T>& y,
             const std::string& method = "onebit") const {
    return MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(x.size()), mpi_type<T>(), MPI_SUM, comm,
                          Info{{"mpiq_method", method}, {"mpiq_key", key}});
  }
  // A key with a residual of n floats.
  void make(const std::string& key, std::size_t n = 1000) const {
    std::vector<float> y(n);
    ASSERT_EQ(reduce(key, input<float>(n), y), MPI_SUCCESS);
  }
  int flush(std::vector<float>& y, const char* key) const {
    return MPIQ_Residual_flush(y.data(), static_cast<MPI_Count>(y.size()), MPI_FLOAT, comm, key);
  }
  std::vector<MPIQ_Residual> list() const {
    int n = -1;
    EXPECT_EQ(MPIQ_Residual_list(comm, 0, nullptr, &n), MPI_SUCCESS);
    std::vector<MPIQ_Residual> all(static_cast<std::size_t>(n), MPIQ_RESIDUAL_INIT);
    EXPECT_EQ(MPIQ_Residual_list(comm, n, all.data(), &n), MPI_SUCCESS);
    return all;
  }
  std::vector<float> get(const char* key, std::size_t n) const {
    std::vector<float> values(n);
    EXPECT_EQ(MPIQ_Residual_get(comm, key, 0, static_cast<MPI_Count>(n), values.data()), MPI_SUCCESS);
    return values;
  }
  static MPIQ_Residual description(const std::string& key, MPI_Count count,
                                   const std::string& element = "f32") {
    MPIQ_Residual r = MPIQ_RESIDUAL_INIT;
    key.copy(r.key, MPIQ_MAX_KEY);
    element.copy(r.element, sizeof r.element - 1);
    r.count = count;
    r.settled = -1;
    return r;
  }
  int put(const std::vector<MPIQ_Residual>& residuals, const std::vector<const void*>& buffers) const {
    return MPIQ_Residual_put(comm, static_cast<int>(residuals.size()), residuals.data(), buffers.data());
  }
};

TEST_F(Residual, results_and_flush_add_up_to_the_exact_sum) {
  constexpr std::uint64_t kCalls = 3;
  const auto check = [&]<class T>(T) {
    for (const kernels::Codec& codec : kernels::codecs())
      for (const PlanRow& plan : plans())
        for (const std::size_t n : {1, 5000}) {
          const std::string method = std::string(codec.name) + "/" + std::string(plan.name);
          std::vector<double> given(n), exact(n), got(n);
          std::vector<T> y(n);
          const auto flush_now = [&] {
            return MPIQ_Residual_flush(y.data(), static_cast<MPI_Count>(n), mpi_type<T>(), comm,
                                       method.c_str());
          };
          double norms = 0;
          for (std::uint64_t call = 0; call < kCalls; ++call) {
            const std::vector<T> x =
                make_input<T>(Input::normal, n, seed() + static_cast<std::uint64_t>(rank) * kCalls + call);
            ASSERT_EQ(reduce(method, x, y, method), MPI_SUCCESS);
            norms += std::sqrt(static_cast<double>(n)) * size;
            for (std::size_t i = 0; i < n; ++i) {
              given[i] += static_cast<double>(x[i]);
              got[i] += static_cast<double>(y[i]);
            }
          }
          ASSERT_EQ(flush_now(), MPI_SUCCESS);
          for (std::size_t i = 0; i < n; ++i) got[i] += static_cast<double>(y[i]);
          MPI_Allreduce(given.data(), exact.data(), static_cast<int>(n), MPI_DOUBLE, MPI_SUM, comm);
          // Every addition rounds something of the size of an input or of a residual, which is a few inputs.
          EXPECT_LE(norm(got, exact), 100 * static_cast<double>(std::numeric_limits<T>::epsilon()) * norms)
              << method << " n=" << n;
          EXPECT_TRUE(same_on_all_ranks(y)) << method;
          ASSERT_EQ(flush_now(), MPI_SUCCESS);
          EXPECT_EQ(y, std::vector<T>(n)) << method << ": nothing is left";
          ASSERT_EQ(MPIQ_Residual_reset(comm, nullptr), MPI_SUCCESS);
        }
  };
  check(float{});
  check(double{});
}

TEST_F(Residual, a_flush_in_pieces_is_that_of_each_element) {
  if (size == 1) return;
  const std::size_t n = (std::size_t{1} << 20) + 12345;  // more than is reduced at once
  const std::vector<float> x = input<float>(n);
  std::vector<float> y(n), exact(n), flushed(n);
  ASSERT_EQ(reduce("big", x, y), MPI_SUCCESS);
  const std::vector<float> residual = get("big", n);
  MPI_Reduce(residual.data(), exact.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM, 0, comm);
  MPI_Bcast(exact.data(), static_cast<int>(n), MPI_FLOAT, 0, comm);
  ASSERT_EQ(flush(flushed, "big"), MPI_SUCCESS);
  EXPECT_LE(norm(flushed, exact), 1e-6 * norms_of_all_ranks(residual));
  EXPECT_EQ(get("big", n), std::vector<float>(n));
}

TEST_F(Residual, a_key_that_nobody_has_flushes_to_zeros) {
  std::vector<float> y(100, 7.0F);
  ASSERT_EQ(flush(y, "nobody's"), MPI_SUCCESS);
  EXPECT_EQ(y, std::vector<float>(100));
  std::vector<float> none;
  EXPECT_EQ(flush(none, "nobody's"), MPI_SUCCESS);
}

TEST_F(Residual, flushes_that_differ_between_ranks_are_errors_on_all_ranks_and_change_nothing) {
  if (size == 1) return;
  make("w");
  const std::vector<float> before = get("w", 1000);
  std::vector<double> y(1000);
  const bool odd = rank == size - 1;
  const auto call = [&](MPI_Count n, MPI_Datatype type, const char* key) {
    return MPIQ_Residual_flush(y.data(), n, type, comm, key);
  };
  expect_error_everywhere(call(odd ? 999 : 1000, MPI_FLOAT, "w"),
                          "\"w\" belongs to 1000 f32, not to 999 f32");
  expect_error_everywhere(call(500, odd ? MPI_DOUBLE : MPI_FLOAT, "w"), "\"w\" belongs to 1000 f32");
  expect_error_everywhere(call(odd ? 10 : 11, MPI_FLOAT, "new"), "key \"new\", 10 f32, without");
  expect_error_everywhere(call(10, odd ? MPI_DOUBLE : MPI_FLOAT, "new"), "key \"new\", 10 f64");
  expect_error_everywhere(call(1000, MPI_FLOAT, odd ? "w" : "v"), "key \"v\", 1000 f32, without");
  expect_error_everywhere(call(1000, odd ? MPI_INT : MPI_FLOAT, "w"), "datatype");
  expect_error_everywhere(call(odd ? -1 : 1000, MPI_FLOAT, "w"), "count -1");
  expect_error_everywhere(call(1000, MPI_FLOAT, odd ? nullptr : "w"), "key is NULL");
  expect_error_everywhere(call(1000, MPI_FLOAT, odd ? "" : "w"), "1 to 63");
  expect_error_everywhere(call(1000, MPI_FLOAT, std::string(64, 'k').c_str()), "1 to 63");
  expect_error_everywhere(MPIQ_Residual_flush(odd ? nullptr : y.data(), 1000, MPI_FLOAT, comm, "w"),
                          "recvbuf");
  EXPECT_TRUE(same_bits(get("w", 1000), before));
}

TEST_F(Residual, a_key_that_only_some_ranks_have_cannot_be_flushed) {
  if (size == 1) return;
  make("w");
  std::vector<float> y(1000);
  ASSERT_EQ(MPIQ_Residual_reset(comm, rank == 0 ? "w" : "v"), MPI_SUCCESS);
  expect_error_everywhere(
      flush(y, "w"), "rank 0: key \"w\", 1000 f32, without a residual; rank 1: key \"w\", 1000 f32, with");
  ASSERT_EQ(MPIQ_Residual_reset(comm, "w"), MPI_SUCCESS);
  EXPECT_EQ(flush(y, "w"), MPI_SUCCESS);
}

TEST_F(Residual, a_reset_key_may_be_used_with_another_count) {
  if (size == 1) return;
  for (const char* key : {"a", "b", "c"}) make(key);
  const std::uint64_t bytes = stats().residual_bytes;
  ASSERT_EQ(MPIQ_Residual_reset(comm, "b"), MPI_SUCCESS);
  EXPECT_EQ(stats().residual_bytes, bytes / 3 * 2);
  ASSERT_EQ(list().size(), 2u);
  make("b", 77);
  EXPECT_EQ(list()[1].count, 77);
  ASSERT_EQ(MPIQ_Residual_reset(comm, nullptr), MPI_SUCCESS);
  EXPECT_EQ(stats().residual_bytes, 0u);
  EXPECT_EQ(MPIQ_Residual_reset(comm, "b"), MPI_SUCCESS) << "forgotten twice";
  expect_error_everywhere(MPIQ_Residual_reset(comm, ""), "1 to 63");
}

TEST_F(Residual, scaling_multiplies_one_key_or_all) {
  if (size == 1) return;
  make("a");
  make("b");
  std::vector<float> a = get("a", 1000), b = get("b", 1000);
  ASSERT_EQ(MPIQ_Residual_scale(comm, "a", 0.1), MPI_SUCCESS);
  for (float& v : a) v = static_cast<float>(static_cast<double>(v) * 0.1);
  EXPECT_TRUE(same_bits(get("a", 1000), a));
  EXPECT_TRUE(same_bits(get("b", 1000), b));
  ASSERT_EQ(MPIQ_Residual_scale(comm, nullptr, -2), MPI_SUCCESS);
  for (float& v : a) v *= -2;
  for (float& v : b) v *= -2;
  EXPECT_TRUE(same_bits(get("a", 1000), a));
  EXPECT_TRUE(same_bits(get("b", 1000), b));
  expect_error_everywhere(MPIQ_Residual_scale(comm, "a", std::nan("")), "finite");
  expect_error_everywhere(MPIQ_Residual_scale(comm, nullptr, std::numeric_limits<double>::infinity()),
                          "finite");
  expect_error_everywhere(MPIQ_Residual_scale(comm, nullptr, 1e300), "\"a\" infinite");
  EXPECT_TRUE(same_bits(get("a", 1000), a)) << "after an error all is as it was";
  EXPECT_TRUE(same_bits(get("b", 1000), b));
  EXPECT_EQ(MPIQ_Residual_scale(comm, "nobody's", 2), MPI_SUCCESS);
}

TEST_F(Residual, the_list_is_sorted_and_says_what_each_key_is) {
  EXPECT_TRUE(list().empty());
  if (size == 1) return;
  make("z/1", 10);
  make("a", 20);
  std::vector<double> y(30);
  ASSERT_EQ(reduce("d", input<double>(30), y), MPI_SUCCESS);
  const std::vector<MPIQ_Residual> all = list();
  ASSERT_EQ(all.size(), 3u);
  const std::string keys[]{"a", "d", "z/1"}, elements[]{"f32", "f64", "f32"};
  const MPI_Count counts[]{20, 30, 10};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all[i].key, keys[i]);
    EXPECT_EQ(all[i].element, elements[i]);
    EXPECT_EQ(all[i].count, counts[i]);
    EXPECT_EQ(all[i].datatype, i == 1 ? MPI_DOUBLE : MPI_FLOAT);
    EXPECT_LT(all[i].settled, 0);
    EXPECT_EQ(all[i].in_use, 0);
  }
  MPIQ_Residual two[3]{description("", 0), description("", 0), description("untouched", 0)};
  int n = 0;
  ASSERT_EQ(MPIQ_Residual_list(comm, 2, two, &n), MPI_SUCCESS);
  EXPECT_EQ(n, 3);
  EXPECT_EQ(std::string(two[1].key), "d");
  EXPECT_EQ(std::string(two[2].key), "untouched");
  expect_error_everywhere(MPIQ_Residual_list(comm, -1, two, &n), "max");
  expect_error_everywhere(MPIQ_Residual_list(comm, 1, nullptr, &n), "list");
  expect_error_everywhere(MPIQ_Residual_list(comm, 0, nullptr, nullptr), "n is NULL");
  EXPECT_EQ(two[1].size, sizeof(MPIQ_Residual));
  two[0].size = 0;
  expect_error_everywhere(MPIQ_Residual_list(comm, 2, two, &n), "MPIQ_RESIDUAL_INIT");
  two[0].size = sizeof(MPIQ_Residual) + 8;
  expect_error_everywhere(MPIQ_Residual_list(comm, 2, two, &n), "as new as the program's mpi_quant.h");
}

TEST_F(Residual, any_part_of_a_residual_can_be_copied_and_nothing_beyond) {
  std::vector<float> part(400, 7.0F);
  expect_error_everywhere(MPIQ_Residual_get(comm, "w", 0, 1, part.data()), "\"w\" has no residual");
  if (size == 1) return;
  make("w");
  const std::vector<float> all = get("w", 1000);
  ASSERT_EQ(MPIQ_Residual_get(comm, "w", 601, 399, part.data()), MPI_SUCCESS);
  EXPECT_TRUE(same_bits(std::vector<float>(part.begin(), part.end() - 1), {all.begin() + 601, all.end()}));
  EXPECT_EQ(part.back(), 7.0F);
  const MPI_Count huge = std::numeric_limits<MPI_Count>::max();
  for (const auto& [first, count] : std::vector<std::pair<MPI_Count, MPI_Count>>{
           {601, 400}, {-1, 2}, {0, -1}, {1001, 0}, {huge, huge}, {1, huge}})
    expect_error_everywhere(MPIQ_Residual_get(comm, "w", first, count, part.data()), "1000 of key \"w\"");
  expect_error_everywhere(MPIQ_Residual_get(comm, "w", 0, 1, nullptr), "buf is NULL");
  EXPECT_EQ(MPIQ_Residual_get(comm, "w", 1000, 0, nullptr), MPI_SUCCESS);
}

TEST_F(Residual, what_is_put_is_flushed_and_carried_as_if_it_had_been_there) {
  const std::vector<float> mine = input<float>(500, Input::mixed_scales), x = input<float>(500);
  const std::vector<double> wide(500, rank + 0.5);
  MPIQ_Residual f = description("f", 500), d = description("d/e", 500, "f64");
  f.settled = 0.25;
  ASSERT_EQ(put({f, d}, {mine.data(), wide.data()}), MPI_SUCCESS);
  EXPECT_EQ(list().at(1).settled, 0.25);
  EXPECT_TRUE(same_bits(get("f", 500), mine));
  std::vector<double> sum(500);
  ASSERT_EQ(MPIQ_Residual_flush(sum.data(), 500, MPI_DOUBLE, comm, "d/e"), MPI_SUCCESS);
  EXPECT_EQ(sum, std::vector<double>(500, size * size / 2.0));
  // Replaced, and then carried: the same as the call after the one that left it.
  if (size == 1) return;
  std::vector<float> y(500), original(500), moved(500);
  ASSERT_EQ(reduce("g", x, y), MPI_SUCCESS);
  const std::vector<float> left = get("g", 500);
  ASSERT_EQ(put({description("f", 500)}, {left.data()}), MPI_SUCCESS);
  ASSERT_EQ(reduce("g", x, original), MPI_SUCCESS);
  ASSERT_EQ(reduce("f", x, moved), MPI_SUCCESS);
  EXPECT_TRUE(same_bits(original, moved));
  EXPECT_TRUE(same_bits(get("f", 500), get("g", 500)));
}

TEST_F(Residual, half_types_have_float_residuals) {
  const std::vector<float> mine = input<float>(10);
  ASSERT_EQ(put({description("h", 10, "f16"), description("b", 10, "bf16")}, {mine.data(), mine.data()}),
            MPI_SUCCESS);
  EXPECT_TRUE(same_bits(get("h", 10), mine));
  EXPECT_EQ(list().at(0).datatype, MPI_FLOAT);
  std::vector<float> y(10);
  expect_error_everywhere(flush(y, "h"), "\"h\" belongs to 10 f16, not to 10 f32");
}

TEST_F(Residual, results_and_flush_of_half_types_and_what_its_rounding_left_add_up) {
  if (size == 1) return;
  for (const kernels::Element half : {kernels::Element::f16, kernels::Element::bf16}) {
    const kernels::ConvertOps& ops = *kernels::convert(half, kernels::Isa::scalar);
    MPI_Datatype type = MPI_DATATYPE_NULL;
    ASSERT_EQ(half == kernels::Element::f16 ? MPIQ_Type_float16(&type) : MPIQ_Type_bfloat16(&type),
              MPI_SUCCESS);
    constexpr std::size_t n = 1000;
    const std::vector<float> x = input<float>(n);
    std::vector<std::uint16_t> given(n), result(n), flushed(n);
    std::vector<float> wide(n), exact(n), got(n), part(n), left(n), none(n);
    ops.narrow(x.data(), given.data(), nullptr, n);
    ops.widen(given.data(), wide.data(), n);
    MPI_Allreduce(wide.data(), exact.data(), n, MPI_FLOAT, MPI_SUM, comm);
    ASSERT_EQ(MPIQ_Allreduce(given.data(), result.data(), n, type, MPI_SUM, comm,
                             Info{{"mpiq_method", "onebit"}, {"mpiq_key", "h"}}),
              MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Residual_flush(flushed.data(), n, type, comm, "h"), MPI_SUCCESS);
    EXPECT_TRUE(same_on_all_ranks(flushed));
    ops.widen(result.data(), got.data(), n);
    ops.widen(flushed.data(), part.data(), n);
    left = get("h", n);
    if (rank != 0) {
      EXPECT_EQ(left, none);
    }
    MPI_Bcast(left.data(), n, MPI_FLOAT, 0, comm);
    EXPECT_NE(left, none) << "rounding to half loses something";
    for (std::size_t i = 0; i < n; ++i) got[i] += part[i] + left[i];
    EXPECT_LE(norm(got, exact), 1e-5 * norms_of_all_ranks(wide));
    ASSERT_EQ(MPIQ_Residual_reset(comm, "h"), MPI_SUCCESS);
  }
}

TEST_F(Residual, a_key_in_use_by_a_call_in_flight_is_left_alone) {
  if (size == 1) return;
  make("w");
  const std::vector<float> x = input<float>(1000);
  std::vector<float> y(1000);
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  ASSERT_EQ(MPIQ_Iallreduce(x.data(), y.data(), 1000, MPI_FLOAT, MPI_SUM, comm,
                            Info{{"mpiq_method", "onebit"}, {"mpiq_key", "w"}}, &request),
            MPI_SUCCESS);
  const std::string in_use = "key \"w\" is in use by a call in flight";
  const MPIQ_Residual w = description("w", 1000);
  const void* const buffer = x.data();
  std::vector<float> z(1000);
  EXPECT_EQ(list().at(0).in_use, 1);
  expect_error_everywhere(flush(z, "w"), in_use);
  expect_error_everywhere(MPIQ_Residual_reset(comm, "w"), in_use);
  expect_error_everywhere(MPIQ_Residual_reset(comm, nullptr), in_use);
  expect_error_everywhere(MPIQ_Residual_scale(comm, nullptr, 2), in_use);
  expect_error_everywhere(MPIQ_Residual_get(comm, "w", 0, 1000, z.data()), in_use);
  expect_error_everywhere(MPIQ_Residual_put(comm, 1, &w, &buffer), in_use);
  EXPECT_EQ(MPIQ_Residual_scale(comm, "v", 2), MPI_SUCCESS) << "another key";
  ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
  EXPECT_EQ(list().at(0).in_use, 0);
  EXPECT_EQ(flush(z, "w"), MPI_SUCCESS);
}

TEST_F(Residual, a_put_that_cannot_be_done_everywhere_is_done_nowhere) {
  const std::vector<float> old(10, 1.0F), fresh(11, 2.0F);
  std::vector<float> bad(10, 2.0F);
  bad[9] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_EQ(put({description("a", 10)}, {old.data()}), MPI_SUCCESS);
  const bool odd = rank == size - 1;
  const MPIQ_Residual a = description("a", 10), b = description("b", 10);
  MPIQ_Residual settled = b;
  settled.settled = 0.5;
  const auto fails = [&](const std::vector<MPIQ_Residual>& residuals, const std::vector<const void*>& buffers,
                         const std::string& what) {
    expect_error_everywhere(put(residuals, buffers), what);
    EXPECT_EQ(get("a", 10), old) << what;
    EXPECT_EQ(list().size(), 1u) << what;
  };
  const void* const values = fresh.data();
  fails({a, b}, {values, odd ? bad.data() : values}, "key \"b\": the residual holds NaN");
  fails({a, b}, {values, odd ? nullptr : values}, "key \"b\": the buffer is NULL");
  fails({a, a}, {values, values}, "twice");
  fails({a, description("b", 10, odd ? "f33" : "f32")}, {values, values}, "f33");
  fails({a, description("b", odd ? 0 : 10)}, {values, values}, "count 0");
  fails({a, description("", 10)}, {values, values}, "1 to 63");
  MPIQ_Residual endless = b;
  std::fill(std::begin(endless.key), std::end(endless.key), 'k');
  fails({a, endless}, {values, values}, "1 to 63");
  fails({a, description("b", std::numeric_limits<MPI_Count>::max())}, {values, values}, "no memory");
  endless = b;
  endless.settled = std::nan("");
  fails({a, endless}, {values, values}, "settled");
  MPIQ_Residual unset = a;
  unset.size = odd ? 0 : a.size;
  fails({unset, b}, {values, values}, "MPIQ_RESIDUAL_INIT");
  if (size == 1) return;
  fails({a, odd ? settled : b}, {values, values}, ": key \"b\", 10 f32, settled 0.5");
  fails({a, description("b", odd ? 11 : 10)}, {values, values}, ": key \"b\", 11 f32");
  fails({a, description(odd ? "c" : "b", 10)}, {values, values}, ": key \"c\", 10 f32");
  fails(odd ? std::vector{a} : std::vector{a, b}, {values, values}, ": nothing more");
  const int code = MPIQ_Residual_put(comm, odd ? -1 : 1, &a, &values);
  expect_error_everywhere(code, "n is negative");
}

TEST_F(Residual, an_extension_raises_errors_of_the_same_class) {
  const int own = MPIQ_Comm_raise(comm, "the extension's reason");
  expect_error_everywhere(own, "the extension's reason");
  int class_of_own = 0, class_of_ours = 0;
  MPI_Error_class(own, &class_of_own);
  MPI_Error_class(MPIQ_Residual_scale(comm, "w", std::nan("")), &class_of_ours);
  EXPECT_EQ(class_of_own, class_of_ours);
}

}  // namespace
}  // namespace mq::test
