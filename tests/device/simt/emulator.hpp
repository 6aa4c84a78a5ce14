// Runs the launches of device rows on the host, for tests: no GPU, no driver. Threads are fibers, which
// change only where a kernel waits for others (barriers, warp functions, pause()); a kernel that never does
// is a loop over its threads. Every result is a function of the launch and of the order.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device.hpp"

namespace mq::simt {

// In which order blocks, and the warps and lanes of each between two waits, have their turns on this thread
// of the host, until changed: 0 ascending, one block after the other; else a shuffled one, several blocks in
// turns, to find what depends on it.
void set_order(std::uint64_t seed) noexcept;

// Bytes of shared memory that a block of the largest GPU may have, and one of every GPU.
inline constexpr std::uint32_t kSharedMost = 227 << 10, kSharedLeast = 48 << 10;

// Runs the whole grid. False, with the reason in error(): no such kernel, wrong arguments, more shared
// memory, what a kernel declares with what the launch asks for, than shared_most; warp functions or barriers
// that not all threads come to, blocks that wait for ever. Memory is what the kernel made of it. An access at
// an address that is no multiple of what it needs ends the program, where the compiler can find it.
bool run(const kernels::Launch&, std::uint32_t shared_most = kSharedMost) noexcept;
// The first error of a run on this thread of the host since the last clear_error(); "" if none.
const char* error() noexcept;
void clear_error() noexcept;
// True if there is a kernel of this name.
bool known(const char* kernel) noexcept;
std::vector<const char*> names();                       // of all kernels
std::uint32_t args_bytes(const char* kernel) noexcept;  // of a run of this kernel, which is known

// Runs each launch at once, on the calling thread; or what use() was given.
kernels::Launcher launcher(std::uint32_t shared_most = kSharedMost) noexcept;
// Of on_device.cpp: another place for what launcher()'s launches do, and how it says what went wrong there.
void use(const kernels::Launcher&) noexcept;
bool on_device() noexcept;  // launcher() is another place
void report(const char* error) noexcept;

}  // namespace mq::simt
