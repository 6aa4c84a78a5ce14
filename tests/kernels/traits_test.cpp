// What codecs say of themselves is what they do: whether an encode is a contraction, whether a NaN takes its
// neighbours with it, which finite elements are counted as overflows. And the pages name the codecs that say
// so.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "kernels/codec.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"
#include "tests/sanitized.hpp"

namespace mq::test {
namespace {

using kernels::Codec;
using kernels::Feedback;
using kernels::Params;

// The parameters of param_sets(), and every pair of extremes or words: a trait depends on several parameters
// at once.
std::vector<Params> wide_sets(const Codec& codec) {
  std::vector<Params> sets = param_sets(codec);
  if (kSanitized) return sets;  // pairs run the same lines
  for (std::size_t i = 0; i < codec.specs.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      for (const double a : {codec.specs[i].min, codec.specs[i].preset, codec.specs[i].max})
        for (const double b : {codec.specs[j].min, codec.specs[j].preset, codec.specs[j].max}) {
          Params params = kernels::preset_params(codec);
          params.value[i] = a, params.value[j] = b;
          if (codec.specs[i].name == "ld" || codec.specs[j].name == "ld") continue;
          if (codec.specs[i].name == "rows" && a > 1e6) continue;  // one line of the whole vector
          if (codec.conflict(params).empty()) sets.push_back(params);
        }
  return sets;
}

template <class F>
void for_each_wide_row(const F& property) {
  for (const Codec& codec : kernels::codecs())
    for (const Params& params : wide_sets(codec)) {
      if (!codec.conflict(params).empty()) continue;
      property(Row<float>{&codec, params, kernels::best_isa()});
      property(Row<double>{&codec, params, kernels::best_isa()});
    }
}

// One element is 1, and all others have one magnitude. The worst blocks of grids are of this kind: the others
// are a share of a step from 0, for steps of 1 / limit.
template <class T>
std::vector<T> one_and_equal(std::size_t n, double others) {
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(i % 2 == 0 ? others : -others);
  x[n / 2] = 1;
  return x;
}

// Vectors that are hard for one codec or another, within the range of all.
template <class T>
std::vector<std::vector<T>> hostile(std::size_t n) {
  std::vector<std::vector<T>> all;
  for (const Input input : {Input::normal, Input::signs, Input::constant, Input::one_sided, Input::spikes})
    all.push_back(make_input<T>(input, n, seed()));
  for (const double limit : {1.0, 3.0, 7.0, 15.0, 31.0, 127.0})
    for (const double share : {0.02, 0.1, 0.2, 0.25, 0.35, 0.49})
      all.push_back(one_and_equal<T>(n, share / limit));
  for (const double others : {0.0, 0x1p-7, 0x1p-4, 0.3, 0.5, 1.0}) all.push_back(one_and_equal<T>(n, others));
  // Both ends of a block, the rest zeros, where a grid from end to end has none.
  for (const double end : {1.0 + 1 / 7.0, 1.0 + 1 / 127.0}) {
    std::vector<T> x(n);
    x[0] = -1;
    x[n - 1] = static_cast<T>(end);
    all.push_back(x);
  }
  std::vector<T> falling(n), rising(n);
  for (std::size_t i = 0; i < n; ++i)
    falling[i] = rising[n - 1 - i] = static_cast<T>(std::exp2(-static_cast<double>(i % 13)));
  all.push_back(falling);
  all.push_back(rising);
  return all;
}

// E|decoded - x|^2 / |x|^2, over calls with other random numbers.
template <class R, class T>
double lost_share(const R& row, const std::vector<T>& x) {
  const bool random = row.codec->unbiased(row.params) && !row.codec->lossless;
  const int calls = random ? 24 : 1;
  double lost = 0;
  for (int call = 0; call < calls; ++call)
    lost += squared_error(
        x, row.run(x, {}, Feedback::none, 0, {.call = seed() + static_cast<std::uint64_t>(call), .ranks = 2})
               .decoded);
  return lost / calls / squares(x);
}

TEST(Traits, a_codec_that_says_contraction_is_one_on_hostile_vectors) {
  std::size_t rows = 0;
  for_each_wide_row([&](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    if (!row.codec->contraction(row.params)) return;
    ++rows;
    const std::size_t block = std::min<std::size_t>(row.block(), 4096);
    for (const std::size_t n : {std::size_t{33}, block}) {
      if (n > row.block() && row.codec->whole(row.params)) continue;
      const auto all = hostile<T>(n);
      for (std::size_t i = 0; i < all.size(); i += kSanitized ? 5 : 1)
        ASSERT_LE(lost_share(row, all[i]), 1 - 0.5 / static_cast<double>(n)) << row.describe(n, "hostile");
    }
  });
  EXPECT_GT(rows, 100u);
}

TEST(Traits, integers_that_are_no_contraction_are_refused_for_a_reason) {
  for (const std::string_view name : {"int8", "int4", "qsgd", "terngrad"})
    for (const Params& params : wide_sets(*kernels::find_codec(name))) {
      const Row<float> row{kernels::find_codec(name), params, kernels::best_isa()};
      if (row.codec->contraction(params) || (name == "terngrad" && params.value[1] > 0)) continue;
      const std::size_t code = position(*row.codec, "code");
      if (code < row.codec->specs.size() && params.value[code] == 1) continue;  // the same values
      double worst = 0;
      for (const auto& x : hostile<float>(row.block())) worst = std::max(worst, lost_share(row, x));
      EXPECT_GT(worst, 0.95) << row.describe(row.block(), "");
    }
}

TEST(Traits, a_nan_takes_its_neighbours_with_it_where_the_codec_says_so_and_nowhere_else) {
  for_each_wide_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    auto x = make_input<T>(Input::normal, 1000, seed());
    x[500] = std::numeric_limits<T>::quiet_NaN();
    const Coded<T> got = row.run(x, {}, Feedback::none);
    const auto lost =
        std::count_if(got.decoded.begin(), got.decoded.end(), [](T v) { return std::isnan(v); });
    const std::size_t rows = position(*row.codec, "rows");  // elements of a column
    const bool alone = row.block() == 1 || (row.codec->name == "onebit" && row.params.value[rows] == 1);
    ASSERT_EQ(lost > 1, row.codec->marks_blocks && !alone) << row.describe(1000, "") << lost;
  });
}

TEST(Traits, finite_elements_that_decode_to_something_else_are_counted_as_overflows) {
  std::set<std::string_view> overflow;
  for_each_wide_row([&](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    constexpr T kMax = std::numeric_limits<T>::max(), kMin = std::numeric_limits<T>::denorm_min();
    std::vector<std::vector<T>> all;
    for (const Input input : kInputs)
      if (!kSanitized || input == Input::huge) all.push_back(make_input<T>(input, 700, seed()));
    for (const T one :
         {kMax, -kMax, kMax / 2, kMax / 9, static_cast<T>(1e38), static_cast<T>(3.4e38), kMin}) {
      all.emplace_back(700, one);
      all.push_back(make_input<T>(Input::normal, 700, seed()));
      all.back()[77] = one;
      all.push_back(one_and_equal<T>(700, 1.0));
      for (T& v : all.back()) v *= one;
    }
    for (const std::vector<T>& x : all) {
      const Coded<T> got = row.run(x, {}, Feedback::none);
      const auto lost = static_cast<std::uint64_t>(
          std::count_if(got.decoded.begin(), got.decoded.end(), [](T v) { return !std::isfinite(v); }));
      ASSERT_EQ(got.overflows, lost) << row.describe(700, "");
      ASSERT_EQ(got.nonfinite, 0u) << row.describe(700, "");
      if (lost > 0) overflow.insert(row.codec->name);
      for (const Feedback feedback : {Feedback::carry, Feedback::deposit}) {
        const Coded<T> kept = row.run(x, std::vector<T>(700), feedback);
        std::uint64_t infinite = 0;
        for (std::size_t i = 0; i < x.size(); ++i) infinite += !std::isfinite(kept.decoded[i]);
        ASSERT_EQ(kept.overflows > 0, lost > 0) << row.describe(700, "with a residual");
        ASSERT_GE(kept.overflows, infinite) << row.describe(700, "with a residual");
      }
    }
  });
  EXPECT_EQ(overflow, (std::set<std::string_view>{"bf16", "f16", "fft"})) << "the header names these";
}

// The codecs that a page names between two phrases.
std::set<std::string_view> named(const std::string& page, const std::string& from, const std::string& to) {
  std::ifstream file(std::string(MQ_SOURCE_DIR) + "/" + page);
  std::string text{std::istreambuf_iterator<char>(file), {}}, plain;
  for (const char c : text)  // one line, without the stars of a comment
    if (c != '*' && !(plain.ends_with(' ') && (c == ' ' || c == '\n'))) plain += c == '\n' ? ' ' : c;
  const std::size_t begin = plain.find(from), end = plain.find(to, begin);
  EXPECT_NE(begin, std::string::npos) << page << ": " << from;
  EXPECT_NE(end, std::string::npos) << page << ": " << to;
  std::set<std::string_view> found;
  if (begin == std::string::npos || end == std::string::npos) return found;
  const std::string part = plain.substr(begin, end - begin);
  for (const Codec& codec : kernels::codecs())
    for (const char quote : {'"', '`', ' '})  // blanks: in the tables of the header
      for (const char after : {quote, '(', ','})
        if (part.find(quote + std::string(codec.name) + after) != std::string::npos) found.insert(codec.name);
  return found;
}

TEST(Traits, the_pages_name_the_codecs_whose_blocks_have_no_room_beside_a_nan) {
  std::set<std::string_view> marking;
  for (const Codec& codec : kernels::codecs())
    if (codec.marks_blocks) marking.insert(codec.name);
  EXPECT_EQ(named("mpi_quant/include/mpi_quant.h", "NaN and Inf. An element", "Elements that are too large."),
            marking);
  EXPECT_EQ(named("docs/design.md", "NaN and Inf come out", "Elements that are too large"), marking);
  EXPECT_EQ(named("docs/residuals.md", "Residuals stay finite.", "they become NaN too."), marking);
}

TEST(Traits, the_pages_name_the_codecs_that_use_the_shape_of_a_matrix) {
  std::set<std::string_view> shaped;
  for (const Codec& codec : kernels::codecs())
    if (position(codec, "rows") < codec.specs.size()) shaped.insert(codec.name);
  EXPECT_EQ(named("mpi_quant/include/mpi_quant.h", "- mpiq_matrix:", "Other methods ignore it."), shaped);
  EXPECT_EQ(named("docs/policy.md", "`mpiq_matrix`", "`mpiq_s"), shaped);
}

TEST(Traits, the_pages_name_the_codecs_that_finite_elements_can_overflow) {
  const std::set<std::string_view> expected{"bf16", "f16", "fft"};
  EXPECT_EQ(named("mpi_quant/include/mpi_quant.h", "Elements that are too large.", "overflows counts"),
            expected);
  EXPECT_EQ(named("docs/methods.md", "Elements that are too large", "count them."), expected);
  EXPECT_EQ(named("docs/design.md", "Elements that are too large", "are counted."), expected);
}

}  // namespace
}  // namespace mq::test
