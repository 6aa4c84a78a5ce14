// zerorun: every bit comes back, the wire is as short as its format allows and never longer than the vector
// and 4 bytes a block, and no wire reads or writes outside.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

using kernels::Decoded;
using kernels::Feedback;

constexpr std::size_t kBlock = 16384, kGroup = 32;

std::vector<std::size_t> lengths() {
  return {0, 1, 31, 32, 33, 1000, kBlock - 1, kBlock, kBlock + 1, 2 * kBlock + 33, 100003};
}

// One in `every` elements is not zero; some of these are -0, subnormal, Inf or a NaN with a message.
template <class T>
std::vector<T> sparse(std::size_t n, double density, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::normal_distribution<T> normal;
  const T special[]{T{-0.0}, std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::infinity(),
                    -std::numeric_limits<T>::quiet_NaN()};
  std::vector<T> x(n);
  for (T& v : x)
    if (uniform(random) < density) v = random() % 50 == 0 ? special[random() % 4] : normal(random);
  return x;
}

// What the format takes for a block: sparse, and at most.
template <class T>
std::size_t sparse_bytes(const T* x, std::size_t n) {
  std::size_t groups = 0, count = 0;
  for (std::size_t begin = 0; begin < n; begin += kGroup) {
    std::size_t in_group = 0;
    for (std::size_t i = begin; i < std::min(begin + kGroup, n); ++i) {
      const T zero{0};
      in_group += std::memcmp(&x[i], &zero, sizeof zero) != 0;
    }
    count += in_group;
    groups += in_group > 0;
  }
  return 4 + ((n + kGroup - 1) / kGroup + 7) / 8 + count * sizeof(T) + 4 * groups;
}

constexpr double kDensities[]{0, 0.0005, 0.01, 0.1, 0.5, 0.9, 0.97, 1};

TEST(ZeroRun, every_bit_comes_back_and_the_wire_is_as_short_as_the_format_allows) {
  for_each_row_of("zerorun", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const std::size_t n : lengths())
      for (const double density : kDensities) {
        const std::vector<T> x = sparse<T>(n, density, n + 1);
        const Coded<T> coded = row.run(x, {}, Feedback::none);
        ASSERT_TRUE(same_bits(coded.decoded, x)) << row.describe(n, "bits") << density;
        std::size_t least = 0, most = 0;
        for (std::size_t begin = 0; begin < n; begin += kBlock) {
          const std::size_t m = std::min(kBlock, n - begin), all = 4 + m * sizeof(T);
          const std::size_t bytes = sparse_bytes(x.data() + begin, m);
          least += std::min(bytes, all);
          // A block is given up a group before it is as long as the vector.
          most += bytes + kGroup * sizeof(T) + 4 <= all ? bytes : all;
        }
        EXPECT_LE(coded.wire.size(), most) << row.describe(n, "bytes") << density;
        EXPECT_GE(coded.wire.size(), least) << row.describe(n, "bytes") << density;
      }
  });
}

TEST(ZeroRun, takes_few_bytes_where_there_is_little) {
  const auto bytes_per_element = [](double density) {
    const kernels::Codec& codec = *kernels::find_codec("zerorun");
    const Row<float> row{&codec, kernels::preset_params(codec), kernels::best_isa()};
    const std::size_t n = 64 * kBlock;
    return static_cast<double>(row.run(sparse<float>(n, density, 5), {}, Feedback::none).wire.size()) /
           static_cast<double>(n);
  };
  EXPECT_LT(bytes_per_element(0), 0.0043);
  EXPECT_LT(bytes_per_element(0.001), 0.0125);
  EXPECT_LT(bytes_per_element(0.01), 0.08);
  EXPECT_LT(bytes_per_element(1), 4.0003);
}

TEST(ZeroRun, nothing_waits_in_a_residual) {
  for_each_row_of("zerorun", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const double density : {0.01, 1.0}) {
      const std::size_t n = kBlock + 77;
      std::vector<T> x(n), residual(n), sum(n);
      std::mt19937_64 random(3);
      std::normal_distribution<T> normal;
      std::uniform_real_distribution<double> uniform(0, 1);
      for (std::size_t i = 0; i < n; ++i) {
        if (uniform(random) < density) x[i] = normal(random);
        if (uniform(random) < density) residual[i] = normal(random);
        sum[i] = x[i] + residual[i];
      }
      const Coded<T> carried = row.run(x, residual, Feedback::carry);
      EXPECT_TRUE(same_bits(carried.decoded, sum)) << row.describe(n, "carry");
      EXPECT_TRUE(same_bits(carried.residual, std::vector<T>(n))) << row.describe(n, "carry");
      const Coded<T> deposited = row.run(x, residual, Feedback::deposit);
      EXPECT_TRUE(same_bits(deposited.decoded, x)) << row.describe(n, "deposit");
      EXPECT_TRUE(same_bits(deposited.residual, residual)) << row.describe(n, "deposit");
    }
  });
}

