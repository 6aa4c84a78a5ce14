// The executor with vectors on GPUs: the bits of an all-host run, whatever memory each rank's vectors are in;
// no allocation once the first call was made; errors of a GPU wherever it may fail, and nobody waits for
// ever.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/device_table.hpp"
#include "tests/scene.hpp"

namespace mq::test {
namespace {

// Where a rank's vectors are.
struct Kinds {
  bool input = true, output = true;
};

// What a rank keeps from call to call.
struct Keeper {
  DevicePool pool;
  DeviceCall call{pool};
};

// An allreduce with the vectors of rank r on device r, as kinds(r) says.
struct DeviceScene {
  Scene scene;
  std::function<Kinds(int)> kinds = [](int) { return Kinds{}; };
  unsigned device_wire = 0;  // bit r: rank r has its frames on its device, if it can
  bool stream_ordered = false, rendezvous = false;
  std::vector<std::unique_ptr<Keeper>>* keepers = nullptr;
};

// In place of the agreement: whether all ranks can go on.
struct Agreed {
  explicit Agreed(int ranks) : here(ranks) {}
  bool all(bool mine) {
    if (!mine) failed = true;
    here.arrive_and_wait();
    return !failed;
  }
  std::barrier<> here;
  std::atomic<bool> failed = false;
};

template <class T>
std::byte* place(int device, const std::vector<T>& values, bool on_device) {
  const std::size_t bytes = values.size() * sizeof(T);
  if (!on_device) return nullptr;
  Device* const gpu = &Gpus::get().device(device);
  std::byte* const p = Gpus::get().place(gpu, bytes);
  // Still under way when the call is made.
  Gpus::get().enqueue(Gpus::get().program(gpu),
                      [=, copy = values] { Gpus::get().write(p, copy.data(), bytes); });
  return p;
}

template <class T>
class RankRun {
 public:
  using E = Execution<Loopback::Rank>;
  RankRun(const DeviceScene& s, Loopback::Rank& comm, const std::vector<T>& input, std::vector<T>& output,
          std::vector<Compute<T>>& residual)
      : s_(s), comm_(comm), rank_(comm.rank()), input_(input), output_(output), residual_(residual) {
    if (s.keepers == nullptr) own_ = std::make_unique<Keeper>();
  }
  Status run(Tally& tally, Agreed& agreed) {
    const bool half = kernels::compute_element(element_of<T>) != element_of<T>;
    const Plan plan = s_.scene.plan->make({comm_.rank(), comm_.size(), half ? 1 : s_.scene.per_node});
    const PlanFacts facts = facts_of(plan);
    Job job = describe(plan, facts);
    DeviceCall& call = (own_ ? own_ : (*s_.keepers)[static_cast<std::size_t>(rank_)])->call;
    E execution;
    std::vector<std::byte> scratch;
    const Status trouble = prepare(job, call, execution, scratch);
    if (!agreed.all(trouble.ok())) {
      call.settle();
      return trouble.ok() ? Status{Code::peer_failed, "another rank cannot take part"} : trouble;
    }
    Status status = complete(comm_, execution, tally);
    for (bool over = false; !over;) {
      over = true;
      status = call.deliver(execution, over);
    }
    take_back();
    return status;
  }

 private:
  Job describe(const Plan& plan, const PlanFacts& facts) {
    const Kinds kinds = s_.kinds(rank_);
    Job job;
    job.plan = &plan;
    job.facts = &facts;
    job.codec = s_.scene.codec;
    job.element = element_of<T>;
    job.ops = job.codec->ops(job.element, kernels::best_isa());
    job.raw_ops = facts.raw ? raw_codec().ops(job.element, kernels::best_isa()) : nullptr;
    job.convert = kernels::convert(job.element, kernels::best_isa());
    job.params = s_.scene.params();
    job.count = input_.size();
    device_output_ = place(rank_, output_, kinds.output);
    job.output = device_output_ ? device_output_ : reinterpret_cast<std::byte*>(output_.data());
    if (s_.scene.in_place) {
      job.input = job.output;
    } else {
      const std::byte* const device_input = place(rank_, input_, kinds.input);
      job.input = device_input ? device_input : reinterpret_cast<const std::byte*>(input_.data());
    }
    job.call = 7;
    job.rank = rank_;
    job.size = comm_.size();
    job.lanes = s_.scene.lanes;
    return job;
  }
  Status prepare(Job& job, DeviceCall& call, E& execution, std::vector<std::byte>& scratch) {
    MQ_TRY(call.locate(job, Gpus::get().rows((s_.device_wire >> rank_ & 1) != 0)));
    if (s_.scene.feedback) {
      device_residual_ = place(rank_, residual_, call.residual_device() != nullptr);
      job.residual = device_residual_ ? device_residual_ : reinterpret_cast<std::byte*>(residual_.data());
    }
    const std::size_t bytes = E::scratch_bytes(job);
    const DeviceOrder order{DeviceSync::legacy, s_.stream_ordered,
                            Gpus::get().program(&Gpus::get().device(rank_))};
    MQ_TRY(call.prepare(job, {order, s_.stream_ordered, false, false, bytes}));
    if (job.device == nullptr) {
      scratch.resize(E::scratch_bytes(job) + 64);
      bring_residual(job);
    }
    auto* const aligned = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64;
    execution.prepare(job, job.device ? call.frames() : aligned);
    return {};
  }
  // Staged after all: the residual, too, is needed on the host.
  void bring_residual(Job& job) {
    if (device_residual_ == nullptr) return;
    Gpus::get().read(residual_.data(), device_residual_, residual_.size() * sizeof(Compute<T>));
    device_residual_ = nullptr;
    job.residual = reinterpret_cast<std::byte*>(residual_.data());
  }
  void take_back() {
    if (s_.stream_ordered) Gpus::get().finish(Gpus::get().program(&Gpus::get().device(rank_)));
    if (device_output_) Gpus::get().read(output_.data(), device_output_, output_.size() * sizeof(T));
    if (device_residual_)
      Gpus::get().read(residual_.data(), device_residual_, residual_.size() * sizeof(Compute<T>));
  }

