// The seal of a residual file. Its first 512 bytes, which HDF5 leaves to the user, hold the length and a hash
// of all bytes after them. The seal is checked before HDF5 sees the file. HDF5 1.10 cannot release what it
// has read from damaged metadata, and prints an error when the program ends. Other programs read the file as
// any HDF5 file.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "mpi_quant/hdf5/h5.hpp"

namespace mq::h5 {

inline constexpr std::uint64_t kSealBytes = 512;

struct Seal {
  std::array<char, 16> magic{'m', 'p', 'i', '_', 'q', 'u', 'a', 'n', 't', ' ', 's', 'e', 'a', 'l', ' ', '1'};
  std::uint64_t bytes = 0, hash = 0;  // length and hash of the bytes after the first kSealBytes
  bool operator==(const Seal&) const = default;
};

// The seal that an open file should have. Throws Error if it cannot be read.
Seal seal_of(int descriptor);

// Throws Error unless path is a file with a valid seal, or begins like an HDF5 file. Files that were written
// before there were seals do.
void check_seal(const std::string& path);

}  // namespace mq::h5
