// The wire of the ternary codecs: every format decodes to the same values, none is longer than it must be,
// elements that are not finite spoil no other, and no wire reads or writes outside.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "tests/kernels/ternary.hpp"

namespace mq::test {
namespace {

using kernels::Decoded;
using kernels::Feedback;

constexpr WireFormat kFormats[]{kAuto, kGap, kU16, kU32, kDense};

// Header of the wire: format * 2^24 + entries, bytes of the payload, the values below and above.
struct Head {
  std::uint32_t format_count, payload;
};
Head head_of(const std::vector<std::byte>& wire) {
  Head head;
  std::memcpy(&head, wire.data(), sizeof head);
  return head;
}
WireFormat format_of(const std::vector<std::byte>& wire) {
  return static_cast<WireFormat>(head_of(wire).format_count >> 24);
}

template <class F>
void for_each_density(const F& property) {
  for (const double block : {64.0, 1024.0, 65536.0}) {
    for (const double pi : {1.0, 3.0, 5.0, 10.0, 32.0, 300.0})
      property("adaptive", NamedValues{{"pi", pi}, {"block", block}});
    for (const double tau : {1e-3, 1.0, 2.5, 10.0})
      property("threshold", NamedValues{{"tau", tau}, {"block", block}});
  }
}

TEST(TernaryWire, all_formats_decode_to_the_same_and_none_is_shorter_than_the_chosen_one) {
  std::set<WireFormat> chosen;
  for_each_density([&](std::string_view codec, NamedValues values) {
    for_each_isa(codec, values, [&](auto row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const std::size_t n = std::min<std::size_t>(row.block(), 20000) - 3;
      for (const Input input : {Input::normal, Input::spikes, Input::mixed_scales, Input::zeros}) {
        const auto x = make_input<T>(input, n, seed());
        const Coded<T> best = row.run(x, std::vector<T>(n), Feedback::carry);
        chosen.insert(format_of(best.wire));
        for (const WireFormat format : kFormats) {
          auto forced = row;
          for (std::size_t i = 0; i < row.codec->specs.size(); ++i)
            if (row.codec->specs[i].name == "format") forced.params.value[i] = format;
          const Coded<T> got = forced.run(x, std::vector<T>(n), Feedback::carry);
          const std::string where = forced.describe(n, name(input));
          ASSERT_TRUE(same_bits(best.decoded, got.decoded)) << where;
          ASSERT_TRUE(same_bits(best.residual, got.residual)) << where;
          ASSERT_LE(best.wire.size(), got.wire.size()) << where;
          if (format != kAuto) {
            ASSERT_TRUE(format_of(got.wire) == format || format_of(got.wire) == kDense);
          }
        }
      }
    });
  });
  EXPECT_EQ(chosen, (std::set<WireFormat>{kGap, kU16, kDense})) << "every format is the best for something";
}

TEST(TernaryWire, a_forced_format_is_used_where_it_is_no_longer_than_dense) {
  for (const WireFormat format : {kGap, kU16, kU32, kDense}) {
    const Row<float> sparse =
        fastest("adaptive", {{"format", static_cast<double>(format)}, {"block", 65536}});
    const auto x = make_input<float>(Input::normal, 65536, seed());
    const auto wire = sparse.run(x, {}, Feedback::none).wire;
    EXPECT_EQ(format_of(wire), format);
    EXPECT_EQ(head_of(wire).format_count & 0xffffff, 2048u);
    const Row<float> full = fastest("adaptive", {{"format", static_cast<double>(format)}, {"pi", 1}});
    EXPECT_EQ(format_of(full.run(x, {}, Feedback::none).wire), kDense);
  }
}

TEST(TernaryWire, bytes_an_element_are_those_of_the_theory) {
  const auto x = make_input<float>(Input::normal, 1 << 20, seed());
  const auto bytes = [&](NamedValues values) {
    return static_cast<double>(fastest("adaptive", values).run(x, {}, Feedback::none).wire.size()) /
           (1 << 20);
  };
  // A gap byte an entry, and a skip where 127 in a row are not sent: 1 / (1 - (1 - 1 / pi)^127) bytes.
  for (const double pi : {8.0, 32.0, 100.0}) {
    const double skips = 1 / (1 - std::pow(1 - 1 / pi, 127));
    EXPECT_NEAR(bytes({{"pi", pi}, {"format", kGap}}), skips / pi + 16.0 / 16384, 0.01 / pi) << pi;
  }
  EXPECT_NEAR(bytes({{"format", kU32}}), 4.0 / 32 + 16.0 / 16384, 1e-9);
  EXPECT_NEAR(bytes({{"format", kU16}}), 2.125 / 32 + 16.0 / 16384, 1e-9);
  EXPECT_NEAR(bytes({{"pi", 1000}}), 2.125 / 1024 + 16.0 / 16384, 0.1 / 1000);
  EXPECT_NEAR(bytes({{"pi", 1}}), 0.25 + 16.0 / 16384, 1e-9);
}

TEST(TernaryWire, nothing_is_longer_than_the_bound) {
  for_each_density([](std::string_view codec, NamedValues values) {
    for_each_isa(codec, values, [](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      for (const std::size_t n : {1, 2, 3, 5, 31, 64, 2000}) {
        ASSERT_EQ(row.bound(n), [&] {
          std::size_t sum = 0;
          for (std::size_t left = n; left > 0; left -= std::min(left, row.block()))
            sum += 8 + 3 * sizeof(T) + (std::min(left, row.block()) + 3) / 4;
          return sum;
        }()) << row.describe(n, "");
        std::vector<T> x(n);
        for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(i % 2 ? 1e3 : -1e3);
        ASSERT_LE(row.run(x, {}, Feedback::none).wire.size(), row.bound(n)) << row.describe(n, "adversarial");
        plant_nonfinite(x, seed());
        ASSERT_LE(row.run(x, {}, Feedback::none).wire.size(), row.bound(n)) << row.describe(n, "nonfinite");
      }
    });
  });
}

TEST(TernaryWire, elements_that_are_not_finite_spoil_no_other) {
  for_each_density([](std::string_view codec, NamedValues values) {
    for_each_isa(codec, values, [](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const std::size_t n = 1500;
      auto x = make_input<T>(Input::laplace, n, seed());
      auto without = x;
      const std::uint64_t planted = plant_nonfinite(x, seed());
      for (std::size_t i = 0; i < n; ++i)
        if (!std::isfinite(x[i])) without[i] = 0;
      const Coded<T> got = row.run(x, std::vector<T>(n), Feedback::carry);
      const Coded<T> expected = row.run(without, std::vector<T>(n), Feedback::carry);
      ASSERT_EQ(got.nonfinite, planted);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(std::isfinite(got.decoded[i]), std::isfinite(x[i])) << row.describe(n, "") << i;
        if (std::isfinite(x[i])) {
          ASSERT_EQ(got.decoded[i], expected.decoded[i]) << row.describe(n, "") << i;
        }
        ASSERT_EQ(got.residual[i], expected.residual[i]) << row.describe(n, "") << i;
      }
    });
  });
}

TEST(TernaryWire, a_block_of_nothing_finite_is_marked) {
  for (const std::string_view codec : {"threshold", "adaptive"})
    for_each_isa(codec, {}, [](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      constexpr T kInf = std::numeric_limits<T>::infinity();
      for (const std::size_t n : {1, 5, 1000})
        for (const T special : {kInf, -kInf, std::numeric_limits<T>::quiet_NaN()}) {
          const Coded<T> got = row.run(std::vector<T>(n, special), std::vector<T>(n, T{3}), Feedback::carry);
          EXPECT_EQ(format_of(got.wire), kMarked);
          EXPECT_TRUE(same_bits(got.decoded, std::vector<T>(n, special)));
          EXPECT_EQ(got.residual, std::vector<T>(n));
        }
    });
}

TEST(TernaryWire, adding_leaves_what_is_not_sent_untouched_bit_for_bit) {
  for (const double format : {kGap, kU16, kU32, kDense})
    for_each_isa("adaptive", {{"format", format}}, [](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      const std::size_t n = 300;
      std::vector<T> x(n), base(n);
      for (std::size_t i = 0; i < n; ++i) base[i] = i % 2 ? T{-0.0} : static_cast<T>(-std::nan("77"));
      x[17] = 5;
      base[17] = 1;
      const auto wire = row.run(x, {}, Feedback::none).wire;
      std::vector<T> expected = base, apart(n), in_place = base;
      expected[17] = 6;
      ASSERT_EQ(row.decode(wire, n, base.data(), apart.data()), Decoded::ok);
      ASSERT_EQ(row.decode(wire, n, in_place.data(), in_place.data()), Decoded::ok);
      ASSERT_TRUE(same_bits(apart, expected)) << row.describe(n, "");
      ASSERT_TRUE(same_bits(in_place, expected)) << row.describe(n, "");
    });
}

// Small wires of every format: entries far apart and side by side, at both ends, and marks.
template <class T>
std::vector<std::vector<std::byte>> small_wires(const Row<T>& row, std::size_t n) {
  std::vector<T> x(n);
  x[0] = -2, x[1] = 3, x[n / 2] = 2, x[n - 1] = -4;
  std::vector<std::vector<std::byte>> wires{row.run(x, {}, Feedback::none).wire};
  x[5] = std::numeric_limits<T>::infinity();
  wires.push_back(row.run(x, {}, Feedback::none).wire);
  wires.push_back(row.run(std::vector<T>(n), {}, Feedback::none).wire);
  return wires;
}

TEST(TernaryWire, every_bit_flip_and_truncation_is_rejected_or_decoded_inside_the_bounds) {
  for (const double format : {kGap, kU16, kU32, kDense})
    for_each_isa("threshold", {{"format", format}, {"block", 512}}, [&](const auto& row) {
      for (const std::size_t n : {99, 301, 512, 600})
        for (const auto& good : small_wires(row, n)) {
          if (n <= 512 && format_of(good) != kMarked) {
            ASSERT_EQ(format_of(good), format);
          }
          for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
            auto bad = good;
            bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
            const Decoded decoded = row.decode_guarded(bad, n);
            // Format, count and length are checked against the payload; nothing is nothing in any sparse
            // format.
            const bool header = bit < 64 && (bit < 24 || head_of(good).payload > 0);
            if (header) {
              ASSERT_EQ(decoded, Decoded::malformed) << row.describe(n, "bit ") << bit;
            }
          }
          for (std::size_t size = 0; size < good.size(); ++size)
            ASSERT_EQ(row.decode_guarded({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}, n),
                      Decoded::malformed);
        }
    });
}

