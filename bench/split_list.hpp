// The words of a list on the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant/base/status.hpp"

namespace mq::bench {

// "mpi, onebit(block=512,x=1)/direct" -> two words, because a comma inside parentheses belongs to the word.
// Blanks around words are dropped. An empty word or an open parenthesis is an error.
Result<std::vector<std::string>> split_list(std::string_view text);

}  // namespace mq::bench
