// The sum of NCCL, for comparison where it is installed. Only for vectors in the memory of GPUs, with one GPU
// per rank. It is opened at run time, so that the binary also runs without it.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "kernels/codec.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq::bench {

class Nccl {
 public:
  // Collective over comm; all ranks get the same answer. The error says why NCCL cannot be used: not built
  // in, not installed, several ranks on one GPU, or NCCL's own message. gpu_uuid: of the GPU of this rank,
  // whose context is current.
  static Result<std::unique_ptr<Nccl>> make(kernels::Element element, MPI_Count count,
                                            const std::string& gpu_uuid, MPI_Comm comm);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;
  // The sum over the ranks. Returns when the GPU has finished. False if it failed.
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
