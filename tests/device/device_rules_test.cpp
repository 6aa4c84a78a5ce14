// The executor with memory rules and vectors on GPUs: the bits of an all-host run for every codec, plan and
// rule, whatever memory each rank's vectors are in, and nothing is staged. The kernels are the host's
// functions (tests/kernels/host_kernels.hpp); device_memory_test.cpp runs the kernels of a GPU.

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "mpi_quant/engine/memory_steps.hpp"
#include "tests/device/device_run.hpp"

namespace mq::test {
namespace {

using kernels::MemoryRule;

Kinds mixed(int rank, int turn) {
  const int kind = (rank + turn) % 4;
  return {(kind & 1) != 0, (kind & 2) != 0};
}

// No rank's frames on its device, all, some.
constexpr std::array kWires{0U, ~0U, 0b10110U};
unsigned wire(int turn) { return kWires[static_cast<std::size_t>(turn) % kWires.size()]; }

class DeviceRules : public testing::Test {
 protected:
  void SetUp() override { Gpus::get().reset(); }
};

// Every rule that has functions, each version of 3pc.
template <class F>
void for_each_rule(const F& f) {
  for (const MemoryRule& rule : kernels::memory_rules()) {
    using Values = std::vector<std::pair<std::size_t, double>>;
    if (rule.ops == nullptr) continue;
    if (rule.name == "3pc")
      for (const double v : {2, 3, 4, 5}) f(rule, Values{{0, v}});
    else if (rule.name == "momentum")
      for (const double mask : {0, 1}) f(rule, Values{{1, 3}, {2, mask}});  // clipped
    else
      f(rule, Values{});
  }
}

// Every codec and rule, each with a few of the plans.
template <class F>
void for_each_rule_scene(int ranks, int stride, const F& property) {
  int turn = 0;
  for_each_rule([&](const MemoryRule& rule, const auto& values) {
    for (const Codec& codec : kernels::codecs())
      for (const PlanRow& plan : plans()) {
        if (turn++ % stride != 0) continue;
        Scene scene{&codec, &plan, ranks};
        scene.memory = &rule;
        scene.memory_values = values;
        property(scene, turn / stride);
      }
  });
}

TEST_F(DeviceRules, bits_are_those_of_the_host) {
  for_each_rule_scene(3, 5, [](const Scene& scene, int turn) {
    for (const std::size_t n : {2, 64 * 5 + 5, 3000}) {
      expect_same<float>({scene, [](int) { return Kinds{}; }, wire(turn)}, n, "all on devices");
      expect_same<float>({scene, [=](int rank) { return mixed(rank, turn); }, wire(turn + 1)}, n, "mixed");
    }
  });
  EXPECT_GT(Gpus::get().device(0).launches, 0);
}

TEST_F(DeviceRules, all_element_types_and_numbers_of_ranks) {
  for (const int ranks : {2, 5})
    for_each_rule_scene(ranks, 11, [](const Scene& scene, int turn) {
      const auto kinds = [=](int rank) { return mixed(rank, turn); };
      expect_same<double>({scene, kinds, wire(turn)}, 999, "mixed");
      expect_same<F16>({scene, [](int) { return Kinds{}; }, wire(turn + 1)}, 999, "all on devices");
      expect_same<Bf16>({scene, kinds, wire(turn)}, 999, "mixed");
    });
}

// Exact calls, and ranks that send nothing or only their second message.
TEST_F(DeviceRules, exact_calls_and_silent_ranks) {
  for_each_rule_scene(3, 7, [](Scene scene, int turn) {
    if (!scene.memory->keeps_estimates) return;
    const DeviceScene on_devices{scene, [=](int rank) { return mixed(rank, turn); }, wire(turn)};
    DeviceScene exact = on_devices;
    exact.scene.exact_restart = true;
    expect_same<float>(exact, 1234, "exact");
    expect_same<F16>(exact, 123, "exact");
    DeviceScene skipping = on_devices;
    const int messages = scene.call_memory(kernels::Element::f32).terms.messages;
    skipping.scene.skipped_messages = {messages, 0, 1};
    expect_same<float>(skipping, 1234, "skipped messages");
    expect_same<Bf16>(skipping, 1234, "skipped messages");
    skipping.kinds = [](int) { return Kinds{}; };
    skipping.stream_ordered = true;
    expect_same<double>(skipping, 700, "skipped messages, stream ordered");
  });
}

TEST_F(DeviceRules, many_segments_in_flight_and_messages_in_any_order) {
  for_each_rule_scene(2, 97, [](const Scene& scene, int turn) {
    DeviceScene s{scene, [=](int rank) { return mixed(rank, turn); }, wire(turn)};
    s.scene.short_blocks = false;
    s.scene.in_place = turn % 2 == 0;
    s.rendezvous = true;
    s.scene.delay_seed = static_cast<std::uint64_t>(turn) + 1;
    expect_same<float>(s, kChunkBytes / 4 * 2 + 1234, "segments");
  });
}

// The length of the first of two messages in a payload is not trusted. One that is in bounds may lead to any
// decode.
TEST_F(DeviceRules, damaged_lengths_of_two_messages_are_errors_and_never_a_hang) {
  int damaged = 0;
  for_each_rule_scene(3, 3, [&](const Scene& scene, int turn) {
    if (scene.call_memory(kernels::Element::f32).terms.messages < 2) return;
    for (const std::uint64_t length :
         {~std::uint64_t{0}, std::uint64_t{1} << 40, std::uint64_t{5}, std::uint64_t{0}}) {
      Gpus::get().reset();
      std::atomic<int> victim = -1;
      DeviceScene s{scene, [=](int rank) { return mixed(rank, turn); }, wire(turn)};
      s.stream_ordered = true;  // then nothing is left to be found later
      s.scene.tamper = [&](int, int to, int, Loopback::Message& m) {
        if (victim >= 0 || m.size() < sizeof(FrameHeader) + kLengthBytes) return;
        victim = to;
        std::memcpy(m.data() + sizeof(FrameHeader), &length, sizeof length);
      };
      const auto x = inputs<float>(scene.ranks, 999),
                 arrays = zeros<float>(scene.ranks, 999 * static_cast<std::size_t>(scene.memory->arrays));
      const Outcome<float> got = run_on_devices(s, x, arrays);
      const std::string where = scene.describe(999) + "length " + std::to_string(length);
      EXPECT_EQ(got.leaked, 0U) << where;
      if (victim < 0 || length < 999 * 4) continue;
      ++damaged;
      EXPECT_EQ(got.status[static_cast<std::size_t>(victim)].code(), Code::bad_frame) << where;
    }
  });
  EXPECT_GT(damaged, 20);
}

// A kernel is launched for a whole group of segments.
TEST_F(DeviceRules, launches_of_a_rule_are_shared_by_neighbouring_segments) {
  Scene scene{kernels::find_codec("onebit"), find_plan("allgather"), 2};
  scene.short_blocks = false;
  scene.memory = kernels::find_memory_rule("momentum");
  const std::size_t n = (std::size_t{8} << 20) / sizeof(float);
  expect_same<float>({scene, [](int) { return Kinds{}; }}, n, "segments");
  const Device& gpu = Gpus::get().device(0);
  EXPECT_GT(gpu.runs, 4 * gpu.launches);
}

// One rank's call without messages, and what it decides by, on the device and on the host.
template <class T>
class Standing {
 public:
  static constexpr kernels::Element kElement = element_of<T>;
  Standing(std::size_t n, Input kind) : n_(n), call_(keeper_.call) {
    plan_ = find_plan("direct")->make({0, 2, 1, true});
    plan_index_ = index_of(plan_);
    x_ = inputs<T>(1, n, kind)[0];
    for (const std::uint64_t a : {1, 2, 3})
      for (const Compute<T> v : make_input<Compute<T>>(Input::normal, n, a)) arrays_.push_back(v);
    r_.plan = &plan_;
    r_.plan_index = &plan_index_;
    r_.codec = kernels::find_codec("onebit");
    r_.params = kernels::preset_params(*r_.codec);
    r_.element = kElement;
    r_.convert = kernels::convert(kElement, kernels::best_isa());
    r_.count = n;
    r_.size = 2;
  }
  void set_rule(std::string_view name, double zeta, double clip) {
    const MemoryRule& rule = *kernels::find_memory_rule(name);
    r_.memory = {&rule, rule.ops(kElement, kernels::best_isa()), kernels::preset_params(rule), 1, {}};
    if (name == "momentum") r_.memory.params.value[1] = clip;
    if (name == "lazy") r_.memory.params.value[0] = zeta;
    r_.memory.terms = rule.terms(r_.memory.params);
    std::vector<T> y(n_);
    r_.input = reinterpret_cast<const std::byte*>(x_.data());
    r_.output = reinterpret_cast<std::byte*>(y.data());
    r_.residual = reinterpret_cast<std::byte*>(arrays_.data());
  }
  double host_factor() { return memory_factor(r_); }
  bool host_moved() { return has_moved(r_); }

