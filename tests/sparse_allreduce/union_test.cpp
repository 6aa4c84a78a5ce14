// The union allreduce: what every rank gets, and what it costs.
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <limits>

#include "tests/sparse_allreduce/union_scene.hpp"

namespace mq::sparse {
namespace {

using test::Spread;
using test::UnionCase;
using test::ValueKind;

constexpr Algorithm kAll[] = {Algorithm::automatic, Algorithm::allgather, Algorithm::split,
                              Algorithm::recursive_doubling, Algorithm::dense};
constexpr double kDensities[] = {0, 1e-9, 1e-4, 1e-3, 1e-2, .1, .5, .9, .98, 1};

// Every rank gets `expected`, bit for bit, and no message is left over.
template <class T>
void expect_result(const UnionCase& c, const std::vector<test::UnionInput<T>>& inputs,
                   const test::UnionOutcome<T>& expected) {
  SCOPED_TRACE(test::describe(c));
  std::size_t leaked = 1;
  const auto outcomes = test::run_union(c, inputs, &leaked);
  EXPECT_EQ(leaked, 0u);
  for (const auto& out : outcomes) {
    ASSERT_TRUE(out.status.ok()) << out.status.text();
    ASSERT_TRUE(test::same_bits(out.indices, expected.indices));
    ASSERT_TRUE(test::same_bits(out.values, expected.values));
    ASSERT_EQ(out.result.count, c.dense_output ? c.size : expected.indices.size());
  }
}
template <class T, class A = T>
void expect_left_fold(const UnionCase& c) {
  const auto inputs = test::union_inputs<T>(c);
  expect_result(c, inputs, test::union_expected<T, A>(c, inputs));
}
// Of a grid too large to go through: its point of this number.
UnionCase point(std::uint64_t number, int ranks, Algorithm algorithm) {
  std::mt19937_64 random(number * 1000 + static_cast<std::uint64_t>(ranks));
  const auto p = static_cast<std::uint64_t>(ranks);
  const std::uint64_t sizes[] = {0, 1, p - 1, p, p + 1, 63, 64, 65, 64 * p, 64 * p + 1, 1000, 5000, 70000};
  UnionCase c;
  c.algorithm = algorithm;
  c.ranks = ranks;
  c.size = sizes[random() % std::size(sizes)];
  c.density = kDensities[random() % std::size(kDensities)];
  if (c.density > .2 && c.size > 5000) c.size = 5000;
  c.spread = test::kSpreads[random() % std::size(test::kSpreads)];
  c.stride = random() % 3 ? 1 : 3;
  c.op = static_cast<Op>(random() % 3);
  c.dense_output = random() % 2;
  c.delay_seed = random() % 2 * (1 + number);
  c.seed = number;
  return c;
}

TEST(Union, ExactSumsOnEveryRankForEveryAlgorithm) {
  std::uint64_t number = 1;
  for (int ranks = 1; ranks <= 17; ++ranks)
    for (const Algorithm algorithm : kAll)
      for (int i = 0; i < (ranks < 9 ? 12 : 4); ++i) {
        const UnionCase c = point(number++, ranks, algorithm);
        if (number % 2)
          expect_left_fold<float, double>(c);
        else
          expect_left_fold<double>(c);
        if (HasFatalFailure()) return;
      }
}

TEST(Union, EveryDensityAndSpreadForEveryAlgorithm) {
  std::uint64_t number = 1;
  for (const Algorithm algorithm : kAll)
    for (const double density : kDensities)
      for (const Spread spread : test::kSpreads) {
        ++number;
        UnionCase c = point(number, number % 2 ? 3 : 4, algorithm);
        c.size = 3000;
        c.density = density;
        c.spread = spread;
        expect_left_fold<float, double>(c);
        if (HasFatalFailure()) return;
      }
}

TEST(Union, RealSumsAreTheLeftFoldBitForBitWhateverThePathOfMessages) {
  for (const Algorithm algorithm : {Algorithm::allgather, Algorithm::split})
    for (std::uint64_t number = 0; number < 40; ++number) {
      UnionCase c = point(number, 2 + static_cast<int>(number % 7), algorithm);
      c.kind = ValueKind::reals;
      expect_left_fold<float>(c);
      if (HasFatalFailure()) return;
    }
}

TEST(Union, RecursiveDoublingGivesAllRanksTheSameBitsNearTheExactSum) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    UnionCase c = point(static_cast<std::uint64_t>(ranks), ranks, Algorithm::recursive_doubling);
    c.size = 2000;
    c.density = .2;
    c.op = Op::sum;
    c.kind = ValueKind::reals;
    const auto inputs = test::union_inputs<float>(c);
    const auto expected = test::union_expected<float, double>(c, inputs);
    const auto outcomes = test::run_union(c, inputs);
    for (const auto& out : outcomes) {
      ASSERT_TRUE(out.status.ok()) << out.status.text();
      ASSERT_TRUE(test::same_bits(out.values, outcomes[0].values));
      ASSERT_TRUE(test::same_bits(out.indices, expected.indices));
      for (std::size_t i = 0; i < out.values.size(); ++i)
        ASSERT_NEAR(out.values[i], expected.values[i], 17 * 4096 * 1.2e-7);
    }
  }
}

