#include "mpi_quant/engine/chunks.hpp"

namespace mq {

void Chunks::prepare(const Job& job, const Layout& layout, std::byte* scratch) {
  job_ = &job;
  places_.prepare(job, layout, scratch);
}

kernels::Encoded Chunks::encode(const Step& step, std::byte* wire) {
  const ChunkPlaces::Encode e = places_.encode(step, wire);
  if (e.half != nullptr) job_->convert->widen(e.half, e.widened, e.args.n);
  return ops_of(*job_, step).encode(e.args);
}

kernels::Decoded Chunks::decode(const Step& step, bool final, std::span<const std::byte> wire) {
  const ChunkPlaces::Decode d = places_.decode(step, final, wire);
  if (d.half != nullptr) job_->convert->widen(d.half, d.widened, d.args.n);
  const kernels::Decoded decoded = ops_of(*job_, step).decode(d.args);
  if (d.rounded != nullptr && decoded == kernels::Decoded::ok)
    job_->convert->narrow(d.args.x, d.rounded, d.residual, d.args.n);
  return decoded;
}

}  // namespace mq
