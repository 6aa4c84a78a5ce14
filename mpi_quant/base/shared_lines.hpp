// Makes memory that another processor has just read fast to write again. A message over shared memory is
// read by the receiver out of the sender's frame. Then its cache lines are in the caches of both, and the
// next encode into that frame must first take each line back. On an AMD EPYC, with the two ranks on cores
// that share no cache, that takes 24 to 34 ns a line of 64 bytes where a line of its own takes 1 ns. If the
// lines are flushed before, flush and write together take 5 to 7 ns. The bytes of messages stay the same.
#pragma once

#include <cstddef>

namespace mq {

// To be called before [first, first + bytes) is written, from its beginning on; the bytes are unspecified
// afterwards. Begins with 16 KiB: writes to 32 lines and measures the time. If they are as slow as lines that
// a distant core has read, flushes the others, and goes on with twice as much. So it does not matter if less
// than `bytes` will be written, or was read. Does nothing for less than 16 KiB.
void take_back(std::byte* first, std::size_t bytes);

// The part of take_back() that flushes: the lines from the one that holds `first` on, while they begin before
// first + bytes. The bytes stay as they are. Both do nothing on processors other than AMD's: there nobody has
// measured it.
void flush_lines(const std::byte* first, std::size_t bytes);

}  // namespace mq
