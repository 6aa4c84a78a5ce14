// What else mpiq-run has to know of the program and of the machine.
#pragma once

#include <string>

namespace mq {

// Changes the order of LD_PRELOAD: the runtime of a sanitizer, which this program needs or which is in
// LD_PRELOAD already, has to be the first library. Else the program does not start.
void put_sanitizers_first(const std::string& program);

// The program is a starter of containers, where the preload library is not found: what to do instead. Else
// "".
std::string container_advice(const std::string& program);

// Lets the preload library say so if the program makes no MPI call; see preload/unused.h.
void watch_for_calls();

}  // namespace mq