  const DeviceScene& s_;
  Loopback::Rank& comm_;
  const int rank_;
  const std::vector<T>& input_;
  std::vector<T>& output_;
  std::vector<Compute<T>>& residual_;
  std::unique_ptr<Keeper> own_;
  std::byte *device_output_ = nullptr, *device_residual_ = nullptr;
};

template <class T>
Outcome<T> run_on_devices(const DeviceScene& s, const Vectors<T>& input, Vectors<Compute<T>> residual) {
  const auto ranks = static_cast<std::size_t>(s.scene.ranks);
  Outcome<T> out{Vectors<T>(ranks, std::vector<T>(input[0].size())), std::move(residual),
                 std::vector<Status>(ranks), std::vector<Tally>(ranks), 0};
  if (s.scene.in_place) out.output = input;
  Loopback net(s.scene.ranks, s.scene.delay_seed, s.scene.tamper);
  if (s.rendezvous) net.set_rendezvous();
  if (s.device_wire != 0) net.set_copy(&Gpus::carry);
  Agreed agreed(s.scene.ranks);
  net.run([&](Loopback::Rank& comm) {
    const auto r = static_cast<std::size_t>(comm.rank());
    out.status[r] = RankRun<T>(s, comm, input[r], out.output[r], out.residual[r]).run(out.tally[r], agreed);
  });
  out.leaked = net.leaked();
  return out;
}

template <class T>
void expect_same(const DeviceScene& s, std::size_t n, const std::string& what) {
  const auto x = inputs<T>(s.scene.ranks, n);
  const auto e = inputs<Compute<T>>(s.scene.ranks, n, Input::laplace);
  const Outcome<T> expected = run(s.scene, x, e);
  Gpus::get().forget();
  const Outcome<T> got = run_on_devices(s, x, e);
  const std::string where = s.scene.describe(n) + what;
  expect_sound(got, where);
  for (std::size_t r = 0; r < x.size(); ++r) {
    ASSERT_EQ(0, std::memcmp(expected.output[r].data(), got.output[r].data(), n * sizeof(T))) << where;
    ASSERT_TRUE(same_bits(expected.residual[r], got.residual[r])) << where << " rank " << r;
    ASSERT_EQ(expected.tally[r].sent_bytes, got.tally[r].sent_bytes) << where;
    ASSERT_EQ(expected.tally[r].nonfinite, got.tally[r].nonfinite) << where;
  }
}

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

template <class F>
void for_each_device_scene(std::initializer_list<int> all_ranks, const F& property) {
  int turn = 0;
  for (const Codec& codec : kernels::codecs())
    for (const PlanRow& plan : plans())
      for (const int ranks : all_ranks) property(Scene{&codec, &plan, ranks}, turn++);
}

TEST_F(DeviceExecute, bits_are_those_of_the_host) {
  for_each_device_scene({2, 3, 4, 5}, [](Scene scene, int turn) {
    for (const std::size_t n : {1, 7, 64 * 5 + 5, 5000})
      for (const unsigned device_wire : kWires) {
        expect_same<float>({scene, [](int) { return Kinds{}; }, device_wire}, n, "all on devices");
        expect_same<float>({scene, [=](int rank) { return mixed(rank, turn); }, device_wire}, n, "mixed");
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
    const std::size_t n = 4 * kChunkBytes / 4 * static_cast<std::size_t>(scene.ranks) + 1234;
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

TEST_F(DeviceExecute, inputs_may_still_be_under_way_and_results_may_come_in_stream_order) {
  for_each_device_scene({3}, [](Scene scene, int turn) {
    DeviceScene s{scene, [=](int rank) { return turn % 2 ? Kinds{} : mixed(rank, turn); }, wire(turn / 2)};
    s.stream_ordered = true;
    expect_same<float>(s, 4000, "stream ordered");
    expect_same<F16>(s, 500, "stream ordered");
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

TEST_F(DeviceExecute, the_verdict_of_what_was_left_is_kept_until_it_is_asked_for) {
  DevicePool pool;
  DeviceResult malformed{};
  malformed.malformed = 1;
  {
    std::unique_ptr<DeviceWork> work = pool.take(*Gpus::get().rows().api, &Gpus::get().device(0));
    ASSERT_TRUE(work->reserve({}).ok());
    ASSERT_TRUE(work->follow({}).ok());
    work->leave({&malformed, 1});
    work->rest();
    work->settle();
    pool.give(std::move(work));
  }
  std::unique_ptr<DeviceWork> work = pool.take(*Gpus::get().rows().api, &Gpus::get().device(0));
  ASSERT_TRUE(work->reserve({}).ok());
  EXPECT_EQ(work->verdict().code(), Code::bad_frame);
  EXPECT_TRUE(work->verdict().ok());
  pool.give(std::move(work));
}

TEST_F(DeviceExecute, damaged_messages_are_errors_and_never_a_hang) {
  for_each_device_scene({3}, [](Scene scene, int) {
    for (int damage = 0; damage < 10; ++damage) {
      Gpus::get().reset();
      std::atomic<int> messages = 0, victim = -1;
      DeviceScene s{scene};
      s.device_wire = damage < 5 ? 0 : ~0U;
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
