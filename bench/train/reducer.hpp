// The sum of all ranks' gradients, in pieces, by MPI_Allreduce (which a preloaded library may replace) or by
// a method of this library.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "bench/train/network.hpp"
#include "mpi_quant.h"

namespace mq::bench {

// Neighbouring tensors together in pieces of at most so many bytes; each tensor alone if bytes is 0, and one
// that is longer.
std::vector<Span> make_buckets(const std::vector<Span>& tensors, std::size_t bytes);

class Reducer {
 public:
  // method "mpi": MPI_Allreduce. feedback: what a method drops is kept, for each piece, until the next call.
  Reducer(const std::string& method, bool feedback, std::vector<Span> buckets, MPI_Comm comm);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // In place; gives an MPI error code. Last pieces first, which a backward pass computes first.
  int reduce(float* gradients);
  // The same in two steps, between which gradients belong to MPI.
  int start(float* gradients);
  int finish();
  // This rank's so far; of "mpi" the bytes and times are 0.
  MPIQ_Stats stats() const;

 private:
  bool plain_;
  std::vector<Span> buckets_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<MPI_Info> info_;
  std::vector<MPI_Request> plain_requests_;
  std::vector<MPIQ_Request> requests_;
};

}  // namespace mq::bench
