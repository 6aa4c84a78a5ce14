// Collectives in which ranks have different parts of the vector: reduce-scatters, allgathers, and broadcasts
// and reductions to a root, where the root has the whole vector. Here is how their arguments become a Call,
// and how MPI makes them.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "mpi_quant/base/status.hpp"
#include "mpi_quant/plan/layout.hpp"
#include "mpi_quant/plan/plan.hpp"

namespace mq {

struct Call;

// The elements of each part, as the caller gave them: one number for all parts, or an array by rank. If
// there is a root: the elements of the vector.
struct PartCounts {
  MPI_Count each = 0;
  const int* by_rank = nullptr;
  const MPI_Count* by_rank_large = nullptr;
  bool is_uneven() const { return by_rank != nullptr || by_rank_large != nullptr; }
  MPI_Count of(int rank) const {
    if (by_rank != nullptr) return by_rank[rank];
    return by_rank_large != nullptr ? by_rank_large[rank] : each;
  }
};

// What an allgather has beside the arguments of a reduce-scatter. Without displacements parts follow each
// other.
struct GatherArguments {
  MPI_Count sendcount = 0;
  MPI_Datatype sendtype = MPI_DATATYPE_NULL, recvtype = MPI_DATATYPE_NULL;
  const int* displs = nullptr;
  const MPI_Aint* displs_large = nullptr;
  MPI_Aint displ(int rank) const { return displs != nullptr ? displs[rank] : displs_large[rank]; }
};

// The arrays of a call as MPI of version 3 takes them.
struct IntArrays {
  std::vector<int> counts, displs;
  // Copies the arrays of the call. False if a number, or sendcount, is too large. May throw std::bad_alloc.
  bool take(const Call& call);
};
inline bool fits_int(MPI_Count n) {
  return n >= std::numeric_limits<int>::min() && n <= std::numeric_limits<int>::max();
}

// What such a call has beside the arguments of an allreduce. It has to live as long as the Call, and the
// arrays of the caller, too, unless keep_arrays() has copied them.
struct PartedCall {
  PartCounts counts;          // in elements of the caller's type
  std::size_t each = 1;       // reals of such an element; ends, places and ranges count reals
  bool from_program = false;  // that called MPI: to be set before the call is made
  GatherArguments gather;
  int root = kNobody;               // as the caller gave it, of a collective that has one
  std::vector<std::size_t> ends;    // by rank: where its part ends. Empty if the communicator tells no ranks
                                    // or there is a root
  std::vector<std::size_t> places;  // of an allgather, by rank: engine/reduction.hpp, Parts::places
  Range input, output;              // the elements of the vector in the input and in recvbuf
  const void* input_at = nullptr;   // the input of an allgather in place
  bool moves = false;               // Parts::moves
  // No codec can make this call, though MPI can: what is sent and received has different types, or a part
  // begins before recvbuf. A fact of this rank.
  bool is_unusual = false;
  std::uint32_t hash = 0;  // of all counts; or the root
  Status error;            // why there is no such call: Call::count is then -1
  // Arrays that are not the caller's: counts in reals of a derived type, and copies.
  std::vector<MPI_Count> own_counts;
  std::vector<MPI_Aint> own_displs;
  IntArrays ints;
};

// The calls with these arguments. Call::count becomes the sum of all counts. May throw std::bad_alloc.
Call reduce_scatter_call(const void* sendbuf, void* recvbuf, const PartCounts& counts, MPI_Datatype datatype,
                         MPI_Op op, MPI_Comm comm, PartedCall& parted);
// Call::op is MPI_SUM, which every call has that a codec may serve.
Call allgather_call(const void* sendbuf, void* recvbuf, const GatherArguments& gather,
                    const PartCounts& counts, MPI_Comm comm, PartedCall& parted);

// recvbuf is the buffer, and the call is in place. Call::op is as above. An intercommunicator takes any root.
Call bcast_call(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                PartedCall& parted);

// Only the root's recvbuf is looked at.
Call reduce_call(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                 int root, MPI_Comm comm, PartedCall& parted);

// Whether the longest part is at least twice as long as the mean. Equal on all ranks.
bool has_uneven_parts(const Call& call);

// Makes copies of the caller's arrays for a call that goes on when the caller has got back. They are of type
// int if they fit, for MPI of version 3. May throw std::bad_alloc.
void keep_arrays(const Call& call, PartedCall& parted);

// An error if this MPI takes numbers of type int only, and one of the call is larger. May throw
// std::bad_alloc.
Status check_ints(const Call& call);
// MPI's own call. Returns its code.
int exact_parted(const Call& call);
// The same on this communicator by a function of MPI that returns at once, and the name of that function. The
// arrays of the call must stay until the request is over.
Status start_exact_parted(const Call& call, MPI_Comm comm, MPI_Request& request);
const char* starting_name(const Call& call);

}  // namespace mq
