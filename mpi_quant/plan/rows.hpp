// The plans that a file of its own makes, or that another plan falls back to; for the table of plans.cpp.
#pragma once

#include "mpi_quant/plan/plan.hpp"

namespace mq {

Plan make_direct(const Ranks& ranks);        // plans.cpp
Plan make_hierarchical(const Ranks& ranks);  // hierarchical.cpp

}  // namespace mq
