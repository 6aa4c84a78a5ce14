// What goes over the wire besides encoded elements: the hello of a call and the header of a frame. They are
// plain structs of little-endian hosts.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "kernels/codec.hpp"
#include "mpi_quant/automatic/heard.hpp"
#include "mpi_quant/base/hash.hpp"
#include "mpi_quant/plan/collective.hpp"

namespace mq {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

inline constexpr std::uint32_t kFrameMagic = 0x4651504d;  // "MPQF"
inline constexpr std::uint32_t kHelloMagic = 0x4851504d;  // "MPQH"
inline constexpr std::uint16_t kWireVersion = 16;

// What two ranks must agree on before they exchange frames. If it is not equal on all ranks, the call fails
// on all ranks.
struct Signature {
  std::uint64_t count = 0;
  std::uint64_t params_hash = 0;  // for mpi its upper half is a hash of operation and type; 0: a sum of reals
  std::uint32_t sequence = 0;     // number of the call on its communicator
  std::uint16_t codec = 0;        // 0 for mpi
  std::uint8_t plan = 0;          // 0 for mpi
  std::uint8_t memory = 0;        // id of the memory rule; 0 for mpi
  std::uint8_t element = 0;       // kernels::Element, or kOtherElement
  std::uint8_t kind = 0;          // of the call: kBlocking and so on
  std::uint16_t error_code = 0;   // Code of the error that keeps this rank from taking part; 0: none
  std::uint32_t key = 0;          // hash of the residual key; 0: none
  bool operator==(const Signature&) const = default;
};
static_assert(sizeof(Signature) == 32);
inline constexpr std::uint8_t kOtherElement = 0xff;
inline constexpr std::uint8_t kPairs = 0x40;  // with an element: two of them are one complex number
inline constexpr std::uint8_t kMean = 0x20;   // with an element: the result is the sum divided by the ranks
// Kinds of calls. Calls of different kinds cannot meet. A blocking call meets a non-blocking or persistent
// one if a codec reduces both. It does not if MPI reduces, because MPI's blocking reduction never meets its
// non-blocking one.
inline constexpr std::uint8_t kBlocking = 0;
inline constexpr std::uint8_t kIntercepted = 1;  // if only the methods differ, all ranks reduce exactly
inline constexpr std::uint8_t kNonblocking = 2;  // a non-blocking call that MPI reduces
inline constexpr std::uint8_t kInit = 3;         // nothing is reduced
inline constexpr std::uint8_t kChosen = 4;       // blocking, by auto; like kIntercepted
inline constexpr std::uint8_t kChosenNonblocking = 5;
// The four upper bits of Signature::kind: the collective, and whether parts have counts of their own. 0: an
// allreduce. With parts, the lower half of params_hash is a hash of their counts; with a root, its number.
inline constexpr int kFormShift = 4;
inline constexpr std::uint8_t kKindMask = (1U << kFormShift) - 1;
constexpr std::uint8_t form_bits(Collective collective, bool is_uneven) {
  return static_cast<std::uint8_t>((2 * static_cast<unsigned>(collective) + is_uneven) << kFormShift);
}
// An allreduce of several vectors. The lower half of params_hash is then a hash of their counts.
inline constexpr std::uint8_t kGroupForm = form_bits(Collective::allreduce, true);
inline constexpr std::uint64_t kPartsMask = 0xffffffff;
constexpr std::uint64_t with_parts(std::uint64_t params_hash, std::uint32_t parts) {
  return (params_hash & ~kPartsMask) | parts;
}
// In calls by auto: a hash of its limit. Ranks with different limits would allow different results.
inline constexpr int kLimitShift = 32;
inline constexpr std::uint64_t kLimitMask = std::uint64_t{0xffff} << kLimitShift;
constexpr std::uint64_t with_limit(std::uint64_t params_hash, std::uint16_t limit) {
  return (params_hash & ~kLimitMask) | std::uint64_t{limit} << kLimitShift;
}
// In place of a codec: a function of sparse reductions. params_hash is then the hash of its options.
inline constexpr std::uint16_t kSparseReduce = 0xff01, kSparseInit = 0xff02, kSparseUnion = 0xff03;
// In place of a codec: a collective function that is no reduction. Its name without "MPIQ_" is then in count
// and params_hash.
inline constexpr std::uint16_t kFunction = 0xff04;
// A call by a scheme, whose id is in plan.
inline constexpr std::uint16_t kScheme = 0xff05;

// Numbers that ranks bring to the agreement. All get the greatest of each.
struct Maxima {
  kernels::Measured measured{};  // of the vector (kernels::Codec::measure)
  std::uint64_t calls = 0;       // that the residual of the call's key has served
  std::uint64_t seed = 0;        // of random rounding
  // About the estimates of the key, if the memory rule keeps some. version: 0 before their first call. Two
  // ranks differ in it if the greatest version is not the complement of the greatest complement.
  std::uint64_t version = 0, version_complement = 0;
  std::uint16_t missing = 0;  // 1: this rank has no arrays for them
  std::uint16_t starts = 0;   // 1: this rank asks for an exact call, which starts them again
  std::uint16_t sends = 0;    // 1: this rank has something to send
  std::uint16_t unused = 0;
  Heard heard = {};  // times and errors for a method that is chosen (automatic/chooser.hpp)
};
inline Maxima greatest(const Maxima& a, const Maxima& b) {
  Maxima most{{},
              std::max(a.calls, b.calls),
              std::max(a.seed, b.seed),
              std::max(a.version, b.version),
              std::max(a.version_complement, b.version_complement),
              std::max(a.missing, b.missing),
              std::max(a.starts, b.starts),
              std::max(a.sends, b.sends),
              0,
              greatest(a.heard, b.heard)};
  // Compared as integers: a rank may treat subnormal numbers as 0. Measured values are not negative; minus
  // zero is less than zero.
  const auto bits = [](double value) { return std::bit_cast<std::int64_t>(value); };
  for (std::size_t i = 0; i < most.measured.size(); ++i)
    most.measured[i] = bits(a.measured[i]) < bits(b.measured[i]) ? b.measured[i] : a.measured[i];
  return most;
}

// What a rank knows about a set of ranks: the lowest rank, and the lowest rank with another signature, if
// there is one; and their maxima.
struct Hello {
  std::uint32_t magic = kHelloMagic;
  std::uint16_t version = kWireVersion;
  std::uint16_t differs = 0;  // 1: other and other_rank are set
  std::int32_t first_rank = 0;
  std::int32_t other_rank = -1;
  Signature first, other;
  Maxima maxima;
};
static_assert(sizeof(Hello) == 192);

// Precedes every encoded chunk. 32 bytes.
struct FrameHeader {
  std::uint32_t magic = kFrameMagic;
  std::uint16_t version = kWireVersion;
  std::uint16_t error_code = 0;  // Code; not 0: a poison frame without payload, the sender has failed
  std::uint64_t call = 0;        // hash of the call's signature
  std::uint32_t segment = 0;
  std::uint32_t chunk = 0;
  std::uint64_t payload_bytes = 0;
};
static_assert(sizeof(FrameHeader) == 32);

inline std::uint32_t hash_of_key(std::string_view key) {
  return key.empty() ? 0 : static_cast<std::uint32_t>(hash_of(key) % 0xffffffffu) + 1;
}
inline std::uint64_t hash_of(const kernels::Params& params) { return Hash{}.add(params.value).value(); }
inline std::uint64_t hash_of(const Signature& signature) { return Hash{}.add(signature).value(); }

// The key of a call's random numbers (kernels::NoiseIndex::call). With a residual key that all ranks know, it
// is a function of the key and the number of the key's call, whatever happened in between and on whatever
// communicator of these ranks. So a run that restores its residuals goes on with the same numbers. Else it is
// a function of the call's signature. group: a number of the ranks that take part, so that groups that reduce
// side by side have numbers of their own.
inline std::uint64_t random_key(const Signature& signature, const Maxima& maxima, std::uint64_t group) {
  const std::uint64_t call =
      signature.key == 0 ? hash_of(signature) : mixed(signature.key) ^ (maxima.calls + 0x9e3779b97f4a7c15u);
  return mixed(mixed(mixed(maxima.seed + 0x9e3779b97f4a7c15u) + group) ^ mixed(call));
}

}  // namespace mq
