// Element types as MPI datatypes: which datatypes the codecs know, and the datatypes of half types, for which
// MPI has no names.
#pragma once

#include <mpi.h>

#include <optional>

#include "kernels/codec.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq {

// The element type of a predefined float type of MPI, or of a half type.
std::optional<kernels::Element> element_of(MPI_Datatype datatype);
// True for this library's own datatypes, which MPI cannot reduce.
bool is_nameless_half(MPI_Datatype datatype);
// The datatype of Element::f16 or Element::bf16. It is made at the first call.
Result<MPI_Datatype> half_datatype(kernels::Element half);
// To be called when MPI is about to be finalized.
void free_half_datatypes();

}  // namespace mq
