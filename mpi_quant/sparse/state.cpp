#include "mpi_quant/sparse/state.hpp"

#include "mpi_quant/core/comm_state.hpp"

namespace mq {

namespace {

const ExtensionKind kind_of_sparse([](CommState&) -> std::unique_ptr<Extension> {
  return std::make_unique<SparseState>();
});

}  // namespace

SparseState& sparse_state(CommState& state) {
  return static_cast<SparseState&>(state.extension(kind_of_sparse));
}

}  // namespace mq
