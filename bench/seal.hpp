// The checksum at the end of a result file, behind what HDF5 knows of: a line of text that no reader of HDF5
// looks at. HDF5 itself does not notice most changed bits in such a file, and crashes on some.
#pragma once

#include <cstddef>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq::bench {

// Appends the line to the image of a file.
void seal(std::vector<std::byte>& image);

// Verifies the line and takes it off. An image that ends where HDF5 says that it ends has none: it is of an
// older version, or other tools have changed it, and it is left as it is. An error says what is wrong.
Status unseal(std::vector<std::byte>& image);

}  // namespace mq::bench
