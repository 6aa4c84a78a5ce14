#include "mpi_quant/sparse/state.hpp"

#include "mpi_quant/core/comm_state.hpp"

namespace mq {

std::unique_ptr<Extension> make_extension() { return std::make_unique<SparseState>(); }

SparseState& sparse_state(CommState& state) { return static_cast<SparseState&>(*state.extension); }

}  // namespace mq
