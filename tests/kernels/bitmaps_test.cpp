// The loops over bitmaps: every instruction set does what one position at a time does, and writes nothing
// else.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kernels/bitmaps.hpp"
#include "sparse_allreduce/sparse.hpp"
#include "tests/kernels/inputs.hpp"

namespace mq::kernels {
namespace {

constexpr std::size_t kGuard = 3;  // elements behind the room, which stay as they are

struct Bitmap {
  std::vector<std::byte> bytes;
  std::vector<std::uint64_t> positions;
};

// Behind `shift` bytes, so that words are misaligned.
Bitmap make_bitmap(std::size_t words, double density, std::size_t shift, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::bernoulli_distribution one(density);
  Bitmap map{std::vector<std::byte>(shift + words * 8), {}};
  for (std::uint64_t i = 0; i < words * 64; ++i)
    if (one(random)) {
      map.positions.push_back(i);
      map.bytes[shift + i / 8] |= static_cast<std::byte>(1u << (i % 8));
    }
  return map;
}

// f(ops, isa, map, pointer to its words, words) for every instruction set, density, size and alignment.
template <class F>
void for_each_bitmap(Element element, const F& f) {
  for (const Isa isa : kIsas) {
    if (isa > best_isa()) continue;
    for (const double density : {0.0, 0.01, 0.1, 0.5, 0.97, 1.0})
      for (const std::size_t words : {0, 1, 2, 63, 64, 65, 130, 1024})
        for (const std::size_t shift : {0, 3}) {
          const Bitmap map = make_bitmap(words, density, shift, test::seed() + words);
          SCOPED_TRACE(std::string(name(isa)) + " density " + std::to_string(density) + " words " +
                       std::to_string(words));
          f(bitmap_ops(element, isa), map, map.bytes.data() + shift, words);
          if (testing::Test::HasFailure()) return;
        }
  }
}

TEST(Bitmaps, CountListAndMakeAreInverse) {
  for_each_bitmap(
      Element::f32, [](const BitmapOps& ops, const Bitmap& map, const std::byte* at, std::size_t words) {
        const std::size_t n = map.positions.size();
        ASSERT_EQ(ops.count(at, words), n);
        const std::uint64_t base = (std::uint64_t{1} << 40) + 7;
        std::vector<std::uint64_t> indices(n + kGuard, 99), expected = map.positions;
        for (std::uint64_t& index : expected) index += base;
        expected.resize(n + kGuard, 99);
        ops.list(at, words, base, indices.data(), n);
        ASSERT_EQ(indices, expected);
        std::vector<std::byte> made(words * 8 + kGuard, std::byte{0x5a}), whole(at, at + words * 8);
        whole.resize(words * 8 + kGuard, std::byte{0x5a});
        ops.make(indices.data(), n, base, made.data(), words);
        ASSERT_EQ(made, whole);
      });
}

template <class T>
std::vector<T> odd_values(std::size_t n, std::uint64_t seed) {
  const T odd[] = {T{0},
                   -T{0},
                   std::numeric_limits<T>::infinity(),
                   -std::numeric_limits<T>::infinity(),
                   std::numeric_limits<T>::quiet_NaN(),
                   std::numeric_limits<T>::denorm_min(),
                   T{-1.5}};
  std::mt19937_64 random(seed);
  std::vector<T> values = test::make_input<T>(test::Input::normal, n, seed);
  for (T& v : values)
    if (random() % 3 == 0) v = odd[random() % std::size(odd)];
  return values;
}

template <class T>
void expect_folds(Element element) {
  for_each_bitmap(element, [&](const BitmapOps& ops, const Bitmap& map, const std::byte* at,
                               std::size_t words) {
    const std::size_t n = map.positions.size();
    // Exactly n values: a sanitizer sees a read behind them.
    const std::vector<T> values = odd_values<T>(n, test::seed()), old = odd_values<T>(words * 64 + kGuard, 3);
    for (const Fold fold : kFolds) {
      std::vector<T> expected = old, got = old;
      sparse::dispatch(element, fold, [&]<class U, class O>() {
        if constexpr (std::is_same_v<T, U>)
          for (std::size_t i = 0; i < n; ++i)
            expected[map.positions[i]] = O::apply(expected[map.positions[i]], values[i]);
      });
      ops.fold[static_cast<std::size_t>(fold)](got.data(), at, words,
                                               reinterpret_cast<const std::byte*>(values.data()), n);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const bool both_nan = fold == Fold::sum && got[i] != got[i] && expected[i] != expected[i];
        ASSERT_TRUE(both_nan || std::memcmp(&got[i], &expected[i], sizeof(T)) == 0)
            << "position " << i << " fold " << static_cast<int>(fold);
      }
    }
  });
}
TEST(Bitmaps, FoldsAreThoseOfTheOperations) {
  expect_folds<float>(Element::f32);
  expect_folds<double>(Element::f64);
}

template <class T>
void expect_collected(Element element) {
  for_each_bitmap(element,
                  [&](const BitmapOps& ops, const Bitmap& map, const std::byte* at, std::size_t words) {
                    const std::size_t n = map.positions.size();
                    const std::vector<T> from = odd_values<T>(words * 64, 5);
                    std::vector<std::uint64_t> indices(n + kGuard, 99);
                    std::vector<T> values(n + kGuard, T{42});
                    ops.collect(from.data(), at, words, 1000, indices.data(), values.data(), n);
                    for (std::size_t i = 0; i < n; ++i) {
                      ASSERT_EQ(indices[i], 1000 + map.positions[i]);
                      ASSERT_EQ(std::memcmp(&values[i], &from[map.positions[i]], sizeof(T)), 0) << i;
                    }
                    for (std::size_t i = n; i < n + kGuard; ++i)
                      ASSERT_TRUE(indices[i] == 99 && values[i] == T{42});
                  });
}
TEST(Bitmaps, CollectTakesTheOnesAndNothingElse) {
  expect_collected<float>(Element::f32);
  expect_collected<double>(Element::f64);
}

}  // namespace
}  // namespace mq::kernels