TEST(TernaryWire, random_bytes_behind_a_sound_header_stay_inside_the_bounds) {
  std::mt19937_64 random(seed());
  for (const double block : {64.0, 65536.0})
    for_each_isa("adaptive", {{"block", block}}, [&](const auto& row) {
      using T = typename std::decay_t<decltype(row)>::Type;
      for (int trial = 0; trial < 300; ++trial) {
        const std::size_t n = 1 + random() % (block == 64 ? 64 : 3000), payload = random() % (n / 4 + 9);
        std::vector<std::byte> wire(8 + 2 * sizeof(T) + payload);
        const Head head{static_cast<std::uint32_t>((random() % 7) << 24 | random() % (n + 2)),
                        static_cast<std::uint32_t>(payload)};
        const T value[2] = {T{-1}, T{1}};
        std::memcpy(wire.data(), &head, sizeof head);
        std::memcpy(wire.data() + sizeof head, value, sizeof value);
        for (std::size_t i = sizeof head + sizeof value; i < wire.size(); ++i)
          wire[i] = static_cast<std::byte>(random());
        (void)row.decode_guarded(wire, n);  // canaries and sanitizers judge
      }
    });
}

// A wire made by hand, of floats -1 and 1.
std::vector<std::byte> made(std::uint32_t format, std::uint32_t count, const std::vector<int>& payload,
                            float below = -1, float above = 1) {
  const Head head{format << 24 | count, static_cast<std::uint32_t>(payload.size())};
  std::vector<std::byte> wire(sizeof head + 2 * sizeof(float));
  std::memcpy(wire.data(), &head, sizeof head);
  std::memcpy(wire.data() + sizeof head, &below, sizeof below);
  std::memcpy(wire.data() + sizeof head + sizeof below, &above, sizeof above);
  for (const int b : payload) wire.push_back(static_cast<std::byte>(b));
  return wire;
}

