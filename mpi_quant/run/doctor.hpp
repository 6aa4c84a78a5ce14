// mpiq-run --doctor: whether this library can work here, line by line.
#pragma once

#include <string>

#include "mpi_quant/policy/policy.hpp"

namespace mq {

struct Patient {
  std::string library;         // the preload library; "" if there is none
  std::string asked;           // what --library says, if anything
  std::string policy_problem;  // why the rules cannot be read; "": nothing is wrong with them
  Policy policy;
  std::string program;  // "" if none is named
};

// Prints a line for each thing that is looked at: "ok", or "WRONG", what is wrong and what to do. The
// launcher's first process prints all lines, the others what is wrong with them. It starts MPI, so it is
// called once, by all processes of a launch. Returns the exit code: 0, or 1 if something is wrong.
int doctor(const Patient& patient);

}  // namespace mq
