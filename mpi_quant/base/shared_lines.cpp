#include "mpi_quant/base/shared_lines.hpp"

#include <algorithm>
#include <cstdint>

#include "mpi_quant/base/ticks.hpp"

#if defined(__x86_64__)
#  include <cpuid.h>
#endif

namespace mq {

#if defined(__x86_64__)

namespace {

constexpr std::size_t kLineBytes = 64, kProbed = 16, kProbedBytes = kProbed * kLineBytes;
// Below this a flush costs as much as it saves.
constexpr std::size_t kLeastBytes = 16384;
// Ticks of kProbed stores to lines that were just loaded, in calls of 64 KiB to 4 MiB on an EPYC whose clock
// has 2.6 GHz: 180 to 310 where a core with the same caches has read the lines, up to 500 where they had left
// the caches, 780 to 900 where a distant core has read them. The limit holds for clocks of 2 to 3 GHz.
constexpr std::uint64_t kSlow = 600;

bool ask_processor() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0 || b != signature_AMD_ebx) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_CLFLUSHOPT) != 0;
}
// AMD's processors that can flush without waiting.
bool can_flush() {
  static const bool can = ask_processor();
  return can;
}

// Whether a distant core has read kProbed lines. Writes to each.
bool are_distant(volatile std::byte* lines) {
  for (std::size_t i = 0; i < kProbed; ++i) static_cast<void>(lines[i * kLineBytes]);
  __builtin_ia32_lfence();
  const std::uint64_t start = ticks();
  for (std::size_t i = 0; i < kProbed; ++i) lines[i * kLineBytes] = std::byte{0};
  __builtin_ia32_mfence();
  return ticks() - start >= kSlow;
}

}  // namespace

__attribute__((target("clflushopt"))) void flush_lines(const std::byte* first, std::size_t bytes) {
  if (!can_flush()) return;
  const auto end = reinterpret_cast<std::uintptr_t>(first) + bytes;
  for (auto line = reinterpret_cast<std::uintptr_t>(first) / kLineBytes * kLineBytes; line < end;
       line += kLineBytes)
    __builtin_ia32_clflushopt(reinterpret_cast<void*>(line));
}

void take_back(std::byte* first, std::size_t bytes) {
  if (!can_flush() || bytes < kLeastBytes) return;
  // Twice, because an interrupt can make a probe slow, too.
  for (std::size_t block = kLeastBytes; bytes >= 4 * kProbedBytes; block *= 2) {
    if (!are_distant(first) || !are_distant(first + kProbedBytes)) return;
    const std::size_t n = std::min(block, bytes);
    flush_lines(first + 2 * kProbedBytes, n - 2 * kProbedBytes);
    first += n;
    bytes -= n;
  }
}

#else

void flush_lines(const std::byte*, std::size_t) {}
void take_back(std::byte*, std::size_t) {}

#endif

}  // namespace mq