struct Case {
  std::vector<std::byte> wire;
  bool good;
  const char* what;
};

void expect_decoded(std::initializer_list<Case> cases, std::size_t n) {
  for (const kernels::Isa isa : kernels::kIsas) {
    if (isa > kernels::best_isa()) continue;
    Row<float> row = fastest("adaptive", {});
    row.isa = isa;
    for (const Case& c : cases)
      EXPECT_EQ(row.decode_guarded(c.wire, n), c.good ? Decoded::ok : Decoded::malformed) << c.what;
  }
}

TEST(TernaryWire, every_inconsistency_of_a_header_is_malformed) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  expect_decoded({{made(0, 0, {}), false, "format 0"},
                  {made(6, 0, {}), false, "format 6"},
                  {made(255, 0, {}), false, "format 255"},
                  {made(kGap, 1, {0}, 1, 1), false, "a value of the wrong sign"},
                  {made(kGap, 1, {0}, -1, -1), false, "a value of the wrong sign"},
                  {made(kGap, 1, {0}, nan, 1), false, "a value that is no number"},
                  {made(kGap, 1, {0}, -1, inf), false, "a value that is infinite"}},
                 300);
}

TEST(TernaryWire, every_inconsistency_of_a_sparse_payload_is_malformed) {
  expect_decoded({{made(kGap, 0, {}), true, "nothing sent"},
                  {made(kGap, 2, {0, 3}), true, "elements 0 and 2"},
                  {made(kGap, 1, {254, 254, 2 * 45 + 1}), true, "element 299"},
                  {made(kGap, 1, {254, 254, 2 * 46 + 1}), false, "element 300 of 300"},
                  {made(kGap, 1, {0, 254}), false, "a skip behind the last entry"},
                  {made(kGap, 1, {255, 0}), false, "a skip with a sign"},
                  {made(kGap, 1, {0, 0}), false, "two entries, one announced"},
                  {made(kGap, 3, {0, 0}), false, "two entries, three announced"},
                  {made(kGap, 76, std::vector<int>(76, 0)), false, "longer than dense"},
                  {made(kU16, 2, {5, 0, 43, 1, 1}), true, "elements 5 and 299"},
                  {made(kU16, 2, {5, 0, 44, 1, 1}), false, "element 300 of 300"},
                  {made(kU16, 2, {5, 0, 5, 0, 1}), false, "the same element twice"},
                  {made(kU16, 2, {6, 0, 5, 0, 1}), false, "descending"},
                  {made(kU16, 2, {5, 0, 6, 0, 4}), false, "a sign without an entry"},
                  {made(kU16, 2, {5, 0, 6, 0}), false, "no signs"},
                  {made(kU32, 2, {10, 0, 0, 0, 87, 2, 0, 0}), true, "elements 5 and 299"},
                  {made(kU32, 2, {10, 0, 0, 0, 11, 0, 0, 0}), false, "the same element twice"},
                  {made(kU32, 2, {10, 0, 0, 0, 88, 2, 0, 0}), false, "element 300 of 300"},
                  {made(kU32, 1, {255, 255, 255, 255}), false, "element 2^31 - 1"},
                  {made(kU32, 1, {10, 0, 0, 0, 12, 0, 0, 0}), false, "two entries, one announced"}},
                 300);
}

