// Several vectors that one call sums: how the arguments become a Call, what is checked of them, and how MPI
// makes such a call.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/codec.hpp"
#include "mpi_quant/base/status.hpp"
#include "mpi_quant/memory/residuals.hpp"
#include "mpi_quant/policy/policy.hpp"

namespace mq {

struct Call;

// The arguments of MPIQ_Allreduce_group and its relatives as the caller gave them.
struct GroupArguments {
  int n = 0;
  const void* const* sendbufs = nullptr;
  void* const* recvbufs = nullptr;
  const MPI_Count* counts = nullptr;
  const char* const* keys = nullptr;
};

// It has to live as long as the Call.
struct GroupCall {
  struct Vector {
    const void* sendbuf;  // may be MPI_IN_PLACE
    void* recvbuf;
    std::size_t n;  // reals
    Key key;        // empty: no feedback
    const void* input() const { return sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf; }
  };
  const char* function = "MPIQ_Allreduce_group";  // whose errors these are
  std::vector<Vector> vectors;
  std::vector<std::size_t> ends;  // by vector: it ends before this real of all vectors, one after the other
  std::size_t each = 1;           // reals of an element of the caller's type
  bool has_keys = false;
  std::uint32_t key_hash = 0;  // of all keys; 0: there are none
  std::uint32_t hash = 0;      // of all counts
  Status error;                // why there is no such call: Call::count is then -1
  // check_group() has found nothing. A persistent call is checked once, because a start is to allocate
  // nothing. Its starts come one after the other.
  mutable bool is_checked = false;
};

// The call with these arguments. Call::count becomes the reals of all vectors. May throw std::bad_alloc.
Call group_call(const GroupArguments& given, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                GroupCall& group);
// The call of one of the vectors alone.
Call call_of(const Call& call, std::size_t vector);

// What check_arguments (running_call.hpp) is for other calls. Each vector has a place, whatever its type. No
// two vectors may have one key. If the library knows the type, no result may share memory with another
// vector, and all vectors have to be in host memory. May throw std::bad_alloc.
Status check_group(const Call& call, std::optional<kernels::Element> element);
// What a method cannot do for several vectors: what a codec or a rule measures of a whole vector before a
// call belongs to one vector.
Status refuse_group(const GroupCall& group, const Method& method);

}  // namespace mq
