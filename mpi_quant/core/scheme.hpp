// What the core and the schemes give each other. A scheme makes one call by several reductions, its parts.
// It says what the parts are and what this rank computes between them. SchemeRun starts and advances them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "mpi_quant/core/decide.hpp"
#include "mpi_quant/core/listed.hpp"
#include "mpi_quant/core/request.hpp"

namespace mq {

// A part, and what this rank brings to its agreement: a number that is not negative. All ranks get the
// greatest. Null: there is no part.
struct SchemePart {
  const Call* call = nullptr;
  double measured = 0;
};

// The steps of one scheme, for one call at a time. They are kept for the next call. The mutex of the
// communicator's state is held in all of them.
class SchemeSteps {
 public:
  virtual ~SchemeSteps() = default;
  // Gets all that can be missing on one rank alone. Allocates only what no earlier call needed. May throw
  // std::bad_alloc. call: an allreduce of floats or doubles. decision: with the key and the method, whose
  // scheme this is.
  virtual Status prepare(const Call& call, const MatrixShape& matrix, const Decision& decision) = 0;
  // How many calls this rank's residual has served. Valid after prepare(), as parts() is.
  virtual std::uint64_t calls() const = 0;
  // The parts that a call usually has. Each is a sum by MPI_SUM.
  virtual std::span<const Call> parts() const = 0;
  // All ranks have agreed on the call. calls: the greatest of all ranks. Computes what the first part sums.
  virtual SchemePart begin(std::uint64_t calls) noexcept = 0;
  // A part is over. Computes what follows from its sum, and returns the next part. None: the result is there.
  // has_failed: on this rank; on others it may have succeeded. Then this returns a part if these others will
  // make another one, and forgets what a result of others leaves without meaning. greatest: of the part's
  // agreement.
  virtual SchemePart next(bool has_failed, double greatest) noexcept = 0;
  // The end of the call, whatever became of it. Also if prepare() was not called.
  virtual void release(const Key& key, bool has_failed) noexcept = 0;
};

// What a scheme does, beside its words in mpi_quant/policy/scheme.hpp. Its file has one of these.
struct SchemeEntry : Listed<SchemeEntry> {
  using Suits = bool (*)(const Call& call, const CallOptions& options, const kernels::Params& params);
  using Make = std::unique_ptr<SchemeSteps> (*)(CommState& state);
  SchemeEntry(std::string_view n, Suits s, Make m) noexcept : name(n), suits(s), make(m) {}
  // Null: this program is linked without the scheme.
  static const SchemeEntry* find(const Scheme& scheme) {
    const SchemeEntry* entry = first();
    while (entry != nullptr && entry->name != scheme.name) entry = entry->next();
    return entry;
  }
  std::string_view name;  // of the scheme in policies
  // Whether it can serve this allreduce of floats or doubles. If not, MPI reduces. Equal on all ranks.
  Suits suits;
  Make make;  // may throw std::bad_alloc
};

}  // namespace mq