TEST(Union, DelaysDoNotChangeBits) {
  for (const Algorithm algorithm : kAll) {
    UnionCase c = point(9, 5, algorithm);
    c.size = 3000;
    c.density = .05;
    c.kind = ValueKind::reals;
    c.op = Op::sum;
    const auto inputs = test::union_inputs<float>(c);
    std::vector<float> first;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      c.delay_seed = seed;
      const auto outcomes = test::run_union(c, inputs);
      for (const auto& out : outcomes) {
        ASSERT_TRUE(out.status.ok()) << out.status.text();
        if (first.empty()) first = out.values;
        ASSERT_TRUE(test::same_bits(out.values, first));
      }
    }
  }
}

TEST(Union, ValuesThatAreNoNumbersOrNoOrdinaryOnes) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float odd[] = {0.f, -0.f, inf, -inf, nan, std::numeric_limits<float>::denorm_min(), 1e38f};
  for (const Algorithm algorithm :
       {Algorithm::allgather, Algorithm::split, Algorithm::recursive_doubling, Algorithm::dense})
    for (const Op op : {Op::sum, Op::min, Op::max}) {
      UnionCase c{.algorithm = algorithm, .ranks = 2, .size = 300, .op = op};
      std::vector<test::UnionInput<float>> inputs(2);
      std::uint64_t index = 0;
      for (const float a : odd)
        for (const float b : odd)
          for (unsigned which = 1; which < 4; ++which, ++index)
            for (unsigned r = 0; r < 2; ++r)
              if (which >> r & 1) {
                inputs[r].indices.push_back(index);
                inputs[r].values.push_back(r ? b : a);
              }
      expect_result(c, inputs, test::union_expected(c, inputs));
      if (HasFatalFailure()) return;
    }
}

TEST(Union, NoPayloadIsLongerThanTheDenseSlice) {
  for (const Algorithm algorithm : {Algorithm::allgather, Algorithm::split, Algorithm::recursive_doubling})
    for (const double density : {.001, .3, .49, .51, .9, .968, .97, .98, .99, .999, 1.})
      for (const int ranks : {2, 3, 4}) {
        UnionCase c{.algorithm = algorithm, .ranks = ranks, .size = 64 * 3 * 4 * 20, .density = density};
        c.spread = density > .95 ? Spread::uniform : Spread::disjoint;
        const auto inputs = test::union_inputs<float>(c);
        const auto p = static_cast<std::uint64_t>(ranks);
        std::atomic<std::uint64_t> payload{0}, messages{0};
        std::size_t leaked = 0;
        const auto outcomes =
            test::run_union<float>(c, inputs, &leaked, [&](int, int, int tag, auto& message) {
              if (tag == 5) {
                EXPECT_EQ(message.size() % sizeof(Header), 0u);
                return;
              }
              payload += message.size();
              ++messages;
            });
        // Streams that each rank sends, and the dense vectors in place of them.
        const bool doubling = algorithm == Algorithm::recursive_doubling;
        const bool gather = algorithm == Algorithm::allgather;
        const std::uint64_t doubling_streams = ranks == 2 ? 2 : ranks == 3 ? 4 : 8;
        const std::uint64_t streams = doubling ? doubling_streams : gather ? p * (p - 1) : 2 * p * (p - 1);
        const std::uint64_t dense = 4 * c.size * (doubling || gather ? streams : 2 * (p - 1));
        // Short streams have their headers in front.
        EXPECT_LE(payload, dense + streams * (kFrameExtra + (gather ? sizeof(Header) : 0)))
            << test::describe(c);
        std::uint64_t sent = 0;
        for (const auto& out : outcomes) {
          EXPECT_TRUE(out.status.ok()) << out.status.text();
          sent += out.traffic.sent_bytes;
        }
        EXPECT_LE(sent, dense + streams * (kFrameExtra + 2 * sizeof(Header)));
      }
}

TEST(Union, BytesOfOnePercentAreThoseOfGapsAndValues) {
  UnionCase c{.algorithm = Algorithm::allgather, .ranks = 2, .size = 1 << 20, .density = .01};
  const auto inputs = test::union_inputs<float>(c);
  for (const auto& out : test::run_union(c, inputs)) {
    const auto n = static_cast<double>(inputs[0].indices.size());
    EXPECT_LT(static_cast<double>(out.traffic.sent_bytes), 5.2 * n);
  }
}

// An allgather has ceil(log2 P) steps. Where the lists of all ranks are short, a step is one message.
TEST(Union, AStepOfAnAllgatherOfShortListsIsOneMessage) {
  for (const int ranks : {2, 3, 5, 8})
    for (const std::uint64_t entries : {0, 1, 100, 10000, 30000}) {
      UnionCase c{.algorithm = Algorithm::allgather, .ranks = ranks, .size = 1 << 20};
      c.density = static_cast<double>(entries) / (1 << 20);
      const auto inputs = test::union_inputs<float>(c);
      std::uint64_t most = 0;
      for (const auto& in : inputs) most = std::max<std::uint64_t>(most, in.indices.size());
      const bool is_short = short_stream_room({kernels::Element::f32, c.op, 1}, most, ranks) > 0;
      EXPECT_TRUE(is_short || entries > 100);
      EXPECT_FALSE(is_short && entries == 30000);
      const auto steps = static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(ranks - 1)));
      for (const auto& out : test::run_union(c, inputs))
        EXPECT_EQ(out.traffic.messages_sent, (is_short ? 1 : 2) * steps) << test::describe(c);
      expect_result(c, inputs, test::union_expected(c, inputs));
    }
}

