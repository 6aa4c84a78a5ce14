// The wire of topk: every format decodes to the same values, the smallest is taken, none exceeds the bound,
// and no wire reads or writes outside.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "tests/kernels/ternary.hpp"

namespace mq::test {
namespace {

using kernels::Decoded;
using kernels::Feedback;

enum Format { kBest, kGaps, kPositions, kBitmap, kFull, kFlood };

struct Head {
  std::uint32_t format_count, payload;
};
Head head_of(const std::vector<std::byte>& wire) {
  Head head;
  std::memcpy(&head, wire.data(), sizeof head);
  return head;
}
Format format_of(const std::vector<std::byte>& wire) {
  return static_cast<Format>(head_of(wire).format_count >> 24);
}

// A block of n whose elements are not 0 with a probability of `density`; some of these are not finite.
template <class T>
std::vector<T> sprinkled(std::size_t n, double density, double nonfinite) {
  std::mt19937_64 random(seed());
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<T> x = make_input<T>(Input::normal, n, seed());
  for (T& v : x) {
    if (uniform(random) >= density) v = 0;
    if (uniform(random) < nonfinite) v = std::numeric_limits<T>::quiet_NaN();
  }
  return x;
}

// The payload a format needs for these entries, as the comment over the codec says.
template <class T>
std::size_t bytes_of(Format format, const std::vector<T>& decoded) {
  const std::size_t n = decoded.size(), count = entries_of(decoded), values = count * sizeof(T);
  std::size_t gaps = 0, last = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (decoded[i] == 0) continue;
    gaps += 1 + (i - last) / 255;
    last = i + 1;
  }
  switch (format) {
    case kGaps: return gaps + values;
    case kPositions: return 2 * count + values;
    case kBitmap: return (n + 7) / 8 + values;
    default: return n * sizeof(T);
  }
}

TEST(TopKWire, the_smallest_format_is_taken_and_all_decode_to_the_same) {
  std::set<Format> chosen;
  for (const double k : {0.001, 0.01, 0.2, 0.5, 1.0})
    for (const double density : {0.0, 0.002, 0.05, 0.24, 0.26, 0.9, 1.0})
      for_each_isa("topk", {{"k", k}, {"block", 8192}}, [&](auto row) {
        using T = typename std::decay_t<decltype(row)>::Type;
        for (const std::size_t n : {1, 31, 1000, 8192}) {
          const auto x = sprinkled<T>(n, density, 0);
          const Coded<T> best = row.run(x, std::vector<T>(n), Feedback::carry);
          const Format format = format_of(best.wire);
          chosen.insert(format);
          const std::string where = row.describe(n, "") + std::to_string(density);
          for (const Format other : {kGaps, kPositions, kBitmap, kFull})
            ASSERT_LE(best.wire.size() - 8, bytes_of(other, best.decoded)) << where << other;
          ASSERT_EQ(best.wire.size() - 8, bytes_of(format, best.decoded)) << where;
          for (const Format asked : {kGaps, kPositions, kBitmap}) {
            auto forced = row;
            forced.params.value[position(*row.codec, "format")] = asked;
            const Coded<T> got = forced.run(x, std::vector<T>(n), Feedback::carry);
            ASSERT_TRUE(same_bits(best.decoded, got.decoded)) << where << asked;
            ASSERT_TRUE(same_bits(best.residual, got.residual)) << where << asked;
            if (entries_of(got.decoded) <= n / 4 && bytes_of(asked, got.decoded) <= row.bound(n) - 8)
              ASSERT_EQ(format_of(got.wire), asked) << where;
            else
              ASSERT_LE(got.wire.size(), row.bound(n)) << where;
          }
        }
      });
  EXPECT_EQ(chosen, (std::set<Format>{kGaps, kPositions, kBitmap, kFull}))
      << "each is the best for something";
}

TEST(TopKWire, bytes_an_entry_are_those_of_the_theory) {
  const auto x = make_input<float>(Input::normal, 1 << 20, seed());
  const auto bytes = [&](NamedValues values) {
    const auto got = fastest("topk", values).run(x, {}, Feedback::none);
    return static_cast<double>(got.wire.size() - 16 * 8) / static_cast<double>(entries_of(got.decoded));
  };
  // A value, a gap byte, and a skip where 255 in a row are not sent.
  for (const double k : {0.005, 0.01, 0.05})
    EXPECT_NEAR(bytes({{"k", k}}), 4 + 1 / (1 - std::pow(1 - k, 255)), 0.02) << k;
  EXPECT_NEAR(bytes({{"k", 0.001}}), 6, 1e-9);
  EXPECT_NEAR(bytes({{"k", 0.01}, {"format", kPositions}}), 6, 1e-9);
}

TEST(TopKWire, the_bound_is_the_block_or_what_is_selected_with_two_bitmaps) {
  for (const double select : {0.0, 1.0, 2.0})
    for (const double k : {1e-5, 0.01, 0.4, 1.0})
      for_each_isa("topk", {{"k", k}, {"block", 256}, {"select", select}}, [&](const auto& row) {
        using T = typename std::decay_t<decltype(row)>::Type;
        for (const std::size_t n : {0, 1, 2, 3, 7, 31, 256, 257, 2000}) {
          std::size_t bound = 0;
          for (std::size_t left = n; left > 0; left -= std::min(left, row.block())) {
            const std::size_t m = std::min(left, row.block());
            const auto kept = static_cast<std::size_t>(std::ceil(k * static_cast<double>(m) * (1 - 0x1p-50)));
            const std::size_t most = std::min(m, select == 0 ? kept : 2 * kept);
            bound += 8 + std::min(m * sizeof(T), sizeof(T) + 2 * ((m + 7) / 8) + most * sizeof(T));
          }
          ASSERT_EQ(row.bound(n), bound) << row.describe(n, "");
          for (const double density : {0.01, 0.3, 1.0})
            for (const double nonfinite : {0.0, 0.02, 0.2, 0.5, 1.0}) {
              const auto x = sprinkled<T>(n, density, nonfinite);
              ASSERT_LE(row.run(x, {}, Feedback::none).wire.size(), bound) << row.describe(n, "");
            }
        }
      });
}

// Small wires of every format.
template <class T>
std::vector<std::vector<std::byte>> small_wires(const Row<T>& row, std::size_t n) {
  std::vector<T> x(n);
  std::vector<std::vector<std::byte>> wires{row.run(x, {}, Feedback::none).wire};
  x[0] = -2, x[1] = 3, x[n / 2] = 2, x[n - 1] = -4;
  wires.push_back(row.run(x, {}, Feedback::none).wire);
  x[5] = std::numeric_limits<T>::infinity();
  wires.push_back(row.run(x, {}, Feedback::none).wire);
  wires.push_back(row.run(sprinkled<T>(n, 1, 0), {}, Feedback::none).wire);
  wires.push_back(row.run(sprinkled<T>(n, 1, 0.4), {}, Feedback::none).wire);
  return wires;
}

TEST(TopKWire, every_bit_flip_and_truncation_is_rejected_or_decoded_inside_the_bounds) {
  std::set<Format> seen;
  for (const double k : {0.02, 0.4, 1.0})
    for (const double format : {kBest, kPositions, kBitmap})
      for_each_isa("topk", {{"k", k}, {"format", format}, {"block", 128}}, [&](const auto& row) {
        for (const std::size_t n : {37, 128, 150})
          for (const auto& good : small_wires(row, n)) {
            seen.insert(format_of(good));
            for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
              auto bad = good;
              bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
              const Decoded decoded = row.decode_guarded(bad, n);
              // Counts and lengths are checked against the payload.
              if (bit < 24 || (bit >= 32 && bit < 64)) {
                ASSERT_EQ(decoded, Decoded::malformed) << row.describe(n, "bit ") << bit;
              }
            }
            for (std::size_t size = 0; size < good.size(); ++size)
              ASSERT_EQ(
                  row.decode_guarded({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}, n),
                  Decoded::malformed);
          }
      });
  EXPECT_EQ(seen.size(), 5u) << "every format";
}

