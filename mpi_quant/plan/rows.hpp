// The makers of plans that several files use: the table of plans is in plans.cpp.
#pragma once

#include "mpi_quant/plan/plan.hpp"

namespace mq {

Plan make_direct(const Ranks& ranks);        // plans.cpp
Plan make_hierarchical(const Ranks& ranks);  // hierarchical.cpp

}  // namespace mq
