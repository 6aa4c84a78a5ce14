// What calls of a driver cost a thread, in microseconds, and what a GPU takes: assumed, for comparisons.
// Nothing here was measured.
#pragma once

namespace mq::test {

inline constexpr double kLaunchMicroseconds = 2.2, kCopyMicroseconds = 2.5, kRecordMicroseconds = 0.7,
                        kQueryMicroseconds = 0.4;
inline constexpr double kOtherMicroseconds = 0.06;  // calls that change state of the thread only

// Of an H100: a kernel begins and ends in kKernelMicroseconds, and moves bytes of the GPU's memory and of the
// host's. A thread block moves at most kBlockBytes a second, because it has only so many loads under way.
inline constexpr double kKernelMicroseconds = 3, kMemoryBytes = 2.8e12, kBusBytes = 50e9, kBlockBytes = 16e9;

}  // namespace mq::test
