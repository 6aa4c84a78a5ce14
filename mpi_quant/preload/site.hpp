// Where a program makes a call. This is a fact of one rank.
#pragma once

#include <string>

namespace mq {

// "solver!assemble+0x3c" or "solver+0x12a0": the object, the function if the object exports its name, and the
// offset. It is the innermost caller outside this library, the MPI library and its language layers. In
// programs with Fortran, mpi4py or Boost.MPI it depends on the compiler whether that is the program's own
// line. "" if it is unknown. Takes some microseconds.
std::string call_site();

}  // namespace mq
