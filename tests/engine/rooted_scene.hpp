// The cases of the tests of collectives with a root: every codec, both plans, roots and lengths in turn.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/engine/scene.hpp"

namespace mq::test {

// Bytes of encoded vectors: for the tree, and for the plan of long vectors.
inline constexpr std::array kShortAndLong{std::uint64_t{1}, std::uint64_t{1} << 40};

inline Scene rooted(Collective collective, const Codec& codec, int ranks, int root, std::uint64_t bytes) {
  Scene scene{&codec, plan_of(collective, bytes, ranks), ranks};
  scene.root = root;
  scene.reduces = collective == Collective::reduce;
  // What others had in the buffer of a broadcast is not to be seen in the result.
  scene.in_place = collective == Collective::bcast;
  return scene;
}

// Under sanitizers each codec with one rank count: all rank counts come.
template <class F>
void for_each_rooted(Collective collective, const F& property) {
  const auto codecs = kernels::codecs();
  const std::vector<int> all = rank_counts();
  for (std::size_t c = 0; c < codecs.size(); ++c)
    for (const std::uint64_t bytes : kShortAndLong)
      for (std::size_t turn = 0; turn < (kSanitized ? 1 : 2); ++turn) {
        const int ranks = all[(c + turn * (all.size() / 2)) % all.size()];
        const auto p = static_cast<std::size_t>(ranks);
        for (const std::size_t n : {std::size_t{0}, std::size_t{1}, p - 1, p, 64 * p + 5, std::size_t{5000}})
          property(rooted(collective, codecs[c], ranks, static_cast<int>((c + n) % p), bytes), n);
      }
}

}  // namespace mq::test
