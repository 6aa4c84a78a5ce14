// How long a codec's work takes on a processor, as mpiq-kernels measured it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "kernels/codec.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::sim {

// The kinds of work of mpiq-kernels (bench/kernels_host.cpp), with the words of its rows.
enum class Work : std::uint8_t { encode, encode_feedback, decode, decode_streamed, add, add_streamed };
std::string_view name(Work);

class Rates {
 public:
  // Reads a file that `mpiq-kernels --benchmark_out=FILE` wrote. isa: the instruction set; "": the best of
  // that processor. Rows of other programs and other sets are ignored.
  static Result<Rates> read(const std::string& path, std::string_view isa = {});
  static Result<Rates> parse(std::string_view json, std::string_view isa = {});
  // Every codec takes this long for a byte of elements, whatever its work. For tests, and for what a link
  // alone costs.
  static Rates constant(double byte_s);

  // Seconds for each byte of elements that are in a vector of so many bytes: vectors of lengths between those
  // of the file's rows lie between these, by the logarithm of the length. The rows must exist (missing()).
  double byte_s(std::string_view codec, Work work, kernels::Element element, std::size_t vector_bytes) const;
  // Why a codec cannot be simulated for elements of a type; "" if it can.
  std::string missing(std::string_view codec, kernels::Element element) const;
  const std::string& isa() const { return isa_; }

 private:
  struct Row {
    double vector_bytes = 0, byte_s = 0;
  };
  using Key = std::tuple<std::string, Work, kernels::Element>;
  std::map<Key, std::vector<Row>, std::less<>> rows_;  // each by ascending length of the vector
  std::string isa_;
  double constant_byte_s_ = -1;  // negative: the rows count
};

}  // namespace mq::sim
