// What is checked of a call of this library before MPI makes it: what one rank alone would be refused for, so
// that all ranks learn of it, and what all ranks have to have in common, so that MPI refuses it on all ranks
// or on none.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "mpi_quant/base/status.hpp"

namespace mq {

struct Call;

// A type that is not committed; a number that is too large for MPI before version 4. comm: one of the
// library's own, whose errors are returned.
Status check_exact(const Call& call, MPI_Comm comm);

// A hash of the operation, and of the type if the library does not know it. 0 for a sum of floats or doubles,
// and for calls that add nothing. All operations of programs have one hash: ranks cannot compare functions.
std::uint32_t exact_hash(const Call& call);

// What a function of MPI that starts a call returned. Code::bad_argument if MPI refused what check_exact and
// exact_hash have made sure of, so that it refuses it on all ranks.
Status start_status(int code, const char* function) noexcept;

}  // namespace mq
