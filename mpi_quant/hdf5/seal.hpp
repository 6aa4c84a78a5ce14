// The seal of a residual file: its first 512 bytes, which HDF5 leaves to the user, hold the length and a hash
// of all that is behind them. It is looked at before HDF5 sees the file: what HDF5 1.10 has read of damaged
// metadata it cannot let go, and says so on stderr when the program ends. Other programs read the file as any
// HDF5 file.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "mpi_quant/hdf5/h5.hpp"

namespace mq::h5 {

inline constexpr std::uint64_t kSealBytes = 512;

struct Seal {
  std::array<char, 16> magic{'m', 'p', 'i', '_', 'q', 'u', 'a', 'n', 't', ' ', 's', 'e', 'a', 'l', ' ', '1'};
  std::uint64_t bytes = 0, hash = 0;  // of what is behind the first kSealBytes
  bool operator==(const Seal&) const = default;
};

// The seal that an open file should have. Throws Error if it cannot be read.
Seal seal_of(int descriptor);

// Throws Error unless path is a file with its seal, or one that begins with HDF5: those written before there
// were seals.
void check_seal(const std::string& path);

}  // namespace mq::h5
