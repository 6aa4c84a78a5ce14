// What a policy decides, as a table for people.
#pragma once

#include <string>

#include "mpi_quant/policy/policy.hpp"

namespace mq {

// The rules as they were understood, and the method of every range of bytes, ranks and calls in which no rule
// begins or ends, for each element type; once for each name of a communicator that a rule gives, and once for
// all others.
std::string decision_table(const Policy& policy);

}  // namespace mq