TEST(TernaryWire, every_inconsistency_of_a_dense_payload_is_malformed) {
  // Group 0 of 32 elements: 4 bytes of bits above, 4 bytes of bits below. The last group has 12 elements.
  const auto dense = [](std::initializer_list<std::pair<std::size_t, int>> bytes) {
    std::vector<int> codes(75);
    for (const auto& [at, bits] : bytes) codes[at] = bits;
    return codes;
  };
  const auto marked = [&](const std::vector<int>& codes, std::vector<int> mark) {
    mark.insert(mark.end(), codes.begin(), codes.end());
    return mark;
  };
  const auto entry = dense({{0, 1}}), mark = dense({{0, 1}, {4, 1}});
  const std::vector<int> infinity{0, 0, 0x80, 0x7f}, one{0, 0, 0x80, 0x3f};
  expect_decoded({{made(kDense, 1, entry), true, "element 0"},
                  {made(kDense, 2, entry), false, "one entry, two announced"},
                  {made(kDense, 1, std::vector<int>(74, 1)), false, "too short"},
                  {made(kDense, 1, mark), false, "a mark in a block without"},
                  {made(kDense, 0, mark), false, "a mark in a block without"},
                  {made(kMarked, 0, marked(mark, infinity)), true, "element 0 is infinite"},
                  {made(kMarked, 0, marked(mark, one)), false, "a finite mark"},
                  {made(kMarked, 0, marked(dense({}), infinity)), false, "marked without a mark"}},
                 300);
  // 7 elements are 14 bits, then padding.
  expect_decoded(
      {{made(kDense, 1, {1, 0}), true, "element 0"}, {made(kDense, 1, {1, 0x40}), false, "padding"}}, 7);
}

TEST(TernaryWire, the_opposite_vector_decodes_to_the_opposite) {
  for (const kernels::Codec& codec : kernels::codecs()) {
    if (codec.name != "threshold" && codec.name != "adaptive") continue;
    for (const kernels::Params& params : param_sets(codec)) {
      const Row<double> row{&codec, params, kernels::best_isa()};
      for (const auto& plus :
           {stepped<double>(3000, seed()), make_input<double>(Input::laplace, 3000, seed())}) {
        auto minus = plus;
        for (double& v : minus) v = -v;
        const Coded<double> a = row.run(plus, std::vector<double>(3000), Feedback::carry);
        const Coded<double> b = row.run(minus, std::vector<double>(3000), Feedback::carry);
        for (std::size_t i = 0; i < plus.size(); ++i) {
          ASSERT_EQ(a.decoded[i], -b.decoded[i]) << row.describe(3000, "") << i;
          ASSERT_EQ(a.residual[i], -b.residual[i]) << row.describe(3000, "") << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace mq::test
