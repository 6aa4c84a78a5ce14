// What samples of a call's vectors say, for `auto`: brought to the agreement of the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi_quant/automatic/heard.hpp"
#include "mpi_quant/automatic/sample.hpp"
#include "mpi_quant/core/chosen.hpp"
#include "mpi_quant/core/request.hpp"
#include "mpi_quant/engine/reduction.hpp"

namespace mq {

// of_vector: null if the call has no residual. of_group: by vector, if the call is of several and the codecs
// are to reduce it.
struct CallResiduals {
  const std::byte* of_vector = nullptr;
  std::span<const VectorPlace> of_group;
};

// Keeps its memory from call to call.
class CallSamples {
 public:
  // Fills in how fast the codecs are, or what the chosen and the scouted candidate do to a sample.
  void bring(const Chosen& chosen, const Call& call, kernels::Element element, const CallResiduals& waiting,
             Heard& heard) noexcept;

 private:
  bool list(const Call& call, const CallClass& calls, const CallResiduals& waiting);

  Sample sample_;
  std::vector<SampledVector> vectors_;
  std::uint64_t taken_ = 0;  // samples
};

}  // namespace mq
