// What a communicator keeps for sparse reductions between calls.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "mpi_quant/agree.hpp"
#include "mpi_quant/base/mpi_comm.hpp"
#include "sparse_allreduce/network.hpp"
#include "sparse_allreduce/workspace.hpp"

namespace mq {

struct SparseLists;  // the lists of a call and what was made of them, see reduce.cpp

struct SparseState {
  Agreement<MpiComm> agreement;                                            // that opens a blocking call
  sparse::Workspace memory;                                                // of blocking calls, one at a time
  std::optional<sparse::Network> network;                                  // once measured
  std::map<std::string, std::shared_ptr<SparseLists>, std::less<>> known;  // by mpiq_key
  int routes = 0;                                                          // sets of tags given away so far
};

}  // namespace mq
