// Device rows, kernels and launches, against the scalar host rows. They run in the emulator: no GPU is
// needed.

#include "tests/device/device_rows.hpp"
#include "tests/kernels/host_kernels.hpp"

#include <gtest/gtest.h>

#include "kernels/cuda/rows.hpp"
#include "tests/kernels/inputs.hpp"

namespace mq::test {
namespace {

using kernels::Feedback;

// One case of many: what varies beside row and length goes round with the case's number.
struct Case {
  std::uint64_t number = 0;
  std::size_t shift() const { return (number / 3 % 3 == 1) ? (number / 9 % 2 == 0 ? 4 : 1) : 0; }
  std::uint64_t order() const { return number % 5 == 4 ? number : 0; }
};

template <class T>
void check(const DeviceRowUnderTest<T>& row, std::vector<T> x, Feedback feedback, bool keeps, Case which,
           std::string_view what) {
  const std::size_t n = x.size();
  simt::set_order(which.order());
  std::vector<T> residual;
  if (keeps || feedback != Feedback::none) {
    residual = make_input<T>(Input::normal, n, seed() + 1);
    for (T& r : residual) r /= 8;
  }
  const std::vector<std::byte> wire = row.encode(x, residual, feedback, which.shift(), what);
  EXPECT_EQ(row.decode(wire, make_input<T>(Input::uniform, n, seed() + 2), which.shift(), what),
            kernels::Decoded::ok)
      << row.describe(n, what);
  simt::set_order(0);
}

template <class T>
void check_inputs(const DeviceRowUnderTest<T>& row, std::size_t n, Case& which) {
  for (const Input input : kInputs) {
    // Of long vectors a third of the inputs each.
    if (n > 3000 && static_cast<std::uint64_t>(input) % 3 != which.number++ % 3) continue;
    std::vector<T> x = make_input<T>(input, n, seed() + n);
    const Feedback feedback = kFeedbacks[which.number % 3];
    check(row, x, feedback, which.number % 2 == 0, which, name(input));
    if (which.number % 4 == 0) {
      plant_nonfinite(x, seed() + which.number);
      check(row, x, kFeedbacks[which.number / 4 % 3], which.number % 8 == 0, which, "nonfinite");
    }
    ++which.number;
  }
}

TEST(DeviceRows, SameAsHost) {
  Case which;
  for_each_device_row([&](const auto& row) {
    for (const std::size_t n : row.host.lengths()) {
      check_inputs(row, n, which);
      if (::testing::Test::HasFailure()) return;
    }
  });
}

// More than a piece, a tile, and what one round of the thread blocks takes.
TEST(DeviceRows, LongVectors) {
  Case which;
  for_each_device_row([&](const auto& row) {
    using T = typename std::decay_t<decltype(row.host)>::Type;
    if (which.number++ % 2 == 1 && row.host.codec->specs.size() > 0) return;
    for (const std::size_t most : {std::size_t{12345}, std::size_t{40000}}) {
      const std::size_t n = std::min(most, 1200 * row.host.block());
      std::vector<T> x = make_input<T>(Input::laplace, n, seed());
      check(row, x, Feedback::carry, true, which, "long");
      x[n / 2] = std::numeric_limits<T>::infinity();
      check(row, x, kFeedbacks[which.number % 3], false, {which.number + 1}, "long, an infinity");
    }
  });
}

// More tiles than thread blocks; more pieces of one block than are joined at a time.
TEST(DeviceRows, ManyTilesAndPieces) {
  Case which;
  for_each_device_row([&](const auto& row) {
    using T = typename std::decay_t<decltype(row.host)>::Type;
    const std::string_view codec = row.host.codec->name;
    const bool dense = codec == "raw" || codec == "bf16" || codec == "f16";
    if (!dense && !(row.host.codec->whole(row.host.params))) return;
    std::vector<T> x = make_input<T>(Input::mixed_scales, dense ? 600001 : 300001, seed());
    check(row, x, kFeedbacks[which.number % 3], true, {}, "many");
    x[7] = -std::numeric_limits<T>::infinity();
    check(row, x, kFeedbacks[which.number++ % 3], false, {}, "many, an infinity");
  });
}

// Every NaN goes through x86's rules, whatever its payload and sign.
TEST(DeviceRows, NansKeepTheirBits) {
  const auto check_row = [](const kernels::Codec& row, const kernels::Params& params) {
    for (const Feedback feedback : kFeedbacks) {
      const auto with = [&](auto type) {
        using T = decltype(type);
        using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
        std::vector<T> x = make_input<T>(Input::normal, 5000, seed());
        constexpr Word kInf = std::bit_cast<Word>(std::numeric_limits<T>::infinity());
        std::mt19937_64 random(seed());
        for (std::size_t i = 0; i < 2000; ++i) {
          Word bits = (kInf | static_cast<Word>(random()));
          x[random() % 5000] = std::bit_cast<T>(bits);
        }
        check(DeviceRowUnderTest<T>{{&row, params, kernels::Isa::scalar},
                                    kernels::device_ops(row, Row<T>::kElement, params)},
              x, feedback, true, {}, "NaNs");
      };
      with(float{});
      with(double{});
    }
  };
  for (const char* const name : {"raw", "bf16", "f16", "onebit"}) {
    const kernels::Codec& codec = *kernels::find_codec(name);
    check_row(codec, kernels::preset_params(codec));
    if (codec.specs.size() == 1)  // bf16 and f16
      for (const kernels::Params& params : param_sets(codec)) check_row(codec, params);
  }
}

// Wires that encode did not write: cut, longer, with bits turned, of other vectors, of noise.
TEST(DeviceRows, HostileWires) {
  std::mt19937_64 random(seed());
  for_each_device_row([&](const auto& row) {
    using T = typename std::decay_t<decltype(row.host)>::Type;
    for (const std::size_t n : {std::size_t{0}, std::size_t{33}, std::size_t{5000}}) {
      const std::vector<T> x = make_input<T>(Input::spikes, n, seed()), base(n);
      std::vector<std::byte> wire = row.host.run(x, {}, Feedback::none).wire;
      const auto hostile = [&](std::vector<std::byte> bytes) { (void)row.decode(bytes, base, 0, "hostile"); };
      hostile({});
      for (const std::size_t more : {1, 4, 100}) {
        std::vector<std::byte> other = wire;
        other.resize(wire.size() + more);
        hostile(other);
        if (wire.size() < more) continue;
        other.resize(wire.size() - more);
        hostile(other);
      }
      for (int turn = 0; turn < 12 && !wire.empty(); ++turn) {
        std::vector<std::byte> other = wire;
        const std::size_t near = turn % 2 == 0 ? std::min<std::size_t>(wire.size(), 24) : wire.size();
        other[random() % near] ^= static_cast<std::byte>(1u << random() % 8);
        if (turn % 4 == 3) other.back() ^= std::byte{0x80};
        hostile(other);
      }
      for (int turn = 0; turn < 4; ++turn) {
        std::vector<std::byte> noise(turn == 0 ? 4 * n + 7 : wire.size());
        for (std::byte& b : noise) b = static_cast<std::byte>(random());
        hostile(noise);
      }
      if (::testing::Test::HasFailure()) return;
    }
  });
}

// The rung of the benchmark's ladder, which also sums short blocks piece by piece.
TEST(DeviceRows, StepsOfOneBit) {
  Case which;
  const kernels::Codec& codec = *kernels::find_codec("onebit");
  for (const kernels::Params& params : param_sets(codec))
    for (const std::size_t most : {1, 33, 2049, 12345}) {
      const Row<float> row{&codec, params, kernels::Isa::scalar};
      const std::size_t n = std::min(most, 200 * row.block());
      check(DeviceRowUnderTest<float>{row, &kernels::onebit_steps_device_row.ops[0]},
            make_input<float>(Input::mixed_scales, n, seed()), kFeedbacks[which.number % 3], false, which,
            "steps");
      ++which.number;
    }
}

// These codecs have rows for all parameters but code=entropy, and only launches of kernels that exist. The
// others are encoded on the host.
TEST(DeviceRows, Table) {
  for (const char* const codec : {"raw", "bf16", "f16", "int8", "int4", "qsgd", "terngrad", "mxfp8", "mxfp6",
                                  "mxfp4", "nvfp4", "minifloat", "rangefloat", "natural", "onebit", "bound"})
    for (const kernels::Params& params : param_sets(*kernels::find_codec(codec)))
      for (const kernels::Element element : kernels::kElements) {
        const kernels::DeviceOps* const ops =
            kernels::device_ops(*kernels::find_codec(codec), element, params);
        const std::size_t code = position(*kernels::find_codec(codec), "code");
        if (code < params.value.size() && params.value[code] == 1) {
          EXPECT_EQ(ops, nullptr) << codec;
          continue;
        }
        ASSERT_NE(ops, nullptr) << codec;
        EXPECT_EQ(ops->reads_once, host_kernels::reads_once(codec)) << codec;
      }
  for (const char* const staged : {"adacomp", "fft", "meprop"})
    EXPECT_EQ(kernels::device_ops(*kernels::find_codec(staged), kernels::Element::f32, {}), nullptr)
        << staged;
  EXPECT_EQ(kernels::device_ops(*kernels::find_codec("onebit"), kernels::Element::bf16, {}),
            kernels::device_ops(*kernels::find_codec("onebit"), kernels::Element::f32, {}));
  EXPECT_EQ(kernels::device_measure(*kernels::find_codec("onebit"), kernels::Element::f32), nullptr);
}

}  // namespace
}  // namespace mq::test
