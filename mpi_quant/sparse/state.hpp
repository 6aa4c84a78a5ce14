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
#include "sparse_allreduce/workspace.hpp"

namespace mq {

class CommState;
struct SparseLists;  // the lists of a call and what was made of them, see reduce.cpp

// What is kept of a key. Ranks forget lists on their own: the tags stay the key's, so that all use the same.
struct SparseKey {
  std::shared_ptr<SparseLists> lists;  // null: forgotten
  int first_tag = 0;                   // 0: none yet
  std::uint64_t used = 0;  // number of the last call, to find the key that was not used for longest
};

struct SparseState final : Extension {
  static constexpr std::size_t kMostLists = 256;  // some 130 kB each

  void forget(const char* key) noexcept override {
    for (auto& [name, kept] : keys)
      if (key == nullptr || name == key) kept.lists.reset();
  }

  Agreement<MpiComm> agreement;                        // that opens a blocking call
  sparse::Workspace memory;                            // of blocking calls, one at a time
  std::optional<sparse::Network> network;              // once measured
  std::map<std::string, SparseKey, std::less<>> keys;  // by mpiq_key
  std::uint64_t calls = 0;                             // with lists
  int routes = 0;                                      // sets of tags given away so far
};

SparseState& sparse_state(CommState& state);

}  // namespace mq