  // The same on a device; then a call in which no rank sends anything.
  void to_device() {
    output_ = place(0, std::vector<T>(n_), true);
    r_.input = place(0, x_, true);
    r_.output = output_;
    ASSERT_TRUE(call_.locate(r_, Gpus::get().rows()).ok());
    ASSERT_TRUE(call_.is_on_device());
    residual_ = place(0, arrays_, true);
    r_.residual = residual_;
    const DeviceOrder order{DeviceSync::legacy, false, nullptr};
    ASSERT_TRUE(
        call_.prepare(r_, {order, false, false, false, Execution<Loopback::Rank>::scratch_bytes(r_)}).ok());
  }
  double device_factor() {
    double factor = -1;
    EXPECT_TRUE(call_.memory_factor(r_, factor).ok());
    return factor;
  }
  bool device_moved() {
    bool moved = false;
    EXPECT_TRUE(call_.has_moved(r_, moved).ok());
    return moved;
  }
  void expect_standing(const std::string& where) {
    std::vector<T> expected(n_), got(n_);
    std::vector<Compute<T>> arrays = arrays_, kept(arrays_.size());
    ASSERT_TRUE(call_.zero(residual_, n_ / 2 * sizeof(Compute<T>)).ok());
    std::fill_n(arrays.begin(), n_ / 2, Compute<T>{0});
    EXPECT_TRUE(call_.deliver_estimates(r_).ok()) << where;
    Gpus::get().read(got.data(), output_, n_ * sizeof(T));
    Gpus::get().read(kept.data(), residual_, kept.size() * sizeof(Compute<T>));
    Reduction host = r_;
    host.input = reinterpret_cast<const std::byte*>(x_.data());
    host.output = reinterpret_cast<std::byte*>(expected.data());
    host.residual = reinterpret_cast<std::byte*>(arrays.data());
    deliver_estimates(host);
    EXPECT_TRUE(n_ == 0 || std::memcmp(got.data(), expected.data(), n_ * sizeof(T)) == 0) << where;
    EXPECT_TRUE(same_bits(kept, arrays)) << where;
    call_.settle();
  }

