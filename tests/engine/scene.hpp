// One allreduce among threads as ranks: a codec over a plan, inputs and residuals in, results and tallies
// out; and what every such result must be. Shared by the tests of the executor; scene.cpp has what takes
// longer to compile than a test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/convert.hpp"
#include "mpi_quant/engine/execute.hpp"
#include "mpi_quant/engine/host_steps.hpp"
#include "mpi_quant/engine/memory_steps.hpp"
#include "tests/engine/loopback.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"
#include "tests/sanitized.hpp"

namespace mq::test {

using kernels::Codec;

// Elements of half types; tests make them of floats.
template <kernels::Element kType>
struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  explicit Half(double v) {
    const auto f = static_cast<float>(v);
    kernels::convert(kType, kernels::Isa::scalar)->narrow(&f, &bits, nullptr, 1);
  }
  explicit operator double() const {
    float f = 0;
    kernels::convert(kType, kernels::Isa::scalar)->widen(&bits, &f, 1);
    return static_cast<double>(f);
  }
};
using F16 = Half<kernels::Element::f16>;
using Bf16 = Half<kernels::Element::bf16>;

template <class T>
constexpr kernels::Element element_of = std::is_same_v<T, F16>      ? kernels::Element::f16
                                        : std::is_same_v<T, Bf16>   ? kernels::Element::bf16
                                        : std::is_same_v<T, double> ? kernels::Element::f64
                                                                    : kernels::Element::f32;
template <class T>  // of residuals
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;
template <class T>
using Vectors = std::vector<std::vector<T>>;  // by rank

template <class T>
struct Outcome {
  Vectors<T> output;
  Vectors<Compute<T>> residual;
  std::vector<Status> status;
  std::vector<Tally> tally;
  std::size_t leaked = 0;
};

struct Scene {
  const Codec* codec = nullptr;
  const PlanRow* plan = nullptr;
  int ranks = 2;
  bool feedback = true, in_place = false;
  std::uint64_t delay_seed = 0;
  Loopback::Tamper tamper = {};
  int pipelines = 4, threads = 1;
  bool short_blocks = true;                                 // many in short vectors
  std::vector<std::pair<std::size_t, double>> values = {};  // of parameters, by position
  int per_node = 1;                                         // of Ranks
  const kernels::MemoryRule* memory = &kernels::carry_rule();
  std::vector<std::pair<std::size_t, double>> memory_values = {};  // of its parameters, by position
  bool exact_restart = false;                                      // CallFeedback::exact_restart
  std::vector<int> skipped_messages = {};                          // CallFeedback::skipped_messages, by rank
  std::uint64_t random_key = 7;
  std::vector<std::size_t> ends = {};  // Parts::ends of a reduce-scatter or allgather
  bool gathers = false;                // an allgather
  std::size_t gap = 0;                 // elements between its parts
  kernels::Isa isa = kernels::best_isa();
  int root = kNobody;                         // of a broadcast, which is in place, or of a reduction
  bool reduces = false;                       // with a root: a reduction, whose output only the root has
  bool mean = false;                          // the result is divided by the number of ranks
  std::vector<std::size_t> vector_ends = {};  // Reduction::vector_ends: the input is several vectors
  std::size_t raw_below = 0;                  // VectorPlace::is_raw: of those with fewer elements
  // The plan of a rank. Half types know no nodes.
  Plan plan_of(int rank, bool half = false) const;
  kernels::Params params() const;
  CallFeedback call_memory(kernels::Element element) const;
  std::string describe(std::size_t n) const;
};

// Runs a prepared execution to its end.
Status complete(Loopback::Rank& comm, Execution<Loopback::Rank>& execution, Tally& tally);

// Of a rank of a collective with a root.
Parts parts_of_root(const Scene& scene, int rank, std::size_t n);
// A rank to which the result of a reduction does not belong.
bool lacks_output(const Scene& scene, int rank);

// One allreduce of input[rank] with residual[rank]; or, with Scene::ends, a reduce-scatter, whose
// output[rank] is the rank's part, or an allgather, whose input[rank] is; or, with Scene::root, a broadcast
// or a reduction.
template <class T>
Outcome<T> run(const Scene& scene, const Vectors<T>& input, Vectors<Compute<T>> residual);

template <class T>
Vectors<T> inputs(int ranks, std::size_t n, Input kind = Input::normal);

template <class T>
Vectors<T> zeros(int ranks, std::size_t n) {
  return Vectors<T>(static_cast<std::size_t>(ranks), std::vector<T>(n));
}

std::vector<int> rank_counts();

// Ranks per node to run a plan with. Proofs are about all (plan_test.cpp); on nodes of one rank hierarchical
// is direct.
std::vector<int> node_sizes(const PlanRow& plan, int ranks);

// Every codec x plan x length of a row, each with two of the rank counts in turn, so that every plan meets
// every rank count with every length, and every codec meets every rank count. Under sanitizers: half of the
// lengths, each with one rank count. All rank counts for all of them would take four times as long, and show
// the same: what a plan does with a rank count is proved for all codecs (plan_test.cpp). lengths(ranks) are
// as many for all rank counts.
template <class Lengths, class F>
void for_each_scene_in_turn(const std::vector<int>& rank_counts, const Lengths& lengths, const F& property) {
  const std::size_t all = rank_counts.size();
  const auto codecs = kernels::codecs();
  for (std::size_t codec = 0; codec < codecs.size(); ++codec)
    for (std::size_t plan = 0; plan < plans().size(); ++plan)
      for (std::size_t i = 0; i < lengths(2).size(); ++i) {
        if (kSanitized && (i + codec / 2 + plan) % 2 != 0) continue;
        for (std::size_t turn = 0; turn < (kSanitized ? 1 : 2); ++turn) {
          const int ranks = rank_counts[(codec + plan + i + turn * (all / 2)) % all];
          for (const int per_node : node_sizes(plans()[plan], ranks)) {
            Scene scene{&codecs[codec], &plans()[plan], ranks};
            scene.per_node = per_node;
            property(scene, lengths(static_cast<std::size_t>(ranks))[i]);
          }
        }
      }
}

// The lengths around the interesting ones.
template <class F>
void for_each_scene(const F& property) {
  const auto lengths = [](std::size_t ranks) {
    return std::array<std::size_t, 7>{0, 1, ranks - 1, ranks, ranks + 1, 64 * ranks + 5, 5000};
  };
  for_each_scene_in_turn(rank_counts(), lengths, property);
}

template <class T>
void expect_sound(const Outcome<T>& got, const std::string& where);

// |sum over ranks of (x + e) - divisor * result - sum of e'| stays within rounding, element by element, in
// double.
template <class T>
void expect_conserved(const Outcome<T>& got, const Vectors<T>& x, const Vectors<Compute<T>>& e,
                      const std::string& where, double divisor = 1);

// What becomes of the second message: a tamper for Scene, and how many kinds there are.
inline constexpr int kDamages = 5;
// Those to try with a codec: all, or under sanitizers one, in turn. Frames are checked before a codec sees
// them.
std::vector<int> damages(const Codec& codec);
Loopback::Tamper damage_second(int damage, std::atomic<int>& messages, std::atomic<int>& victim);

}  // namespace mq::test
