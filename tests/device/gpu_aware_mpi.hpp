// An MPI that takes memory of the fake GPU in messages, made of one that does not: beneath the library, its
// point-to-point functions carry such messages through host memory. GPU_AWARE_MPI=0 in the environment: it
// says that it takes none, as the MPI beneath would; off: it says so as Open MPI 4 does where that is built
// in and turned off.
#pragma once

namespace mq::test {

// Sends and receives of this process so far whose buffer was in a GPU's memory.
long messages_in_device_memory();
// That this process was asked whether it takes such messages; and the answer.
long times_asked();
bool takes_device_memory();

}  // namespace mq::test
