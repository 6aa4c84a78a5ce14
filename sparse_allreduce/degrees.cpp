#include "sparse_allreduce/degrees.hpp"

namespace mq::sparse {

std::vector<int> choose_degrees(const Network&, const Survey& survey, const Entry&) {
  return {static_cast<int>(survey.out.size())};
}

}  // namespace mq::sparse
