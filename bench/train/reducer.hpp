// The sum of all ranks' gradients, in pieces. It uses MPI_Allreduce, which a preload library may replace, or
// a method of this library.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "bench/train/network.hpp"
#include "mpi_quant.h"

namespace mq::bench {

// Puts neighbouring tensors together in pieces of at most `bytes` bytes. A longer tensor stays alone; if
// bytes is 0, every tensor does.
std::vector<Span> make_buckets(const std::vector<Span>& tensors, std::size_t bytes);

class Reducer {
 public:
  // method "mpi": MPI_Allreduce. feedback: for each piece, what the method leaves out is kept until the next
  // call.
  Reducer(const std::string& method, bool feedback, std::vector<Span> buckets, MPI_Comm comm);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Calls from now on use this method. Each piece keeps its key.
  void use(const std::string& method);

  // Reduces in place and returns an MPI error code. The last pieces come first, because a backward pass
  // computes them first.
  int reduce(float* gradients);
  // The same in two steps. Between them the gradients belong to MPI.
  int start(float* gradients);
  int finish();
  // The statistics of this rank so far. For "mpi" bytes and times are 0.
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
