// The part of the CUDA driver API that the library needs. It is declared here, so the library builds without
// CUDA's headers and runs without CUDA's libraries: it looks the functions up in the driver that the program
// has mapped. tests/device/device_declarations.cpp compares every declaration with cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi_quant/base/status.hpp"

namespace mq::cuda {

using CuResult = int;  // an enum in cuda.h
using CuDevice = int;
using CuAddress = unsigned long long;
using CuContext = struct CuContextOpaque*;
using CuStream = struct CuStreamOpaque*;
using CuEvent = struct CuEventOpaque*;
using CuModule = struct CuModuleOpaque*;
using CuFunction = struct CuFunctionOpaque*;

inline constexpr CuResult kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3,
                          kDeinitialized = 4, kInvalidImage = 200, kInvalidContext = 201, kNotFound = 500,
                          kNotReady = 600, kIllegalAddress = 700, kContextIsDestroyed = 709,
                          kCaptureImplicit = 906;
// CUpointer_attribute, CUmemorytype, CUdevice_attribute.
inline constexpr int kPointerContext = 1, kPointerMemoryType = 2, kPointerIsManaged = 8,
                     kPointerDeviceOrdinal = 9;
inline constexpr unsigned kMemoryHost = 1, kMemoryDevice = 2, kMemoryUnified = 4;
inline constexpr int kDeviceSharedBytes = 8, kDeviceMultiprocessors = 16, kDeviceUnifiedAddressing = 41,
                     kDeviceSharedBytesOptin = 97;
// CUfunction_attribute.
inline constexpr int kFunctionSharedBytes = 1, kFunctionDynamicSharedBytes = 8, kFunctionSharedCarveout = 9;
inline constexpr int kJitErrorLog = 5, kJitErrorLogBytes = 6;
inline constexpr unsigned kStreamNonBlocking = 1, kEventNoTiming = 2;
inline constexpr unsigned kHostPortable = 1, kHostDeviceMapped = 2;
inline constexpr int kCaptureNone = 0, kCaptureModeRelaxed = 2;
// CU_STREAM_LEGACY, CU_STREAM_PER_THREAD; then the keys of cuLaunchKernel's last argument.
inline constexpr std::uintptr_t kStreamLegacy = 1, kStreamPerThread = 2;
inline constexpr std::uintptr_t kLaunchEnd = 0, kLaunchBuffer = 1, kLaunchBufferBytes = 2;

// The functions, by the names that the driver exports. The signature of a name never changes; a new signature
// gets a new name (_v2). All streams are passed explicitly, so the variants for another default stream
// (_ptsz) are not needed. The arguments of F are the name and the types of the parameters.
#define MQ_CUDA_FUNCTIONS(F)                                                                          \
  F(cuGetErrorName, CuResult, const char**)                                                           \
  F(cuGetErrorString, CuResult, const char**)                                                         \
  F(cuPointerGetAttributes, unsigned, int*, void**, CuAddress)                                        \
  F(cuDeviceGetCount, int*)                                                                           \
  F(cuDeviceGet, CuDevice*, int)                                                                      \
  F(cuDeviceGetName, char*, int, CuDevice)                                                            \
  F(cuDeviceGetAttribute, int*, int, CuDevice)                                                        \
  F(cuDevicePrimaryCtxGetState, CuDevice, unsigned*, int*)                                            \
  F(cuDevicePrimaryCtxRetain, CuContext*, CuDevice)                                                   \
  F(cuDevicePrimaryCtxRelease_v2, CuDevice)                                                           \
  F(cuCtxPushCurrent_v2, CuContext)                                                                   \
  F(cuCtxPopCurrent_v2, CuContext*)                                                                   \
  F(cuCtxGetCurrent, CuContext*)                                                                      \
  F(cuCtxGetDevice, CuDevice*)                                                                        \
  F(cuCtxSynchronize)                                                                                 \
  F(cuThreadExchangeStreamCaptureMode, int*)                                                          \
  F(cuStreamIsCapturing, CuStream, int*)                                                              \
  F(cuStreamGetCtx, CuStream, CuContext*)                                                             \
  F(cuStreamCreate, CuStream*, unsigned)                                                              \
  F(cuStreamDestroy_v2, CuStream)                                                                     \
  F(cuStreamSynchronize, CuStream)                                                                    \
  F(cuStreamWaitEvent, CuStream, CuEvent, unsigned)                                                   \
  F(cuEventCreate, CuEvent*, unsigned)                                                                \
  F(cuEventDestroy_v2, CuEvent)                                                                       \
  F(cuEventRecord, CuEvent, CuStream)                                                                 \
  F(cuEventQuery, CuEvent)                                                                            \
  F(cuEventElapsedTime, float*, CuEvent, CuEvent)                                                     \
  F(cuMemAlloc_v2, CuAddress*, std::size_t)                                                           \
  F(cuMemFree_v2, CuAddress)                                                                          \
  F(cuMemHostAlloc, void**, std::size_t, unsigned)                                                    \
  F(cuMemFreeHost, void*)                                                                             \
  F(cuMemcpyAsync, CuAddress, CuAddress, std::size_t, CuStream)                                       \
  F(cuMemsetD8Async, CuAddress, unsigned char, std::size_t, CuStream)                                 \
  F(cuModuleLoadDataEx, CuModule*, const void*, unsigned, int*, void**)                               \
  F(cuModuleUnload, CuModule)                                                                         \
  F(cuModuleGetFunction, CuFunction*, CuModule, const char*)                                          \
  F(cuFuncGetAttribute, int*, int, CuFunction)                                                        \
  F(cuFuncSetAttribute, CuFunction, int, int)                                                         \
  F(cuLaunchKernel, CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
    CuStream, void**, void**)
// Functions that older drivers lack: the first one those before CUDA 12, the others those before 12.4.
#define MQ_CUDA_OPTIONAL_FUNCTIONS(F)                            \
  F(cuCtxGetId, CuContext, unsigned long long*)                  \
  F(cuModuleGetFunctionCount, unsigned*, CuModule)               \
  F(cuModuleEnumerateFunctions, CuFunction*, unsigned, CuModule) \
  F(cuFuncLoad, CuFunction)

// A function of the driver, with its name for error messages.
template <class... A>
struct Function {
  using Pointer = CuResult (*)(A...);
  const char* name = nullptr;
  Pointer f = nullptr;
  CuResult operator()(A... a) const { return f(a...); }
};

struct Driver {
#define MQ_CUDA_MEMBER(function, ...) Function<__VA_ARGS__> function{#function, nullptr};
  MQ_CUDA_FUNCTIONS(MQ_CUDA_MEMBER)
  MQ_CUDA_OPTIONAL_FUNCTIONS(MQ_CUDA_MEMBER)
#undef MQ_CUDA_MEMBER
};

// Looks the functions up in the driver that the process has mapped. If it returns false, `reason` says why;
// the text is never freed. Call it once, before driver() is used.
bool load_driver(const char*& reason);
const Driver& driver() noexcept;

// Example: "GPU 1: cuMemAlloc_v2: out of memory (CUDA_ERROR_OUT_OF_MEMORY)". Without the GPU if ordinal < 0.
Status failure(int ordinal, const char* function, CuResult result) noexcept;

}  // namespace mq::cuda
