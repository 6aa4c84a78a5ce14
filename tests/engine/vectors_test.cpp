// The frames of a call of several vectors: what an encode writes fits the bound and decodes to each vector;
// what no encode writes is refused, and nothing outside the results is written.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "mpi_quant/engine/host_steps.hpp"
#include "mpi_quant/plan/plan.hpp"
#include "tests/kernels/inputs.hpp"
#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

constexpr std::array<std::size_t, 5> kLengths{3, 0, 5000, 64, 1};
constexpr float kCanary = 77;

// The steps of one rank of two by plan allgather: one chunk, which all vectors are in.
class FramesOfVectors : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::size_t first = 0;
    for (std::size_t i = 0; i < kLengths.size(); ++i) {
      const std::size_t n = kLengths[i];
      inputs_.push_back(make_input<float>(Input::normal, n, 5 + i));
      results_.emplace_back(n + 2, kCanary);
    }
    for (std::size_t i = 0; i < kLengths.size(); ++i) {
      places_.push_back({first, kLengths[i], reinterpret_cast<const std::byte*>(inputs_[i].data()),
                         reinterpret_cast<std::byte*>(results_[i].data() + 1)});
      first += kLengths[i];
      ends_.push_back(first);
    }
    plan_ = find_plan("allgather")->make({0, 2});
    index_ = index_of(plan_);
    Reduction& r = reduction_;
    r.plan = &plan_;
    r.plan_index = &index_;
    r.codec = kernels::find_codec(GetParam());
    r.ops = r.codec->ops(kernels::Element::f32, kernels::best_isa());
    r.params = kernels::preset_params(*r.codec);
    r.memory.rule = &kernels::carry_rule();
    r.count = first;
    r.size = 2;
    r.vectors = places_;
    r.vector_ends = ends_;
    layout_.emplace(layout_of(r));
    ASSERT_EQ(layout_->segments(), 1u);
    scratch_.resize(HostSteps::memory_bytes(r, *layout_) + 64);
    steps_.prepare(r, *layout_,
                   scratch_.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch_.data()) % 64));
    steps_.start_segment(0);
    wire_.resize(payload_bound(r, *layout_));
    StepResult result;
    ASSERT_FALSE(steps_.encode(encode_step(), {}, wire_.data(), result));
    ASSERT_LE(result.encoded.bytes, wire_.size());
    wire_.resize(result.encoded.bytes);
  }
  const Step& encode_step() const { return plan_.steps.front(); }
  const Step& decode_step() const {
    return *std::find_if(plan_.steps.begin(), plan_.steps.end(),
                         [](const Step& step) { return step.op == Op::decode; });
  }
  kernels::Decoded decode(std::span<const std::byte> wire) {
    steps_.start_segment(0);
    StepResult result;
    (void)steps_.decode(decode_step(), true, false, wire, result);
    for (const std::vector<float>& y : results_) {
      EXPECT_EQ(y.front(), kCanary);
      EXPECT_EQ(y.back(), kCanary);
    }
    return result.decoded;
  }
  std::vector<std::vector<float>> inputs_, results_;
  std::vector<VectorPlace> places_;
  std::vector<std::size_t> ends_;
  Plan plan_;
  PlanIndex index_;
  Reduction reduction_;
  std::optional<Layout> layout_;
  std::vector<std::byte> scratch_, wire_;
  HostSteps steps_;
};

TEST_P(FramesOfVectors, decode_to_what_each_gives_alone) {
  ASSERT_EQ(decode(wire_), kernels::Decoded::ok);
  for (std::size_t i = 0; i < kLengths.size(); ++i) {
    const std::size_t n = kLengths[i];
    std::vector<std::byte> wire(reduction_.codec->wire_bound(n, kernels::Element::f32, reduction_.params));
    std::vector<float> alone(n);
    const kernels::Encoded encoded = reduction_.ops->encode(
        {.x = inputs_[i].data(), .n = n, .params = reduction_.params, .wire = wire.data(), .noise = {}});
    ASSERT_EQ(reduction_.ops->decode({.wire = wire.data(),
                                      .wire_bytes = encoded.bytes,
                                      .n = n,
                                      .params = reduction_.params,
                                      .x = alone.data(),
                                      .noise = {}}),
              kernels::Decoded::ok);
    for (std::size_t k = 0; k < n; ++k) ASSERT_EQ(results_[i][k + 1], alone[k]) << "vector " << i;
  }
}

TEST_P(FramesOfVectors, payloads_of_another_length_are_refused) {
  for (std::size_t n = 0; n < wire_.size(); n += 1 + n / 7) {
    const std::vector<std::byte> shorter(wire_.begin(), wire_.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_EQ(decode(shorter), kernels::Decoded::malformed) << n << " bytes";
  }
  std::vector<std::byte> longer = wire_;
  longer.push_back({});
  EXPECT_EQ(decode(longer), kernels::Decoded::malformed);
}

TEST_P(FramesOfVectors, lengths_that_no_encode_writes_are_refused) {
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1} << 40, ~std::uint64_t{0}, ~std::uint64_t{7}}) {
    std::vector<std::byte> wrong = wire_;
    std::memcpy(wrong.data(), &length, sizeof length);
    EXPECT_EQ(decode(wrong), kernels::Decoded::malformed) << length;
  }
}

// Whatever arrives: what is read is in the payload, and what is written is in the results.
TEST_P(FramesOfVectors, any_bytes_are_read_and_nothing_is_written_elsewhere) {
  std::mt19937_64 random(3);
  for (int turn = 0; turn < 2000; ++turn) {
    std::vector<std::byte> wrong = wire_;
    for (std::uint64_t flips = 1 + random() % 4; flips > 0; --flips)
      wrong[random() % wrong.size()] = static_cast<std::byte>(random());
    (void)decode(wrong);
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, FramesOfVectors, testing::Values("raw", "onebit", "int8", "topk", "bf16"));

}  // namespace
}  // namespace mq::test
