// What calls of a driver cost a thread, in microseconds: assumed, for comparisons. Nothing here was measured.
#pragma once

namespace mq::test {

inline constexpr double kLaunchMicroseconds = 2.2, kCopyMicroseconds = 2.5, kRecordMicroseconds = 0.7,
                        kQueryMicroseconds = 0.4;
inline constexpr double kOtherMicroseconds = 0.06;  // calls that change state of the thread only

}  // namespace mq::test
