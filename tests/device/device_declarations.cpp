// mpi_quant/cuda/driver.hpp against CUDA's own header: names, signatures, constants. Compiled where there is
// a cuda.h; the test is the compilation.
#include <cuda.h>
// Newer headers declare its next version only, by this name.
#undef cuEventElapsedTime
extern "C" CUresult CUDAAPI cuEventElapsedTime(float*, CUevent, CUevent);

#include <type_traits>

#include "mpi_quant/cuda/driver.hpp"

namespace mq::cuda {
namespace {

// Types that are passed alike: enums are ints, pointers to unlike things are pointers.
template <class A, class B>
inline constexpr bool alike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
                              (std::is_pointer_v<A> ||
                               ((std::is_integral_v<A> || std::is_enum_v<A>)&&(std::is_integral_v<B> ||
                                                                               std::is_enum_v<B>)));
// What a pointer to a number or a handle points at has the same size.
template <class A, class B>
constexpr bool point_alike() {
  using PointedA = std::remove_pointer_t<A>;
  using PointedB = std::remove_pointer_t<B>;
  if constexpr (!std::is_scalar_v<PointedA> || !std::is_scalar_v<PointedB>)
    return true;  // void, or the driver's own struct
  else
    return sizeof(PointedA) == sizeof(PointedB);
}

template <class Ours, class Theirs>
struct Same : std::false_type {};
template <class R, class... A, class S, class... B>
struct Same<R (*)(A...), S (*)(B...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(A) == sizeof...(B))
      return alike<R, S> && ((alike<A, B> && point_alike<A, B>()) && ...);
    else
      return false;
  }
  static constexpr bool value = compare();
};

#define MQ_CHECK(function, ...) \
  static_assert(Same<decltype(Driver::function)::Pointer, decltype(&::function)>::value, #function);
MQ_CUDA_FUNCTIONS(MQ_CHECK)
#if CUDA_VERSION >= 12040
MQ_CUDA_OPTIONAL_FUNCTIONS(MQ_CHECK)
#endif

static_assert(kSuccess == CUDA_SUCCESS && kInvalidValue == CUDA_ERROR_INVALID_VALUE &&
              kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && kNotInitialized == CUDA_ERROR_NOT_INITIALIZED &&
              kDeinitialized == CUDA_ERROR_DEINITIALIZED && kInvalidImage == CUDA_ERROR_INVALID_IMAGE &&
              kInvalidContext == CUDA_ERROR_INVALID_CONTEXT && kNotFound == CUDA_ERROR_NOT_FOUND &&
              kNotReady == CUDA_ERROR_NOT_READY && kIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS &&
              kContextIsDestroyed == CUDA_ERROR_CONTEXT_IS_DESTROYED &&
              kCaptureImplicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
static_assert(kPointerContext == CU_POINTER_ATTRIBUTE_CONTEXT &&
              kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE &&
              kPointerIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED &&
              kPointerDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(kMemoryHost == CU_MEMORYTYPE_HOST && kMemoryDevice == CU_MEMORYTYPE_DEVICE &&
              kMemoryUnified == CU_MEMORYTYPE_UNIFIED);
static_assert(kDeviceSharedBytes == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK &&
              kDeviceMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              kDeviceUnifiedAddressing == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING &&
              kDeviceSharedBytesOptin == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(kFunctionSharedBytes == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES &&
              kFunctionDynamicSharedBytes == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
              kFunctionSharedCarveout == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT &&
              kJitErrorLog == CU_JIT_ERROR_LOG_BUFFER &&
              kJitErrorLogBytes == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING && kEventNoTiming == CU_EVENT_DISABLE_TIMING &&
              kHostPortable == CU_MEMHOSTALLOC_PORTABLE && kHostDeviceMapped == CU_MEMHOSTALLOC_DEVICEMAP &&
              kCaptureNone == CU_STREAM_CAPTURE_STATUS_NONE &&
              kCaptureModeRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kLaunchEnd == CU_LAUNCH_PARAM_END_AS_INT &&
              kLaunchBuffer == CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT &&
              kLaunchBufferBytes == CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT);

}  // namespace

// Constants that are pointers, and not constant expressions: looked at by reading.
bool same_streams() {
  return CU_STREAM_LEGACY == reinterpret_cast<CUstream>(kStreamLegacy) &&
         CU_STREAM_PER_THREAD == reinterpret_cast<CUstream>(kStreamPerThread);
}

}  // namespace mq::cuda
