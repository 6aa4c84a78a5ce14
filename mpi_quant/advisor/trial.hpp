// Codecs tried on a program's own data: seconds, bytes and the error they would have made. Changes nothing.
// Knows no MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/codec.hpp"
#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq {

// A method that the advisor tries: one for each way to compress. A user who likes one varies its parameters.
struct Candidate {
  std::string_view text;
  Method method;
};
std::span<const Candidate> candidates();

// A window has at most so many elements: 1 MiB of floats, some milliseconds for all candidates. It begins and
// ends at a multiple of kWindowGrain, the longest block of a candidate, or where the vector does.
inline constexpr std::size_t kWindowElements = std::size_t{256} << 10;
inline constexpr std::size_t kWindowGrain = 16384;

// What happened to the elements of one method. The sums of squares are over the parts in which everything was
// finite before and after: `measured` elements.
struct Trial {
  std::uint64_t elements = 0, wire_bytes = 0, measured = 0;
  std::uint64_t ruined = 0;  // finite elements that came out as NaN or Inf: beyond the range of the method
  double encode_s = 0, decode_s = 0, propose_s = 0;  // propose: the codec's parameter measured on the vector
  double error2 = 0;                                 // sum of (v - decoded)^2
  double norm2 = 0, decoded2 = 0;                    // sums of v^2 and of decoded^2
  void add(const Trial& other);
  bool operator==(const Trial&) const = default;
};

// Keeps its scratch memory from one trial to the next.
class Trials {
 public:
  enum class Stage {
    contribution,  // a rank's input: measures the parameters that are measured
    aggregate,     // a sum, which its owner encodes once more, with the parameters of the contributions
  };
  // Adds what happened to n elements to the trial of each candidate. False, and nothing is added: no memory,
  // or not f32 or f64. May throw std::bad_alloc.
  bool try_methods(const std::byte* x, std::size_t n, kernels::Element element, kernels::Isa isa, Stage stage,
                   std::vector<Trial>& into);

 private:
  struct Part;
  bool prepare(kernels::Element element);
  void run(const Part& part, Trial& trial);

  Buffer wire_, decoded_;
  std::vector<kernels::Params> settled_;  // by candidate
  std::vector<char> warm_;                // by candidate, for each element type
};

// Seconds to read so many bytes, cache line by cache line: what memory takes where they lie, if this is the
// first to read them. What the codecs of a trial take does not contain it.
double time_to_read(const std::byte* x, std::size_t bytes) noexcept;

// Seconds of a clock that never goes back.
double steady_s() noexcept;

}  // namespace mq
