// The checksum at the end of a result file: a line of text after the part that HDF5 knows, so that readers of
// HDF5 ignore it. HDF5 itself does not notice most changed bits in such a file, and crashes on some.
#pragma once

#include <cstddef>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq::bench {

// Appends the line to the image of a file.
void seal(std::vector<std::byte>& image);

// Verifies the line and removes it. An image that ends where HDF5 says has no such line: it is of an older
// version, or other tools have changed it. Such an image is not changed. The error says what is wrong.
Status unseal(std::vector<std::byte>& image);

}  // namespace mq::bench
