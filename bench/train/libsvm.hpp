// Reads files in the text format of LIBSVM, plain or compressed with gzip: an example a line, "LABEL INDEX:VALUE INDEX:VALUE ...",
// with indices from 1 on in ascending order. What follows a # is ignored, and so are empty lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq::bench {

// Examples with few features that are not 0.
struct Examples {
  std::size_t features = 0;           // the greatest index
  std::vector<std::size_t> begin{0};  // of each example among the entries, and the end of the last
  std::vector<std::uint32_t> index;   // from 0 on
  std::vector<float> value;
  std::vector<std::int8_t> label;  // -1 or 1
  std::size_t count() const { return label.size(); }
};

// The file must have two labels; the greater one becomes 1. If `most` is not 0, it reads the first `most` examples only. Errors
// name the file and the line.
Result<Examples> read_libsvm(const std::string& path, std::size_t most = 0);

}  // namespace mq::bench
