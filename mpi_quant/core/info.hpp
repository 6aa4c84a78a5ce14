// The mpiq_ keys of an MPI_Info. All functions that take one read it here.
#pragma once

#include <mpi.h>

#include <cstring>

#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/request.hpp"

namespace mq {

// The options in an info for a vector of count elements. What is wrong with the info becomes the local error.
// Keys of other libraries are ignored.
CallOptions read_options(MPI_Info info, MPI_Count count) noexcept;
// Reads an info for a communicator. Keeps "mpiq_policy" for the first use of it, see registry.hpp.
Status keep_rules(MPI_Comm comm, MPI_Info info);

// Calls f(key, value) for each key of this library. Keys of other libraries are ignored.
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
