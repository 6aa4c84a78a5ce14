// Where a program calls from: a fact of one rank.
#pragma once

#include <string>

namespace mq {

// "solver!assemble+0x3c" or "solver+0x12a0": object, function where the object exports its name, and offset.
// Of the innermost caller outside of this library and the MPI library with its language layers, which for
// Fortran, mpi4py and Boost.MPI programs is the program's own line only if the compiler made it so. "" if
// unknown. Takes some microseconds.
std::string call_site();

}  // namespace mq
