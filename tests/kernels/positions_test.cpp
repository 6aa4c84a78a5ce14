// Lists of positions as bytes: every format, its bound, and bytes that no encoder wrote.
#include <gtest/gtest.h>

#include <set>

#include "sparse_allreduce/position_blocks.hpp"
#include "sparse_allreduce/positions.hpp"
#include "tests/sanitized.hpp"
#include "tests/sparse_allreduce/sparse_inputs.hpp"

namespace mq::sparse {
namespace {

using Bytes = std::vector<std::byte>;
using List = std::vector<std::uint64_t>;
using test::Spread;
constexpr std::uint64_t kTop = std::uint64_t{1} << 63;

// What encode_positions writes; fails if it writes beyond the bound.
Bytes encoded(const List& list, std::uint64_t origin = 0) {
  const std::size_t bound = positions_bound(list.size());
  Bytes wire(bound + 64, std::byte{0xA5});
  const std::size_t bytes = encode_positions(list, wire.data(), origin);
  EXPECT_LE(bytes, bound);
  const bool narrow = !list.empty() && list.back() - origin < std::uint64_t{1} << 32;
  EXPECT_LE(bytes, narrow ? narrow_positions_bound(list.size()) : bound);
  for (std::size_t i = bound; i < wire.size(); ++i) EXPECT_EQ(wire[i], std::byte{0xA5});
  wire.resize(bytes);
  wire.shrink_to_fit();
  return wire;
}
// Into memory of exactly this size, so that AddressSanitizer sees what is outside.
bool decodes(const Bytes& wire, std::size_t count, std::uint64_t low, std::uint64_t high, List& list,
             std::uint64_t origin = 0) {
  list = List(count, ~std::uint64_t{0});
  list.shrink_to_fit();
  return decode_positions(wire, low, high, list, origin);
}
std::set<int> formats_of(const Bytes& wire, std::size_t count) {
  std::set<int> formats;
  for (std::size_t at = 0; at < wire.size();) {
    const auto head = blocks::load<blocks::Head>(wire.data() + at, 0);
    const auto format = static_cast<blocks::Format>(head.base_and_format & 0xff);
    formats.insert(static_cast<int>(head.base_and_format & 0xff));
    std::size_t body = 0;
    switch (format) {
      case blocks::Format::wide64: body = 8ull * head.count; break;
      case blocks::Format::wide32: body = 4ull * head.count; break;
      case blocks::Format::table: body = head.extra + 2ull * head.count; break;
      case blocks::Format::u16: body = 2ull * head.count; break;
      case blocks::Format::gaps: body = head.extra; break;
      case blocks::Format::bitmap: body = 8ull * ((head.extra >> 16) + 1); break;
      case blocks::Format::runs: body = 4ull * head.extra; break;
      case blocks::Format::full: break;
    }
    at += sizeof head + body;
    count -= head.count;
  }
  EXPECT_EQ(count, 0u);
  return formats;
}
void expect_round_trip(const List& list, std::uint64_t origin, std::uint64_t high) {
  const Bytes wire = encoded(list, origin);
  List back;
  ASSERT_TRUE(decodes(wire, list.size(), origin, high, back, origin));
  EXPECT_EQ(back, list);
  if (list.empty()) return;
  EXPECT_FALSE(decodes(wire, list.size(), list.front() + 1, high, back, origin));
  EXPECT_FALSE(decodes(wire, list.size(), origin, list.back(), back, origin));
  EXPECT_TRUE(decodes(wire, list.size(), list.front(), list.back() + 1, back, origin));
  EXPECT_FALSE(decodes(wire, list.size() - 1, origin, high, back, origin));
  EXPECT_FALSE(decodes(wire, list.size() + 1, origin, high, back, origin));
}

TEST(Positions, ListsOfEveryDensityAndSpreadComeBack) {
  for (const Spread spread : test::kSpreads)
    for (const std::uint64_t size : {1ull, 2ull, 65535ull, 65536ull, 65537ull, 300000ull})
      for (const double density : {0.0, 1e-5, 1e-4, 1e-3, 1e-2, .1, .5, .97, .999, 1.0}) {
        if (size > 65537 && test::kSanitized) continue;  // takes time
        SCOPED_TRACE(test::name(spread) + " " + std::to_string(size) + " " + std::to_string(density));
        const auto count = static_cast<std::uint64_t>(std::ceil(density * static_cast<double>(size)));
        const List drawn = test::sparse_indices({spread, size, count, 1, 3, 5});
        for (const std::uint64_t origin : {std::uint64_t{0}, std::uint64_t{4711}, kTop - 400000}) {
          if (size > 65537 && origin == 0) continue;
          List list = drawn;
          for (std::uint64_t& index : list) index += origin;
          expect_round_trip(list, origin, origin + size);
        }
      }
}

TEST(Positions, HugeIndexSpacesComeBack) {
  for (const unsigned bits : {20u, 32u, 33u, 40u, 52u, 63u})
    for (const std::uint64_t count : {1u, 2u, 7u, 8u, 9u, 100u, 5000u})
      for (const Spread spread : {Spread::uniform, Spread::power_law, Spread::clustered})
        expect_round_trip(test::sparse_indices({spread, std::uint64_t{1} << bits, count, 0, 1, bits}), 0,
                          kTop);
  expect_round_trip({0}, 0, 1);
  expect_round_trip({kTop - 1}, 0, kTop);
  expect_round_trip({0, kTop - 1}, 0, kTop);
  expect_round_trip({(1ull << 24) - 1, 1ull << 24, (1ull << 24) + 1}, 0, kTop);  // beyond what a float holds
}

TEST(Positions, AnEmptyListTakesNothing) {
  EXPECT_EQ(positions_bound(0), 0u);
  List none;
  EXPECT_TRUE(decodes({}, 0, 0, 0, none));
  EXPECT_FALSE(decodes({}, 1, 0, kTop, none));
  EXPECT_FALSE(decodes(Bytes(16), 0, 0, kTop, none));
}

TEST(Positions, EveryFormatIsChosenWhereItIsCheapest) {
  const auto formats = [](const List& list) { return formats_of(encoded(list), list.size()); };
  const auto uniform = [](double density, std::uint64_t size) {
    return test::sparse_indices(
        {Spread::uniform, size, static_cast<std::uint64_t>(density * static_cast<double>(size)), 0, 1, 3});
  };
  using F = blocks::Format;
  const auto only = [](F format) { return std::set<int>{static_cast<int>(format)}; };
  constexpr std::uint64_t size = 1 << 18;
  EXPECT_EQ(formats(uniform(1, size)), only(F::full));
  EXPECT_EQ(formats(uniform(.3, size)), only(F::bitmap));
  EXPECT_EQ(formats(uniform(.1, size)), only(F::bitmap));
  EXPECT_EQ(formats(uniform(.02, size)), only(F::gaps));
  EXPECT_EQ(formats(uniform(.003, size)), only(F::u16));
  EXPECT_EQ(formats(uniform(1e-4, size)), only(F::table));
  EXPECT_EQ(formats(uniform(1e-6, 1 << 30)), only(F::wide32));
  EXPECT_EQ(formats(uniform(1e-16, kTop)), only(F::wide64));
  List runs;
  for (std::uint64_t i = 0; i < 65536; ++i)
    if (i % 2000 < 40) runs.push_back(i);
  EXPECT_EQ(formats(runs), only(F::runs));
}

TEST(Positions, MixedListsStayWithinTheBound) {
  // Stretches of every kind one after the other, in every order of pairs.
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    List list;
    std::uint64_t at = random() % 1000;
    for (int stretch = 0; stretch < 12 && at < kTop / 2; ++stretch) {
      const std::uint64_t kind = random() % 6, n = 1 + random() % (kind < 3 ? 3000 : 24);
      for (std::uint64_t i = 0; i < n; ++i) {
        list.push_back(at);
        constexpr std::uint64_t steps[] = {1, 12, 300, 20000, 1ull << 20, 1ull << 36};
        at += 1 + (kind == 0 ? 0 : random() % (2 * steps[kind]));
      }
    }
    expect_round_trip(list, list.front(), kTop);
  }
}

TEST(Positions, TheBoundHoldsWhereAHeaderIsDearest) {
  for (std::uint64_t thin = 1; thin < 24; ++thin)
    for (std::uint64_t fat : {16ull, 19ull, 20ull, 21ull, 40ull})
      for (std::uint64_t apart : {1ull << 17, 1ull << 33}) {
        List list;  // fat and thin segments by turns
        for (std::uint64_t s = 0; s < 40; ++s)
          for (std::uint64_t i = 0; i < (s % 2 ? fat : thin); ++i) list.push_back(s * apart + i * 3001);
        expect_round_trip(list, 0, kTop);
      }
}

TEST(Positions, TruncatedAndChangedBytesAreRefusedOrMakeAnotherValidList) {
  std::mt19937_64 random(11);
  for (const double density : {1e-5, 1e-4, 1e-3, .02, .2, .98, 1.0}) {
    constexpr std::uint64_t size = 1 << 17;
    const auto count = static_cast<std::uint64_t>(std::ceil(density * size));
    const List list = test::sparse_indices({Spread::uniform, size, count, 0, 1, 9});
    const Bytes wire = encoded(list);
    List back;
    for (int trial = 0; trial < 200; ++trial) {
      Bytes cut(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(random() % wire.size()));
      EXPECT_FALSE(decodes(cut, list.size(), 0, size, back));
      Bytes bad = wire;
      for (std::uint64_t flips = 1 + random() % 3; flips > 0; --flips)
        bad[trial % 2 ? random() % bad.size() : random() % std::min<std::size_t>(bad.size(), 40)] ^=
            std::byte(1u << random() % 8);
      if (!decodes(bad, list.size(), 0, size, back)) continue;
      for (std::size_t i = 0; i < back.size(); ++i) {
        ASSERT_LT(back[i], size);
        ASSERT_TRUE(i == 0 || back[i - 1] < back[i]);
      }
    }
  }
}

TEST(Positions, RandomBytesNeverReachOutside) {
  std::mt19937_64 random(13);
  List back;
  for (int trial = 0; trial < 20000; ++trial) {
    Bytes wire(random() % 80);
    for (std::byte& b : wire) b = std::byte(random());
    if (wire.size() >= 16 && trial % 2) {  // a head that may be one
      const blocks::Head head{(random() % 3) << 8 | random() % 9, static_cast<std::uint32_t>(random() % 20),
                              static_cast<std::uint32_t>(trial % 3 ? random() % 40 : random())};
      std::memcpy(wire.data(), &head, sizeof head);
    }
    const bool valid = decodes(wire, random() % 20, 0, 1 << 20, back, random() % 2 * 100);
    EXPECT_TRUE(!valid || std::is_sorted(back.begin(), back.end()));
  }
}

TEST(Positions, LyingCountsAreRefused) {
  List back;
  const auto refused = [&](blocks::Format format, std::uint32_t count, std::uint32_t extra, std::size_t body,
                           std::byte fill) {
    Bytes wire(16 + body, fill);
    blocks::put_head(wire.data(), format, 0, count, extra);
    return !decodes(wire, count, 0, kTop, back);
  };
  using F = blocks::Format;
  EXPECT_TRUE(refused(F::gaps, 3, 2, 2, std::byte{0}));
  EXPECT_TRUE(refused(F::gaps, 1, 2, 2, std::byte{0}));
  EXPECT_TRUE(refused(F::gaps, 1, 2, 2, std::byte{255}));
  EXPECT_TRUE(refused(F::bitmap, 63, 0, 8, std::byte{255}));
  EXPECT_TRUE(refused(F::bitmap, 65, 0, 8, std::byte{255}));
  EXPECT_FALSE(refused(F::bitmap, 64, 0, 8, std::byte{255}));
  EXPECT_TRUE(refused(F::bitmap, 64, 1024, 8, std::byte{255}));  // beyond the segment
  EXPECT_TRUE(refused(F::bitmap, 64, 1 | 1023u << 16, 8, std::byte{255}));
  EXPECT_TRUE(refused(F::u16, 2, 0, 4, std::byte{7}));  // twice the same
  EXPECT_TRUE(refused(F::u16, 1, 1, 2, std::byte{7}));
  EXPECT_TRUE(refused(F::runs, 65537, 2, 8, std::byte{0}));
  EXPECT_TRUE(refused(F::runs, 2, 2, 8, std::byte{0}));  // two runs of one at one place
  EXPECT_TRUE(refused(F::table, 3, 2, 8, std::byte{2}));
  EXPECT_TRUE(refused(F::full, 4, 65536, 0, std::byte{0}));
  EXPECT_FALSE(refused(F::full, 4, 65535, 0, std::byte{0}));
  EXPECT_TRUE(refused(F::wide64, 1, 0, 8, std::byte{255}));  // beyond 2^63
}

}  // namespace
}  // namespace mq::sparse
