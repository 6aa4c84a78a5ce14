// The memory row: what a rank remembers between the calls of a key, and how this changes what is encoded. Memory rules
// stand beside codecs (codec.hpp) and plans. A reader of a policy, a test or the engine needs only this file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/codec.hpp"

namespace mq::kernels {

// The most arrays that a rule keeps on a rank.
inline constexpr std::size_t kMaxArrays = 3;

// Some elements of a rank's vector: whole blocks of the codec, few enough that all that is named here stays in the L1 and
// L2 caches. Arrays may have any alignment.
struct MemoryTile {
  const void* x = nullptr;                // n elements; never written
  std::array<void*, kMaxArrays> array{};  // the rule's arrays at these elements
  void* scratch = nullptr;                // room for n elements; keeps its content from before() to after()
  std::size_t n = 0;
  Params params;      // of the rule
  double factor = 1;  // what MemoryRule::factor gave for the whole vector
};

// What the codec encodes: v = x + residual (Feedback::carry). The encode leaves v - decoded in residual.
struct Operand {
  const void* x = nullptr;
  void* residual = nullptr;
};

// The functions of a rule for one element type and one instruction set. They are stateless and thread-safe, and all
// instruction sets give the same bits. Arrays stay finite: what is not finite becomes zero.
struct MemoryOps {
  // Called for a rank's own elements before they are encoded. Says what is encoded.
  Operand (*before)(const MemoryTile&) noexcept = nullptr;
  // Called after that encode. Null if there is nothing to do.
  void (*after)(const MemoryTile&) noexcept = nullptr;
  // A number that before() needs of a rank's whole vector: MemoryTile::factor. norm: the Euclidean norm of the finite
  // elements. Null if the rule needs none, as the next two.
  double (*factor)(double norm, const Params&, int ranks) noexcept = nullptr;
  // The sum of (x[i] * scale)^2 over the finite elements, and sqrt(squares) / scale, at most the greatest double.
  double (*squares)(const void* x, std::size_t n, double scale) noexcept = nullptr;
  double (*norm)(double squares, double scale) noexcept = nullptr;
};

struct MemoryRule {
  std::string_view name;             // unique; the word after "memory=" in a method
  std::uint8_t id;                   // unique for ever; part of the call's signature
  std::string_view what;             // one line for --list: the idea and its source
  std::span<const ParamSpec> specs;  // at most kMaxParams
  // Arrays of a rank, each as long as its vector. The first one is the residual: what was left out and not delivered. The
  // losses of sums are added to it. 0: the rule keeps nothing.
  int arrays;
  // Every rank's own elements are encoded before any are added, those of the rank that adds as well (Ranks::encodes_own).
  bool encodes_own;
  // Results are sums of the vectors, but for what is left out. False if the rule makes another vector of them first.
  bool keeps_sums;
  // Null for none and carry, which need nothing but what codecs do themselves (Feedback).
  const MemoryOps* (*ops)(Element, Isa) noexcept;
  // True if a call with these parameters needs MemoryOps::factor.
  bool (*measures)(const Params&) noexcept;
};

// All rules, in the order of memory/registry.def.
std::span<const MemoryRule> memory_rules() noexcept;
const MemoryRule* find_memory_rule(std::string_view name) noexcept;  // null if there is none
// The rule of a method that names none.
const MemoryRule& carry_rule() noexcept;
Params preset_params(const MemoryRule&) noexcept;

}  // namespace mq::kernels
