// Merging of sorted lists: the same bits by lists, by segments and by an ordered map.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "sparse_allreduce/merge.hpp"
#include "sparse_allreduce/positions.hpp"
#include "tests/sparse_allreduce/sparse_inputs.hpp"

namespace mq::sparse {
namespace {

using kernels::Element;
using test::Spread;
using test::ValueKind;

template <class T>
struct Lists {
  std::vector<std::vector<std::uint64_t>> indices;
  std::vector<std::vector<T>> values;
  std::vector<Operand> views() const {
    std::vector<Operand> all;
    for (std::size_t l = 0; l < indices.size(); ++l)
      all.push_back(List{indices[l], reinterpret_cast<const std::byte*>(values[l].data())});
    return all;
  }
  // With positions as they come over the wire: alone, or beside the indices.
  std::vector<Operand> packed(std::uint64_t low, bool listed,
                              std::vector<std::vector<std::byte>>& wires) const {
    std::vector<Operand> all = views();
    wires.resize(all.size());
    for (std::size_t l = 0; l < all.size(); ++l) {
      wires[l].resize(positions_bound(indices[l].size()));
      wires[l].resize(encode_positions(indices[l], wires[l].data(), low));
      all[l].positions = wires[l];
      if (!listed) all[l].indices = {};
    }
    return all;
  }
};

template <class T>
Lists<T> make_lists(Spread spread, std::uint64_t size, double density, int count, std::size_t stride) {
  Lists<T> lists;
  for (int l = 0; l < count; ++l) {
    const auto n = static_cast<std::uint64_t>(std::ceil(density * static_cast<double>(size)));
    lists.indices.push_back(test::sparse_indices({spread, size, n, l, count, 21}));
    lists.values.push_back(
        test::sparse_values<T>(ValueKind::reals, lists.indices.back().size() * stride, 5, l));
  }
  return lists;
}

template <class T, class O>
std::map<std::uint64_t, std::vector<T>> oracle(const Lists<T>& lists, std::size_t stride) {
  std::map<std::uint64_t, std::vector<T>> all;
  for (std::size_t l = 0; l < lists.indices.size(); ++l)
    for (std::size_t i = 0; i < lists.indices[l].size(); ++i) {
      const T* const row = &lists.values[l][i * stride];
      const auto [at, fresh] = all.try_emplace(lists.indices[l][i], row, row + stride);
      for (std::size_t s = 0; s < stride && !fresh; ++s) at->second[s] = O::apply(at->second[s], row[s]);
    }
  return all;
}

// Bit for bit; but a sum of two NaNs may be either of them.
template <class T, class O>
bool same_row(const T* a, const T* b, std::size_t stride) {
  for (std::size_t s = 0; s < stride; ++s)
    if (std::memcmp(a + s, b + s, sizeof(T)) != 0 &&
        !(std::is_same_v<O, Sum> && a[s] != a[s] && b[s] != b[s]))
      return false;
  return true;
}

template <class T, class O>
void expect_equal(const std::map<std::uint64_t, std::vector<T>>& expected, const std::vector<Operand>& lists,
                  const Entry& entry, std::uint64_t low, std::uint64_t high, MergeBy by) {
  const std::size_t room = merge_room(lists, low, high), stride = entry.stride;
  std::vector<std::uint64_t> indices(room);
  std::vector<T> values(room * stride);
  Workspace memory;
  std::size_t n = 0;
  ASSERT_TRUE(merge(entry, lists, low, high, memory, indices.data(),
                    reinterpret_cast<std::byte*>(values.data()), n, by));
  ASSERT_EQ(n, expected.size());
  std::size_t i = 0;
  for (const auto& [index, row] : expected) {
    ASSERT_EQ(indices[i], index);
    ASSERT_TRUE((same_row<T, O>(row.data(), &values[i * stride], stride)))
        << "index " << index << " way " << static_cast<int>(by);
    ++i;
  }
}

template <class T, class O>
void expect_all_ways_equal(const Lists<T>& lists, Op op, std::size_t stride, std::uint64_t low,
                           std::uint64_t high) {
  const auto expected = oracle<T, O>(lists, stride);
  const Entry entry{sizeof(T) == 8 ? Element::f64 : Element::f32, op, stride};
  std::size_t all = 0;
  for (const auto& list : lists.indices) all += list.size();
  std::vector<std::vector<std::byte>> wires;
  for (const MergeBy by : {MergeBy::automatic, MergeBy::lists, MergeBy::segments}) {
    if (by == MergeBy::lists && all > high - low) continue;
    expect_equal<T, O>(expected, lists.views(), entry, low, high, by);
    expect_equal<T, O>(expected, lists.packed(low, false, wires), entry, low, high, by);
    expect_equal<T, O>(expected, lists.packed(low, true, wires), entry, low, high, by);
  }
}

template <class T>
void expect_all_operations_equal(const Lists<T>& lists, std::size_t stride, std::uint64_t low,
                                 std::uint64_t high) {
  expect_all_ways_equal<T, Sum>(lists, Op::sum, stride, low, high);
  expect_all_ways_equal<T, Min>(lists, Op::min, stride, low, high);
  expect_all_ways_equal<T, Max>(lists, Op::max, stride, low, high);
}

TEST(Merge, EveryWayGivesTheBitsOfTheLeftFold) {
  for (const Spread spread : test::kSpreads)
    for (const int count : {1, 2, 3, 5, 8})
      for (const double density : {0.0, 1e-5, 1e-3, .05, .5, 1.0})
        for (const std::size_t stride : {std::size_t{1}, std::size_t{3}}) {
          constexpr std::uint64_t size = 4000;
          SCOPED_TRACE(test::name(spread) + " lists " + std::to_string(count) + " density " +
                       std::to_string(density) + " stride " + std::to_string(stride));
          expect_all_operations_equal(make_lists<float>(spread, size, density, count, stride), stride, 0,
                                      size);
          expect_all_operations_equal(make_lists<double>(spread, size, density, count, stride), stride, 0,
                                      size);
        }
}

TEST(Merge, ManySegmentsAndWideRows) {
  expect_all_operations_equal(make_lists<float>(Spread::uniform, 300000, .05, 4, 1), 1, 0, 300000);
  expect_all_operations_equal(make_lists<float>(Spread::clustered, 3000, .1, 3, 700), 700, 0, 3000);
  expect_all_operations_equal(make_lists<double>(Spread::uniform, std::uint64_t{1} << 63, 1e-16, 3, 1), 1, 0,
                              std::uint64_t{1} << 63);
}

TEST(Merge, ValuesThatAreNoNumbersOrNoOrdinaryOnes) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float odd[] = {0.f, -0.f, inf, -inf, nan, -nan, std::numeric_limits<float>::denorm_min(), 1.f};
  Lists<float> lists;  // every pair and every triple of them; and each alone
  lists.indices.resize(3);
  lists.values.resize(3);
  std::uint64_t index = 5;
  for (unsigned which = 1; which < 8; ++which)
    for (const float a : odd)
      for (const float b : odd)
        for (const float c : odd) {
          const float values[] = {a, b, c};
          for (std::size_t l = 0; l < 3; ++l)
            if (which >> l & 1) {
              lists.indices[l].push_back(index);
              lists.values[l].push_back(values[l]);
            }
          index += 3;
        }
  expect_all_operations_equal(lists, 1, 0, index);
}

TEST(Merge, ABoundedRangeThatIsFullOverflowsNothing) {
  for (const std::uint64_t low : {std::uint64_t{0}, (std::uint64_t{1} << 63) - 130, std::uint64_t{70000}}) {
    Lists<float> lists = make_lists<float>(Spread::uniform, 129, 1, 3, 1);
    for (auto& list : lists.indices)
      for (std::uint64_t& index : list) index += low;
    expect_all_operations_equal(lists, 1, low, low + 129);
  }
}

TEST(Merge, PositionsThatAreNoListAreRefused) {
  for (const double density : {.001, .02, .2, .9})
    for (const MergeBy by : {MergeBy::lists, MergeBy::segments}) {
      const std::uint64_t size = 100000;
      const Lists<float> lists = make_lists<float>(Spread::uniform, size, density, 2, 1);
      std::vector<std::vector<std::byte>> wires;
      const std::vector<Operand> whole = lists.packed(0, false, wires);
      std::vector<std::uint64_t> indices(2 * size + 2);
      std::vector<float> values(2 * size + 2);
      const auto accepted = [&](const Operand& second, std::uint64_t high) {
        const Operand both[] = {whole[0], second};
        Workspace memory;
        std::size_t n = 0;
        return merge(Entry{}, both, 0, high, memory, indices.data(),
                     reinterpret_cast<std::byte*>(values.data()), n, by);
      };
      SCOPED_TRACE(std::to_string(density) + " way " + std::to_string(static_cast<int>(by)));
      EXPECT_TRUE(accepted(whole[1], size));
      Operand bad = whole[1];
      --bad.count;
      EXPECT_FALSE(accepted(bad, size)) << "an entry too many";
      bad.count += 2;
      EXPECT_FALSE(accepted(bad, size)) << "an entry too few";
      bad.count = 0;
      EXPECT_FALSE(accepted(bad, size)) << "positions of nothing";
      bad = whole[1];
      bad.positions = {};
      EXPECT_FALSE(accepted(bad, size)) << "no positions";
      for (const std::size_t cut : {std::size_t{1}, std::size_t{7}, std::size_t{16}, wires[1].size() - 1}) {
        bad.positions = std::span(wires[1]).first(wires[1].size() - cut);
        EXPECT_FALSE(accepted(bad, size)) << "cut by " << cut;
      }
      EXPECT_FALSE(accepted(whole[1], lists.indices[1].back())) << "an index that is out of range";
    }
}

}  // namespace
}  // namespace mq::sparse
