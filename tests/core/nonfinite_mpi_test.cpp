// NaN and Inf through the public interface, under real MPI: every memory rule with every codec, each value at
// the first, a middle and the last element, on one rank only. The result is not finite there on all ranks in
// that very call, the other elements are what they should be, and later calls are right again.

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/memory.hpp"
#include "tests/core/api.hpp"

namespace mq::test {
namespace {

constexpr std::size_t kN = 2500;
constexpr std::array<std::size_t, 3> kPlaces{0, kN / 2, kN - 1};
constexpr std::array<float, 3> kValues{std::numeric_limits<float>::quiet_NaN(),
                                       std::numeric_limits<float>::infinity(),
                                       -std::numeric_limits<float>::infinity()};

// Every rule, with parameters that forget nothing on purpose.
std::vector<std::string> rules() {
  std::vector<std::string> all;
  for (const kernels::MemoryRule& rule : kernels::memory_rules()) {
    const std::string name(rule.name);
    if (name == "decay")
      all.push_back("decay(beta=1)");
    else if (name == "momentum")
      all.push_back("momentum(m=0,mask=off)");
    else if (name == "lazy")
      all.insert(all.end(), {"lazy", "lazy(zeta=1000)"});
    else if (name == "3pc")
      all.insert(all.end(), {"3pc(v=2)", "3pc(v=3)", "3pc", "3pc(v=5,p=0)"});
    else
      all.push_back(name);
  }
  return all;
}

class Nonfinite : public Api {
 protected:
  const kernels::MemoryRule& rule_of(const std::string& memory) const {
    return *kernels::find_memory_rule(memory.substr(0, memory.find('(')));
  }
  int reduce(const std::vector<float>& x, std::vector<float>& y, const std::string& method) const {
    return MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(x.size()), MPI_FLOAT, MPI_SUM, comm,
                          Info{{"mpiq_method", method}, {"mpiq_key", "w"}});
  }
  // The sums over ranks of this vector, and of what the key keeps: the residual or, with a minus sign, the
  // estimates.
  std::array<std::vector<double>, 2> sums(const std::vector<float>& x,
                                          const kernels::MemoryRule& rule) const {
    std::vector<float> kept(kN);
    if (rule.arrays > 0) {
      EXPECT_EQ(MPIQ_Residual_get(comm, "w", 0, kN, kept.data()), MPI_SUCCESS);
    }
    for (const float v : kept) EXPECT_TRUE(std::isfinite(v));
    std::vector<double> both(x.begin(), x.end());
    both.insert(both.end(), kept.begin(), kept.end());
    MPI_Allreduce(MPI_IN_PLACE, both.data(), static_cast<int>(both.size()), MPI_DOUBLE, MPI_SUM, comm);
    return {std::vector<double>(both.begin(), both.begin() + kN),
            std::vector<double>(both.begin() + kN, both.end())};
  }
  // A call with this value at this place of one rank; a finite one if the rank is -1. False: the method is
  // refused.
  bool call(const std::string& method, const kernels::MemoryRule& rule, const kernels::Codec& codec,
            float value, std::size_t place, int of_rank) {
    std::vector<float> x =
        make_input<float>(Input::normal, kN, seed() + static_cast<std::uint64_t>(10 * ++calls_ + rank));
    const std::vector<float> finite = x;
    if (rank == of_rank) x[place] = value;
    std::vector<float> y(kN);
    const int code = reduce(x, y, method);
    if (code != MPI_SUCCESS) {
      const std::string text = text_of(code);
      EXPECT_TRUE(text.find(rule.name) != text.npos || text.find("in two messages") != text.npos) << text;
      return false;
    }
    EXPECT_TRUE(same_on_all_ranks(y)) << method;
    const auto [exact, after] = sums(finite, rule);
    const bool no_room =
        of_rank >= 0 && codec.marks_blocks && rule.arrays == 0;  // the rest of its block has no place to wait
    for (std::size_t i = 0; i < kN; ++i) {
      const bool bad = of_rank >= 0 && i == place;
      const auto got = static_cast<double>(y[i]);
      if (no_room && !bad) continue;
      EXPECT_NE(std::isfinite(y[i]), bad) << method << ", " << value << " at " << place << ", element " << i;
      if (std::isfinite(y[i]) == bad || bad || rule.arrays == 0) continue;
      // The result is the sum of estimates, or all that does not wait.
      const double right = rule.keeps_estimates ? -after[i] : exact[i] + before_[i] - after[i];
      EXPECT_NEAR(got, right, 1e-4 * size) << method << ", " << value << " at " << place << ", element " << i;
    }
    before_ = after;
    return true;
  }
  void forget() {
    ASSERT_EQ(MPIQ_Residual_reset(comm, "w"), MPI_SUCCESS);
    before_.assign(kN, 0);
  }

