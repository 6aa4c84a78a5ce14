// Prints what a policy decides, as a table for people.
#pragma once

#include <string>

#include "mpi_quant/policy/policy.hpp"

namespace mq {

// The rules as they were understood, then a table of methods. A row is a range of bytes, ranks and calls in
// which no rule begins or ends. A column is an element type. The rows are repeated for each communicator name
// that a rule gives, and once more for all other communicators.
std::string decision_table(const Policy& policy);

}  // namespace mq
