// The codec row: everything that the rest of the library, the tests and the benchmark know about a codec. A
// reader of a plan, a policy or a test needs only this file, not the codecs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace mq::kernels {

// Element types of the vectors that are reduced.
enum class Element : std::uint8_t { f32, f64, f16, bf16 };
inline constexpr std::array kElements{Element::f32, Element::f64, Element::f16, Element::bf16};
constexpr std::size_t element_bytes(Element e) { return e == Element::f64 ? 8 : e == Element::f32 ? 4 : 2; }
constexpr std::string_view name(Element e) {
  constexpr std::array<std::string_view, 4> names{"f32", "f64", "f16", "bf16"};
  return names[static_cast<std::size_t>(e)];
}
// The element types in which codecs compute and keep residuals. Vectors of half types are widened chunk by
// chunk (convert.hpp). So every codec serves them, sums are accumulated in float, and residuals lose nothing.
inline constexpr std::array kComputeElements{Element::f32, Element::f64};
constexpr Element compute_element(Element e) { return e == Element::f64 ? Element::f64 : Element::f32; }

// Instruction sets for which rows exist, ascending. All of them write the same bytes.
enum class Isa : std::uint8_t { scalar, avx2, avx512 };
inline constexpr std::array kIsas{Isa::scalar, Isa::avx2, Isa::avx512};
constexpr std::string_view name(Isa i) {
  constexpr std::array<std::string_view, 3> names{"scalar", "avx2", "avx512"};
  return names[static_cast<std::size_t>(i)];
}

// A codec's parameters by position; ParamSpec names them. Unused positions are 0, so that == and hashes work.
inline constexpr std::size_t kMaxParams = 6;
struct Params {
  std::array<double, kMaxParams> value{};
  bool operator==(const Params&) const = default;
};

enum class ParamKind : std::uint8_t { integer, power_of_two, real, word };
struct ParamSpec {
  std::string_view name;  // as written in a policy: codec(name=value)
  std::string_view what;  // one line, with the unit
  ParamKind kind;
  double preset, min, max;                       // the limits are inclusive
  std::span<const std::string_view> words = {};  // for kind word: the value is the position in this list
  // A parameter that must not be written beside this one, because only one of the two would count: with any
  // values, or if its own value is excluded_value.
  std::string_view excludes = {};
  double excluded_value = -1;  // -1: any
};

// Numbers that a codec measures on a rank's whole vector before the call's agreement: finite and >= 0, unused
// ones 0. The agreement gives all ranks the greatest of each.
inline constexpr std::size_t kMaxMeasured = 4;
using Measured = std::array<double, kMaxMeasured>;

enum class Measures : std::uint8_t {
  nothing,
  // With a key: in its calls until the first number is more than 0. That number, and no other, is then kept
  // with the key's residual for all later calls. Without a key: in every call.
  once_a_key,
  each_call,
};

// What the decoded elements of a block can be. mpiq-quality compares an encode with the best that any encoder
// could do.
enum class Form : std::uint8_t {
  other,
  bf16,  // any numbers of the type
  f16,
  two_values,    // for all elements
  three_values,  // one of which is 0
  few_elements,  // any values, most of which are 0
};

// What encode does with the residual array (error feedback, Seide et al. 2014, section 3).
enum class Feedback : std::uint8_t {
  none,     // v = x
  carry,    // v = x + residual;  residual  = v - decoded
  deposit,  // v = x;             residual += v - decoded   (loss of a later hop: kept, not sent in this call)
};

// Where the elements of one encode or decode are in their call. Random numbers are a function of it, and so
// the same on every rank that encodes the same operand, and independent between operands.
struct NoiseIndex {
  std::uint64_t call = 0;   // equal on all ranks, and another number in each call
  std::uint64_t sum = 0;    // Step::sum: equal where and only where the operands of one chunk are equal
  std::uint64_t index = 0;  // of the first element in the vector of the call; a multiple of block()
  int ranks = 1;            // that take part in the call
};

// Arrays may have any alignment, even one that is not a multiple of the element size.
struct EncodeArgs {
  const void* x = nullptr;  // n elements; never written
  // n elements of the same type; null in a call without error feedback. Not accessed with Feedback::none.
  void* residual = nullptr;
  Feedback feedback = Feedback::none;
  std::size_t n = 0;
  Params params;
  std::byte* wire = nullptr;  // room for wire_bound(n) bytes; nothing beyond is written
  NoiseIndex noise = {};
};

struct Encoded {
  std::size_t bytes = 0;        // written to wire
  std::uint64_t nonfinite = 0;  // elements of v that were NaN or Inf
  // Finite elements of v that the codec cannot hold: those that decode to NaN or Inf though no element of v
  // is NaN or Inf, and those whose magnitude keeps their block from being sent.
  std::uint64_t overflows = 0;
};

