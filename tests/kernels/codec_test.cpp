// Properties that every codec row has, for every element type, instruction set, length and input; and the
// quality of each. Row::run checks with each of them that no wire is longer than its bound, and that nothing
// is written outside of arrays.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "kernels/codec.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

using kernels::Codec;
using kernels::Decoded;
using kernels::Feedback;

TEST(Registry, names_and_ids_are_unique_and_every_row_is_complete) {
  std::set<std::string_view> names;
  std::set<std::uint16_t> ids;
  for (const Codec& codec : kernels::codecs()) {
    EXPECT_TRUE(names.insert(codec.name).second) << codec.name;
    EXPECT_TRUE(ids.insert(codec.id).second) << codec.name;
    EXPECT_NE(codec.id, 0) << codec.name << ": 0 means mpi";
    EXPECT_FALSE(codec.what.empty());
    EXPECT_EQ(kernels::find_codec(codec.name)->id, codec.id);
    for (const auto& spec : codec.specs) {
      EXPECT_LE(spec.min, spec.preset) << codec.name << " " << spec.name;
      EXPECT_LE(spec.preset, spec.max) << codec.name << " " << spec.name;
    }
  }
  EXPECT_EQ(kernels::find_codec("nosuch"), nullptr);
}

TEST(Codec, every_isa_writes_the_scalar_bytes_residuals_and_values) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    if (row.isa != kernels::Isa::scalar || row.isa == kernels::best_isa()) return;
    for (const Input input : kInputs)
      for (const std::size_t n : row.lengths()) {
        const auto x = make_input<T>(input, n, seed());
        const auto residual = make_input<T>(Input::normal, n, seed() + 1);
        for (const Feedback feedback : kFeedbacks) {
          const Coded<T> expected = row.run(x, residual, feedback);  // once for all others: it is the slowest
          for (const kernels::Isa isa : kernels::kIsas) {
            if (isa == kernels::Isa::scalar || isa > kernels::best_isa()) continue;
            const auto other = row.with(isa);
            const Coded<T> got = other.run(x, residual, feedback);
            const bool same = expected.wire == got.wire && same_bits(expected.residual, got.residual) &&
                              same_bits(expected.decoded, got.decoded);
            ASSERT_TRUE(same) << other.describe(n, name(input))
                              << (expected.wire == got.wire ? "residual or values" : "wire");
            ASSERT_EQ(expected.nonfinite, got.nonfinite) << other.describe(n, name(input));
            ASSERT_EQ(expected.overflows, got.overflows) << other.describe(n, name(input));
          }
        }
      }
  });
}

TEST(Codec, encodes_the_same_from_any_alignment_and_in_pieces) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t block = row.block(), n = 3 * block + 7;
    const auto x = make_input<T>(Input::normal, n, seed());
    const auto residual = make_input<T>(Input::laplace, n, seed());
    const Coded<T> whole = row.run(x, residual, Feedback::carry);
    for (const std::size_t shift : {1, 2, 3, 4, 8, 63}) {
      const Coded<T> shifted = row.run(x, residual, Feedback::carry, shift);
      ASSERT_EQ(whole.wire, shifted.wire) << row.describe(n, "shifted");
      ASSERT_TRUE(same_bits(whole.residual, shifted.residual)) << row.describe(n, "shifted");
      ASSERT_TRUE(same_bits(whole.decoded, shifted.decoded)) << row.describe(n, "shifted");
    }
    if (row.codec->whole(row.params)) return;
    const auto piece = [](const std::vector<T>& v, std::size_t begin, std::size_t end) {
      std::vector<T> part;
      for (std::size_t i = begin; i < end; ++i) part.push_back(v[i]);
      return part;
    };
    Coded<T> pieces = row.run(piece(x, 0, 2 * block), piece(residual, 0, 2 * block), Feedback::carry);
    const Coded<T> second = row.run(piece(x, 2 * block, n), piece(residual, 2 * block, n), Feedback::carry, 0,
                                    {.index = 2 * block});
    pieces.wire.insert(pieces.wire.end(), second.wire.begin(), second.wire.end());
    ASSERT_EQ(whole.wire, pieces.wire) << row.describe(n, "in pieces");
  });
}

TEST(Codec, residual_plus_decoded_is_the_input_within_one_ulp) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : kInputs)
      for (const std::size_t n : row.lengths()) {
        const auto x = make_input<T>(input, n, seed());
        // Without a residual there is no room to lose for huge elements, and nothing at all to send for
        // zeros.
        const bool alone = input == Input::huge || input == Input::zeros;
        const auto before = make_input<T>(alone ? Input::zeros : Input::normal, n, seed() + 1);
        const Coded<T> got = row.run(x, before, Feedback::carry);
        const auto is_right = [&](std::size_t i) {
          const T v = x[i] + before[i];
          if (!std::isfinite(got.decoded[i])) return got.residual[i] == T{0};  // bf16 out of its range
          const T lost = std::abs((got.residual[i] + got.decoded[i]) - v);
          return lost == 0 || lost <= ulp(std::max(std::abs(v), std::abs(got.decoded[i])));
        };
        std::size_t wrong = 0;
        while (wrong < n && is_right(wrong)) ++wrong;
        ASSERT_EQ(wrong, n) << row.describe(n, name(input)) << ": that element, of residual "
                            << got.residual[wrong] << " and value " << got.decoded[wrong];
      }
  });
}

