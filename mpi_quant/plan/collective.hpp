// The collectives that the library compresses. The policy has a selector for each, and each has its plans.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mq {

// A new collective is a row here, not a road of its own. The numbers are part of a call's signature.
enum class Collective : std::uint8_t {
  allreduce = 0,
  reduce_scatter = 1,  // each rank gets a part of the sum
  allgather = 2,       // all ranks get the parts of all
  bcast = 3,           // all ranks get the vector of one, the root
  reduce = 4,          // the root gets the sum
};
inline constexpr std::array<Collective, 5> kCollectives{Collective::allreduce, Collective::reduce_scatter,
                                                        Collective::allgather, Collective::bcast,
                                                        Collective::reduce};

// The word of policies.
constexpr std::string_view name(Collective collective) {
  switch (collective) {
    case Collective::allreduce: return "allreduce";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::allgather: return "allgather";
    case Collective::bcast: return "bcast";
    case Collective::reduce: return "reduce";
  }
  return "";
}

// Whether the ranks' vectors are added up. If not, MPI can make the call with any type.
constexpr bool adds(Collective collective) {
  return collective != Collective::allgather && collective != Collective::bcast;
}

// Whether one rank, the root, has the input or gets the result.
constexpr bool has_root(Collective collective) {
  return collective == Collective::bcast || collective == Collective::reduce;
}

}  // namespace mq