TEST(ZeroRun, added_to_a_base_it_is_the_dense_sum_bit_for_bit) {
  for_each_row_of("zerorun", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = 2 * kBlock + 5;
    for (const double density : {0.01, 0.4, 1.0}) {
      std::vector<T> x = sparse<T>(n, density, 7), base = sparse<T>(n, 0.5, 8), sum(n), got(n);
      for (std::size_t i = 0; i < n; ++i) {
        sum[i] = base[i] + x[i];
        if (std::isnan(sum[i])) sum[i] = std::numeric_limits<T>::quiet_NaN();
      }
      const Coded<T> coded = row.run(x, {}, Feedback::none);
      ASSERT_EQ(row.decode(coded.wire, n, base.data(), got.data()), Decoded::ok);
      EXPECT_TRUE(same_bits(got, sum)) << row.describe(n, "sum") << density;
    }
  });
}

// A wire of 64 floats made by hand: groups by the bits of `top`.
std::vector<std::byte> made(std::uint32_t count, unsigned top, const std::vector<float>& values,
                            const std::vector<std::uint32_t>& bits) {
  std::vector<std::byte> wire(4 + 1 + 4 * values.size() + 4 * bits.size());
  std::memcpy(wire.data(), &count, 4);
  wire[4] = static_cast<std::byte>(top);
  if (!values.empty()) std::memcpy(wire.data() + 5, values.data(), 4 * values.size());
  if (!bits.empty()) std::memcpy(wire.data() + 5 + 4 * values.size(), bits.data(), 4 * bits.size());
  return wire;
}

TEST(ZeroRun, what_encode_cannot_have_written_is_malformed) {
  const kernels::Codec& codec = *kernels::find_codec("zerorun");
  for (const kernels::Isa isa : kernels::kIsas) {
    if (isa > kernels::best_isa()) continue;
    const Row<float> row{&codec, kernels::preset_params(codec), isa};
    const auto decoded = [&](const std::vector<std::byte>& wire, std::size_t n = 64) {
      return row.decode_guarded(wire, n);
    };
    EXPECT_EQ(decoded(made(2, 3, {1, 2}, {1, 1u << 31})), Decoded::ok);
    EXPECT_EQ(decoded(made(0, 0, {}, {})), Decoded::ok);
    EXPECT_EQ(decoded(made(1, 3, {1}, {1, 0})), Decoded::malformed) << "a group without elements";
    EXPECT_EQ(decoded(made(2, 3, {1, 2}, {1, 3})), Decoded::malformed) << "more bits than elements";
    EXPECT_EQ(decoded(made(2, 3, {1, 2}, {1})), Decoded::malformed) << "bits are missing";
    EXPECT_EQ(decoded(made(1, 4, {1}, {1})), Decoded::malformed) << "a group beyond the vector";
    EXPECT_EQ(decoded(made(65, 1, {1}, {1})), Decoded::malformed) << "more elements than the vector has";
    EXPECT_EQ(decoded(made(2, 3, {1, 2}, {1, 1, 1})), Decoded::malformed) << "something behind the end";
    EXPECT_EQ(decoded(made(1, 2, {1}, {1u << 8}), 40), Decoded::malformed) << "an element beyond the vector";
    EXPECT_EQ(decoded(made(1, 2, {1}, {1u << 7}), 40), Decoded::ok);
  }
}

TEST(ZeroRun, any_change_to_a_wire_stays_inside) {
  for_each_row_of("zerorun", [](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    std::mt19937_64 random(11);
    for (const std::size_t n : {std::size_t{40}, std::size_t{1000}, kBlock + 100})
      for (const double density : {0.02, 0.6, 1.0}) {
        const std::vector<std::byte> wire = row.run(sparse<T>(n, density, n), {}, Feedback::none).wire;
        for (int trial = 0; trial < 60; ++trial) {
          std::vector<std::byte> changed = wire;
          for (std::size_t k = 1 + random() % 3; k > 0; --k)
            changed[random() % std::min<std::size_t>(changed.size(), 2000)] =
                static_cast<std::byte>(random());
          (void)row.decode_guarded(changed, n);  // canaries and sanitizers judge
          changed.resize(random() % wire.size());
          EXPECT_EQ(
              row.decode_guarded(
                  std::vector<std::byte>(wire.begin(), wire.begin() + static_cast<long>(changed.size())), n),
              Decoded::malformed);
        }
      }
  });
}

}  // namespace
}  // namespace mq::test