TEST(Codec, deposit_adds_the_loss_of_x_to_the_residual) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = row.block() + 5;
    const auto x = make_input<T>(Input::normal, n, seed());
    const auto before = make_input<T>(Input::laplace, n, seed());
    const Coded<T> plain = row.run(x, before, Feedback::none);
    const Coded<T> deposit = row.run(x, before, Feedback::deposit);
    ASSERT_EQ(plain.wire, deposit.wire);
    ASSERT_TRUE(same_bits(plain.residual, before)) << "Feedback::none touched the residual";
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(deposit.residual[i], before[i] + (x[i] - plain.decoded[i]));
  });
}

TEST(Codec, a_deposit_without_room_leaves_the_residual) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    constexpr T kMax = std::numeric_limits<T>::max();
    const std::size_t n = row.block() + 5;
    auto x = make_input<T>(Input::normal, n, seed());
    for (T& v : x) v *= kMax / 16;
    std::vector<T> before(n);
    for (std::size_t i = 0; i < n; ++i) before[i] = i % 2 ? kMax : -kMax;
    const Coded<T> plain = row.run(x, before, Feedback::none),
                   deposit = row.run(x, before, Feedback::deposit);
    ASSERT_EQ(plain.wire, deposit.wire);
    for (std::size_t i = 0; i < n; ++i) {
      const T sum = before[i] + (x[i] - plain.decoded[i]);
      ASSERT_EQ(deposit.residual[i], std::isfinite(sum) ? sum : before[i]) << row.describe(n, "no room") << i;
    }
  });
}

TEST(Codec, lossless_rows_return_every_bit_pattern) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    if (!row.codec->lossless) return;
    std::vector<T> x = make_input<T>(Input::mixed_scales, 1000, seed());
    plant_nonfinite(x, seed());
    ASSERT_TRUE(same_bits(x, row.run(x, x, Feedback::none).decoded));
  });
}

TEST(Codec, nonfinite_elements_come_out_nonfinite_and_leave_residuals_finite) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const std::size_t n : row.lengths())
      for (const Feedback feedback : kFeedbacks) {
        auto x = make_input<T>(Input::normal, n, seed());
        const std::uint64_t planted = plant_nonfinite(x, seed() + n);
        const Coded<T> got = row.run(x, std::vector<T>(n, T{0.5}), feedback);
        ASSERT_EQ(got.nonfinite, planted) << row.describe(n, "nonfinite");
        std::size_t wrong = 0;
        while (wrong < n && std::isfinite(x[wrong]) == std::isfinite(got.decoded[wrong]) &&
               std::isfinite(got.residual[wrong]))
          ++wrong;
        ASSERT_EQ(wrong, n) << row.describe(n, "nonfinite") << ": that element";
      }
  });
}

TEST(Codec, a_lone_infinity_keeps_its_sign_and_nan_stays_nan) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    constexpr T kInf = std::numeric_limits<T>::infinity();
    for (const T special : {kInf, -kInf, std::numeric_limits<T>::quiet_NaN()}) {
      auto x = make_input<T>(Input::normal, 100, seed());
      x[42] = special;
      const T got = row.run(x, std::vector<T>(100), Feedback::carry).decoded[42];
      if (std::isnan(special))
        ASSERT_TRUE(std::isnan(got));
      else
        ASSERT_EQ(got, special) << row.describe(100, "inf");
    }
  });
}

TEST(Codec, the_sum_of_two_nans_is_the_same_nan_on_every_isa) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = 77;  // whole and partial groups
    const std::vector<T> x(n, std::nan("1234")), base(n, -std::nan("567"));
    const std::vector<std::byte> wire = row.run(x, {}, Feedback::none).wire;
    std::vector<T> sum(n);
    ASSERT_EQ(row.decode(wire, n, base.data(), sum.data()), Decoded::ok);
    ASSERT_TRUE(same_bits(sum, std::vector<T>(n, std::numeric_limits<T>::quiet_NaN())))
        << row.describe(n, "");
  });
}

