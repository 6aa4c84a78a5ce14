// How much memory the processes of this node may use.
#pragma once

#include <cstdint>
#include <string>

namespace mq {

// Bytes: the machine's memory, or less where a control group of this process (a job of Slurm, a container)
// has a limit.
std::uint64_t memory_limit();

// The least limit of the control groups in a file like /proc/self/cgroup, and of the groups above them, of
// both versions. Groups are folders below `mount`. UINT64_MAX: none.
std::uint64_t limit_of_groups(const std::string& file, const std::string& mount);

}  // namespace mq
