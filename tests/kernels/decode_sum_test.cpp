// decode_sum (kernels/codec.hpp): several wires in one pass give the bits of one decode after the other.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

using kernels::CodecOps;
using kernels::DecodeArgs;
using kernels::Decoded;
using kernels::Feedback;
using kernels::WireView;

constexpr std::size_t kCounts[]{1, 2, kernels::kMostSummed};
std::vector<Input> summed() {
  return kSanitized ? std::vector{Input::mixed_scales} : std::vector{Input::normal, Input::mixed_scales};
}

// Wires of vectors that differ; `nonfinite` of them, from the first on, have NaN and Inf.
template <class R>
std::vector<std::vector<std::byte>> wires_of(const R& row, std::size_t n, std::size_t count, Input input,
                                             std::size_t nonfinite) {
  using T = typename R::Type;
  std::vector<std::vector<std::byte>> wires;
  for (std::size_t i = 0; i < count; ++i) {
    auto x = make_input<T>(input, n, seed() + i);
    if (i < nonfinite) plant_nonfinite(x, seed() + i);
    wires.push_back(row.run(x, {}, Feedback::none).wire);
  }
  return wires;
}

std::vector<WireView> views_of(const std::vector<std::vector<std::byte>>& wires) {
  return {wires.begin(), wires.end()};
}

// What one decode after the other gives.
template <class R>
std::vector<typename R::Type> one_by_one(const R& row, const std::vector<std::vector<std::byte>>& wires,
                                         const std::vector<typename R::Type>* base, std::size_t n) {
  std::vector<typename R::Type> x(n);
  const typename R::Type* from = base != nullptr ? base->data() : nullptr;
  for (const auto& wire : wires) {
    EXPECT_EQ(row.decode(wire, n, from, x.data()), Decoded::ok);
    from = x.data();
  }
  return x;
}

template <class F>
void for_each_summing_row(const F& property) {
  for_each_row([&](const auto& row) {
    if (row.ops().decode_sum != nullptr) property(row);
  });
}

TEST(DecodeSum, exists_on_every_isa_or_on_none_and_for_the_codecs_that_are_fast) {
  std::set<std::string> names;
  for_each_row([&](const auto& row) {
    const bool sums = row.ops().decode_sum != nullptr;
    EXPECT_EQ(sums, row.with(kernels::Isa::scalar).ops().decode_sum != nullptr) << row.codec->name;
    if (sums) names.insert(std::string(row.codec->name));
  });
  for (const char* name : {"onebit", "int8", "bf16", "raw", "zerorun", "adaptive", "topk"})
    EXPECT_EQ(names.count(name), 1u) << name;
}

TEST(DecodeSum, gives_the_bits_of_one_decode_after_the_other) {
  for_each_summing_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    for (const Input input : summed())
      for (const std::size_t count : kCounts)
        for (const std::size_t n : row.lengths()) {
          const auto wires = wires_of(row, n, count, input, n % 2 == 0 ? 0 : 2);
          const auto views = views_of(wires);
          const auto base = make_input<T>(Input::normal, n, seed() + 100);
          const std::string where = row.describe(n, name(input)) + std::to_string(count) + " wires";
          const auto plain = one_by_one(row, wires, nullptr, n), added = one_by_one(row, wires, &base, n);
          for (const std::size_t shift : {std::size_t{0}, std::size_t{3}})
            for (const bool stream : {false, true}) {
              if (stream && shift != 0) continue;
              Guarded<T> out(n * sizeof(T), shift), in_place(n * sizeof(T), shift);
              in_place.set(base);
              const auto sum = [&](const void* from, Guarded<T>& to) {
                return row.ops().decode_sum({nullptr, 0, n, row.params, from, to.data(), stream}, views);
              };
              ASSERT_EQ(sum(nullptr, out), Decoded::ok) << where;
              ASSERT_TRUE(same_bits(out.get(n), plain)) << where;
              ASSERT_EQ(sum(base.data(), out), Decoded::ok) << where;
              ASSERT_TRUE(same_bits(out.get(n), added)) << where << " with base";
              ASSERT_EQ(sum(in_place.data(), in_place), Decoded::ok) << where;
              ASSERT_TRUE(same_bits(in_place.get(n), added)) << where << " in place";
              ASSERT_TRUE(out.intact() && in_place.intact()) << where;
            }
        }
  });
}

// Any of the wires may be damaged. decode_sum and decode refuse the same ones.
TEST(DecodeSum, refuses_what_decode_refuses) {
  std::size_t refused = 0, damaged = 0;
  for_each_summing_row([&](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = row.block() > 4096 ? 100 : row.block() + 13;
    const auto intact = wires_of(row, n, 3, Input::normal, 0);
    for (std::size_t at = 0; at < intact.size(); ++at)
      for (const std::size_t byte :
           {std::size_t{0}, std::size_t{3}, intact[at].size() - 1, intact[at].size()}) {
        auto wires = intact;
        if (byte < wires[at].size())
          wires[at][byte] ^= std::byte{0xff};
        else
          wires[at].pop_back();
        std::vector<T> x(n);
        const bool ok = row.decode(wires[at], n, nullptr, x.data()) == Decoded::ok;
        const auto views = views_of(wires);
        for (const T* base : {static_cast<const T*>(nullptr), static_cast<const T*>(x.data())})
          ASSERT_EQ(row.ops().decode_sum({nullptr, 0, n, row.params, base, x.data()}, views) == Decoded::ok,
                    ok)
              << row.describe(n, "wire ") << at << " byte " << byte;
        refused += !ok;
        ++damaged;
      }
  });
  EXPECT_GT(refused, damaged / 4);
  EXPECT_LT(refused, damaged) << "some decode to other numbers";
}

}  // namespace
}  // namespace mq::test
