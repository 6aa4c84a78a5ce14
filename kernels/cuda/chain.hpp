// The arguments of encodes whose thread blocks write one after the other what they encode, with lengths that
// they find out themselves (chain.cuh). All pointers are device addresses.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/names.hpp"
#include "kernels/hd.hpp"

namespace mq::kernels::cuda {

// In scratch memory, cleared by chain_begin. It says who encodes which part next, and where the wire of each
// part begins.
struct ChainState {
  std::uint64_t bytes, nonfinite;
  std::uint32_t ticket, done;
  // By part; see chain.cuh.
  MQ_HD std::uint64_t* links() { return reinterpret_cast<std::uint64_t*>(this + 1); }
  static constexpr std::size_t bytes_of(std::size_t parts) {
    return sizeof(ChainState) + parts * sizeof(std::uint64_t);
  }
};

struct ChainBeginArgs {
  ChainState* state;
  DeviceEncoded* encoded;  // written by this kernel if there are no parts
  std::uint32_t parts;
};

struct ChainedArgs {
  std::byte* wire;
  DeviceEncoded* encoded;
  ChainState* state;
  std::uint32_t blocks;  // thread blocks: parts of the wire
};

// Runs before every launch of another number of thread blocks than one.
inline void begin_chain(ChainState* state, DeviceEncoded* encoded, std::uint32_t parts,
                        const Launcher& launch) {
  launch(names::chain_begin, parts / 256 + 1, 256, 0, ChainBeginArgs{state, encoded, parts});
}

}  // namespace mq::kernels::cuda