struct DecodeArgs {
  const std::byte* wire = nullptr;
  std::size_t wire_bytes = 0;
  std::size_t n = 0;
  Params params;
  const void* base = nullptr;  // null: x = decoded; else x[i] = base[i] + decoded[i]. base may equal x
  void* x = nullptr;           // n elements
  // x will not be read again soon, so it may be written past the caches. This does not change the values.
  bool stream = false;
  NoiseIndex noise = {};  // as of the encode
};

enum class [[nodiscard]] Decoded : std::uint8_t{ok, malformed};

using WireView = std::span<const std::byte>;
// So many wires, at most, are decoded in one pass.
inline constexpr std::size_t kMostSummed = 8;

// The functions of a codec for one element type and one instruction set. They are stateless and thread-safe.
struct CodecOps {
  // Encodes n elements. A non-finite element of v decodes to NaN or Inf, and its residual becomes 0. If a
  // deposit would make a residual non-finite, the residual keeps its value. So residuals stay finite.
  Encoded (*encode)(const EncodeArgs&) noexcept;
  // Decodes n elements. Malformed means that encode cannot have written this wire for this n and these
  // params. Then x holds unspecified values, but nothing outside x was written and nothing outside the wire
  // was read.
  Decoded (*decode)(const DecodeArgs&) noexcept;
  // Decodes 1 to kMostSummed wires and adds them in one pass: x = base + decoded[0] + decoded[1] + ..., or
  // x = decoded[0] + decoded[1] + ... without base. args.wire, args.wire_bytes and args.noise do not count.
  // The bits equal what one decode after the other gives. Null: the codec has no such loop.
  Decoded (*decode_sum)(const DecodeArgs& args, std::span<const WireView> wires) noexcept;
};

struct Codec {
  std::string_view name;             // unique; the word in policies and result files
  std::uint16_t id;                  // unique for ever; part of every frame
  std::string_view what;             // one line for --list: the idea and its source
  bool lossless;                     // decode(encode(x)) == x, bit for bit
  std::span<const ParamSpec> specs;  // at most kMaxParams
  // Number of elements that are encoded together. A vector that is cut at multiples of this number encodes,
  // piece by piece, to the same bytes.
  std::size_t (*block)(const Params&) noexcept;
  // Upper bound of the bytes that encode writes for n elements; the same number on every rank.
  std::size_t (*wire_bound)(std::size_t n, Element, const Params&) noexcept;
  const CodecOps* (*ops)(Element, Isa) noexcept;
  // True if these parameters describe a whole message (for example one mean for a tensor). Then a rank's
  // slice is one message, whatever its length. block() still says where slices may be cut.
  bool (*whole)(const Params&) noexcept;
  // What is wrong with parameters that are each within their limits; "" if nothing is.
  std::string_view (*conflict)(const Params&) noexcept;
  // When these parameters ask for numbers that are measured on the whole vector.
  Measures (*measures)(const Params&) noexcept;
  // Measures n elements of a rank's vector. Null, as settle, if no parameters of this codec ask for any.
  Measured (*measure)(const void* x, std::size_t n, Element, const Params&) noexcept;
  // The parameters to encode with, from the greatest of each measured number over all ranks.
  Params (*settle)(const Params&, const Measured&) noexcept;
  // True if the expected value of decoded, over the calls, is v for every finite v within the codec's range.
  // The error may then exceed the vector, and error feedback may let it grow.
  bool (*unbiased)(const Params&) noexcept;
  // True if E|decoded - v|^2 <= (1 - a) |v|^2 for one a > 0 and every v within the codec's range: a
  // contraction, as memory rules with estimates need (EF21, Richtarik et al. 2021; 3PC, 2022). Else errors
  // may grow from call to call.
  bool (*contraction)(const Params&) noexcept;
  // A bound of |decoded - v| for each element, as a share of the greatest magnitude of its block, for blocks
  // whose magnitudes are normal numbers at least 2^20 above the smallest. 0: no such bound.
  double (*error_bound)(const Params&) noexcept;
  // A bound of |decoded - v| for each element, of any vector, in a call of so many ranks: what one rank's
  // contribution loses. 0: no such bound.
  double (*absolute_bound)(const Params&, int ranks) noexcept;
  Form (*form)(const Params&) noexcept;
  // True if -x decodes to minus what x decodes to.
  bool (*symmetric)(const Params&) noexcept;
  // True if elements that share a block (or a smaller group) with a NaN or Inf are not sent: they wait in the
  // residual or, without one, decode to NaN.
  bool marks_blocks;
  // True if all ranks decode to multiples of one step. Sums of such values are exact while they are not too
  // long for the element type, and encodes of sums lose nothing. Plans then encode every rank's elements
  // before any are added.
  bool exact_sums;
};

// All codecs, in the order of the registry. --list, the policy grammar, the tests and the sweeps use this
// list.
std::span<const Codec> codecs() noexcept;
const Codec* find_codec(std::string_view name) noexcept;  // null if there is none
Params preset_params(const Codec&) noexcept;

// The best instruction set that this processor and operating system support.
Isa best_isa() noexcept;

}  // namespace mq::kernels
