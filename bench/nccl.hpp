// The sum of NCCL, to compare with where it is installed. Only for vectors in the memory of GPUs, one GPU a
// rank. Opened at run time: a binary that could use it runs without it.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "kernels/codec.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

class Nccl {
 public:
  // Collective over comm; the same verdict on all ranks. An error says why it cannot be used: not built in,
  // not installed, several ranks on one GPU, or what NCCL says. gpu_uuid: of the GPU of this rank, whose
  // context is current.
  static Result<std::unique_ptr<Nccl>> make(kernels::Element element, MPI_Count count,
                                            const std::string& gpu_uuid, MPI_Comm comm);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;
  // The sum over the ranks; returns when the GPU has done it. False: it failed.
  bool operator()(const void* send, void* receive) const;

 private:
  struct Library;
  Nccl(const Library& library, int type, std::size_t count) : library_(library), type_(type), count_(count) {}
  static const Library& library();
  const Library& library_;
  int type_;
  std::size_t count_;
  void* comm_ = nullptr;
};

}  // namespace mq::bench
