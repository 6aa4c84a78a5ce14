// The codec steps of a simulated rank: a backend of the executor that charges the rank for what each step
// costs.
//
// With vectors the steps are also carried out, by the host's backend. Without, nothing is encoded: the
// payload of a frame is eight bytes, which say how many bytes the codec would have written (described_codec).
// The executor sends, checks and receives such frames as any others, with headers, tags and rounds as they
// are. The network charges for the bytes that they stand for (wire_bytes_of), so neither time nor memory goes
// into vectors.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bench/research/simulate/rates.hpp"
#include "mpi_quant/engine/host_steps.hpp"

namespace mq::sim {

// How many bytes a codec writes for n elements. If its wire has a fixed length this is the bound. Otherwise
// normal noise is encoded once for each length, a few times with feedback, and the last wire counts. Of more
// than 4 Mi elements it is the bound, too.
class WireSizes {
 public:
  WireSizes(const kernels::Codec& codec, const kernels::Params& params, kernels::Element element,
            bool feedback)
      : codec_(&codec), params_(params), element_(element), feedback_(feedback) {}
  std::size_t bytes(std::size_t n);

 private:
  std::size_t encode_noise(std::size_t n) const;
  const kernels::Codec* codec_;
  kernels::Params params_;
  kernels::Element element_;
  bool feedback_;
  std::map<std::size_t, std::size_t> known_;
};

// From this many bytes of a vector on, results are written past the cache: engine/chunk_places.cpp.
inline constexpr std::size_t kStreamBytes = std::size_t{8} << 20;

// What all ranks of a simulated call have in common.
struct StepCosts {
  const Rates* rates = nullptr;
  bool is_warm = false;  // vectors that fit into a cache are there when the call begins
  double step_s = 0;     // of each encode and decode, whatever its length: the call of a function
  WireSizes *coded = nullptr, *raw = nullptr;  // null: the vectors exist, and steps are carried out
};

// A codec whose frames stand for frames of `codec`. It differs from `codec` in that eight bytes bound every
// wire.
kernels::Codec described_codec(const kernels::Codec& codec);
// World::WireBytes: the bytes that a message stands for.
std::size_t wire_bytes_of(std::span<const std::byte> message);

class SimBackend final : public Backend {
 public:
  // compute is called with the seconds for which a step uses the processor of this rank. The costs must
  // outlive this object.
  SimBackend(std::function<void(double)> compute, const StepCosts& costs)
      : compute_(std::move(compute)), costs_(costs) {}
  std::size_t pipeline_bytes(const Reduction& reduction, const Layout& layout) const override;
  void prepare(const Reduction& reduction, const Layout& layout, std::size_t pipelines, std::byte* memory,
               std::size_t stride) override;
  Steps& pipeline(std::size_t i) override { return *steps_[i]; }

 private:
  class SimSteps;
  std::function<void(double)> compute_;
  const StepCosts& costs_;
  HostBackend host_;
  std::vector<std::unique_ptr<Steps>> steps_;
};

}  // namespace mq::sim
