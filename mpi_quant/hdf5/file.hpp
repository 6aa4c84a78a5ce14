// The residual file. One HDF5 file holds the residuals of all keys and ranks of a communicator:
//
//   attributes of /        format = "mpi_quant residuals", version = 3, ranks, residuals (number of keys)
//   /0, /1, ... /N-1       one group for each key, with these attributes:
//       key                its name; it may hold any byte but 0, so it cannot be the name of the group
//       element            "f32", "f64", "f16" or "bf16": type of the key's vectors
//       count              elements of the key's vectors
//       settled            the codec's measured parameter; < 0: none
//       calls              that have used the residual; version 1 has none: 0
//       arrays             that the key's memory rule keeps; versions 1 and 2 have none: 1
//       stamp, since       of estimates, see MPIQ_Residual; versions 1 and 2 have none: 0
//   /I/residual            dataset [arrays * ranks, count] of 32-bit floats, or 64-bit for f64;
//                          row a * ranks + r is array a of rank r
//
// The first 512 bytes are HDF5's user block and hold the file's seal, see seal.hpp. Chunks of the dataset are
// parts of one row and carry Fletcher's checksum. HDF5's metadata carry checksums of their own, except in its
// old formats.
//
// The format is in this file only; save.cpp and restore.cpp use it. There are no MPI messages here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/core/residual_facts.hpp"
#include "mpi_quant/hdf5/h5.hpp"
#include "mpi_quant/hdf5/output.hpp"

namespace mq::h5 {

// Elements of the longest piece: 1 MiB of doubles. A piece is one message, and one chunk of the dataset.
inline constexpr MPI_Count kMaxPiece = MPI_Count{1} << 17;

// for_each_piece calls f(first, n) for the pieces of a residual in ascending order. All pieces but the last
// have the same length. They are nearly equal, so that little of the last chunk is wasted.
inline MPI_Count piece_of(MPI_Count count) {
  const MPI_Count pieces = (count + kMaxPiece - 1) / kMaxPiece;
  return (count + pieces - 1) / pieces;
}
template <class F>
void for_each_piece(MPI_Count count, const F& f) {
  const MPI_Count piece = piece_of(count);
  for (MPI_Count first = 0; first < count; first += piece)
    f(first, piece < count - first ? piece : count - first);
}

inline bool is_double(const MPIQ_Residual& r) { return text_in(r.element) == "f64"; }
inline MPI_Datatype residual_type(const MPIQ_Residual& r) { return is_double(r) ? MPI_DOUBLE : MPI_FLOAT; }
inline std::size_t value_bytes(const MPIQ_Residual& r) {
  return is_double(r) ? sizeof(double) : sizeof(float);
}

// Turns off HDF5's printing of errors while it lives.
class Quiet {
 public:
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  unsigned is_v2_ = 1;  // the program may have set either of two kinds of printing functions
  H5E_auto1_t print1_ = nullptr;
  H5E_auto2_t print2_ = nullptr;
  void* data_ = nullptr;
};

// Functions of both classes throw Error, among others. Pieces are as in for_each_piece.
class Writer {
 public:
  // Keeps the reference to `residuals`.
  Writer(std::string path, int ranks, const std::vector<MPIQ_Residual>& residuals);
  void write(std::size_t residual, int array, int rank, MPI_Count first, MPI_Count n, const void* values);
  // Without this call there is no file.
  void commit();

 private:
  void create_residual(std::size_t index);

  const int ranks_;
  const std::vector<MPIQ_Residual>& residuals_;
  Quiet quiet_;
  Output output_;
  std::optional<Handle> file_, dataset_;
  std::size_t current_ = 0;  // the residual whose dataset is open
};

class Reader {
 public:
  explicit Reader(const std::string& path);
  int ranks() const { return ranks_; }
  const std::vector<MPIQ_Residual>& residuals() const { return residuals_; }
  void read(std::size_t residual, int array, int rank, MPI_Count first, MPI_Count n, void* values);

 private:
  MPIQ_Residual read_residual(std::size_t index);

  Quiet quiet_;
  Handle file_;
  std::optional<Handle> dataset_;
  std::size_t current_ = 0;
  int ranks_ = 0;
  std::int32_t version_ = 0;
  std::vector<MPIQ_Residual> residuals_;
};

}  // namespace mq::h5
