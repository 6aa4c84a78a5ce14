#include "mpi_quant/core/datatypes.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "mpi_quant/base/immortal.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/own_comm.hpp"
#include "mpi_quant/core/real_mpi.hpp"

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

// Whether 1 + 1 is 2. A type that MPI cannot reduce is an error, which the first call reports on a
// communicator without a handler of the program. MPICH has the handle of a type that it was built without:
// such a type has no name, and MPICH 4.0.2 ends the program when it copies one.
bool adds_ones(MPI_Datatype half, kernels::Element element, MPI_Comm alone) noexcept {
  const std::uint16_t one = element == kernels::Element::f16 ? 0x3c00 : 0x3f80, two = 0x4000;
  std::array<char, MPI_MAX_OBJECT_NAME> name{};
  int length = 0;
  std::uint16_t sum = one, same = one;
  return PMPI_Type_get_name(half, name.data(), &length) == MPI_SUCCESS && length > 0 &&
         real_mpi().allreduce(MPI_IN_PLACE, &same, 1, half, MPI_SUM, alone) == MPI_SUCCESS &&
         PMPI_Reduce_local(&one, &sum, 1, half, MPI_SUM) == MPI_SUCCESS && sum == two;
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

bool mpi_sums_half(MPI_Datatype half, kernels::Element element) noexcept {
  if (half == MPI_DATATYPE_NULL || own_half_of(half)) return false;
  struct Answer {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    bool sums = false;
  };
  static std::mutex mutex;
  static std::array<Answer, 2> answers;  // for f16 and bf16: an MPI has one type of each
  const std::scoped_lock lock(mutex);
  Answer& answer = answers[element == kernels::Element::bf16];
  if (answer.type == half) return answer.sums;
  MPI_Comm alone = MPI_COMM_NULL;
  if (!split_off(MPI_COMM_SELF, alone).ok()) return false;
  answer = {half, adds_ones(half, element, alone)};
  (void)PMPI_Comm_free(&alone);
  return answer.sums;
}

}  // namespace mq