 private:
  std::size_t n_;
  Keeper keeper_;
  DevicePlacement& call_;
  Plan plan_;
  PlanIndex plan_index_;
  Reduction r_;
  std::vector<T> x_;
  std::vector<Compute<T>> arrays_;
  std::byte *output_ = nullptr, *residual_ = nullptr;
};

template <class T>
void expect_decisions(std::size_t n, Input kind) {
  const std::string where = "n=" + std::to_string(n) + " " + std::string(name(kind));
  for (const double zeta : {0.0, 0.01, 0.3, 1.0, 3.0, 1e30}) {
    Gpus::get().forget();
    Standing<T> call(n, kind);
    call.set_rule("lazy", zeta, 0);
    const bool moved = call.host_moved();
    call.to_device();
    EXPECT_EQ(call.device_moved(), moved) << where << " zeta " << zeta;
    call.expect_standing(where);
  }
  Standing<T> call(n, kind);
  call.set_rule("momentum", 0, 0.1);
  const double factor = call.host_factor();
  call.to_device();
  EXPECT_EQ(call.device_factor(), factor) << where;
}

TEST_F(DeviceRules, decisions_and_calls_without_messages_are_those_of_the_host) {
  for (const Input kind : {Input::normal, Input::huge, Input::subnormal, Input::zeros})
    for (const std::size_t n : {1, 17, 1024, 5000}) {
      expect_decisions<float>(n, kind);
      expect_decisions<double>(n, kind);
      expect_decisions<F16>(n, kind);
      expect_decisions<Bf16>(n, kind);
    }
}

}  // namespace
}  // namespace mq::test
