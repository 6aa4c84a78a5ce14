// What an executor needs for communication: ranks and non-blocking messages of bytes. There are two models:
// MpiComm (core/mpi_comm.hpp), and the loopback of the tests, where threads are ranks. It is a concept so
// that no algorithm sees mpi.h.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

#include "mpi_quant/base/status.hpp"

namespace mq {

// Messages between two ranks with one tag arrive in the order in which they were sent. A request is complete
// when test() sets done. Until then the communication owns its buffer. A status that is not ok means that the
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
  {c.idle()};  // call it if nothing was done since the last call: it spins, then gives the core away
  {c.busy()};  // call it if something was done
};

}  // namespace mq
