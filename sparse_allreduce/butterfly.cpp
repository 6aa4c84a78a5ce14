#include "sparse_allreduce/butterfly.hpp"

#include <string>

namespace mq::sparse {

Status check_degrees(std::span<const int> degrees, int ranks) {
  if (degrees.empty()) return {Code::bad_argument, "no degrees"};
  long product = 1;
  for (const int degree : degrees) {
    if (degree < 2 && !(degree == 1 && degrees.size() == 1))
      return {Code::bad_argument, "degree " + std::to_string(degree) + " is less than 2"};
    product *= degree;
    if (product > ranks)
      return {Code::bad_argument,
              "the product of the degrees is more than the number of ranks, " + std::to_string(ranks)};
  }
  if (2 * product <= ranks)
    return {Code::bad_argument, "the product of the degrees, " + std::to_string(product) +
                                    ", is not more than half of the number of ranks, " +
                                    std::to_string(ranks)};
  return {};
}

int product(std::span<const int> degrees) {
  int product = 1;
  for (const int degree : degrees) product *= degree;
  return product;
}

std::vector<Stage> stages_of(std::span<const int> degrees, int ranks, int rank) {
  const int usable = product(degrees);
  std::vector<Stage> stages;
  if (rank >= usable || rank < ranks - usable) {
    const int target = rank % usable;
    stages.push_back({0, {target, target + usable}, {0, usable, usable}, rank >= usable ? 1u : 0u});
  }
  if (rank >= usable) return stages;
  int first = 0, width = usable, stride = 1;  // of this rank's range; between ranks of a group
  for (std::size_t l = 0; l < degrees.size(); ++l) {
    const int degree = degrees[l], digit = rank / stride % degree;
    width /= degree;
    if (degree > 1) {
      Stage stage;
      stage.number = static_cast<int>(l) + 1;
      stage.me = static_cast<std::size_t>(digit);
      for (int j = 0; j < degree; ++j) stage.members.push_back(rank + (j - digit) * stride);
      for (int j = 0; j <= degree; ++j) stage.cuts.push_back(first + j * width);
      stages.push_back(std::move(stage));
    }
    first += digit * width;
    stride *= degree;
  }
  return stages;
}

}  // namespace mq::sparse
