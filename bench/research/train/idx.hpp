// Reads the MNIST files: IDX, plain or compressed with gzip.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq::bench {

struct Images {
  std::size_t count = 0, rows = 0, columns = 0;
  std::vector<float> pixels;  // count x rows x columns, from 0 to 1
  std::vector<std::uint8_t> labels;
  std::size_t size() const { return rows * columns; }
};

// Reads <folder>/<name>-images-idx3-ubyte and <name>-labels-idx1-ubyte, with or without .gz. If `most` is not
// 0, it reads the first `most` images only. Labels are below 10.
Result<Images> read_images(const std::string& folder, const std::string& name, std::size_t most = 0);

}  // namespace mq::bench
