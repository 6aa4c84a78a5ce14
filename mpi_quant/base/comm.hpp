// What an executor needs of communication: ranks and non-blocking messages of bytes. Models: MpiComm
// (mpi_comm.hpp) and the threads-as-ranks loopback of the tests. Separate so that no algorithm sees mpi.h.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

#include "mpi_quant/base/status.hpp"

namespace mq {

// Messages between two ranks with one tag arrive in the order they were sent. A request is completed by the
// test that sets done; until then its buffer belongs to the communication. A status that is not ok means the
// communicator is broken.
template <class C>
concept Comm = requires(C& c, int peer, int tag, std::span<const std::byte> out, std::span<std::byte> in,
                        typename C::Request& request, bool& done, std::size_t& received_bytes) {
  { c.rank() } -> std::same_as<int>;
  { c.size() } -> std::same_as<int>;
  { c.send(peer, tag, out, request) } -> std::same_as<Status>;
  // A message longer than `in` completes with received_bytes > in.size() and unspecified contents.
  { c.receive(peer, tag, in, request) } -> std::same_as<Status>;
  { c.test(request, done, received_bytes) } -> std::same_as<Status>;
  {c.idle()};  // called when nothing was done since the last call: spin, then give the core away
  {c.busy()};  // called when something was
};

}  // namespace mq
