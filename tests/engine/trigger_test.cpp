// When a rank with memory=lazy or 3pc(v=3) must send: has_moved() of engine/memory_steps.hpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "tests/engine/scene.hpp"

namespace mq::test {
namespace {

TEST(Trigger, compares_distances_from_estimate_and_last_vector) {
  for (const kernels::Element element : {kernels::Element::f32, kernels::Element::f64})
    for (const double magnitude : {1.0, 1e-30, 1e30}) {
      constexpr std::size_t kN = 1500;
      const bool is_double = element == kernels::Element::f64;
      std::vector<double> x(kN), h(kN), y(kN);
      for (std::size_t i = 0; i < kN; ++i) {
        x[i] = magnitude * std::sin(static_cast<double>(i));
        h[i] = x[i] + magnitude * (i % 2 == 0 ? 0.5 : -0.5);
        y[i] = x[i] + magnitude * (i % 3 == 0 ? 0.25 : -0.25);
      }
      const auto moved = [&](double zeta) {
        std::vector<double> arrays(3 * kN);
        std::vector<float> narrow(3 * kN), narrow_x(x.begin(), x.end());
        for (std::size_t i = 0; i < kN; ++i) arrays[i] = -h[i], arrays[2 * kN + i] = y[i];
        std::copy(arrays.begin(), arrays.end(), narrow.begin());
        Reduction reduction;
        reduction.element = element;
        reduction.count = kN;
        Scene scene{kernels::find_codec("raw"), find_plan("direct"), 2};
        scene.memory = kernels::find_memory_rule("lazy");
        scene.memory_values = {{0, zeta}};
        reduction.memory = scene.call_memory(element);
        reduction.input = is_double ? reinterpret_cast<const std::byte*>(x.data())
                                    : reinterpret_cast<const std::byte*>(narrow_x.data());
        reduction.residual = is_double ? reinterpret_cast<std::byte*>(arrays.data())
                                       : reinterpret_cast<std::byte*>(narrow.data());
        return has_moved(reduction);
      };
      EXPECT_TRUE(moved(3.9)) << magnitude;  // 0.5^2 / 0.25^2 = 4
      EXPECT_FALSE(moved(4.1)) << magnitude;
      for (const std::size_t place : {std::size_t{0}, kN / 2, kN - 1})
        for (const double value :
             {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
              -std::numeric_limits<double>::infinity()}) {
          const double finite = std::exchange(x[place], value);
          for (const double zeta : {0.0, 1.0, 1e30})
            EXPECT_TRUE(moved(zeta)) << "a vector with " << value << " at " << place << " is always sent";
          x[place] = finite;
        }
    }
}

}  // namespace
}  // namespace mq::test
