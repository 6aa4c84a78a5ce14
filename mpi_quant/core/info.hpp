// The mpiq_ keys of an MPI_Info. Separate because all functions that take one read it alike.
#pragma once

#include <mpi.h>

#include <cstring>

#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/mpi_comm.hpp"

namespace mq {

// What an info asks for a vector of count elements; what is wrong with it is the local error. Other libraries'
// keys are passed over.
CallOptions read_options(MPI_Info info, MPI_Count count) noexcept;
// What an info asks for a communicator: "mpiq_policy" is kept for its first use, see registry.hpp.
Status keep_rules(MPI_Comm comm, MPI_Info info);

// f(key, value) for each key of this library. Other libraries' keys are passed over.
template <class F>
Status for_each_key(MPI_Info info, const F& f) {
  if (info == MPI_INFO_NULL) return {};
  int keys = 0;
  MQ_TRY(mpi_status(PMPI_Info_get_nkeys(info, &keys), "MPI_Info_get_nkeys"));
  for (int i = 0; i < keys; ++i) {
    char key[MPI_MAX_INFO_KEY + 1] = "", value[MPI_MAX_INFO_VAL + 1] = "";
    MQ_TRY(mpi_status(PMPI_Info_get_nthkey(info, i, key), "MPI_Info_get_nthkey"));
    if (std::strncmp(key, "mpiq_", 5) != 0) continue;
    int found = 0;
    MQ_TRY(mpi_status(PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found), "MPI_Info_get"));
    MQ_TRY(f(key, value));
  }
  return {};
}

}  // namespace mq
