// Half types from and to floats on the device, in the emulator, against the host's scalar code.

#include <gtest/gtest.h>

#include "kernels/convert.hpp"
#include "kernels/device.hpp"
#include "mpi_quant/engine/mean.hpp"
#include "tests/device/simt/emulator.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

using kernels::Element;

class Convert : public ::testing::TestWithParam<Element> {
 protected:
  const kernels::ConvertOps& host() const { return *kernels::convert(GetParam(), kernels::Isa::scalar); }
  const kernels::DeviceConvertOps& device() const { return *kernels::device_convert(GetParam()); }
  const kernels::DeviceShape shape{2, 48 << 10};

  void widen(const std::vector<std::uint16_t>& half, std::size_t shift) const {
    const std::size_t n = half.size();
    std::vector<float> expected(n);
    host().widen(half.data(), expected.data(), n);
    Guarded<std::uint16_t> in(2 * n, shift);
    Guarded<float> out(4 * n, 2 * shift);
    in.set(half);
    device().widen(in.data(), out.data(), n, shape, simt::launcher(shape.shared_bytes));
    EXPECT_STREQ(simt::error(), "");
    EXPECT_TRUE(out.intact() && in.intact());
    EXPECT_TRUE(same_bits(out.get(n), expected)) << n << " shift " << shift;
  }
  void narrow(const std::vector<float>& v, bool keeps, std::size_t shift) const {
    for (const int divisor : {1, 3, 8}) narrow(v, keeps, shift, divisor);
  }
  void narrow(const std::vector<float>& v, bool keeps, std::size_t shift, int divisor) const {
    const std::size_t n = v.size();
    std::vector<float> residual = make_input<float>(Input::normal, n, seed() + 5);
    Guarded<float> in(4 * n, shift), kept(4 * n, shift);
    Guarded<std::uint16_t> out(2 * n, 2 * shift);
    in.set(v);
    kept.set(residual);
    std::vector<std::uint16_t> expected(n);
    divide_to_half(host(), v.data(), expected.data(), keeps ? residual.data() : nullptr, n, divisor);
    device().narrow(in.data(), out.data(), keeps ? kept.data() : nullptr, n, divisor, shape,
                    simt::launcher(shape.shared_bytes));
    EXPECT_STREQ(simt::error(), "");
    EXPECT_TRUE(in.intact() && out.intact() && kept.intact());
    EXPECT_TRUE(same_bits(out.get(n), expected)) << n << " shift " << shift;
    EXPECT_TRUE(same_bits(kept.get(n), residual)) << n << " shift " << shift;
  }
};
INSTANTIATE_TEST_SUITE_P(Halves, Convert, ::testing::Values(Element::f16, Element::bf16));

TEST_P(Convert, EveryHalf) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  widen(all, 0);
  widen(all, 1);
}

TEST_P(Convert, LengthsAndAddresses) {
  for (const std::size_t n : {0, 1, 3, 4, 5, 31, 32, 33, 1023, 1024, 1025, 9999})
    for (const std::size_t shift : {0, 1, 2, 4}) {
      widen(std::vector<std::uint16_t>(n, 0x3c01), shift);
      for (const bool keeps : {false, true})
        narrow(make_input<float>(Input::normal, n, seed()), keeps, shift);
    }
}

TEST_P(Convert, EveryKindOfFloat) {
  for (const Input input : kInputs) {
    std::vector<float> v = make_input<float>(input, 3000, seed());
    narrow(v, true, 0);
    plant_nonfinite(v, seed());
    narrow(v, true, 0);
  }
  std::mt19937_64 random(seed());
  std::vector<float> bits(100000);  // NaNs of all kinds among them, and ties
  for (float& v : bits) v = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & ~0xfffu);
  narrow(bits, true, 0);
}

template <class T>
void expect_quotients_of_the_host(std::vector<T> x, std::size_t shift, int divisor) {
  const kernels::DeviceShape shape{2, 48 << 10};
  const std::size_t n = x.size();
  const Element element = sizeof(T) == 8 ? Element::f64 : Element::f32;
  Guarded<T> on_device(n * sizeof(T), shift);
  on_device.set(x);
  divide(x.data(), n, element, divisor);
  kernels::device_divide(on_device.data(), n, element, divisor, shape, simt::launcher(shape.shared_bytes));
  EXPECT_STREQ(simt::error(), "");
  EXPECT_TRUE(on_device.intact());
  EXPECT_TRUE(same_bits(on_device.get(n), x)) << n << " elements / " << divisor << ", shift " << shift;
}

TEST(Divide, HasTheBitsOfTheHost) {
  const auto check = [&]<class T>(T) {
    for (const std::size_t n : {0, 1, 5, 4096, 9999})
      for (const std::size_t shift : {0, 1, 4})
        for (const Input input : kInputs) {
          std::vector<T> x = make_input<T>(input, n, seed());
          expect_quotients_of_the_host(x, shift, 3);
          plant_nonfinite(x, seed());
          expect_quotients_of_the_host(x, shift, 1024);
        }
  };
  check(float{});
  check(double{});
}

TEST(ConvertTable, HalvesOnly) {
  EXPECT_EQ(kernels::device_convert(Element::f32), nullptr);
  EXPECT_EQ(kernels::device_convert(Element::f64), nullptr);
}

}  // namespace
}  // namespace mq::test
