// The codec row: everything the rest of the library, the tests and the benchmark know about a codec.
// Separate from the codecs so that a reader of a plan, a policy or a test needs this file only.
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
// The element types codecs compute in, and keep residuals in. Vectors of the half types are widened chunk by
// chunk (convert.hpp), so that every codec serves them, sums are accumulated in float and residuals lose
// nothing.
inline constexpr std::array kComputeElements{Element::f32, Element::f64};
constexpr Element compute_element(Element e) { return e == Element::f64 ? Element::f64 : Element::f32; }

// Instruction sets a row exists for, ascending. All of them write the same bytes.
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
  double preset, min, max;                       // inclusive
  std::span<const std::string_view> words = {};  // of a word: the value is the position in this list
};

// What encode does with the residual array (error feedback, Seide et al. 2014, section 3).
enum class Feedback : std::uint8_t {
  none,     // v = x
  carry,    // v = x + residual;  residual  = v - decoded
  deposit,  // v = x;             residual += v - decoded   (a later hop's loss, kept but not re-sent in this
            // call)
};

// Arrays may have any alignment, also one that is not a multiple of the element size.
struct EncodeArgs {
  const void* x = nullptr;  // n elements; never written
  // n elements of the same type, or null in a call without error feedback; not touched with Feedback::none.
  void* residual = nullptr;
  Feedback feedback = Feedback::none;
  std::size_t n = 0;
  Params params;
  std::byte* wire = nullptr;  // room for wire_bound(n) bytes; nothing beyond is written
};

struct Encoded {
  std::size_t bytes = 0;        // written to wire
  std::uint64_t nonfinite = 0;  // elements of v that were NaN or Inf
};

struct DecodeArgs {
  const std::byte* wire = nullptr;
  std::size_t wire_bytes = 0;
  std::size_t n = 0;
  Params params;
  const void* base =
      nullptr;        // null: x = decoded; else x = base + decoded, element by element. base may equal x
  void* x = nullptr;  // n elements
  // x is not read again soon: it may be written around the caches. No effect on the values.
  bool stream = false;
};

enum class [[nodiscard]] Decoded : std::uint8_t{ok, malformed};

// The functions of a codec for one element type and one instruction set. Stateless, and safe to call from any
// thread.
struct CodecOps {
  // Encodes n elements. A non-finite element of v decodes to NaN or Inf; its residual becomes 0; a deposit
  // whose sum would not be finite leaves the residual as it was. So residuals stay finite.
  Encoded (*encode)(const EncodeArgs&) noexcept;
  // Decodes n elements. Malformed: encode cannot have written this wire with these n and params; then x holds
  // unspecified values, but nothing outside x was written and nothing outside wire was read.
  Decoded (*decode)(const DecodeArgs&) noexcept;
};

struct Codec {
  std::string_view name;             // unique; the word in policies and result files
  std::uint16_t id;                  // unique for ever; part of every frame
  std::string_view what;             // one line for --list: the idea and its source
  bool lossless;                     // decode(encode(x)) == x bit for bit
  std::span<const ParamSpec> specs;  // at most kMaxParams
  // Elements that are encoded together. A vector cut at multiples of this encodes, piece by piece, to the
  // same bytes.
  std::size_t (*block)(const Params&) noexcept;
  // Hard upper bound, in bytes, of what encode writes for n elements; the same number on every rank.
  std::size_t (*wire_bound)(std::size_t n, Element, const Params&) noexcept;
  const CodecOps* (*ops)(Element, Isa) noexcept;
  // True if these parameters describe a whole message (a mean a tensor): a rank's slice is then one message,
  // however long. block() is still where slices may be cut.
  bool (*whole)(const Params&) noexcept;
  // A parameter that is measured: what these n elements propose for it, a finite number >= 0. The library
  // takes the greatest proposal of all ranks, on the first call of a key (later calls keep it) or on every
  // call without one. Null: the codec has no such parameter.
  double (*propose)(const void* x, std::size_t n, Element, const Params&) noexcept;
  // True if these parameters ask for it; and the parameters to encode with.
  bool (*proposes)(const Params&) noexcept;
  Params (*settle)(const Params&, double proposal) noexcept;
};

// All codecs, in the order of the registry. Ends up in --list, the policy grammar, the tests and the sweeps.
std::span<const Codec> codecs() noexcept;
const Codec* find_codec(std::string_view name) noexcept;  // null if there is none
Params preset_params(const Codec&) noexcept;

// The best instruction set this processor and operating system support.
Isa best_isa() noexcept;

}  // namespace mq::kernels
