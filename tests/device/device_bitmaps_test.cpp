// Bitmaps on a device, in the emulator, against the scalar ones of the host: the same bits, at any alignment,
// nothing written behind what is asked for.

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "kernels/bitmaps.hpp"
#include "tests/device/device_rows.hpp"
#include "tests/kernels/inputs.hpp"

namespace mq::test {
namespace {

using kernels::Fold;

struct Case {
  std::vector<std::uint64_t> indices;
  std::uint64_t base;
  std::size_t words, shift;
  std::vector<std::byte> bitmap;  // of the host
};

Case make_case(std::size_t words, double density, std::size_t shift, std::uint64_t seed_value) {
  Case c{{}, 1000003 * seed_value, words, shift, std::vector<std::byte>(8 * words)};
  std::mt19937_64 random(seed_value);
  for (std::size_t i = 0; i < 64 * words; ++i)
    if (static_cast<double>(random() % 1000000) < 1e6 * density) c.indices.push_back(c.base + i);
  kernels::bitmap_ops(kernels::Element::f32, kernels::Isa::scalar)
      .make(c.indices.data(), c.indices.size(), c.base, c.bitmap.data(), words);
  return c;
}

template <class T>
void check_visits(const Case& c) {
  constexpr kernels::Element kElement = Row<T>::kElement;
  const kernels::BitmapOps& host = kernels::bitmap_ops(kElement, kernels::Isa::scalar);
  const kernels::DeviceBitmapOps& device = kernels::device_bitmaps(kElement);
  const std::size_t n = c.indices.size(), all = 64 * c.words;
  Guarded<std::byte> bitmap(c.bitmap.size(), c.shift);
  bitmap.set(c.bitmap);
  Scratch scratch(device.scratch_bytes(c.words));
  std::vector<T> x = make_input<T>(Input::normal, all, seed()),
                 values = make_input<T>(Input::laplace, n, seed());
  if (all > 0) plant_nonfinite(x, seed());
  if (n > 0) plant_nonfinite(values, seed() + 1);
  for (std::size_t i = 0; i < n; i += 3) x[c.indices[i] - c.base] = -values[i] * T{0};
  for (const Fold fold : kernels::kFolds) {
    std::vector<T> expected = x;
    host.fold[static_cast<std::size_t>(fold)](expected.data(), c.bitmap.data(), c.words,
                                              reinterpret_cast<const std::byte*>(values.data()), n);
    Guarded<T> into(all * sizeof(T), c.shift), from(n * sizeof(T), c.shift);
    into.set(x);
    from.set(values);
    device.fold(fold, into.data(), bitmap.data(), c.words, from.data(), n, scratch.data(),
                simt::launcher(simt::kSharedLeast));
    EXPECT_TRUE(same_bits(into.get(all), expected)) << static_cast<int>(fold);
    EXPECT_TRUE(into.intact());
  }
  Guarded<std::uint64_t> indices(8 * n, 0);
  device.list(bitmap.data(), c.words, c.base, reinterpret_cast<std::uint64_t*>(indices.data()), n,
              scratch.data(), simt::launcher(simt::kSharedLeast));
  EXPECT_EQ(indices.get(n), c.indices);
  indices.set(std::vector<std::uint64_t>(n));
  std::vector<T> expected(n);
  std::vector<std::uint64_t> listed(n);
  host.collect(x.data(), c.bitmap.data(), c.words, c.base, listed.data(), expected.data(), n);
  Guarded<T> elements(all * sizeof(T), c.shift), collected(n * sizeof(T), c.shift);
  elements.set(x);
  device.collect(elements.data(), bitmap.data(), c.words, c.base,
                 reinterpret_cast<std::uint64_t*>(indices.data()), collected.data(), n, scratch.data(),
                 simt::launcher(simt::kSharedLeast));
  EXPECT_EQ(indices.get(n), c.indices);
  EXPECT_TRUE(same_bits(collected.get(n), expected));
  EXPECT_TRUE(indices.intact() && collected.intact() && bitmap.intact() && scratch.intact());
  EXPECT_STREQ(simt::error(), "");
}

TEST(DeviceBitmaps, SameAsHost) {
  std::uint64_t turn = 0;
  for (const std::size_t words : {0, 1, 2, 63, 1024, 1025, 3000})
    for (const double density : {0.0, 0.001, 0.05, 0.5, 1.0}) {
      ++turn;
      simt::set_order(turn % 2 == 0 ? turn : 0);
      const Case c = make_case(words, density, turn % 3 == 0 ? turn % 8 : 0, turn);
      const kernels::DeviceBitmapOps& device = kernels::device_bitmaps(kernels::Element::f32);
      Guarded<std::byte> bitmap(c.bitmap.size(), c.shift);
      bitmap.set(std::vector<std::byte>(c.bitmap.size(), std::byte{0x5a}));
      device.make(c.indices.data(), c.indices.size(), c.base, bitmap.data(), words, kSmallDevice,
                  simt::launcher(simt::kSharedLeast));
      EXPECT_EQ(bitmap.get(c.bitmap.size()), c.bitmap) << words << " " << density;
      EXPECT_TRUE(bitmap.intact());
      std::vector<std::uint64_t> count{77};  // where a GPU could write it
      device.count(bitmap.data(), words, count.data(), kSmallDevice, simt::launcher(simt::kSharedLeast));
      EXPECT_EQ(count[0], c.indices.size());
      check_visits<float>(c);
      check_visits<double>(c);
      simt::set_order(0);
    }
}

}  // namespace
}  // namespace mq::test
