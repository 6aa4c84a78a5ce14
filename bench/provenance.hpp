// What else decides how fast a machine is: clock, power limit, firmware, container, limits of processors, and
// where memory is allocated. What cannot be read is unknown, as rows have it; nothing is guessed.
#pragma once

#include <string>

#include "bench/rows.hpp"

namespace mq::bench {

std::string first_line(const std::string& path);  // of a file; "" if it cannot be read

// Fills in the columns of a host. root: the folder that the files of the system are below; "" for "/". Only a
// test has another.
void read_provenance(NodeRow& node, const std::string& root = "");

// Whether a variable of the environment says which container this is: its word, or "".
std::string container_of_environment();

// Where the memory of the calling thread is allocated: "default", "local", "bind 0-1", "interleave 0,2",
// "preferred 1"; "" if the kernel does not say.
std::string numa_policy();

}  // namespace mq::bench
