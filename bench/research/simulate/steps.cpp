#include "bench/research/simulate/steps.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <random>
#include <tuple>

namespace mq::sim {
namespace {

constexpr std::size_t kMostNoise = std::size_t{1} << 22;  // elements that are encoded to know a length
constexpr int kCalls = 4;  // after so many calls with feedback a residual is as large as it gets, nearly

std::size_t eight(std::size_t, kernels::Element, const kernels::Params&) noexcept {
  return sizeof(std::uint64_t);
}

// The first numbers of one sequence of normal ones, kept for the next lengths: to draw them takes longer than
// to encode them. The mutex must be held.
const std::vector<double>& noise(std::size_t n) {
  static std::mt19937_64 random(1);
  static std::normal_distribution<double> normal(0, 1e-3);
  static std::vector<double> drawn;
  drawn.reserve(n);
  while (drawn.size() < n) drawn.push_back(normal(random));
  return drawn;
}

}  // namespace

// Of all calls that this process simulates: many differ in their network, plan or number of ranks alone.
std::size_t WireSizes::bytes(std::size_t n) {
  const auto [at, is_new] = known_.try_emplace(n);
  if (!is_new) return at->second;
  using Key = std::tuple<std::uint16_t, decltype(params_.value), kernels::Element, bool, std::size_t>;
  static std::mutex mutex;
  static std::map<Key, std::size_t> of_all;
  const std::scoped_lock lock(mutex);
  const auto [known, is_first] = of_all.try_emplace({codec_->id, params_.value, element_, feedback_, n});
  if (is_first) known->second = encode_noise(n);
  return at->second = known->second;
}

std::size_t WireSizes::encode_noise(std::size_t n) const {
  const std::size_t bound = codec_->wire_bound(n, element_, params_);
  if (n == 0 || n > kMostNoise) return n == 0 ? 0 : bound;
  const std::vector<double>& numbers = noise(n);
  const std::size_t width = kernels::element_bytes(element_);
  std::vector<std::byte> x(n * width), residual(n * width), wire(bound);
  for (std::size_t i = 0; i < n; ++i) {
    const double value = numbers[i];
    const auto narrow = static_cast<float>(value);
    std::memcpy(&x[i * width], width == 8 ? static_cast<const void*>(&value) : &narrow, width);
  }
  kernels::Params params = params_;
  if (codec_->measures(params) != kernels::Measures::nothing)
    params = codec_->settle(params, codec_->measure(x.data(), n, element_, params));
  const kernels::CodecOps* const ops = codec_->ops(element_, kernels::best_isa());
  kernels::EncodeArgs args{.x = x.data(), .n = n, .params = params, .wire = wire.data(), .noise = {}};
  if (feedback_) {
    args.residual = residual.data();
    args.feedback = kernels::Feedback::carry;
  }
  std::size_t bytes = 0;
  for (int call = 0; call < (feedback_ ? kCalls : 1); ++call) bytes = ops->encode(args).bytes;
  return bytes;
}

kernels::Codec described_codec(const kernels::Codec& codec) {
  kernels::Codec described = codec;
  described.wire_bound = eight;
  return described;
}

std::size_t wire_bytes_of(std::span<const std::byte> message) {
  FrameHeader header;
  std::uint64_t payload = 0;
  if (message.size() != sizeof header + sizeof payload) return message.size();
  std::memcpy(&header, message.data(), sizeof header);
  std::memcpy(&payload, message.data() + sizeof header, sizeof payload);
  return header.magic == kFrameMagic ? sizeof header + payload : message.size();
}

class SimBackend::SimSteps final : public Steps {
 public:
  SimSteps(const std::function<void(double)>& compute, const StepCosts& costs, const Reduction& reduction,
           const Layout& layout, Steps* host)
      : compute_(compute), costs_(costs), reduction_(reduction), layout_(layout), host_(host) {
    vector_bytes_ = reduction.count * kernels::element_bytes(reduction.element);
    was_written_.resize(static_cast<std::size_t>(reduction.plan->chunks));
  }

