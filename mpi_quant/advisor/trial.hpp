// Tries codecs on a program's own data: their seconds, their bytes and the error they would have made.
// Changes nothing. Uses no MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/codec.hpp"
#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq {

// A method that the advisor tries. There is one for each way to compress; a user who likes one can vary its
// parameters. With MPIQ_ADVISE_ERROR, bound is among them, with shares of the greatest magnitude that suit
// that error.
struct Candidate {
  std::string text;
  Method method;
};
std::span<const Candidate> candidates();

// The largest number of elements of a window: 1 MiB of floats, which takes some milliseconds for all
// candidates. A window begins and ends at a multiple of kWindowGrain, the longest block of a candidate, or at
// an end of the vector.
inline constexpr std::size_t kWindowElements = std::size_t{256} << 10;
inline constexpr std::size_t kWindowGrain = 16384;

// What happened to the elements under one method. The sums of squares cover only the parts in which every
// value was finite before and after: `measured` elements.
struct Trial {
  std::uint64_t elements = 0, wire_bytes = 0, measured = 0;
  std::uint64_t ruined = 0;  // finite elements that came out as NaN or Inf, beyond the range of the method
  // measure: what the codec measures of the vector
  double encode_s = 0, decode_s = 0, measure_s = 0;
  double error2 = 0;               // sum of (v - decoded)^2
  double norm2 = 0, decoded2 = 0;  // sums of v^2 and of decoded^2
  void add(const Trial& other);
  bool operator==(const Trial&) const = default;
};

// Runs trials, and keeps its scratch memory from one trial to the next.
class Trials {
 public:
  enum class Stage {
    contribution,  // a rank's input; the parameters that a codec measures are measured on it
    aggregate,     // a sum, which its owner encodes once more with the parameters of the contributions
  };
  // Adds what happened to n elements, of a call of so many ranks, to the trial of each candidate. Returns
  // false and adds nothing if there is no memory, or if the type is not f32 or f64. May throw std::bad_alloc.
  bool try_methods(const std::byte* x, std::size_t n, kernels::Element element, kernels::Isa isa, int ranks,
                   Stage stage, std::vector<Trial>& into);

 private:
  struct Part;
  bool prepare(kernels::Element element);
  void run(const Part& part, Trial& trial);

  Buffer wire_, decoded_;
  std::vector<kernels::Params> settled_;  // by candidate
  std::vector<char> warm_;                // by candidate, for each element type
};

// Seconds to read this many bytes, cache line by cache line. If nobody has read them before, this is the time
// that memory takes. The times of the codecs in a trial do not contain it.
double time_to_read(const std::byte* x, std::size_t bytes) noexcept;

// Seconds of a clock that never goes back.
double steady_s() noexcept;

}  // namespace mq
