#include "mpi_quant/job.hpp"

#include <algorithm>

namespace mq {

const kernels::Codec& raw_codec() {
  static const kernels::Codec& raw = *kernels::find_codec("raw");
  return raw;
}

std::size_t wire_bound(const Job& job, std::size_t n) {
  const std::size_t coded = job.codec->wire_bound(n, job.element, job.params);
  return job.facts->raw ? std::max(coded, raw_codec().wire_bound(n, job.element, {})) : coded;
}

}  // namespace mq
