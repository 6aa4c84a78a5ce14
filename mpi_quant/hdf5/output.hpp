// The file that HDF5 writes into, as an HDF5 driver (H5FD) that never reports a failed write. HDF5 1.10 does
// not survive one: the file can then not be closed, and the library's exit handler crashes the program. So
// the driver keeps the first failure to itself and drops all later writes; check() reports it.
//
// The file has two names. Until commit() it is path + ".partial". So at any time there is a whole file at
// path, the old one or the new one.
#pragma once

#include <cstdint>
#include <string>

#include "mpi_quant/hdf5/h5.hpp"

namespace mq::h5 {

class Output {
 public:
  // Creates the partial file, or empties it. Functions throw Error.
  explicit Output(std::string path);
  ~Output();  // removes the partial file if it was not committed
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // The HDF5 file. It must be closed before this object ends.
  Handle create_hdf5();
  // Throws if a write has failed.
  void check() const;
  // Gives the file its final name, once all of it is on the disk.
  void commit();

  // For the driver:
  void write(std::uint64_t offset, const void* data, std::size_t bytes) noexcept;
  void read(std::uint64_t offset, void* data, std::size_t bytes) const noexcept;  // zeros after the end
  void resize(std::uint64_t bytes) noexcept;
  std::uint64_t size() const { return size_; }

 private:
  const std::string path_, partial_;
  const int descriptor_;
  std::uint64_t size_ = 0;  // size of the file for HDF5
  int error_ = 0;           // errno of the first failure
};

}  // namespace mq::h5