TEST(TopKWire, random_bytes_behind_a_sound_header_stay_inside_the_bounds) {
  std::mt19937_64 random(seed());
  for (const double block : {64.0, 65536.0})
    for (const double k : {0.01, 0.5})
      for_each_isa("topk", {{"block", block}, {"k", k}}, [&](const auto& row) {
        using T = typename std::decay_t<decltype(row)>::Type;
        for (int trial = 0; trial < 300; ++trial) {
          const std::size_t n = 1 + random() % (block == 64 ? 64 : 3000);
          const std::size_t payload = random() % (n * sizeof(T) + 9);
          std::vector<std::byte> wire(8 + payload);
          const Head head{static_cast<std::uint32_t>((random() % 7) << 24 | random() % (n + 2)),
                          static_cast<std::uint32_t>(payload)};
          std::memcpy(wire.data(), &head, sizeof head);
          for (std::size_t i = sizeof head; i < wire.size(); ++i) wire[i] = static_cast<std::byte>(random());
          (void)row.decode_guarded(wire, n);  // canaries and sanitizers judge
        }
      });
}

// A wire made by hand: bytes of positions or bitmaps, then values.
std::vector<std::byte> made(std::uint32_t format, std::uint32_t count, const std::vector<int>& where,
                            const std::vector<float>& values) {
  const Head head{format << 24 | count, static_cast<std::uint32_t>(where.size() + 4 * values.size())};
  std::vector<std::byte> wire(sizeof head);
  std::memcpy(wire.data(), &head, sizeof head);
  for (const int b : where) wire.push_back(static_cast<std::byte>(b));
  for (const float value : values) {
    std::byte bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    wire.insert(wire.end(), bytes, bytes + sizeof value);
  }
  return wire;
}

