#include "mpi_quant/engine/host_steps.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "mpi_quant/base/shared_lines.hpp"
#include "mpi_quant/base/ticks.hpp"
#include "mpi_quant/engine/mean.hpp"
#include "mpi_quant/engine/step_watch.hpp"

namespace mq {
namespace {

// Takes the codes of the next vector off the payload of a frame. False: no encode writes such a payload.
bool take_codes(kernels::WireView& payload, kernels::WireView& codes) {
  std::uint64_t length = 0;
  if (payload.size() < kLengthBytes) return false;
  std::memcpy(&length, payload.data(), sizeof length);
  payload = payload.subspan(kLengthBytes);
  if (length > payload.size()) return false;
  codes = payload.first(static_cast<std::size_t>(length));
  payload = payload.subspan(codes.size());
  return true;
}

}  // namespace

void HostSteps::prepare(const Reduction& reduction, const Layout& layout, std::byte* scratch) {
  reduction_ = &reduction;
  places_.prepare(reduction, layout, scratch);
  memory_.prepare(reduction, scratch + ChunkPlaces::memory_bytes(reduction, layout));
  room_ = payload_bound(reduction, layout);
}

kernels::Encoded HostSteps::encode_piece(const Step& step, const Piece& piece, std::byte* wire) const {
  const ChunkPlaces::Encode e = places_.encode(step, piece, wire);
  if (e.half != nullptr) reduction_->convert->widen(e.half, e.widened, e.args.n);
  return memory_.encode(step, e.args, places_.vector_of(piece));
}

kernels::Encoded HostSteps::encode_vectors(const Step& step, std::byte* wire) const {
  kernels::Encoded all;
  places_.for_each_piece(step, [&](const Piece& piece) {
    const kernels::Encoded one = encode_piece(step, piece, wire + all.bytes + kLengthBytes);
    const auto length = static_cast<std::uint64_t>(one.bytes);
    std::memcpy(wire + all.bytes, &length, sizeof length);
    all.bytes += kLengthBytes + one.bytes;
    all.nonfinite += one.nonfinite;
    all.overflows += one.overflows;
  });
  return all;
}

bool HostSteps::encode(const Step& step, const FrameHeader&, std::byte* wire, StepResult& result) {
  const WatchedStep watched(true);
  const double start = now_s();
  take_back(wire, room_);
  result.encoded = reduction_->vectors.empty() ? encode_piece(step, {places_.range(step)}, wire)
                                               : encode_vectors(step, wire);
  result.seconds = now_s() - start;
  return false;
}

bool HostSteps::decode(const Step& step, bool final, bool, std::span<const std::byte> wire,
                       StepResult& result) {
  decode_by(step, final, {&wire, 1}, result,
            [&](const kernels::DecodeArgs& args, const Piece& piece, std::span<const kernels::WireView>) {
              return memory_.decode(step, final, piece.range, args, places_.vector_of(piece));
            });
  return false;
}

void HostSteps::decode_sum(std::span<const Step> steps, bool final, std::span<const kernels::WireView> wires,
                           StepResult& result) {
  decode_by(steps[0], final, wires, result,
            [&](const kernels::DecodeArgs& args, const Piece& piece, std::span<const kernels::WireView> of) {
              return ops_of(*reduction_, steps[0], places_.vector_of(piece)).decode_sum(args, of);
            });
}

template <class Codec>
void HostSteps::decode_by(const Step& step, bool final, std::span<const kernels::WireView> wires,
                          StepResult& result, const Codec& codec) {
  const WatchedStep watched(false);
  const double start = now_s();
  const auto decode_piece = [&](const Piece& piece, std::span<const kernels::WireView> of) {
    const ChunkPlaces::Decode d = places_.decode(step, final, piece, of[0]);
    if (d.half != nullptr) reduction_->convert->widen(d.half, d.widened, d.args.n);
    const kernels::Decoded decoded = codec(d.args, piece, of);
    const int divisor = reduction_->divisor;
    if (!final || decoded != kernels::Decoded::ok) return decoded;
    if (d.rounded != nullptr)
      divide_to_half(*reduction_->convert, d.args.x, d.rounded, d.residual, d.args.n, divisor);
    else if (divisor != 1)
      divide(d.args.x, d.args.n, reduction_->element, divisor);
    return decoded;
  };
  if (reduction_->vectors.empty()) {
    result.decoded = decode_piece({places_.range(step)}, wires);
  } else {
    std::array<kernels::WireView, kernels::kMostSummed> rest, of;
    std::copy(wires.begin(), wires.end(), rest.begin());
    bool ok = true;
    places_.for_each_piece(step, [&](const Piece& piece) {
      for (std::size_t i = 0; i < wires.size(); ++i) ok = ok && take_codes(rest[i], of[i]);
      ok = ok && decode_piece(piece, {of.data(), wires.size()}) == kernels::Decoded::ok;
    });
    for (std::size_t i = 0; i < wires.size(); ++i) ok = ok && rest[i].empty();
    if (!ok) result.decoded = kernels::Decoded::malformed;
  }
  places_.written(step, final);
  result.seconds = now_s() - start;
}

void HostBackend::prepare(const Reduction& reduction, const Layout& layout, std::size_t pipelines,
                          std::byte* memory, std::size_t stride) {
  if (pipelines_.size() < pipelines) pipelines_.resize(pipelines);
  for (std::size_t i = 0; i < pipelines; ++i) pipelines_[i].prepare(reduction, layout, memory + i * stride);
}

}  // namespace mq
