// Messages between the ranks of a sparse reduction, in rounds (base/exchange.hpp).
//
// If only the sender knows the length of its data, it sends two messages: a Header of fixed size, then the
// payload that the header announces. So every receive is posted with its exact size, except for streams that
// are known to be short (UnionCall::allgather_short). A rank with a local error follows the same schedule: it
// sends a header with its error code, and no payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "mpi_quant/base/exchange.hpp"

namespace mq::sparse {

inline constexpr std::uint32_t kMagic = 0x5351504d;  // "MPQS"
inline constexpr std::uint16_t kVersion = 2;

struct Header {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t error_code = 0;  // Code of the error of the sender, whose call fails; no payload follows
  std::uint64_t call = 0;        // equal on all ranks, different for every call
  std::uint32_t step = 0;        // number of the step in the schedule
  std::uint32_t format = 0;      // of the payload; each step defines its meaning
  std::uint64_t counts[2] = {};  // each step defines their meaning
  std::uint64_t payload_bytes = 0;
};
static_assert(sizeof(Header) == 48);

// Tells the communication that this rank has worked on so many entries of lists. One in virtual time, which
// has `worked`, lets the work take time. For all others this is nothing.
enum class Work : std::uint8_t { encode, decode, merge };
template <Comm C>
void worked(C& comm, Work work, std::size_t entries) {
  if constexpr (requires { comm.worked(work, entries); }) comm.worked(work, entries);
}

// Checks that a header belongs to this step of this call. If not, the Status says why.
inline Status check(const Header& header, int from, std::uint64_t call, std::uint32_t step) {
  if (header.magic != kMagic || header.version != kVersion)
    return status_of(Code::bad_frame,
                     [&] { return "rank " + std::to_string(from) + " sent an invalid header"; });
  if (header.call != call || header.step != step)
    return status_of(Code::bad_frame, [&] {
      return "rank " + std::to_string(from) + " sent a message of another call or step";
    });
  if (header.error_code != 0)
    return status_of(Code::peer_failed,
                     [&] { return "rank " + std::to_string(from) + " reported an error"; });
  return {};
}

}  // namespace mq::sparse