struct Case {
  std::vector<std::byte> wire;
  bool good;
  const char* what;
};

void expect_decoded(std::initializer_list<Case> cases, std::size_t n, double k) {
  for (const kernels::Isa isa : kernels::kIsas) {
    if (isa > kernels::best_isa()) continue;
    Row<float> row = fastest("topk", {{"k", k}});
    row.isa = isa;
    for (const Case& c : cases)
      EXPECT_EQ(row.decode_guarded(c.wire, n), c.good ? Decoded::ok : Decoded::malformed) << c.what;
  }
}

TEST(TopKWire, every_inconsistency_of_a_list_is_malformed) {
  expect_decoded({{made(0, 0, {}, {}), false, "format 0"},
                  {made(6, 0, {}, {}), false, "format 6"},
                  {made(255, 0, {}, {}), false, "format 255"},
                  {made(kGaps, 0, {}, {}), true, "nothing sent"},
                  {made(kGaps, 2, {0, 3}, {1, 2}), true, "elements 0 and 4"},
                  {made(kGaps, 1, {255, 44}, {1}), true, "element 299"},
                  {made(kGaps, 1, {255, 45}, {1}), false, "element 300 of 300"},
                  {made(kGaps, 1, {0, 255}, {1}), false, "a skip behind the last entry"},
                  {made(kGaps, 1, {0, 0}, {1}), false, "two entries, one announced"},
                  {made(kGaps, 2, {0}, {1, 2}), false, "one entry, two announced"},
                  {made(kGaps, 2, {0, 0}, {1}), false, "a value is missing"},
                  {made(kGaps, 1, {0}, {0}), false, "a value of 0"},
                  {made(kPositions, 2, {5, 0, 43, 1}, {1, 2}), true, "elements 5 and 299"},
                  {made(kPositions, 2, {5, 0, 44, 1}, {1, 2}), false, "element 300 of 300"},
                  {made(kPositions, 2, {5, 0, 5, 0}, {1, 2}), false, "the same element twice"},
                  {made(kPositions, 2, {6, 0, 5, 0}, {1, 2}), false, "descending"},
                  {made(kPositions, 2, {5, 0, 6}, {1, 2}), false, "half a position"},
                  {made(kPositions, 1, {5, 0, 6, 0}, {1}), false, "two entries, one announced"}},
                 300, 0.5);
}

TEST(TopKWire, every_inconsistency_of_a_bitmap_is_malformed) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto marked = [](float mark, std::vector<int> maps, std::vector<float> values) {
    std::vector<std::byte> wire = made(kFlood, static_cast<std::uint32_t>(values.size()), maps, values);
    const std::vector<std::byte> value = made(0, 0, {}, {mark});
    wire.insert(wire.begin() + 8, value.begin() + 8, value.end());
    const auto bytes = static_cast<std::uint32_t>(wire.size() - 8);
    std::memcpy(wire.data() + 4, &bytes, sizeof bytes);
    return wire;
  };
  std::vector<float> all(12, 0.0F), sent(12, 0.0F);
  sent[3] = inf, sent[4] = -1;
  expect_decoded({{made(kBitmap, 2, {9, 0}, {1, 2}), true, "elements 0 and 3"},
                  {made(kBitmap, 1, {9, 0}, {1}), false, "two entries, one announced"},
                  {made(kBitmap, 2, {9, 0}, {1}), false, "a value is missing"},
                  {made(kBitmap, 2, {9, 0}, {1, 2, 3}), false, "a value too many"},
                  {made(kBitmap, 2, {9, 0}, {1, 0}), false, "a value of 0"},
                  {made(kBitmap, 2, {1, 16}, {1, 2}), false, "an element behind the end"},
                  {made(kFull, 2, {}, sent), true, "elements 3 and 4"},
                  {made(kFull, 3, {}, sent), false, "two entries, three announced"},
                  {made(kFull, 0, {}, all), true, "nothing"},
                  {made(kFull, 0, {}, {0, 0}), false, "too short"},
                  {marked(inf, {1, 0, 2, 0}, {5}), true, "element 0 is infinite, 1 is 5"},
                  {marked(1, {1, 0, 2, 0}, {5}), false, "a finite mark"},
                  {marked(inf, {0, 0, 2, 0}, {5}), false, "marked without a mark"},
                  {marked(inf, {1, 0, 1, 0}, {5}), false, "one element twice"},
                  {marked(inf, {1, 16, 2, 0}, {5}), false, "a mark behind the end"}},
                 12, 1);
}

}  // namespace
}  // namespace mq::test
