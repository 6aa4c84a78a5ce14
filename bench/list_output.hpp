// The output of --list: the tables of codecs and plans. They come from the code, so that no document has to
// repeat them.
#pragma once

#include <string>

namespace mq::bench {

std::string list_text();

}  // namespace mq::bench
