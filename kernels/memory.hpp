// The memory row: what a rank remembers between the calls of a key, and how this changes what is encoded.
// Memory rules are the third part of a method, beside codecs (codec.hpp) and plans. A reader of a policy, a
// test or the engine needs only this file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/codec.hpp"

// A function of a rule's file that works on a tile: the file is compiled for each instruction set of the
// processor, and for GPUs (kernels/cuda/memory.cuh).
#ifdef __CUDACC__
#  define MQ_RULE __device__
#else
#  define MQ_RULE
#endif

namespace mq::kernels {

// The most arrays that a rule keeps on a rank.
inline constexpr std::size_t kMaxArrays = 3;

// Some elements of a rank's vector: whole blocks of the codec, few enough that all that is named here stays
// in the L1 and L2 caches. Arrays may have any alignment.
struct MemoryTile {
  const void* x = nullptr;                // n elements; never written
  std::array<void*, kMaxArrays> array{};  // the rule's arrays at these elements; null: it has none there
  void* scratch = nullptr;                // room for n elements; keeps its content from before() to after()
  std::size_t n = 0;
  Params params;      // of the rule
  double factor = 1;  // what MemoryRule::factor gave for the whole vector
  // For rules with estimates. exact_restart: the call is exact and starts the estimates again. The first
  // array is then what a rule without estimates has left, and the sum of estimates is zero. message: which of
  // the rule's messages is encoded.
  bool exact_restart = false;
  int message = 0;
};

// Squares of distances of a rank's vector x: from its estimate, and from the vector of the call before.
struct Distances {
  double from_estimate = 0, from_last = 0;
};

// What the codec encodes: v = x + residual (Feedback::carry). The encode leaves v - decoded in residual.
struct Operand {
  const void* x = nullptr;
  void* residual = nullptr;
};

// The functions of a rule for one element type and one instruction set. They are stateless and thread-safe,
// and all instruction sets give the same bits. Arrays stay finite: what is not finite becomes zero.
struct MemoryOps {
  // Called for a rank's own elements before they are encoded. Returns what is encoded, which depends on the
  // tile's pointers, `exact_restart` and `message` alone. With n = 0 it only returns the pointers. If a rule
  // with estimates returns {x, array[0]}, it has not written.
  Operand (*before)(const MemoryTile&) noexcept = nullptr;
  // Called after that encode. Null if there is nothing to do.
  void (*after)(const MemoryTile&) noexcept = nullptr;
  // A number that before() needs of a rank's whole vector: MemoryTile::factor. norm: the Euclidean norm of
  // the finite elements. Null if the rule needs none, as the next two.
  double (*factor)(double norm, const Params&, int ranks) noexcept = nullptr;
  // The sum of (x[i] * scale)^2 over the finite elements, and sqrt(squares) / scale, at most the greatest
  // double.
  double (*squares)(const void* x, std::size_t n, double scale) noexcept = nullptr;
  double (*norm)(double squares, double scale) noexcept = nullptr;

  // For rules with estimates, else null.
  // Makes the call's result of n elements of the sum of what all ranks sent, in place.
  void (*deliver)(const MemoryTile&, void* sum) noexcept = nullptr;
  // Called in place of before and after for elements that this rank skips, that is does not send. Null if
  // there is nothing to do.
  void (*skip)(const MemoryTile&) noexcept = nullptr;
  // Of a rank's vector, each difference times scale. Not finite if the vector is not. Null if the rule never
  // asks for them.
  Distances (*distances)(const MemoryTile&, double scale) noexcept = nullptr;
};

// How a rule with estimates behaves with its parameters. All of it is equal on all ranks.
struct EstimateTerms {
  std::uint8_t form =
      0;  // which rule, and which form of it. A call does not continue the estimates of another form
  std::uint64_t resync = 0;  // an exact call comes after so many others; 0: only the first call is exact
  // Calls in a row in which a rank may send nothing, so that its estimate stays as it is.
  std::uint64_t max_skipped = 0;
  double exact_chance = 0;  // how probable it is that a call is exact. All ranks throw the same coin
  double zeta = -1;         // a rank sends if from_estimate > zeta * from_last. Less than 0: it always does
  int messages = 1;         // in one encode of a rank's elements: the codec runs so many times
  bool needs_unbiased = false;  // the codec must be unbiased
};

struct MemoryRule {
  std::string_view name;             // unique; the word after "memory=" in a method
  std::uint8_t id;                   // unique for ever; part of the call's signature
  std::string_view what;             // one line for --list: the idea and its source
  std::span<const ParamSpec> specs;  // at most kMaxParams
  // Arrays of a rank, each as long as its vector. The first one is the residual: what was left out and not
  // delivered. The losses of sums are added to it. 0: the rule keeps nothing.
  int arrays;
  // Every rank encodes its own elements before any are added, also the rank that adds (Ranks::encodes_own).
  bool encodes_own;
  // Results are sums of the vectors, but for what is left out. False if the rule makes another vector of them
  // first.
  bool keeps_sums;
  // Each rank keeps an estimate of its own vector, and all ranks keep the sum of all estimates, which is the
  // result. Ranks send how their estimates change. The first array is minus the estimate, so that losses of
  // sums can be added to it: then the second array, equal on all ranks, remains the sum of the estimates. The
  // codec must be a contraction (Codec::contraction).
  bool keeps_estimates;
  // Serves collectives that add nothing up too. Each element is then of one rank, and the sum of estimates is
  // its estimate. So the rule keeps the second array only, of the whole vector, and the first one is null.
  bool mirrors;
  // Null for none and carry, which need nothing but what codecs do themselves (Feedback).
  const MemoryOps* (*ops)(Element, Isa) noexcept;
  // True if a call with these parameters needs MemoryOps::factor.
  bool (*measures)(const Params&) noexcept;
  EstimateTerms (*terms)(const Params&) noexcept;
};

// All rules, in the order of memory/registry.def.
std::span<const MemoryRule> memory_rules() noexcept;
const MemoryRule* find_memory_rule(std::string_view name) noexcept;  // null if there is none
// The rule of a method that names none.
const MemoryRule& carry_rule() noexcept;
Params preset_params(const MemoryRule&) noexcept;

}  // namespace mq::kernels