TEST(Union, AResultLongerThanItsRoomIsAnErrorOnEveryRank) {
  for (const Algorithm algorithm : kAll) {
    UnionCase c{.algorithm = algorithm, .ranks = 5, .size = 2000, .density = .1};
    const auto inputs = test::union_inputs<float>(c);
    const auto expected = test::union_expected(c, inputs);
    c.max = expected.indices.size();
    expect_result(c, inputs, expected);
    --c.max;
    std::size_t leaked = 1;
    for (const auto& out : test::run_union(c, inputs, &leaked))
      EXPECT_EQ(out.status.code(), Code::bad_argument) << test::describe(c);
    EXPECT_EQ(leaked, 0u);
  }
}

// Bugs of published code that must not come back.
TEST(Union, AListOfAllIndicesIsNotTakenForADenseVector) {
  for (const Algorithm algorithm : kAll)
    for (const double density : {.9, 1.})
      for (const bool vector : {false, true}) {
        UnionCase c{
            .algorithm = algorithm, .ranks = 2, .size = 3, .density = density, .dense_output = vector};
        expect_left_fold<float, double>(c);
      }
}

TEST(Union, DensitiesAboveOneHalfAreNotTruncated) {
  for (const Algorithm algorithm : kAll)
    for (const double density : {.5, .51, .75, .99}) {
      UnionCase c{.algorithm = algorithm, .ranks = 3, .size = 20000, .density = density};
      expect_left_fold<double>(c);
    }
}

TEST(Union, IndicesBeyondFloatAndBeyond32BitsAreExact) {
  for (const Algorithm algorithm :
       {Algorithm::automatic, Algorithm::allgather, Algorithm::split, Algorithm::recursive_doubling})
    for (const unsigned bits : {25u, 32u, 33u, 47u, 63u}) {
      UnionCase c{.algorithm = algorithm, .ranks = 5, .size = std::uint64_t{1} << bits};
      c.density = 200 / std::ldexp(1.0, static_cast<int>(bits));
      c.spread = bits % 2 ? Spread::uniform : Spread::power_law;
      expect_left_fold<float, double>(c);
      if (HasFatalFailure()) return;
    }
}

TEST(Union, MemoryThatIsNotThereIsAnErrorOnEveryRankAndNobodyWaits) {
  UnionCase c{.algorithm = Algorithm::dense, .ranks = 3, .size = std::uint64_t{1} << 60, .density = 1e-16};
  c.timeout_s = 20;
  std::size_t leaked = 1;
  for (const auto& out : test::run_union(c, test::union_inputs<float>(c), &leaked))
    EXPECT_EQ(out.status.code(), Code::bad_argument) << out.status.text();
  EXPECT_EQ(leaked, 0u);
}

TEST(Choose, IsTheCheapestOfTheModelAndDependsOnNothingElse) {
  const Network net;
  for (const int ranks : {2, 3, 8, 100})
    for (const double density : {0.0, 1e-6, 1e-3, .05, .5, 1.0})
      for (const std::uint64_t size :
           {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 22, std::uint64_t{1} << 62})
        for (const bool vector : {false, true}) {
          UnionShape shape{size, {}, static_cast<std::uint64_t>(density * std::ldexp(1, 22)), ranks, vector};
          shape.most_entries = std::min(shape.most_entries, size);
          const double least = expected_s(choose(shape, net), shape, net);
          for (const Algorithm other :
               {Algorithm::allgather, Algorithm::split, Algorithm::recursive_doubling, Algorithm::dense}) {
            EXPECT_GE(expected_s(other, shape, net), least);
            EXPECT_TRUE(std::isfinite(expected_s(other, shape, net)));
          }
        }
}

TEST(Choose, FullVectorsAreDenseAndThinOnesAreNot) {
  const Network net;
  const auto chosen = [&](double density, int ranks) {
    const std::uint64_t size = 1 << 22;
    return choose({size, {}, static_cast<std::uint64_t>(density * static_cast<double>(size)), ranks, true},
                  net);
  };
  EXPECT_EQ(chosen(1, 2), Algorithm::dense);
  EXPECT_EQ(chosen(1, 16), Algorithm::dense);
  EXPECT_NE(chosen(.01, 2), Algorithm::dense);
  EXPECT_NE(chosen(.001, 16), Algorithm::dense);
  EXPECT_EQ(chosen(.001, 2), Algorithm::allgather);
  EXPECT_EQ(chosen(.001, 64), Algorithm::split);
}

}  // namespace
}  // namespace mq::sparse
