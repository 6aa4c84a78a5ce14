// The control language: how the text of rules becomes the method of a call. This is the one parser for
// MPIQ_POLICY, MPI_Info values, MPIQ_Comm_set_policy, mpiq-bench --methods and result files.
//
//   policy       := [rule {';' rule}]          the last matching rule wins; no match means mpi
//   rule         := selectors ':' method {option}
//   selectors    := [collective] [bytes] ['@' ranks]
//                   {element | 'calls=' calls | 'comm=' name | 'site=' name | 'small'}
//                   "64K-1M@4- f32 calls=100-"; what is missing matches everything
//   collective   := 'allreduce' | 'reduce_scatter' | 'allgather' | 'bcast' | 'reduce'
//                                              none means allreduce
//   bytes        := N- | -N | N-M             N- is "N and more"; N alone is an error that says so
//   ranks, calls := N | N- | -N | N-M
//   name         := with * for any text and ? for any character; no blanks, ':' or ';'
//   method       := 'mpi' | codec [params] ['/' plan] ['memory=' rule [params]] | scheme [params] ['/' plan]
//                   | 'auto' ['(error=' limit ')']
//   limit        := X | 'abs:' X | 'feedback' [':' N]      a relative error; see Automatic
//   params       := '(' param=value {',' param=value} ')'
//   option       := 'feedback=' off|key|address|sequence | 'guard=' N | 'error=' X | 'seed=' S
//
// 'site', 'small' and the options but 'seed' are for calls of unmodified programs
// (preload/intercept.cpp). A call site is a fact of one rank, and ranks may differ in it. A rule matches sums
// below 64 KiB only if it says 'small' and names a lower bound of at least 4 KiB. MPIQ_Allreduce and its
// relatives have no call site and ignore these options.
//
// Ranges of bytes and calls exclude their upper end ("0-64K" and "64K-" do not overlap). Ranges of ranks
// include it ("@2-4" is 2, 3, 4). Calls are counted from 0 on each communicator. Every call of MPIQ_Allreduce
// and its relatives counts, and every sum that the preload library may compress. White space between words
// and numbers has no meaning. Numbers take the suffixes K, M, G = 2^10, 2^20, 2^30. A choice depends only on
// values that MPI makes equal on every rank, except for the call site. So 'auto' and 'site=' cannot stand in
// one policy.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/codec.hpp"
#include "kernels/memory.hpp"
#include "mpi_quant/base/status.hpp"
#include "mpi_quant/plan/collective.hpp"
#include "mpi_quant/plan/plan.hpp"
#include "mpi_quant/policy/scheme.hpp"

