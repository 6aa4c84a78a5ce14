// The measured collectives of dense vectors as calls of MPI and of this library. The arguments that stay the
// same from call to call are kept here, so that nothing is made for a call while it is timed.
#pragma once

#include <mpi.h>

#include <vector>

#include "bench/form.hpp"
#include "bench/parts.hpp"
#include "mpi_quant.h"

namespace mq::bench {

#if MPI_VERSION >= 4
using MpiCount = MPI_Count;
using MpiDisplacement = MPI_Aint;
#else
using MpiCount = int;
using MpiDisplacement = int;
#endif

// The program's own MPI_Allreduce; from MPI 4 on the form for large counts. Under the preload library it does
// what an unmodified program gets.
int mpi_sum(const void* send, void* receive, MPI_Count count, MPI_Datatype type, MPI_Comm comm);

// Whether MPI has persistent collectives: from MPI 4 on.
inline constexpr bool kHasPersistentCalls = MPI_VERSION >= 4;

class CollectiveCall {
 public:
  // count: of the whole vector. If the ranks do not divide it, the parts of a reduce-scatter and of an
  // allgather have different lengths, and the functions are those with an array of counts. Local.
  CollectiveCall(mq::Collective collective, MPI_Count count, MPI_Datatype type, MPI_Comm comm);
  // Of this rank.
  const Part& input() const { return input_; }
  const Part& output() const { return output_; }
  // Both make the call or, by another form with a request, start or prepare it. They take MPI_IN_PLACE and
  // return an MPI error code: MPI_ERR_UNSUPPORTED_OPERATION where MPI has no persistent calls. A broadcast is
  // in place: `send` is not looked at.
  int mpi(const void* send, void* receive, Form form = Form::blocking, MPI_Request* request = nullptr) const;
  int ours(const void* send, void* receive, MPI_Info info, Form form = Form::blocking,
           MPIQ_Request* request = nullptr) const;

 private:
  const void* brought(const void* send, const void* receive) const;

  mq::Collective collective_;
  bool is_root_ = false;
  MPI_Count count_, each_ = 0;
  MPI_Datatype type_;
  MPI_Comm comm_;
  Part input_, output_;
  // By rank; empty if all parts are equally long.
  std::vector<MPI_Count> counts_;
  std::vector<MPI_Aint> displacements_;
  std::vector<MpiCount> mpi_counts_;
  std::vector<MpiDisplacement> mpi_displacements_;
};

}  // namespace mq::bench
