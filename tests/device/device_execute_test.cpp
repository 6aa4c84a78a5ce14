// The executor with vectors on GPUs: the bits of an all-host run, whatever memory each rank's vectors are in;
// no allocation once the first call was made; errors of a GPU wherever it may fail, and nobody waits for
// ever.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "mpi_quant/base/env.hpp"
#include "tests/device/device_run.hpp"

namespace mq::test {
namespace {

// All memory kinds, different from rank to rank.
Kinds mixed(int rank, int turn) {
  const int kind = (rank + turn) % 4;
  return {(kind & 1) != 0, (kind & 2) != 0};
}

// No rank's frames on its device, all, some.
constexpr std::array kWires{0U, ~0U, 0b10110U};
unsigned wire(int turn) { return kWires[static_cast<std::size_t>(turn) % kWires.size()]; }

class DeviceExecute : public testing::Test {
 protected:
  void SetUp() override { Gpus::get().reset(); }
};

// Every codec x plan, with at most two of the rank counts in turn (as for_each_scene), under sanitizers with
// one.
template <class F>
void for_each_device_scene(const std::vector<int>& all_ranks, const F& property) {
  int turn = 0;
  const std::size_t all = all_ranks.size();
  const auto codecs = kernels::codecs();
  for (std::size_t codec = 0; codec < codecs.size(); ++codec)
    for (std::size_t plan = 0; plan < plans().size(); ++plan)
      for (std::size_t i = 0; i < std::min<std::size_t>(kSanitized ? 1 : 2, all); ++i) {
        const int ranks = all_ranks[(codec + plan + i * all / 2) % all];
        property(Scene{&codecs[codec], &plans()[plan], ranks}, turn++);
      }
}

TEST_F(DeviceExecute, bits_are_those_of_the_host) {
  for_each_device_scene({2, 3, 4, 5}, [](Scene scene, int turn) {
    int one = turn + turn / static_cast<int>(plans().size());  // each codec, and each plan, meets all wires
    for (const std::size_t n : {1, 7, 64 * 5 + 5, 5000}) {
      one++;
      std::vector<DeviceScene> ways;  // all vectors on devices, and mixed, with each kind of wire
      for (const unsigned device_wire : kWires) {
        if (kSanitized && device_wire != wire(one)) continue;
        ways.push_back({scene, [](int) { return Kinds{}; }, device_wire});
        ways.push_back({scene, [=](int rank) { return mixed(rank, turn); }, device_wire});
      }
      expect_all_same<float>(ways, n, "wires");
    }
  });
}

TEST_F(DeviceExecute, all_element_types) {
  for_each_device_scene({3}, [](Scene scene, int turn) {
    const auto kinds = [=](int rank) { return mixed(rank, turn); };
    expect_same<double>({scene, kinds, wire(turn)}, 999, "mixed");
    expect_same<F16>({scene, [](int) { return Kinds{}; }, wire(turn + 1)}, 999, "all on devices");
    expect_same<F16>({scene, kinds, wire(turn + 2)}, 999, "mixed");
    expect_same<Bf16>({scene, kinds, wire(turn)}, 999, "mixed");
  });
}

TEST_F(DeviceExecute, means) {
  for_each_device_scene({2, 3}, [](Scene scene, int turn) {
    scene.mean = true;
    const auto kinds = [=](int rank) { return mixed(rank, turn); };
    expect_same<float>({scene, kinds, wire(turn)}, 999, "mixed");
    expect_same<double>({scene, kinds, wire(turn + 1)}, 999, "mixed");
    expect_same<F16>({scene, kinds, wire(turn + 2)}, 999, "mixed");
    expect_same<Bf16>({scene, [](int) { return Kinds{}; }, wire(turn)}, 999, "all on devices");
  });
}

TEST_F(DeviceExecute, in_place_without_feedback_and_with_messages_that_arrive_in_any_order) {
  for_each_device_scene({2, 5}, [](Scene scene, int turn) {
    DeviceScene s{scene, [=](int rank) { return mixed(rank, turn); }, wire(turn)};
    s.rendezvous = true;
    s.scene.delay_seed = static_cast<std::uint64_t>(turn) + 1;
    s.scene.in_place = turn % 2 != 0;
    s.scene.feedback = turn % 3 != 0;
    expect_same<float>(s, 3000, "");
  });
}

TEST_F(DeviceExecute, many_segments_in_flight) {
  for_each_device_scene({2, 3}, [](Scene scene, int turn) {
    if (turn % 7 != 0) return;
    const std::size_t n = 2 * kChunkBytes / 4 * static_cast<std::size_t>(scene.ranks) + 1234;
    DeviceScene s{scene, [=](int rank) { return mixed(rank, turn); }, wire(turn)};
    s.scene.short_blocks = false;
    s.rendezvous = true;
    expect_same<float>(s, n, "segments");
  });
}

TEST_F(DeviceExecute, devices_without_kernels_are_staged) {
  for (int i = 0; i < Gpus::kDevices; ++i) Gpus::get().device(i).kernels = i % 2 != 0;
  for_each_device_scene({4}, [](Scene scene, int turn) {
    scene.in_place = turn % 2 == 0;
    expect_same<float>({scene, [=](int rank) { return mixed(rank, turn); }, wire(turn)}, 2000, "staged");
  });
  EXPECT_EQ(Gpus::get().device(0).launches, 0);
  EXPECT_GT(Gpus::get().device(1).launches, 0);
}

// Over both plans of each. Half of the devices have no kernels in the end.
TEST_F(DeviceExecute, broadcasts_and_reductions_to_a_root_give_the_bits_of_the_host) {
  for (const bool staged : {false, true}) {
    for (int i = 0; i < Gpus::kDevices && staged; ++i) Gpus::get().device(i).kernels = i % 2 != 0;
    int turn = 0;
    for (const Codec& codec : kernels::codecs())
      for (const Collective collective : {Collective::bcast, Collective::reduce})
        for (const std::uint64_t encoded_bytes : {1U, 1U << 30}) {
          const int ranks = 3 + turn % 3;
          Scene scene{&codec, plan_of(collective, encoded_bytes, ranks), ranks};
          scene.root = turn % ranks;
          scene.reduces = collective == Collective::reduce;
          scene.in_place = !scene.reduces || turn % 5 == 0;
          const auto kinds = [=](int rank) { return mixed(rank, turn); };
          expect_same<float>({scene, [](int) { return Kinds{}; }, wire(turn)}, 2000, "all on devices");
          expect_same<float>({scene, kinds, wire(turn + 1)}, 2000, "mixed");
          expect_same<F16>({scene, kinds, wire(turn + 2)}, 500, "mixed");
          ++turn;
        }
  }
}

TEST_F(DeviceExecute, inputs_may_still_be_under_way_and_results_may_come_in_stream_order) {
  for_each_device_scene({3}, [](Scene scene, int turn) {
    DeviceScene s{scene, [=](int rank) { return turn % 2 ? Kinds{} : mixed(rank, turn); }, wire(turn / 2)};
    s.stream_ordered = true;
    expect_same<float>(s, 4000, "stream ordered");
    expect_same<F16>(s, 500, "stream ordered");
  });
}

TEST_F(DeviceExecute, steps_are_timed_by_the_device_and_only_if_that_is_asked_for) {
  for_each_device_scene({3}, [](Scene scene, int turn) {
    const std::size_t n = 600;
    const Plan plan = scene.plan_of(0);
    const Layout layout(n, plan.chunks, scene.codec->block(scene.params()), sizeof(float),
                        scene.codec->whole(scene.params()));
    // Nothing is encoded of an empty chunk; of one that is decoded the header may have to be fetched.
    const auto steps = [&](bool encode, bool empty_too) {
      return static_cast<double>(std::count_if(plan.steps.begin(), plan.steps.end(), [&](const Step& step) {
        return step.op != Op::exchange && (step.op == Op::encode) == encode &&
               (empty_too || layout.chunk(0, static_cast<std::size_t>(step.chunk)).n > 0);
      }));
    };
    for (const bool is_timed : {false, true}) {
      DeviceScene s{scene, [](int) { return Kinds{}; }, wire(turn)};
      s.is_timed = is_timed;
      const Outcome<float> got = run_on_devices(s, inputs<float>(3, n), zeros<float>(3, n));
      expect_sound(got, scene.describe(n));
      EXPECT_EQ(got.tally[0].encode_s, is_timed ? steps(true, false) : 0);
      EXPECT_GE(got.tally[0].decode_s, is_timed ? steps(false, false) : 0);
      EXPECT_LE(got.tally[0].decode_s, is_timed ? steps(false, true) : 0);
    }
  });
}

TEST_F(DeviceExecute, calls_like_the_one_before_allocate_nothing) {
  for_each_device_scene({3}, [&](Scene scene, int turn) {
    std::vector<std::unique_ptr<Keeper>> keepers;
    for (int r = 0; r < 3; ++r) keepers.push_back(std::make_unique<Keeper>());
    DeviceScene s{scene, [=](int rank) { return mixed(rank, turn); }, wire(turn)};
    s.keepers = &keepers;
    s.stream_ordered = turn % 3 == 0;
    int made = -1;
    for (int call = 0; call < 3; ++call) {
      expect_same<float>(s, 3000, "again");
      int now = 0;
      for (int r = 0; r < 3; ++r) now += Gpus::get().device(r).allocations + Gpus::get().device(r).events;
      if (call > 0) {
        EXPECT_EQ(now, made) << scene.describe(3000);
      }
      made = now;
    }
  });
}

// What a call of 64 MiB asks of the driver: 128 segments on each rank, each with an encode and two decodes,
// and a copy before a decode where the codec does not read the message in place. With smaller
// MPIQ_CUDA_SEGMENTS launches are shorter.
struct Asked {
  const char* codec;
  int runs;  // of kernels, one for each step of a segment
};
void PrintTo(const Asked& asked, std::ostream* out) { *out << asked.codec; }
class DeviceLaunches : public DeviceExecute, public testing::WithParamInterface<Asked> {};

// The ranks take turns on one thread, so the counts are always the same.
TEST_P(DeviceLaunches, neighbouring_segments_share_them) {
  if (kSanitized)
    GTEST_SKIP() << "64 MiB for the sake of numbers; many_segments_in_flight runs the same lines";
  DeviceScene s{Scene{kernels::find_codec(GetParam().codec), find_plan("allgather"), 2}};
  s.scene.short_blocks = false;
  s.scene.in_place = true;
  // The numbers repeat: to draw so many would take longer than the call.
  constexpr std::size_t kDrawn = 1'000'003, n = (std::size_t{64} << 20) / sizeof(float);
  auto x = inputs<float>(2, kDrawn);
  for (std::vector<float>& values : x) {
    values.resize(n);
    for (std::size_t i = kDrawn; i < n; ++i) values[i] = values[i - kDrawn];
  }
  Vectors<float> output = x, residual = zeros<float>(2, n);
  Loopback net(2);
  std::vector<std::unique_ptr<Loopback::Rank>> comms;
  std::vector<std::unique_ptr<RankRun<float>>> runs;
  std::vector<Tally> tallies(2);
  for (std::size_t r = 0; r < 2; ++r) {
    comms.push_back(std::make_unique<Loopback::Rank>(net, static_cast<int>(r)));
    runs.push_back(std::make_unique<RankRun<float>>(s, *comms[r], x[r], output[r], residual[r]));
    ASSERT_TRUE(runs[r]->begin().ok());
  }
  for (std::size_t r = 0; r < 2; ++r) ASSERT_TRUE(runs[r]->execution().start(*comms[r]).ok());
  while (!runs[0]->execution().done() || !runs[1]->execution().done())
    for (std::size_t r = 0; r < 2; ++r) {
      bool moved = false;
      ASSERT_TRUE(runs[r]->execution().advance(*comms[r], tallies[r], moved).ok());
    }
  const int in_launch = env()->cuda_segments / 2;  // half of the segments in flight share each launch
  for (std::size_t r = 0; r < 2; ++r) {
    const Device& gpu = Gpus::get().device(static_cast<int>(r));
    ASSERT_TRUE(runs[r]->end().ok());
    EXPECT_EQ(gpu.runs, GetParam().runs);
    EXPECT_EQ(gpu.runs, in_launch * gpu.launches) << "segments that a launch codes";
    EXPECT_EQ(gpu.copies, 0);
    const int batches = 16 / in_launch;  // of what 32 segments in flight take at once
    EXPECT_LE(gpu.records, 30 * batches);
    EXPECT_LE(gpu.waits, 4);
    EXPECT_LE(gpu.queries, 80 * batches)
        << "the table's events are over when they are asked for up to four times";
    EXPECT_LE(gpu.holds, 80 * batches);
    std::printf("%s, rank %zu: %d launches, %d runs, %d copies, %d records, %d queries, %d entries\n",
                GetParam().codec, r, gpu.launches, gpu.runs, gpu.copies, gpu.records, gpu.queries, gpu.holds);
  }
  EXPECT_TRUE(same_bits(output[0], output[1]));
}
INSTANTIATE_TEST_SUITE_P(codecs, DeviceLaunches,
                         testing::Values(Asked{"onebit", 128 * 3}, Asked{"bf16", 128 * 5}));

// Ranks with their vectors on the host have one segment in flight, the others eight.
TEST_F(DeviceExecute, ranks_with_different_numbers_of_segments_in_flight) {
  for (const PlanRow& plan : plans()) {
    DeviceScene s{Scene{kernels::find_codec("onebit"), &plan, 3}};
    s.scene.short_blocks = false;
    s.scene.pipelines = 1;
    s.kinds = [](int rank) { return Kinds{rank != 1, rank != 1}; };
    const auto chunks = static_cast<std::size_t>(plan.make({0, 3, 1}).chunks);
    expect_same<float>(s, kChunkBytes / sizeof(float) * chunks * 9 + 99, "host and devices");
  }
}

TEST_F(DeviceExecute, a_failing_gpu_is_an_error_and_never_a_hang) {
  int runs = 0;
  for_each_device_scene({3}, [&](Scene scene, int turn) {
    if (turn % 11 != 0) return;
    const std::size_t n = 300;
    const auto x = inputs<float>(3, n);
    const auto e = zeros<float>(3, n);
    for (const bool stays_bad : {false, true})
      for (int fail_at = 0;; ++fail_at, ++runs) {
        Gpus::get().reset();
        Gpus::get().device(1).fail_at = fail_at;
        Gpus::get().device(1).stays_bad = stays_bad;
        DeviceScene s{scene, [=](int rank) { return mixed(rank, turn + 2); }, wire(turn)};
        s.stream_ordered = turn % 2 == 0;
        const Outcome<float> got = run_on_devices(s, x, e);
        const std::string where = scene.describe(n) + "failing call " + std::to_string(fail_at);
        EXPECT_EQ(got.leaked, 0u) << where;
        if (Gpus::get().device(1).calls <= fail_at) {
          expect_sound(got, where);
          break;
        }
        for (const Status& status : got.status)
          if (!status.ok()) {
            EXPECT_TRUE(status.code() == Code::device_failed || status.code() == Code::peer_failed)
                << where << ": " << status.text();
          }
      }
  });
  EXPECT_GT(runs, 100);
}

// With several segments in flight other pipelines have frames to send when one hears of the failure.
TEST_F(DeviceExecute, nothing_is_sent_out_of_the_memory_of_a_gpu_that_has_failed) {
  int failed = 0;
  for (const PlanRow& plan : plans()) {
    Scene scene{kernels::find_codec("onebit"), &plan, plan.name == "hierarchical" ? 4 : 3};
    scene.short_blocks = false;
    scene.per_node = scene.ranks == 4 ? 2 : 1;
    const auto chunks = static_cast<std::size_t>(plan.make({0, scene.ranks, scene.per_node}).chunks);
    const std::size_t n = kChunkBytes / sizeof(float) * chunks * 2 + 99;
    const auto x = inputs<float>(scene.ranks, n);
    const Outcome<float> expected = run(scene, x, zeros<float>(scene.ranks, n));
    for (const int fail_at : {40, 70, 100, 130}) {
      Gpus::get().reset();
      Gpus::get().device(1).fail_at = fail_at;
      Gpus::get().device(1).stays_bad = true;
      DeviceScene s{scene, [](int) { return Kinds{}; }, ~0U};
      s.scene.delay_seed = static_cast<std::uint64_t>(fail_at);
      const Outcome<float> got = run_on_devices(s, x, zeros<float>(scene.ranks, n));
      const std::string where = scene.describe(n) + "failing call " + std::to_string(fail_at);
      EXPECT_EQ(got.leaked, 0U) << where;
      EXPECT_EQ(Gpus::get().device(1).sent_when_bad, 0) << where;
      failed += !got.status[1].ok();
      for (std::size_t r = 0; r < x.size(); ++r)
        if (got.status[r].ok()) {
          EXPECT_TRUE(same_bits(got.output[r], expected.output[r])) << where << " rank " << r;
        }
    }
  }
  EXPECT_GT(failed, 8);
}

TEST_F(DeviceExecute, the_verdict_of_what_was_left_is_kept_until_it_is_asked_for) {
  DevicePool pool;
  DeviceResult malformed{};
  malformed.malformed = 1;
  {
    std::unique_ptr<DeviceResources> work = pool.take(*Gpus::get().rows().api, &Gpus::get().device(0));
    ASSERT_TRUE(work->reserve({}).ok());
    ASSERT_TRUE(work->follow({}).ok());
    work->check_later({&malformed, 1});
    work->mark_idle();
    work->settle();
    pool.give(std::move(work));
  }
  std::unique_ptr<DeviceResources> work = pool.take(*Gpus::get().rows().api, &Gpus::get().device(0));
  ASSERT_TRUE(work->reserve({}).ok());
  EXPECT_EQ(work->take_error().code(), Code::bad_frame);
  EXPECT_TRUE(work->take_error().ok());
  pool.give(std::move(work));
}

TEST_F(DeviceExecute, damaged_messages_are_errors_and_never_a_hang) {
  for_each_device_scene({3}, [](Scene scene, int) {
    for (int damage = 0; damage < 10; ++damage) {
      Gpus::get().reset();
      std::atomic<int> messages = 0, victim = -1;
      DeviceScene s{scene};
      s.device_wire = damage < 5 ? 0 : ~0U;
      s.stream_ordered = damage >= 5;  // then nothing is left to be found later
      s.scene.tamper = [&](int, int to, int, Loopback::Message& m) {
        if (messages++ != 1) return;
        victim = to;
        if (damage % 5 == 0) m.clear();
        if (damage % 5 == 1) m.resize(m.size() - 1);
        if (damage % 5 == 2) m[0] ^= std::byte{1};
        if (damage % 5 == 3) m.resize(1 << 20);
        if (damage % 5 == 4) {  // a payload that is too short, by its header too
          m.resize(m.size() - 1);
          FrameHeader header;
          std::memcpy(&header, m.data(), sizeof header);
          --header.payload_bytes;
          std::memcpy(m.data(), &header, sizeof header);
        }
      };
      const Outcome<float> got =
          run_on_devices(s, inputs<float>(scene.ranks, 999), zeros<float>(scene.ranks, 999));
      const std::string where = scene.describe(999) + "damage " + std::to_string(damage);
      ASSERT_GE(victim, 0) << where;
      EXPECT_EQ(got.status[static_cast<std::size_t>(victim)].code(), Code::bad_frame) << where;
      EXPECT_EQ(got.leaked, 0u) << where;
    }
  });
}

}  // namespace
}  // namespace mq::test