 private:
  int calls_ = 0;
  std::vector<double> before_ = std::vector<double>(kN);
};

TEST_F(Nonfinite, values_reach_all_ranks_at_once_and_nothing_else_is_lost) {
  if (size == 1) return;
  int served = 0, refused = 0, number = 0;
  for (const std::string& memory : rules())
    for (const kernels::Codec& codec : kernels::codecs()) {
      if (size > 2 && ++number % 5 != 0) continue;  // more ranks than cores wait for each other for minutes
      const kernels::MemoryRule& rule = rule_of(memory);
      const std::string method = std::string(codec.name) + " memory=" + memory;
      bool serves = true;
      for (std::size_t v = 0; v < kValues.size() && serves; ++v) {
        const auto of_rank = static_cast<int>(v) % size;
        // The first call of a key, which is exact with estimates; and calls after one and after two finite
        // ones.
        for (std::size_t i = 0; i < kPlaces.size() && serves; ++i) {
          serves = call(method, rule, codec, kValues[v], kPlaces[(v + i) % kPlaces.size()], of_rank);
          for (std::size_t finite = 0; finite < (i == 2 ? 2 : 1) && serves; ++finite)
            ASSERT_TRUE(call(method, rule, codec, 0, 0, -1)) << method;
        }
        forget();
      }
      ASSERT_FALSE(HasFailure()) << method;
      if (rule.keeps_estimates && !codec.contraction(kernels::preset_params(codec)))
        EXPECT_FALSE(serves) << method;  // as the trait says
      else
        ++(serves ? served : refused);
    }
  EXPECT_GT(served, 5 * refused);
}

// The program has said that its last contribution is to stand. The call after that is as any other.
TEST_F(Nonfinite, values_of_a_rank_that_skips_are_not_sent) {
  if (size == 1) return;
  for (const char* const rule : {"ef21", "lazy", "3pc", "3pc(v=5,p=0)"}) {
    const std::string method = "int8 memory=" + std::string(rule);
    const std::vector<float> x =
        make_input<float>(Input::normal, kN, seed() + static_cast<std::uint64_t>(rank));
    std::vector<float> y(kN), bad = x;
    for (std::size_t i = 0; i < kPlaces.size(); ++i) bad[kPlaces[i]] = kValues[i];
    const std::vector<float>& mine = rank == 0 ? bad : x;
    const auto call = [&](const std::vector<float>& of, bool skip) {
      return MPIQ_Allreduce(
          of.data(), y.data(), kN, MPI_FLOAT, MPI_SUM, comm,
          Info{{"mpiq_method", method}, {"mpiq_key", "w"}, {"mpiq_skip", skip ? "true" : "false"}});
    };
    ASSERT_EQ(call(x, false), MPI_SUCCESS);
    const std::vector<float> exact = y;
    ASSERT_EQ(call(mine, rank == 0), MPI_SUCCESS);
    for (std::size_t i = 0; i < kN; ++i) ASSERT_NEAR(y[i], exact[i], 1e-5 * size) << method << " at " << i;
    ASSERT_EQ(call(mine, false), MPI_SUCCESS);
    ASSERT_TRUE(same_on_all_ranks(y)) << method;
    for (std::size_t i = 0; i < kN; ++i) {
      const bool is_bad = i == kPlaces[0] || i == kPlaces[1] || i == kPlaces[2];
      ASSERT_NE(std::isfinite(y[i]), is_bad) << method << " at " << i;
    }
    forget();
  }
}

}  // namespace
}  // namespace mq::test