namespace mq {

// What `auto` may choose from: MPI's own reduction, and the methods whose results are within a limit.
struct Automatic {
  enum class Kind : std::uint8_t {
    none,      // the method is given, and nothing is chosen
    relative,  // error=X: relative L2 error of the result; 0: lossless methods only
    absolute,  // error=abs:X: of every element of the result
    feedback,  // error=feedback:N: with memory, as long as what waits is at most N vectors long (L2)
  };
  Kind kind = Kind::none;
  double value = 0;
  bool operator==(const Automatic&) const = default;
};
inline constexpr double kUsualDebt = 4;  // vectors: of error=feedback

// How to reduce: by MPI itself (codec is null), or with a codec over a plan, and what is remembered from call
// to call. Or as `auto` chooses for each class of calls; a call itself never has such a method.
struct Method {
  const kernels::Codec* codec = nullptr;
  kernels::Params params;
  const PlanRow* plan = nullptr;                // null: chosen by size and rank count, see choose_plan
  const kernels::MemoryRule* memory = nullptr;  // null: carry
  kernels::Params memory_params;
  // Null: one reduction. Otherwise several reductions by codec raw, as this scheme says.
  const Scheme* scheme = nullptr;
  kernels::Params scheme_params = {};
  Automatic automatic = {};
  bool chooses() const { return automatic.kind != Automatic::Kind::none; }
  bool exact() const { return codec == nullptr && !chooses(); }
  const kernels::MemoryRule& memory_rule() const {
    return memory == nullptr ? kernels::carry_rule() : *memory;
  }
  // Whether every rank's own elements are encoded before any are added (Ranks::encodes_own).
  bool encodes_own() const { return codec->exact_sums || memory_rule().encodes_own; }
  bool operator==(const Method&) const = default;
};

// Prints and parses "onebit(block=512)/direct memory=decay(beta=0.9)". to_string writes only what differs
// from the preset. Its text parses to an equal Method.
Result<Method> parse_method(std::string_view text);
// Why the method cannot serve this collective: the words of an error; "" if it can.
std::string unfit_for(Collective collective, const Method&);
std::string to_string(const Method&);
std::string params_to_string(const Method&);  // "block=512": every parameter of the codec, "" for none

// "64K" -> 65536; the whole text must be a number with an optional suffix.
Result<std::uint64_t> parse_size(std::string_view text);

// Calls of unmodified programs: no vector below kFloorBytes is compressed unless a rule says "small",
// because scalars, norms and flags are that short. None at all below kSmallFloorBytes is compressed.
inline constexpr std::uint64_t kFloorBytes = 64 << 10, kSmallFloorBytes = 4 << 10;

// What a choice may depend on. Everything is equal on all ranks, except for the call site.
struct CallKey {
  std::uint64_t bytes = 0;
  int ranks = 1;
  kernels::Element element = kernels::Element::f32;
  std::uint64_t number = 0;    // calls on its communicator before this one
  std::string_view comm = {};  // name of the communicator; empty if it is not the same on all ranks
  bool intercepted = false;    // a call of an unmodified program: short vectors are never compressed
  std::string_view site = {};  // where the program called, if it is known
  Collective collective = Collective::allreduce;
};

// How the preload library knows which residual belongs to which call.
enum class Identity : std::uint8_t {
  off,       // no feedback
  key,       // the name that MPI_Pcontrol gave for the call; no feedback without one
  address,   // the stated key, or without one the address, count and type of the input
  sequence,  // the stated key, or without one the position after MPI_Pcontrol's last "step"
};
std::string_view name(Identity);
// What a rule without the word feedback= means. auto(error=feedback) is of no use without feedback, and
// unmodified programs name no keys.
constexpr Identity usual_identity(const Method& method) {
  return method.automatic.kind == Automatic::Kind::feedback ? Identity::address : Identity::key;
}

// What a rule asks for beside the method. For calls of unmodified programs.
struct Safeguards {
  Identity feedback = Identity::key;
  std::uint64_t guard = 0;  // one call in this many is compared with the exact result; 0: none
  double error = 0;         // relative L2 error beyond which the rule is no longer used; 0: no limit
  bool operator==(const Safeguards&) const = default;
};

struct Rule {
  Collective collective = Collective::allreduce;
  std::uint64_t bytes_min = 0, bytes_end = std::numeric_limits<std::uint64_t>::max();  // [min, end)
  int ranks_min = 1, ranks_max = std::numeric_limits<int>::max();                      // [min, max]
  int element = -1;  // kernels::Element, or -1: any
  std::uint64_t calls_min = 0, calls_end = std::numeric_limits<std::uint64_t>::max();  // [min, end)
  std::string comm, site;                                                              // patterns, or "": any
  bool small = false;  // matches below kFloorBytes too
  Method method;
  Safeguards safeguards;
  std::optional<std::uint64_t> seed;  // of random rounding, in place of the environment's
  bool matches(const CallKey&) const;
  // Like matches(), but ignores the call site. The answer is equal on all ranks.
  bool may_match(const CallKey&) const;
  bool operator==(const Rule&) const = default;
};
// The text after the colon: "onebit feedback=address".
std::string action_text(const Rule&);

class Policy {
 public:
  Policy() = default;  // no rules: everything is exact
  static Result<Policy> parse(std::string_view text);
  Method choose(const CallKey&) const;
  // The rule that decides. Null: no rule matches, so the method is mpi.
  const Rule* rule_for(const CallKey&) const;
  // What ranks that call from different sites may get. Equal on all ranks.
  struct Prospect {
    bool may_compress = false;  // the rule of some site compresses
    bool by_site = false;       // the choice may depend on the site
  };
  Prospect prospect(const CallKey&) const;
  // Sums of unmodified programs that are smaller match no rule.
  std::uint64_t floor_bytes() const;
  bool always_exact() const;
  // True if a rule is for this collective.
  bool names(Collective collective) const;
  // True if a rule says auto.
  bool chooses() const;
  // True if a rule has, or may choose, a plan that depends on which ranks share a node.
  bool by_nodes() const;
  const std::vector<Rule>& rules() const { return rules_; }
  std::string to_string() const;  // canonical text; parses to an equal policy
  bool operator==(const Policy&) const = default;

 private:
  std::vector<Rule> rules_;
};

// Adds to an error of the parser where the rules are: the line of this file, or MPIQ_POLICY if file is "".
Status explain(const Status& why, const std::string& file, std::string_view source = "MPIQ_POLICY_FILE");

}  // namespace mq
