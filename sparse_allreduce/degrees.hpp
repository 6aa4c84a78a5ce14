// Which degrees a butterfly should have.
#pragma once

#include <vector>

#include "sparse_allreduce/network.hpp"
#include "sparse_allreduce/survey.hpp"
#include "sparse_allreduce/values.hpp"

namespace mq::sparse {

// For lists like those surveyed. The same on all ranks.
std::vector<int> choose_degrees(const Network& network, const Survey& survey, const Entry& entry);

}  // namespace mq::sparse
