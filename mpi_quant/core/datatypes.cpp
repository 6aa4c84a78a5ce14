#include "mpi_quant/core/datatypes.hpp"

#include <atomic>
#include <mutex>

#include "mpi_quant/base/immortal.hpp"
#include "mpi_quant/core/mpi_comm.hpp"

namespace mq {
namespace {

// Duplicates of a two-byte integer type. They can be sent and received like any other type.
struct HalfTypes {
  std::mutex mutex;
  std::atomic<MPI_Datatype> f16 = MPI_DATATYPE_NULL, bf16 = MPI_DATATYPE_NULL;
};
HalfTypes& half_types() {
  static Immortal<HalfTypes> types;  // may be used while statics are destroyed
  return *types;
}

}  // namespace

Result<MPI_Datatype> half_datatype(kernels::Element half) {
  const bool f16 = half == kernels::Element::f16;
  const std::scoped_lock lock(half_types().mutex);
  std::atomic<MPI_Datatype>& type = f16 ? half_types().f16 : half_types().bf16;
  if (type == MPI_DATATYPE_NULL) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    MQ_TRY(mpi_status(PMPI_Type_dup(MPI_UINT16_T, &made), "MPI_Type_dup"));
    (void)PMPI_Type_set_name(made, f16 ? "MPIQ_FLOAT16" : "MPIQ_BFLOAT16");
    type = made;
  }
  return type.load();
}

void free_half_datatypes() {
  const std::scoped_lock lock(half_types().mutex);
  for (auto* const type : {&half_types().f16, &half_types().bf16}) {
    MPI_Datatype made = type->exchange(MPI_DATATYPE_NULL);
    if (made != MPI_DATATYPE_NULL) (void)PMPI_Type_free(&made);
  }
}

std::optional<kernels::Element> own_half_of(MPI_Datatype datatype) {
  if (datatype == MPI_DATATYPE_NULL) return {};
  if (datatype == half_types().f16) return kernels::Element::f16;
  if (datatype == half_types().bf16) return kernels::Element::bf16;
  return {};
}

}  // namespace mq
