// What else decides how fast a machine is: clock, power limit, firmware, container, limits of processors, and
// where memory is allocated. What cannot be read is unknown, as rows have it; nothing is guessed.
#pragma once

#include <string>
#include <vector>

#include "bench/rows.hpp"

namespace mq::bench {

std::string first_line(const std::string& path);  // of a file; "" if it cannot be read

// The folders of the zones whose power the kernel counts and limits, on processors of Intel and AMD:
// packages, and parts of them. Some machines show the same packages a second time, as intel-rapl-mmio; those
// are left out.
std::vector<std::string> power_zones(const std::string& folder);

// Fills in the columns of a host. root: the folder that the files of the system are below; "" for "/". Only a
// test has another.
void read_provenance(NodeRow& node, const std::string& root = "");

// The container that a variable of the environment names, or "".
std::string container_of_environment();

// Where the memory of the calling thread is allocated: "default", "local", "bind 0-1", "interleave 0,2",
// "preferred 1"; "" if the kernel does not say.
std::string numa_policy();

}  // namespace mq::bench
