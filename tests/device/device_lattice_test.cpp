// What is special of the device row of bound, against the scalar host row: blocks of every form and width, so
// that their lengths differ; few and many blocks; wires that encode did not write; the measured magnitude. In
// the emulator.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>

#include "kernels/lattice/lattice.hpp"
#include "tests/device/device_rows.hpp"
#include "tests/kernels/inputs.hpp"

namespace mq::test {
namespace {

using kernels::Feedback;

template <class T>
DeviceRowUnderTest<T> bound_row(double abs) {
  const kernels::Codec& codec = *kernels::find_codec("bound");
  const kernels::Params params = with_values(codec, {{"abs", abs}});
  return {{&codec, params, kernels::Isa::scalar}, kernels::device_ops(codec, Row<T>::kElement, params)};
}

// Every 300 elements something else: a slope, noise, a constant, elements of one sign, rare large ones and,
// if `special`, those that are not finite or beyond every range.
template <class T>
std::vector<T> mixed(std::size_t n, double scale, bool special, std::uint64_t number) {
  std::mt19937_64 random(seed() + number);
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double noise = static_cast<double>(random() % 20001) / 10000 - 1;
    switch ((i / 300 + number) % 5) {
      case 0: x[i] = static_cast<T>(scale * (static_cast<double>(i % 300) + 0.1 * noise)); break;
      case 1: x[i] = static_cast<T>(scale * noise); break;
      case 2: x[i] = static_cast<T>(-scale); break;
      case 3: x[i] = static_cast<T>(-scale * std::abs(noise) * 1e-3); break;
      default: x[i] = random() % 100 == 0 ? static_cast<T>(1e3 * scale * noise) : T{0};
    }
  }
  using Limits = std::numeric_limits<T>;
  const T kSpecial[]{Limits::infinity(), -Limits::infinity(),  -Limits::quiet_NaN(),
                     Limits::max(),      Limits::denorm_min(), -T{0}};
  if (special)
    for (std::size_t i = number % 700; i < n; i += 611) x[i] = kSpecial[random() % 6];
  return x;
}

template <class T>
std::vector<std::byte> check(const DeviceRowUnderTest<T>& row, const std::vector<T>& x, std::uint64_t turn,
                             std::string_view what) {
  const std::size_t n = x.size(), shift = turn % 4 == 3 ? 1 + turn % 7 : 0;
  const Feedback feedback = kFeedbacks[turn % 3];
  simt::set_order(turn % 3 == 2 ? turn : 0);
  std::vector<T> residual = make_input<T>(Input::normal, feedback == Feedback::none ? 0 : n, seed() + turn);
  const std::vector<std::byte> wire = row.encode(x, residual, feedback, shift, what);
  EXPECT_EQ(row.decode(wire, make_input<T>(Input::uniform, n, seed()), shift, what), kernels::Decoded::ok)
      << row.describe(n, what);
  simt::set_order(0);
  return wire;
}

// Mode and width of each block of a valid wire.
template <class T>
void collect_heads(const std::vector<std::byte>& wire, std::size_t n, std::set<int>& heads) {
  using Wire = kernels::LatticeWire<T>;
  std::size_t at = 0;
  for (std::size_t begin = 0; begin < n; begin += Wire::kBlock) {
    const auto head = static_cast<std::uint8_t>(wire.at(at));
    heads.insert(head);
    at += 1 + Wire::Form::of_head(head).bytes(std::min(Wire::kBlock, n - begin));
  }
  EXPECT_EQ(at, wire.size());
}

template <class T>
void check_forms() {
  using Wire = kernels::LatticeWire<T>;
  std::set<int> heads;
  std::uint64_t turn = 0;
  for (const std::size_t n : {1, 31, 255, 256, 257, 500, 4096, 4097, 9000})  // up to 3 thread blocks
    for (int e = 0; e <= Wire::kLimitBits + 2; e += n < 1000 ? 1 : 5)
      for (const bool special : {false, true}) {
        check(bound_row<T>(std::ldexp(1.5, -e)), mixed<T>(n, 1, special, turn), turn, "forms");
        ++turn;
        const DeviceRowUnderTest<T> row = bound_row<T>(std::ldexp(1.5, -e - 1));
        std::vector<T> x = mixed<T>(n, 0.7, special, turn);
        collect_heads<T>(row.host.run(x, {}, Feedback::none).wire, n, heads);
        check(row, x, turn, "forms");
        if (::testing::Test::HasFailure()) return;
      }
  // Nearly every width in both modes, and blocks that go as they are.
  EXPECT_TRUE(heads.contains(Wire::kRaw << 6));
  EXPECT_GT(heads.size(), static_cast<std::size_t>(Wire::kLimitBits) * 3 / 2);
}
TEST(DeviceLattice, EveryForm) {
  check_forms<float>();
  check_forms<double>();
}

// No step, the greatest, and those whose inverse is large.
TEST(DeviceLattice, EveryStep) {
  std::uint64_t turn = 0;
  for (const double abs : {1e-18, 1e-12, 1e-3, 1.0, 1e5, 1e18})
    for (const double scale : {1e-30, 1e-12, 1.0, 1e12, 1e30}) {
      check(bound_row<float>(abs), mixed<float>(700, scale, turn % 2 == 0, turn), turn, "steps");
      check(bound_row<double>(abs), mixed<double>(700, scale, turn % 2 == 0, turn), turn, "steps");
      ++turn;
    }
}

template <class T>
void attack(std::uint64_t number) {
  std::mt19937_64 random(seed() + number);
  const DeviceRowUnderTest<T> row = bound_row<T>(std::ldexp(1.0, -static_cast<int>(number % 20)));
  const std::size_t n =
      number % 3 == 0 ? 9000 : 257 + number;  // of more blocks than a thread block walks through, or not
  const std::vector<T> x = mixed<T>(n, 1, number % 4 == 0, number), base(n, T{1});
  const std::vector<std::byte> wire = row.host.run(x, {}, Feedback::none).wire;
  const auto hostile = [&](const std::vector<std::byte>& bytes) {
    (void)row.decode(bytes, base, 0, "hostile");
  };
  for (int turn = 0; turn < 20; ++turn) {
    std::vector<std::byte> other = wire;
    const std::size_t at =
        random() % (turn % 2 == 0 ? other.size() : std::min<std::size_t>(other.size(), 40));
    if (turn % 3 == 0)
      other[at] = static_cast<std::byte>(random());
    else
      other[at] ^= static_cast<std::byte>(1u << random() % 8);
    if (turn % 7 == 0) other.resize(random() % (wire.size() + 9));
    hostile(other);
  }
}
TEST(DeviceLattice, HostileWires) {
  for (std::uint64_t number = 0; number < 40; ++number) {
    attack<float>(number);
    attack<double>(number);
  }
}

// Every head, and every bit of a short wire with differences, one at a time.
template <class T>
void change_all() {
  const DeviceRowUnderTest<T> row = bound_row<T>(0.01);
  std::vector<T> x(70);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(1e2 + 0.03 * static_cast<double>(i % 9));
  const std::vector<std::byte> wire = row.host.run(x, {}, Feedback::none).wire;
  ASSERT_EQ(static_cast<int>(wire[0]) >> 6, kernels::LatticeWire<T>::kDelta);
  const std::vector<T> base(x.size(), T{1});
  for (std::size_t bit = 0; bit < 8 * wire.size(); ++bit) {
    std::vector<std::byte> other = wire;
    other[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    (void)row.decode(other, base, 0, "a bit");
  }
  for (int head = 0; head < 256; ++head) {
    std::vector<std::byte> other = wire;
    other[0] = static_cast<std::byte>(head);
    const auto form = kernels::LatticeWire<T>::Form::of_head(static_cast<std::uint8_t>(head));
    (void)row.decode(other, base, 0, "a head");
    other.resize(1 + std::min<std::size_t>(form.bytes(x.size()), 8 * x.size()));  // the length that it says
    (void)row.decode(other, base, 0, "a head");
  }
}
TEST(DeviceLattice, EveryBitAndHead) {
  change_all<float>();
  change_all<double>();
}

template <class T>
void check_measure() {
  const kernels::Codec& codec = *kernels::find_codec("bound");
  const kernels::DeviceMeasureOps* const ops = kernels::device_measure(codec, Row<T>::kElement);
  ASSERT_NE(ops, nullptr);
  const kernels::Params params = with_values(codec, {{"rel", 1e-3}});
  for (const Input input : kInputs)
    for (const std::size_t n : {0, 1, 33, 20000}) {
      std::vector<T> x = make_input<T>(input, n, seed());
      if (n == 20000) plant_nonfinite(x, seed());
      Scratch scratch(ops->scratch_bytes(n, params));
      const auto measured = std::make_unique<kernels::Measured>();  // on the heap, which a real GPU sees too
      (*measured)[0] = -1;
      ops->measure(x.data(), n, params, measured.get(), scratch.data(), kSmallDevice,
                   simt::launcher(kSmallDevice.shared_bytes));
      EXPECT_STREQ(simt::error(), "");
      EXPECT_TRUE(scratch.intact());
      EXPECT_EQ(*measured, codec.measure(x.data(), n, Row<T>::kElement, params)) << name(input) << " " << n;
    }
}
TEST(DeviceLattice, MeasuredMagnitude) {
  check_measure<float>();
  check_measure<double>();
}

}  // namespace
}  // namespace mq::test
