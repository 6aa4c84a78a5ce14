// What is special of the device rows of threshold, adaptive, topk and zerorun, against the scalar host rows:
// ties, every density around the switches of the wire's formats, elements that are not finite, each way to
// search with elements in shared memory or not, wires that encode did not write, pieces, and the measured
// parameter. In the emulator.

#include <gtest/gtest.h>

#include <bit>
#include <memory>

#include "tests/device/device_rows.hpp"
#include "tests/kernels/ternary.hpp"

namespace mq::test {
namespace {

using kernels::DeviceShape;
using kernels::Feedback;

// Elements of a block in shared memory, and not.
constexpr DeviceShape kShapes[]{{3, 227 << 10}, {3, 10 << 10}};

template <class T>
DeviceRowUnderTest<T> device_row(std::string_view name, NamedValues values, DeviceShape shape) {
  const kernels::Codec& codec = *kernels::find_codec(name);
  return {{&codec, with_values(codec, values), kernels::Isa::scalar},
          kernels::device_ops(codec, Row<T>::kElement, with_values(codec, values)),
          shape};
}

// Encodes and decodes on both; `turn` varies what does not depend on the values.
template <class T>
std::vector<std::byte> check(const DeviceRowUnderTest<T>& row, const std::vector<T>& x, std::uint64_t turn,
                             std::string_view what) {
  const std::size_t shift = turn % 4 == 3 ? 1 + turn % 7 : 0, n = x.size();
  simt::set_order(turn % 3 == 2 ? turn : 0);
  const Feedback feedback = kFeedbacks[turn % 3];
  std::vector<T> residual = make_input<T>(Input::normal, feedback == Feedback::none ? 0 : n, seed() + turn);
  for (T& r : residual) r /= turn % 2 == 0 ? T{16} : std::numeric_limits<T>::max();  // the latter: ties stay
  const std::vector<std::byte> wire = row.encode(x, residual, feedback, shift, what);
  EXPECT_EQ(row.decode(wire, make_input<T>(Input::uniform, n, seed()), shift, what), kernels::Decoded::ok)
      << row.describe(n, what);
  simt::set_order(0);
  return wire;
}

// For both types, with and without elements in shared memory.
template <class F>
void for_each_way(std::string_view name, NamedValues values, const F& property) {
  for (const DeviceShape& shape : kShapes) {
    property(device_row<float>(name, values, shape));
    property(device_row<double>(name, values, shape));
  }
}
template <class Row>
using TypeOf = typename decltype(std::declval<std::decay_t<Row>>().host)::Type;

// Vectors on which bounds are hard: many ties, one value, none, jumping scales, a few large ones, few values.
template <class T>
std::vector<std::vector<T>> hard_inputs(std::size_t n) {
  std::vector<std::vector<T>> all{stepped<T>(n, seed()), jumping<T>(n, 100, seed()), std::vector<T>(n, T{-2}),
                                  std::vector<T>(n)};
  all.push_back(make_input<T>(Input::signs, n, seed()));
  all.push_back(make_input<T>(Input::subnormal, n, seed()));
  all.push_back(make_input<T>(Input::huge, n, seed()));
  std::vector<T> sparse(n);
  for (std::size_t i = 7; i < n; i += 401) sparse[i] = i % 2 == 0 ? T{1} : T{-1};
  all.push_back(sparse);
  std::vector<T> one_sided = make_input<T>(Input::one_sided, n, seed());
  one_sided[n / 2] = T{-1000};
  all.push_back(one_sided);
  return all;
}

TEST(DeviceSparse, EveryWayToSearch) {
  std::uint64_t turn = 0;
  for (const double search : {0, 1, 2})
    for (const double separate : {0, 1})
      for (const double pi : {1.0, 1.5, 4.0, 30.0, 60000.0})
        for_each_way("adaptive", {{"pi", pi}, {"search", search}, {"signs", separate}, {"block", 1024}},
                     [&](const auto& row) {
                       using T = TypeOf<decltype(row)>;
                       for (const auto& x : hard_inputs<T>(2500)) {
                         if (turn++ % 3 != 0) continue;
                         check(row, x, turn / 3, "hard");
                         if (::testing::Test::HasFailure()) return;
                       }
                     });
}

TEST(DeviceSparse, EveryWayToSelect) {
  std::uint64_t turn = 0;
  for (const double select : {0, 1, 2})
    for (const double k : {1e-5, 0.01, 0.07, 0.3, 1.0})
      for_each_way("topk", {{"k", k}, {"select", select}, {"format", turn % 4}, {"block", 1024}},
                   [&](const auto& row) {
                     using T = TypeOf<decltype(row)>;
                     for (const auto& x : hard_inputs<T>(2500)) {
                       if (turn++ % 2 != 0) continue;
                       check(row, x, turn / 2, "hard");
                       if (::testing::Test::HasFailure()) return;
                     }
                   });
}

// So many entries in a block of n, evenly or in a heap, that formats change places.
template <class T>
std::vector<T> with_entries(std::size_t n, std::size_t count, bool even) {
  std::vector<T> x(n, T{0.25});
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = even ? i * n / count : n - 1 - i;
    x[at] = i % 3 == 0 ? T{-5} : T{3};
  }
  return x;
}

TEST(DeviceSparse, EveryDensityAroundTheFormats) {
  std::uint64_t turn = 0;
  for (const std::size_t n : {std::size_t{256}, std::size_t{250}})
    for (const std::size_t count :
         {0, 1, 2, 8, 9, 15, 16, 17, 28, 29, 31, 56, 60, 61, 62, 63, 64, 65, 66, 100, 249, 250})
      for (const double format : {0, 1, 2, 3, 4})
        for (const bool even : {true, false}) {
          const auto both = [&](const auto& row) {
            check(row, with_entries<TypeOf<decltype(row)>>(n, count, even), turn, "density");
          };
          ++turn;
          const DeviceShape shape = kShapes[turn % 2];
          if (turn % 2 == 0)
            both(device_row<float>("threshold", {{"block", 256}, {"format", format}}, shape));
          else
            both(device_row<double>("threshold", {{"block", 256}, {"format", format}}, shape));
          const double k = std::max(1e-5, static_cast<double>(count) / static_cast<double>(n));
          both(device_row<float>("topk", {{"block", 256}, {"format", std::min(format, 3.0)}, {"k", k}},
                                 shape));
          both(device_row<double>("adaptive",
                                  {{"block", 256}, {"format", format}, {"pi", std::clamp(1 / k, 1.0, 256.0)}},
                                  shape));
          if (::testing::Test::HasFailure()) return;
        }
}

TEST(DeviceSparse, ZerosOfEveryDensity) {
  std::uint64_t turn = 0;
  for (const std::size_t n : {31, 256, 257, 16384, 16385, 20000})
    for (const double share : {0.0, 0.001, 0.1, 0.9, 0.96, 0.97, 0.98, 0.99, 1.0})
      for_each_way("zerorun", {}, [&](const auto& row) {
        using T = TypeOf<decltype(row)>;
        if (++turn % 3 != 0 && n > 1000) return;
        std::vector<T> x = make_input<T>(Input::normal, n, seed());
        std::mt19937_64 random(seed() + turn);
        for (T& v : x)
          if (static_cast<double>(random() % 100000) >= 1e5 * share) v = T{0};
        if (turn % 5 == 0) x[n / 3] = std::numeric_limits<T>::quiet_NaN();
        if (turn % 7 == 0) x[n - 1] = -T{0};
        check(row, x, turn, "zeros");
      });
}

TEST(DeviceSparse, OneAndManyThatAreNotFinite) {
  std::uint64_t turn = 0;
  for (const std::string_view name : {"threshold", "adaptive", "topk"})
    for_each_way(name, {{"block", 512}}, [&](const auto& row) {
      using T = TypeOf<decltype(row)>;
      constexpr T kInf = std::numeric_limits<T>::infinity();
      for (const T special : {kInf, -kInf, std::numeric_limits<T>::quiet_NaN()})
        for (const std::size_t count : {1, 5, 200, 512}) {
          std::vector<T> x = make_input<T>(Input::laplace, 1100, seed());
          for (std::size_t i = 0; i < count; ++i) x[i * 512 / count] = special;
          check(row, x, ++turn, "alike");
          x[3] = -special;
          check(row, x, ++turn, "mixed");
        }
    });
}

// Long blocks, which a thread has several words of.
TEST(DeviceSparse, LongBlocks) {
  std::uint64_t turn = 0;
  for (const std::string_view name : {"threshold", "adaptive", "topk"})
    for_each_way(name, {{"block", 65536}}, [&](const auto& row) {
      using T = TypeOf<decltype(row)>;
      std::vector<T> x = make_input<T>(Input::laplace, 70001, seed());
      check(row, x, ++turn, "long");
    });
  const auto dense = device_row<float>("adaptive", {{"block", 65536}, {"pi", 1.01}}, kShapes[0]);
  check(dense, make_input<float>(Input::normal, 65536, seed()), 1, "long and dense");
  const auto full = device_row<double>("topk", {{"block", 65536}, {"k", 0.9}}, kShapes[1]);
  check(full, make_input<double>(Input::normal, 65536, seed()), 1, "long and full");
}

// Blocks that are too long for shared memory, which has room for the candidates' values, or not.
TEST(DeviceSparse, LongBlocksOnWhichBoundsAreHard) {
  std::uint64_t turn = 0;
  const auto both = [&](auto type, double search) {
    using T = decltype(type);
    const auto topk = device_row<T>("topk", {{"block", 65536}, {"select", search}}, kShapes[0]);
    const auto adaptive = device_row<T>(
        "adaptive", {{"block", 65536}, {"search", search}, {"signs", turn % 2}, {"pi", 20}}, kShapes[0]);
    for (std::vector<T>& x : hard_inputs<T>(65600)) {
      if (++turn % 4 == 0) plant_nonfinite(x, seed());
      if (turn % 2 == 0) check(topk, x, turn / 2, "long and hard");
      if (turn % 3 == 0) check(adaptive, x, turn / 3, "long and hard");
    }
  };
  for (const double search : {0, 1, 2}) search == 1 ? both(double{}, search) : both(float{}, search);
}

// A block's wire does not depend on the blocks around it, nor on which is encoded first.
TEST(DeviceSparse, PiecesAndOrders) {
  for (const std::string_view name : {"threshold", "adaptive", "topk"}) {
    const auto row = device_row<float>(name, {{"block", 64}}, kShapes[0]);
    const std::vector<float> x = make_input<float>(Input::laplace, 64 * 130 + 9, seed());
    const std::vector<std::byte> whole = row.encode(x, {}, Feedback::none, 0, "whole");
    std::vector<std::byte> pieces;
    for (std::size_t begin = 0; begin < x.size(); begin += 64 * 50) {
      const auto end = static_cast<std::ptrdiff_t>(std::min(x.size(), begin + 64 * 50));
      const auto piece = row.encode({x.begin() + static_cast<std::ptrdiff_t>(begin), x.begin() + end}, {},
                                    Feedback::none, 0, "piece");
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(whole, pieces) << name;
    for (const std::uint64_t order : {1, 2, 3, 6}) {
      simt::set_order(order);
      EXPECT_EQ(row.encode(x, {}, Feedback::none, 0, "shuffled"), whole) << name;
    }
    simt::set_order(0);
  }
}

// Wires that are walked in segments, from a guess where the first block of each begins.
TEST(DeviceSparse, LongWires) {
  std::uint64_t turn = 0;
  const auto attack = [&](const auto& row, const auto& x, std::string_view what) {
    using T = TypeOf<decltype(row)>;
    std::mt19937_64 random(seed() + turn);
    const std::vector<T> base(x.size(), T{1});
    const std::vector<std::byte> wire = check(row, x, ++turn, what);
    for (int i = 0; i < 4; ++i) {
      std::vector<std::byte> other = wire;
      other[random() % other.size()] ^= static_cast<std::byte>(1u << random() % 8);
      if (i % 4 == 3) other.resize(random() % (wire.size() + 9));
      (void)row.decode(other, base, turn % 3, "a bit of a long wire");
    }
  };
  for (const std::size_t n : {64 * 64, 64 * 150 + 9}) {
    for (const std::string_view name : {"threshold", "adaptive", "topk"})
      for_each_way(name, {{"block", 64}}, [&](const auto& row) {
        attack(row, make_input<TypeOf<decltype(row)>>(Input::laplace, n, seed()), "usual");
      });
    // Elements that look like headers: in format gap, of blocks with a payload of 8 bytes.
    std::vector<float> headers(n, std::bit_cast<float>(0x01000000u));
    for (std::size_t i = 1; i < n; i += 2) headers[i] = std::bit_cast<float>(8u);
    attack(device_row<float>("topk", {{"block", 64}, {"k", 1}}, kShapes[0]), headers, "headers");
  }
  // The same for zerorun: each element says that a whole block follows.
  const std::vector<float> headers(16384 * 33 + 100, std::bit_cast<float>(16384u));
  check(device_row<float>("zerorun", {}, kShapes[0]), headers, ++turn, "headers");
}

// Valid wires of every format, with bits, bytes, lengths and headers changed.
TEST(DeviceSparse, HostileWires) {
  std::mt19937_64 random(seed());
  const auto attack = [&](const auto& row, std::size_t entries) {
    using T = TypeOf<decltype(row)>;
    const std::size_t n =
        random() % 4 == 0 ? 8500 : 700;  // of more blocks than a thread block walks through, or not
    std::vector<T> x(n);
    for (std::size_t i = 0; i < entries; ++i) x[random() % n] = static_cast<T>(i % 2 == 0 ? 2 : -3);
    if (random() % 3 == 0) x[random() % n] = std::numeric_limits<T>::infinity();
    const std::vector<std::byte> wire = row.host.run(x, {}, Feedback::none).wire;
    const std::vector<T> base(n, T{1});
    for (int turn = 0; turn < 25; ++turn) {
      std::vector<std::byte> other = wire;
      for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
        const std::size_t at =
            random() % (turn % 2 == 0 ? other.size() : std::min<std::size_t>(other.size(), 32));
        if (turn % 3 == 0)
          other[at] = static_cast<std::byte>(random());
        else
          other[at] ^= static_cast<std::byte>(1u << random() % 8);
      }
      if (turn % 7 == 0) other.resize(random() % (wire.size() + 9));
      (void)row.decode(other, base, 0, "hostile");
    }
  };
  for (const std::size_t entries : {3, 40, 90, 400}) {
    for (const double format : {0, 1, 2, 3, 4})
      for_each_way("threshold", {{"block", 256}, {"format", format}},
                   [&](const auto& r) { attack(r, entries); });
    for (const double format : {0, 1, 2, 3})
      for_each_way("topk", {{"block", 256}, {"format", format}, {"k", 0.2}},
                   [&](const auto& r) { attack(r, entries); });
    for_each_way("zerorun", {}, [&](const auto& r) { attack(r, entries); });
  }
}

// Every bit of a short wire with skips, one at a time.
TEST(DeviceSparse, EveryBitOfAWire) {
  const auto turn_bits = [](const auto& row) {
    using T = TypeOf<decltype(row)>;
    std::vector<T> x(500);
    for (const std::size_t i : {3, 190, 200, 300, 499}) x[i] = i % 4 == 0 ? T{2} : T{-3};
    const std::vector<std::byte> wire = row.host.run(x, {}, Feedback::none).wire;
    const std::vector<T> base(x.size(), T{1});
    for (std::size_t bit = 0; bit < 8 * wire.size(); ++bit) {
      std::vector<std::byte> other = wire;
      other[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      (void)row.decode(other, base, 0, "a bit");
    }
  };
  for (const double format : {1, 2, 3}) {
    turn_bits(device_row<float>("threshold", {{"block", 256}, {"format", format}}, kShapes[0]));
    turn_bits(device_row<float>("topk", {{"block", 256}, {"format", format}}, kShapes[0]));
  }
  turn_bits(device_row<float>("zerorun", {}, kShapes[0]));
}

TEST(DeviceSparse, MeasuredTau) {
  const kernels::Codec& codec = *kernels::find_codec("threshold");
  EXPECT_EQ(kernels::device_measure(*kernels::find_codec("adaptive"), kernels::Element::f32), nullptr);
  const auto with = [&](auto type) {
    using T = decltype(type);
    const kernels::DeviceMeasureOps* const ops = kernels::device_measure(codec, Row<T>::kElement);
    ASSERT_NE(ops, nullptr);
    for (const Input input : kInputs)
      for (const std::size_t n : {0, 1, 1000, 20000})
        for (const double quantile : {1e-6, 0.5, 0.97, 0.999999}) {
          const kernels::Params params = with_values(codec, {{"quantile", quantile}});
          std::vector<T> x = make_input<T>(input, n, seed());
          if (n == 1000) plant_nonfinite(x, seed());
          Scratch scratch(ops->scratch_bytes(n, params));
          const auto measured = std::make_unique<kernels::Facts>();  // on the heap, which a real GPU sees too
          kernels::Facts& values = *measured;
          values[0] = -1;
          ops->measure(x.data(), n, params, &values, scratch.data(), kSmallDevice,
                       simt::launcher(kSmallDevice.shared_bytes));
          EXPECT_STREQ(simt::error(), "");
          EXPECT_TRUE(scratch.intact());
          EXPECT_EQ(values, codec.measure(x.data(), n, Row<T>::kElement, params)) << name(input) << " " << n;
        }
  };
  with(float{});
  with(double{});
}

// All parameters of these codecs run on the device.
TEST(DeviceSparse, Table) {
  for (const char* const codec : {"threshold", "adaptive", "topk", "zerorun"})
    for (const kernels::Element element : kernels::kElements)
      EXPECT_NE(kernels::device_ops(*kernels::find_codec(codec), element, {}), nullptr) << codec;
}

}  // namespace
}  // namespace mq::test
