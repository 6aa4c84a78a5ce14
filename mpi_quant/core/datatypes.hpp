// Element types as MPI datatypes: which datatypes the codecs know, and the datatypes of half types, for which
// MPI has no names. The codecs know reals. A complex number is two of them, and an element of a contiguous
// type is a row of them.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <optional>

#include "kernels/codec.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq {

// What a codec sees in one element of a datatype: so many reals in a row, without gaps.
struct Reals {
  kernels::Element element{};
  std::size_t each = 1;
  bool is_complex = false;                    // pairs of them are complex numbers
  MPI_Datatype datatype = MPI_DATATYPE_NULL;  // of one real
  bool is_derived = false;                    // MPI sends such elements, but adds none
};

// Types that MPI itself defines, or also those that the program has derived from them without gaps
// (MPI_Type_contiguous, MPI_Type_dup, MPI_Type_create_resized). MPI adds the former only.
enum class Types : bool { predefined, derived };
std::optional<Reals> reals_of(MPI_Datatype datatype, Types types);
// True if MPI defines the type itself.
bool is_predefined(MPI_Datatype datatype);
// False if the type holds no reals, as far as that can be told at once: a handle of a derived type, which
// says nothing about the type, gives true.
bool may_hold_reals(MPI_Datatype datatype);
// The element type of a datatype that MPI itself defines, or of a half type, with one real an element.
std::optional<kernels::Element> element_of(MPI_Datatype datatype);
// For messages: all that reals_of takes.
inline constexpr const char* kAcceptedTypes =
    "MPI_FLOAT, MPI_DOUBLE, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, their names in C++ and Fortran, float16 "
    "or bfloat16, or contiguous ones of these";

// The element type of this library's own datatypes, which MPI cannot reduce.
std::optional<kernels::Element> own_half_of(MPI_Datatype datatype);
// True if the running MPI sums this half type, which is then one of its own. MPI is asked once for each type:
// to add 1 and 1. To be called between MPI_Init and MPI_Finalize.
bool mpi_sums_half(MPI_Datatype half, kernels::Element element) noexcept;
// The datatype of Element::f16 or Element::bf16. It is made at the first call.
Result<MPI_Datatype> half_datatype(kernels::Element half);
// To be called when MPI is about to be finalized.
void free_half_datatypes();

}  // namespace mq
