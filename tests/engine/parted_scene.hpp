// Parts of every shape for the tests of collectives in which parts of the vector belong to ranks.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/engine/scene.hpp"

namespace mq::test {

inline std::size_t total(const std::vector<std::size_t>& counts) {
  std::size_t sum = 0;
  for (const std::size_t n : counts) sum += n;
  return sum;
}

// Parts of `ranks` ranks: equal ones, uneven ones, some without elements, one that has all.
inline std::vector<std::vector<std::size_t>> shapes(int ranks) {
  const auto p = static_cast<std::size_t>(ranks);
  std::vector<std::vector<std::size_t>> all;
  for (const std::size_t each : {std::size_t{1}, p - 1, p + 1, std::size_t{64}, std::size_t{333}})
    all.emplace_back(p, each);
  std::vector<std::size_t> uneven, lone(p);
  for (std::size_t r = 0; r < p; ++r) uneven.push_back(r % 3 == 1 ? 0 : 41 * r + 7);
  lone[p - 1] = 700;
  all.push_back(uneven);
  all.push_back(lone);
  return all;
}

inline Scene scene_of(const Codec& codec, const std::vector<std::size_t>& counts) {
  Scene scene{&codec, plan_of(Collective::reduce_scatter), static_cast<int>(counts.size())};
  for (const std::size_t n : counts) scene.ends.push_back(n + (scene.ends.empty() ? 0 : scene.ends.back()));
  return scene;
}

// Under sanitizers each codec with one rank count: all rank counts come.
template <class F>
void for_each_shape(const F& property) {
  const auto codecs = kernels::codecs();
  const std::vector<int> all = rank_counts();
  for (std::size_t c = 0; c < codecs.size(); ++c)
    for (std::size_t turn = 0; turn < (kSanitized ? 1 : 2); ++turn) {
      const int ranks = all[(c + turn * (all.size() / 2)) % all.size()];
      for (const auto& counts : shapes(ranks)) property(scene_of(codecs[c], counts), total(counts));
    }
}

// The receiver of the damaged message has an error; the others have what a sound run gives.
template <class T>
void expect_one_victim(const Outcome<T>& got, const Outcome<T>& sound, int victim, const std::string& where) {
  ASSERT_GE(victim, 0) << where;
  for (std::size_t r = 0; r < got.status.size(); ++r) {
    if (static_cast<int>(r) == victim) {
      EXPECT_EQ(got.status[r].code(), Code::bad_frame) << where << ": " << got.status[r].text();
    } else {
      EXPECT_TRUE(same_bits(got.output[r], sound.output[r])) << where << ", rank " << r;
    }
  }
  EXPECT_EQ(got.leaked, 0u) << where;
}

}  // namespace mq::test
