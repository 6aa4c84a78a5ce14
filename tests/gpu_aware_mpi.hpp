// An MPI that takes memory of the fake GPU in messages, made of one that does not: beneath the library, its
// point-to-point functions carry such messages through host memory. GPU_AWARE_MPI=0 in the environment: it
// says that it takes none, as the MPI beneath would.
#pragma once

namespace mq::test {

// Sends and receives of this process so far whose buffer was in a GPU's memory.
long messages_in_device_memory();

}  // namespace mq::test
