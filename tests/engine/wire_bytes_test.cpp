// Methods send as many bytes as their formats say, within 1 %: in one encode, and in a whole allreduce.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "mpi_quant/policy/policy.hpp"
#include "tests/engine/scene.hpp"

namespace mq::test {
namespace {

// The bytes of an element in one encode of independent, normally distributed floats.
struct Format {
  const char* method;
  double bytes;
};

// The gaps of positions take 1.09 bytes where one element in 100 is sent, and 1.02 where one in 32 is.
constexpr double kFloat = 4, kScale = 4, kTwoMeans = 8, kGap100 = 1.09, kGap32 = 1.017;
constexpr double kTernaryHeader = 16;  // of each block: see kernels/ternary/format-inl.hpp
const Format kFormats[]{
    {"raw", kFloat},
    {"bf16", 2},
    {"f16(scale=block)", 2 + 1.0 / 256},
    {"int8", 1 + kScale / 256},
    {"int8(block=512,round=stochastic)", 1 + kScale / 512},
    {"int8(block=512,scale=minmax)", 1 + 2 * kScale / 512},
    {"int4(block=512)", 0.5 + kScale / 512},
    {"int4(block=1024,scale=minmax)", 0.5 + 2 * kScale / 1024},
    {"int4(code=entropy)", 3.325 / 8 + kScale / 256},  // the entropy of these codes is 3.27 bits
    {"qsgd(bits=4,block=512)", 0.5 + kScale / 512},
    {"qsgd(bits=2,block=512,norm=l2)", 0.25 + kScale / 512},
    {"terngrad(block=2048)", 0.2 + kScale / 2048},
    {"mxfp8", 1 + 1.0 / 32},
    {"mxfp6", 0.75 + 1.0 / 32},
    {"mxfp4", 0.5 + 1.0 / 32},
    {"nvfp4", 0.5 + 1.0 / 16 + kScale / 1024},
    {"minifloat(exp=4,man=3)", 1 + 1.0 / 32},
    {"natural", 9.0 / 8},
    {"rangefloat(bits=6,man=2)", 0.75 + kScale / 256},
    {"onebit(block=512)", 1.0 / 8 + kTwoMeans / 512},
    {"onebit(block=2048)", 1.0 / 8 + kTwoMeans / 2048},
    {"onebit(means=tensor)", 1.0 / 8},
    {"threshold(tau=2.1539,format=dense)", 0.25},
    {"adaptive(pi=32)", kGap32 / 32 + kTernaryHeader / 16384},
    {"adaptive(pi=32,format=u32)", 4.0 / 32 + kTernaryHeader / 16384},
    {"topk(k=0.01)", (kFloat + kGap100) * 0.01},
    {"topk(k=0.01,format=u16)", (kFloat + 2) * 0.01},
    {"topk(k=0.05,format=bitmap)", kFloat * 0.05 + 1.0 / 8},
    {"fft", 1.0 / 16 + 0.15 + 16.0 / 4096},
};

constexpr std::size_t kCount = std::size_t{1} << 19;

Scene scene_of(const char* text) {
  const auto method = parse_method(text);
  EXPECT_TRUE(method.ok()) << text;
  Scene scene{method->codec, nullptr};
  scene.short_blocks = false;
  scene.feedback = false;
  for (std::size_t i = 0; i < method->codec->specs.size(); ++i)
    scene.values.emplace_back(i, method->params.value[i]);
  return scene;
}

TEST(WireBytes, an_encode_has_the_bytes_of_its_format) {
  const auto x = make_input<float>(Input::normal, kCount, seed());
  for (const Format& format : kFormats) {
    const Scene scene = scene_of(format.method);
    const Row<float> row{scene.codec, scene.params(), scene.isa};
    const double bytes = static_cast<double>(row.run(x, {}, kernels::Feedback::none).wire.size()) / kCount;
    EXPECT_NEAR(bytes / format.bytes, 1, 0.01) << format.method << ": " << bytes << " bytes";
  }
}

// Each rank sends its part of P - 1 slices, and the sum of its own slice P - 1 times. Each message has a
// header beside.
TEST(WireBytes, a_rank_sends_two_shares_of_the_vector_over_plan_direct) {
  for (const int ranks : kSanitized ? std::vector{2} : std::vector{2, 3, 5}) {
    const auto x = inputs<float>(ranks, kCount);
    for (const Format& format : kFormats) {
      Scene scene = scene_of(format.method);
      if (scene.codec->name == "threshold") continue;  // of the sums more elements pass it
      scene.plan = find_plan("direct");
      scene.ranks = ranks;
      const auto got = run<float>(scene, x, zeros<float>(ranks, kCount));
      expect_sound(got, scene.describe(kCount));
      double sent = 0;
      for (const Tally& tally : got.tally)
        sent += static_cast<double>(tally.sent_bytes - tally.messages_sent * sizeof(FrameHeader));
      const double share = 2.0 * (ranks - 1) / ranks * format.bytes;
      EXPECT_NEAR(sent / ranks / kCount / share, 1, 0.01) << format.method << " over " << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace mq::test
