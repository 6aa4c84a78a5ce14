// What --list prints: the tables of codecs and plans, so that nothing has to be documented twice.
#pragma once

#include <string>

namespace mq::bench {

std::string list_text();

}  // namespace mq::bench
