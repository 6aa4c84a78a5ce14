// Decodes that follow each other are one pass (mpi_quant/engine/execute.hpp): one step after the other gives
// the same bits, and the pass is taken where it can be.

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "tests/engine/scene.hpp"

namespace mq::test {
namespace {

using kernels::CodecOps;
using kernels::DecodeArgs;
using kernels::Decoded;
using kernels::WireView;

std::atomic<int> single, summed;  // wires that were decoded alone, and with others

const CodecOps& ops_of_row(kernels::Element element) {
  return *kernels::find_codec("onebit")->ops(element, kernels::best_isa());
}
template <kernels::Element kElement>
const CodecOps* counting_ops() {
  static const CodecOps ops{ops_of_row(kElement).encode,
                            [](const DecodeArgs& args) noexcept {
                              ++single;
                              return ops_of_row(kElement).decode(args);
                            },
                            [](const DecodeArgs& args, std::span<const WireView> wires) noexcept {
                              summed += static_cast<int>(wires.size());
                              return ops_of_row(kElement).decode_sum(args, wires);
                            }};
  return &ops;
}
template <kernels::Element kElement>
const CodecOps* stepping_ops() {
  static const CodecOps ops{ops_of_row(kElement).encode, ops_of_row(kElement).decode, nullptr};
  return &ops;
}

// onebit with and without the pass.
Codec counting() {
  Codec codec = *kernels::find_codec("onebit");
  codec.ops = [](kernels::Element e, kernels::Isa) noexcept {
    return kernels::compute_element(e) == kernels::Element::f64 ? counting_ops<kernels::Element::f64>()
                                                                : counting_ops<kernels::Element::f32>();
  };
  return codec;
}
Codec stepping() {
  Codec codec = *kernels::find_codec("onebit");
  codec.ops = [](kernels::Element e, kernels::Isa) noexcept {
    return kernels::compute_element(e) == kernels::Element::f64 ? stepping_ops<kernels::Element::f64>()
                                                                : stepping_ops<kernels::Element::f32>();
  };
  return codec;
}

template <class T>
void expect_same_bits() {
  const Codec with = counting(), without = stepping();
  for (const PlanRow& plan : plans())
    for (const int ranks : {2, 3, 5, 11})
      for (const std::uint64_t delay_seed : {0, 1}) {
        const std::size_t n = ranks == 3 ? 70'001 : 9'001;  // several segments, or one
        const auto x = inputs<T>(ranks, n);
        const auto residual = zeros<Compute<T>>(ranks, n);
        Scene scene{&without, &plan, ranks};
        scene.short_blocks = false;
        scene.delay_seed = delay_seed;
        const Outcome<T> expected = run(scene, x, residual);
        scene.codec = &with;
        const Outcome<T> got = run(scene, x, residual);
        expect_sound(got, scene.describe(n));
        for (std::size_t r = 0; r < x.size(); ++r) {
          const bool same = std::memcmp(got.output[r].data(), expected.output[r].data(), n * sizeof(T)) == 0;
          ASSERT_TRUE(same) << scene.describe(n);
          ASSERT_TRUE(same_bits(got.residual[r], expected.residual[r])) << scene.describe(n);
        }
      }
}

TEST(Sums, one_pass_gives_the_bits_of_one_step_after_the_other) {
  expect_same_bits<float>();
  expect_same_bits<double>();
  expect_same_bits<F16>();
}

// Each rank of `allgather` decodes its own frame and the others' frames. Ranks take turns, so all frames are
// there when the last rank looks, but not yet when the first looks.
TEST(Sums, frames_that_are_there_are_decoded_together) {
  const Codec with = counting();
  Scene scene{&with, find_plan("allgather"), 4};
  scene.pipelines = 1;
  single = summed = 0;
  expect_sound(run(scene, inputs<float>(4, 1000), zeros<float>(4, 1000)), scene.describe(1000));
  EXPECT_EQ(single + summed, 16);
  EXPECT_GE(summed, 12) << "the three last ranks find more than their own frame";
}

// One rank's frame comes so late that the others do not wait for it with their own.
TEST(Sums, a_rank_does_not_wait_for_ever_with_the_frames_that_it_has) {
  const Codec& onebit = *kernels::find_codec("onebit");
  Loopback net(2, 0, {}, [](int from, int, int, int) { return Loopback::Fate{1, from == 1 ? 1000 : 0}; });
  std::atomic<bool> alone = false;
  net.run_in_turn([&](Loopback::Rank& comm) {
    Scene scene{&onebit, find_plan("allgather"), 2};
    const Plan plan = scene.plan_of(comm.rank());
    const PlanIndex plan_index = index_of(plan);
    const std::vector<float> x(1000, 1);
    std::vector<float> y(1000);
    HostBackend backend;
    Reduction reduction;
    reduction.plan = &plan;
    reduction.plan_index = &plan_index;
    reduction.codec = &onebit;
    reduction.ops = onebit.ops(kernels::Element::f32, scene.isa);
    reduction.memory = scene.call_memory(kernels::Element::f32);
    reduction.backend = &backend;
    reduction.params = scene.params();
    reduction.count = x.size();
    reduction.input = reinterpret_cast<const std::byte*>(x.data());
    reduction.output = reinterpret_cast<std::byte*>(y.data());
    reduction.rank = comm.rank();
    reduction.size = 2;
    std::vector<std::byte> scratch(Execution<Loopback::Rank>::scratch_bytes(reduction));
    Execution<Loopback::Rank> execution;
    execution.prepare(reduction, scratch.data());
    Tally tally;
    EXPECT_TRUE(execution.start(comm).ok());
    for (int turn = 0; !execution.done(); ++turn) {
      bool moved = false;
      ASSERT_TRUE(execution.advance(comm, tally, moved).ok());
      if (!moved) comm.idle();
      if (comm.rank() == 0 && turn == 200) alone = tally.decode_s > 0;
    }
    EXPECT_EQ(y, std::vector<float>(1000, 2));
  });
  EXPECT_TRUE(alone) << "decoded after a moment, although the other frame is not there";
}

}  // namespace
}  // namespace mq::test
