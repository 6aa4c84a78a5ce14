#include "mpi_quant/core/datatypes.hpp"

#include <array>
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

namespace {

struct Known {
  MPI_Datatype type;
  kernels::Element element;
};

// The float types that MPI has names for, if their sizes are right. The size of MPI_REAL depends on how the
// MPI library's Fortran was configured. Types that the MPI library lacks are MPI_DATATYPE_NULL.
#ifdef MPIX_C_FLOAT16
constexpr std::size_t kNamed = 7;
#else
constexpr std::size_t kNamed = 6;
#endif

std::array<Known, kNamed> named_types() {
  std::array<Known, kNamed> table{{{MPI_FLOAT, kernels::Element::f32},
                                   {MPI_DOUBLE, kernels::Element::f64},
                                   {MPI_REAL, kernels::Element::f32},
                                   {MPI_DOUBLE_PRECISION, kernels::Element::f64},
                                   {MPI_REAL4, kernels::Element::f32},
                                   {MPI_REAL8, kernels::Element::f64},
#ifdef MPIX_C_FLOAT16
                                   {MPIX_C_FLOAT16, kernels::Element::f16}
#endif
  }};
  for (auto& [type, element] : table) {
    int bytes = 0;
    if (type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &bytes) != MPI_SUCCESS ||
        static_cast<std::size_t>(bytes) != kernels::element_bytes(element))
      type = MPI_DATATYPE_NULL;
  }
  return table;
}

}  // namespace

bool is_nameless_half(MPI_Datatype datatype) {
  return datatype != MPI_DATATYPE_NULL && (datatype == half_types().f16 || datatype == half_types().bf16);
}

std::optional<kernels::Element> element_of(MPI_Datatype datatype) {
  if (datatype == MPI_DATATYPE_NULL) return {};
  static const std::array<Known, kNamed> named = named_types();
  for (const auto& [type, element] : named)
    if (datatype == type) return element;
  if (datatype == half_types().f16) return kernels::Element::f16;
  if (datatype == half_types().bf16) return kernels::Element::bf16;
  return {};
}

}  // namespace mq
