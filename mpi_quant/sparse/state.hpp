// What a communicator keeps for sparse reductions between calls.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "mpi_quant/core/extension.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/engine/agree.hpp"
#include "sparse_allreduce/network.hpp"
#include "sparse_allreduce/union_chooser.hpp"
#include "sparse_allreduce/workspace.hpp"

namespace mq {

class CommState;
struct SparseLists;  // the lists of a call and their routes; see reduce.cpp

// What is kept for a key. Each rank may drop its lists without the others. The tags stay reserved for the
// key, so that all ranks use the same ones.
struct SparseKey {
  std::shared_ptr<SparseLists> lists;  // null: dropped
  int first_tag = 0;                   // 0: none yet
  std::uint64_t used = 0;              // number of its last call, to find the key unused for the longest time
};

struct SparseState final : Extension {
  static constexpr std::size_t kMostLists = 256;  // about 130 kB each

  void forget(const char* key) noexcept override {
    for (auto& [name, kept] : keys)
      if (key == nullptr || name == key) kept.lists.reset();
  }

  Agreement<MpiComm> agreement;            // opens a blocking call
  sparse::Workspace memory;                // for blocking calls, one at a time
  std::optional<sparse::Network> network;  // after it was measured
  sparse::UnionChooser unions;             // chooses their algorithms
  double last_union_s = 0;  // what the last one that it chose took here; 0: it failed, or none waits
  std::map<std::string, SparseKey, std::less<>> keys;  // by mpiq_key
  std::uint64_t calls = 0;                             // with lists
  int routes = 0;                                      // sets of tags reserved so far
};

SparseState& sparse_state(CommState& state);

}  // namespace mq
