// The fake driver as a program sees it: a libcuda.so.1 whose GPUs are this process. What it is for: errors
// that a GPU hides show. Device memory cannot be touched by the host (it has no access rights but while work
// of a stream runs); work runs as late as it may: when somebody waits for it, or asks a few times whether it
// is done. So what was not waited for is seen not to have happened. Kernels run in the emulator.
//
// Why there is also a table of the engine (tests/device/device_table.hpp): see there. This driver is one for
// a process, as a real one is. It tests the library with its CUDA part, also in whole programs, and is built
// only with that part.
//
// Environment, read at the first call: FAKE_CUDA_DEVICES (1), FAKE_CUDA_PROCESSORS (4), FAKE_CUDA_SHARED
// (bytes that a block may have, 232448), FAKE_CUDA_EAGER (1: work runs at once where its order permits it),
// FAKE_CUDA_QUERIES (how often work says that it is not done, 2), FAKE_CUDA_IMAGE (refuse: no image is
// taken), FAKE_CUDA_FAIL ("function:nth:code,..."), FAKE_CUDA_TRACE (1: calls on stderr).
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi_quant/cuda/driver.hpp"

#pragma GCC visibility push(default)
extern "C" {
// The nth call from now (1: the next) of `function` returns code and does nothing; 0: every call. With the
// function "kernel": the nth kernel that is run fails. Codes from 700 to 719 but 701, 704, 705, 708, 709, 712
// and 713 stick: every later call fails with them.
void fake_cuda_fail(const char* function, long nth, int code);
// Forgets failures, counts and what sticks. Objects stay.
void fake_cuda_forget();
void fake_cuda_strict(bool);  // as FAKE_CUDA_STRICT
// The next allocation is here, where one was that is freed and had room for it; null: anywhere.
void fake_cuda_place(void*);
// Calls since then; null: of all functions. Also counted: "lazy load", a kernel that was first launched
// before it was loaded; "carveout 100" and "other carveout", wishes for shared memory; "ptx", images of PTX
// that it was given.
long fake_cuda_calls(const char* function);
// How many there are: "device" or "pinned" allocations, "device bytes", "streams", "events", "modules",
// "pending" operations.
long fake_cuda_living(const char* what);
// Of the GPU as another device on the bus has it, which is no call of the driver, waits for nothing and
// cannot fail: whether it has p in its memory; copies between any two places.
bool fake_cuda_holds(const void* p);
void fake_cuda_carry(void* to, const void* from, std::size_t bytes);
long fake_cuda_ran(const char* kernel);  // times that a kernel was run since then; null: any
}

// What a program needs beside what the library uses. F(name, arguments).
#define MQ_FAKE_FUNCTIONS(F)                              \
  F(cuInit, unsigned)                                     \
  F(cuDriverGetVersion, int*)                             \
  F(cuDeviceGetUuid, CuUuid*, CuDevice)                   \
  F(cuDeviceTotalMem_v2, std::size_t*, CuDevice)          \
  F(cuCtxCreate_v2, CuContext*, unsigned, CuDevice)       \
  F(cuCtxDestroy_v2, CuContext)                           \
  F(cuCtxSetCurrent, CuContext)                           \
  F(cuDevicePrimaryCtxReset_v2, CuDevice)                 \
  F(cuMemAllocManaged, CuAddress*, std::size_t, unsigned) \
  F(cuMemAllocAsync, CuAddress*, std::size_t, CuStream)   \
  F(cuMemFreeAsync, CuAddress, CuStream)                  \
  F(cuMemHostRegister_v2, void*, std::size_t, unsigned)   \
  F(cuMemHostUnregister, void*)                           \
  F(cuMemcpy, CuAddress, CuAddress, std::size_t)          \
  F(cuMemcpyHtoD_v2, CuAddress, const void*, std::size_t) \
  F(cuMemcpyDtoH_v2, void*, CuAddress, std::size_t)       \
  F(cuMemcpyDtoD_v2, CuAddress, CuAddress, std::size_t)   \
  F(cuMemsetD8_v2, CuAddress, unsigned char, std::size_t) \
  F(cuStreamQuery, CuStream)                              \
  F(cuEventSynchronize, CuEvent)                          \
  F(cuStreamBeginCapture_v2, CuStream, int)               \
  F(cuStreamEndCapture, CuStream, void**)                 \
  F(cuGetProcAddress, const char*, void**, int, std::uint64_t)

// The driver's functions.
namespace mq::fake {
using namespace mq::cuda;
struct CuUuid {
  char bytes[16];
};
#define MQ_FAKE_DECLARE(function, ...) CuResult function(__VA_ARGS__);
extern "C" {
MQ_CUDA_FUNCTIONS(MQ_FAKE_DECLARE)
MQ_CUDA_OPTIONAL_FUNCTIONS(MQ_FAKE_DECLARE)
MQ_FAKE_FUNCTIONS(MQ_FAKE_DECLARE)
}
#undef MQ_FAKE_DECLARE
}  // namespace mq::fake
#pragma GCC visibility pop