  void start_segment(std::size_t segment) override {
    segment_ = segment;
    std::fill(was_written_.begin(), was_written_.end(), 0);
    if (host_ != nullptr) host_->start_segment(segment);
  }

  bool encode(const Step& step, const FrameHeader& header, std::byte* wire, StepResult& result) override {
    const std::size_t n = elements(step);
    const bool feeds = reduction_.residual != nullptr && step.feedback != StepFeedback::none;
    // A sum that was just made is in the cache.
    charge(step, n, feeds ? Work::encode_feedback : Work::encode, was_written_[chunk(step)] != 0, result);
    if (host_ != nullptr) {
      const double seconds = result.seconds;
      (void)host_->encode(step, header, wire, result);
      result.seconds = seconds;
      return false;
    }
    const std::uint64_t bytes = (step.raw ? costs_.raw : costs_.coded)->bytes(n);
    if (bytes > 0) std::memcpy(wire, &bytes, sizeof bytes);
    result.encoded.bytes = bytes > 0 ? sizeof bytes : 0;
    return false;
  }

  bool decode(const Step& step, bool final, bool fetches_header, std::span<const std::byte> wire,
              StepResult& result) override {
    const std::size_t n = elements(step);
    const bool adds = step.op == Op::decode_add, streams = final && vector_bytes_ >= kStreamBytes;
    charge(
        step, n,
        adds ? (streams ? Work::add_streamed : Work::add) : (streams ? Work::decode_streamed : Work::decode),
        !final, result);
    was_written_[chunk(step)] = 1;
    if (host_ != nullptr) {
      const double seconds = result.seconds;
      (void)host_->decode(step, final, fetches_header, wire, result);
      result.seconds = seconds;
    } else if (wire.size() != (n > 0 ? sizeof(std::uint64_t) : 0)) {
      result.decoded = kernels::Decoded::malformed;
    }
    return false;
  }

 private:
  static std::size_t chunk(const Step& step) { return static_cast<std::size_t>(step.chunk); }
  std::size_t elements(const Step& step) const { return layout_.chunk(segment_, chunk(step)).n; }

  void charge(const Step& step, std::size_t n, Work work, bool is_in_cache, StepResult& result) {
    const std::size_t bytes = n * kernels::element_bytes(reduction_.element);
    const std::size_t where = is_in_cache      ? bytes
                              : costs_.is_warm ? vector_bytes_
                                               : std::numeric_limits<std::size_t>::max();
    result.seconds =
        costs_.step_s + static_cast<double>(bytes) * costs_.rates->byte_s(codec_of(reduction_, step).name,
                                                                          work, reduction_.element, where);
    compute_(result.seconds);
  }

  const std::function<void(double)>& compute_;
  const StepCosts& costs_;
  const Reduction& reduction_;
  const Layout& layout_;
  Steps* host_;
  std::size_t segment_ = 0, vector_bytes_ = 0;
  std::vector<char> was_written_;  // by chunk: a step of this segment has written it
};

std::size_t SimBackend::pipeline_bytes(const Reduction& reduction, const Layout& layout) const {
  return costs_.coded == nullptr ? host_.pipeline_bytes(reduction, layout) : 0;
}

void SimBackend::prepare(const Reduction& reduction, const Layout& layout, std::size_t pipelines,
                         std::byte* memory, std::size_t stride) {
  const bool has_vectors = costs_.coded == nullptr;
  if (has_vectors) host_.prepare(reduction, layout, pipelines, memory, stride);
  steps_.clear();
  for (std::size_t i = 0; i < pipelines; ++i)
    steps_.push_back(std::make_unique<SimSteps>(compute_, costs_, reduction, layout,
                                                has_vectors ? &host_.pipeline(i) : nullptr));
}

}  // namespace mq::sim