TEST(Codec, without_a_residual_no_finite_value_is_dropped_beside_a_nan) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    std::vector<T> x(500, T{1});
    x[5] = 0;
    const std::vector<T> expected =
        row.run(x, {}, Feedback::none).decoded;  // a sparse code sends few of them
    x[5] = std::numeric_limits<T>::infinity();
    const Coded<T> got = row.run(x, {}, Feedback::none);
    EXPECT_EQ(got.decoded[5], x[5]) << row.describe(500, "");
    const double bound = row.codec->error_bound(row.params);
    for (std::size_t i = 0; i < x.size(); ++i)  // the value, or loudly none
      ASSERT_TRUE(i == 5 || got.decoded[i] == expected[i] || std::isnan(got.decoded[i]) ||
                  std::abs(static_cast<double>(got.decoded[i] - x[i])) <= bound)
          << row.describe(500, "") << got.decoded[i];
  });
}

TEST(Codec, decode_with_base_is_decode_then_add_in_place_or_not) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const std::size_t n : row.lengths()) {
      const auto x = make_input<T>(Input::normal, n, seed());
      const auto base = make_input<T>(Input::uniform, n, seed());
      const Coded<T> coded = row.run(x, {}, Feedback::none);
      std::vector<T> expected(n), apart(n), in_place = base;
      for (std::size_t i = 0; i < n; ++i) expected[i] = base[i] + coded.decoded[i];
      ASSERT_EQ(row.decode(coded.wire, n, base.data(), apart.data()), Decoded::ok);
      ASSERT_EQ(row.decode(coded.wire, n, in_place.data(), in_place.data()), Decoded::ok);
      ASSERT_TRUE(same_bits(expected, apart)) << row.describe(n, "base");
      ASSERT_TRUE(same_bits(expected, in_place)) << row.describe(n, "base");
    }
  });
}

TEST(Codec, streaming_changes_no_value_at_any_alignment) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = 2 * row.block() + 77;
    const auto base = make_input<T>(Input::uniform, n, seed());
    const Coded<T> coded = row.run(make_input<T>(Input::normal, n, seed()), {}, Feedback::none);
    std::vector<T> sum(n);
    ASSERT_EQ(row.decode(coded.wire, n, base.data(), sum.data()), Decoded::ok);
    for (std::size_t shift = 0; shift < 64; shift += kSanitized ? 9 : shift < 8 ? 1 : 4)
      for (const bool in_place : {false, true}) {
        Guarded<T> plain(n * sizeof(T), shift), added(n * sizeof(T), shift);
        added.set(base);
        kernels::DecodeArgs args{coded.wire.data(), coded.wire.size(), n,   row.params,
                                 nullptr,           plain.data(),      true};
        ASSERT_EQ(row.ops().decode(args), Decoded::ok);
        args.x = added.data();
        args.base = in_place ? args.x : base.data();
        ASSERT_EQ(row.ops().decode(args), Decoded::ok);
        ASSERT_TRUE(plain.intact() && added.intact()) << row.describe(n, "streamed") << shift;
        ASSERT_TRUE(same_bits(plain.get(n), coded.decoded)) << row.describe(n, "streamed") << shift;
        ASSERT_TRUE(same_bits(added.get(n), sum)) << row.describe(n, "streamed") << shift;
      }
  });
}

TEST(Codec, hostile_wire_is_rejected_or_decoded_inside_the_bounds) {
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    std::mt19937_64 random(seed());
    for (const std::size_t n : row.lengths()) {
      const std::vector<std::byte> good =
          row.run(make_input<T>(Input::normal, n, seed()), {}, Feedback::none).wire;
      for (std::size_t size = 0; size < good.size(); size += 1 + size / 3)  // every truncation is noticed
        ASSERT_EQ(row.decode_guarded({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}, n),
                  Decoded::malformed)
            << row.describe(n, "truncated to " + std::to_string(size));
      auto longer = good;
      longer.push_back(std::byte{0});
      ASSERT_EQ(row.decode_guarded(longer, n), Decoded::malformed) << row.describe(n, "one byte too long");
      for (int trial = 0; trial < 20; ++trial) {
        auto garbage = good;
        for (auto& b : garbage) b = static_cast<std::byte>(random());
        (void)row.decode_guarded(garbage, n);  // canaries and sanitizers judge
      }
    }
  });
}

TEST(Codec, encoding_ignores_and_restores_the_callers_floating_point_mode) {
#ifdef __SSE2__
  for_each_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const auto x = make_input<T>(Input::subnormal, 500, seed());
    const Coded<T> expected = row.run(x, std::vector<T>(500), Feedback::carry);
    const unsigned saved = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(saved | 0x8040);  // flush to zero, denormals are zero
    const unsigned set = __builtin_ia32_stmxcsr();
    const Coded<T> got = row.run(x, std::vector<T>(500), Feedback::carry);
    EXPECT_EQ(__builtin_ia32_stmxcsr() & 0xffc0, set & 0xffc0);
    __builtin_ia32_ldmxcsr(saved);
    ASSERT_EQ(expected.wire, got.wire) << row.describe(500, "flush to zero");
    ASSERT_TRUE(same_bits(expected.residual, got.residual)) << row.describe(500, "flush to zero");
  });
#endif
}

}  // namespace
}  // namespace mq::test
