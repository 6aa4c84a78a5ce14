// The names of this library's environment variables.
#pragma once

#include <string>
#include <vector>

namespace mq {

// A variable of the environment that is probably a mistyped one of this library.
struct Mistyped {
  std::string name, meant;
};
std::vector<Mistyped> mistyped_variables();

// "MPIQ_POLCY is no variable of this library: is MPIQ_POLICY meant?"
std::string words(const Mistyped&);

}  // namespace mq
