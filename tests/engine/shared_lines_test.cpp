// take_back() and flush_lines(): they write inside of what they are given alone, for every length and
// alignment, also where another thread has read the memory. What they are for, the time of a write after
// them, is measured in results/2026-11-29-epyc-lines: a test would depend on the machine.

#include <gtest/gtest.h>

#include <cstddef>
#include <thread>
#include <vector>

#include "mpi_quant/base/shared_lines.hpp"

namespace mq {
namespace {

constexpr std::size_t kMargin = 256;
constexpr std::size_t kLengths[] = {0,     1,     64,    1024,  2047,    2048,   4096,
                                    16383, 16384, 16385, 20480, 100'000, 1 << 20};

std::vector<std::byte> pattern(std::size_t n) {
  std::vector<std::byte> memory(n);
  for (std::size_t i = 0; i < n; ++i) memory[i] = static_cast<std::byte>(i * 7 + i / 251);
  return memory;
}

TEST(SharedLines, FlushedBytesStay) {
  for (const std::size_t n : kLengths)
    for (const std::size_t offset : {0, 1, 32, 63}) {
      const std::vector<std::byte> before = pattern(n + 2 * kMargin);
      std::vector<std::byte> memory = before;
      flush_lines(memory.data() + kMargin + offset, n);
      EXPECT_TRUE(memory == before) << n << " bytes at " << offset;
    }
}

TEST(SharedLines, NothingElseIsWritten) {
  for (const std::size_t n : kLengths)
    for (const std::size_t offset : {0, 1, 32, 63}) {
      const std::vector<std::byte> before = pattern(n + 2 * kMargin);
      std::vector<std::byte> memory = before;
      const std::size_t begin = kMargin + offset, end = begin + n;
      for (int round = 0; round < 3; ++round) {
        std::vector<std::byte> read;
        std::thread([&] { read = memory; }).join();
        take_back(memory.data() + begin, n);
        for (std::size_t i = 0; i < memory.size(); ++i) {
          if (i >= begin && i < end) continue;
          ASSERT_EQ(memory[i], before[i]) << n << " bytes at " << offset << ": " << i;
        }
        for (std::size_t i = begin; i < end; ++i) memory[i] = std::byte{1};
      }
    }
}

}  // namespace
}  // namespace mq
