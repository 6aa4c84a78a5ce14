// What a call with vectors on a GPU asks of its driver, and how long it would take: the library's agreement, executor and device
// steps among simulated ranks, whose GPU and driver are bench_timed_gpu.hpp. All times are virtual, of assumed costs: no measurement. They
// depend on nothing but the code, so that they show what a change does.
//
// `bench_gpu_time_test` prints the tables of docs/gpu.md.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <deque>
#include <string>
#include <string_view>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/device/placement.hpp"
#include "mpi_quant/engine/execute.hpp"
#include "mpi_quant/plan/cost.hpp"
#include "tests/bench/bench_timed_gpu.hpp"

namespace mq::test {
namespace {

// A rank's messages: each look at a request takes time.
class PolledComm {
 public:
  using Request = sim::SimComm::Request;
  explicit PolledComm(sim::SimComm& comm) : comm_(comm) {}
  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }
  Status send(int to, int tag, std::span<const std::byte> out, Request& request) {
    return comm_.send(to, tag, out, request);
  }
  Status receive(int from, int tag, std::span<std::byte> in, Request& request) {
    return comm_.receive(from, tag, in, request);
  }
  Status test(Request& request, bool& done, std::size_t& bytes) {
    comm_.compute(kOtherMicroseconds * 1e-6);
    return comm_.test(request, done, bytes);
  }
  void idle() {}
  void busy() {}

 private:
  sim::SimComm& comm_;
};

struct Timed {
  double seconds = 0;
  int switches = 0;     // of the GPU of rank 0
  DriverCounts counts;  // of rank 0
};

// One rank's call.
class RankCall {
 public:
  RankCall(Device& device, const char* codec, std::size_t bytes) : device_(device), comm_(*device.comm) {
    const PlanRow& row = choose_plan(bytes, comm_.size());
    plan_ = row.make({comm_.rank(), comm_.size(), 1});
    facts_ = facts_of(plan_);
    Reduction& r = reduction_;
    r.plan = &plan_;
    r.facts = &facts_;
    r.codec = kernels::find_codec(codec);
    r.ops = r.codec->ops(r.element, kernels::Isa::scalar);
    r.raw_ops = raw_codec().ops(r.element, kernels::Isa::scalar);
    r.params = kernels::preset_params(*r.codec);
    r.count = bytes / sizeof(float);
    r.output = device.take(bytes);
    r.input = r.output;
    r.residual = device.take(bytes);
    r.call = 7;
    r.rank = comm_.rank();
    r.size = comm_.size();
    r.pipelines = usual_pipelines(comm_.size());
    r.tag_segments = 32;
  }
  Status run() {
    const DeviceRows rows{&TimedApi::get(),
                          kernels::device_ops,
                          kernels::device_convert,
                          kernels::device_measure,
                          false,
                          false};
    MQ_TRY(call_.locate(reduction_, rows));
    DevicePlacement::Setting setting;
    setting.frames_bytes = Execution<PolledComm>::scratch_bytes(reduction_);
    MQ_TRY(call_.prepare(reduction_, setting));
    if (!call_.is_on_device()) return {Code::device_failed, "the call was staged"};
    execution_.prepare(reduction_, call_.frames());
    MQ_TRY(execution_.start(comm_));
    Tally tally;
    for (bool moved = false; !execution_.done();) MQ_TRY(execution_.advance(comm_, tally, moved));
    bool over = false;
    return call_.deliver(execution_.failure(), over);
  }

 private:
  Device& device_;
  PolledComm comm_;
  Plan plan_;
  PlanFacts facts_;
  Reduction reduction_;
  DevicePool pool_;
  DevicePlacement call_{pool_};
  Execution<PolledComm> execution_;
};

// One call. The ranks of a node share a GPU.
Timed timed(const char* codec, std::size_t bytes, double switch_s, const sim::Network& network, int ranks) {
  constexpr std::size_t kRoom = std::size_t{1} << 32;  // addresses of a rank
  auto* const memory =
      static_cast<std::byte*>(mmap(nullptr, kRoom * static_cast<std::size_t>(ranks), PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  sim::World world(ranks, network);
  std::deque<TimedGpu> gpus;
  for (int rank = 0; rank < ranks; ++rank) gpus.emplace_back(switch_s);
  Timed result;
  const Status status = world.run([&](sim::SimComm& comm) {
    Device device;
    device.comm = &comm;
    device.gpu = &gpus[static_cast<std::size_t>(comm.rank() / network.per_node)];
    device.memory = device.taken = memory + kRoom * static_cast<std::size_t>(comm.rank());
    device.end = device.memory + kRoom;
    TimedApi::devices().push_back(&device);
    {
      RankCall call(device, codec, bytes);
      const Status ended = call.run();
      EXPECT_TRUE(ended.ok()) << ended.text();
      result.seconds = std::max(result.seconds, comm.now_s());
    }
    std::erase(TimedApi::devices(), &device);
    if (comm.rank() == 0) result.counts = device.counts;
  });
  EXPECT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(world.leaked(), 0U);
  munmap(memory, kRoom * static_cast<std::size_t>(ranks));
  result.switches = gpus[0].switches();
  return result;
}

constexpr std::size_t kBytes = std::size_t{64} << 20;

// What launching costs the thread: without looks at events, with which it passes its time while it waits.
double launching_us(const DriverCounts& c) {
  return c.launches * kLaunchMicroseconds + c.copies * kCopyMicroseconds + c.records * kRecordMicroseconds;
}

// A table, a line for each call; then the call.
class Table {
 public:
  explicit Table(const char* what) {
    std::printf(
        "\n| codec | %s | launches | segments in each | copies | records | driver, us | switches | call, ms |\n"
        "|---|---|---|---|---|---|---|---|---|\n",
        what);
  }
  static Timed add(const char* codec, const std::string& where, double switch_s, const sim::Network& network,
                   int ranks = 2) {
    const Timed t = timed(codec, kBytes, switch_s, network, ranks);
    const DriverCounts& c = t.counts;
    std::printf("| %s | %s | %d | %.0f | %d | %d | %.0f | %d | %.2f |\n", codec, where.c_str(), c.launches,
                double(c.runs) / c.launches, c.copies, c.records, launching_us(c), t.switches,
                t.seconds * 1e3);
    return t;
  }
};

// The counts of rank 0, whatever a switch costs and however slowly messages arrive: half of the segments in flight share each
// launch. CTest also runs this with fewer of them (MPIQ_CUDA_SEGMENTS).
void expect_counts(const char* codec, const Timed& t) {
  const bool reads_in_place = std::string_view(codec) == "onebit";
  EXPECT_EQ(t.counts.runs, 16 * (reads_in_place ? 24 : 40));
  EXPECT_EQ(t.counts.copies, 0);
  if (const int in_launch = env()->cuda_segments / 2; in_launch < 16) {
    EXPECT_LE(t.counts.runs, in_launch * t.counts.launches);
    return;
  }
  EXPECT_EQ(t.counts.runs, 16 * t.counts.launches) << "segments that a launch codes";
  EXPECT_LE(t.counts.records, 25);
  EXPECT_LE(t.counts.entries, t.counts.queries + 60) << "once a look at events or a batch of launches";
}

TEST(GpuTime, of_a_call_of_two_ranks_that_share_a_gpu) {
  const Table table("switch between processes");
  sim::Network node;
  node.per_node = 2;
  for (const char* const codec : {"onebit", "bf16"})
    for (const int microseconds : {0, 25, 50, 100, 200}) {
      const Timed t =
          table.add(codec, microseconds == 0 ? "none (MPS)" : std::to_string(microseconds) + " us",
                    microseconds * 1e-6, node);
      expect_counts(codec, t);
      if (env()->cuda_segments == kMostCudaSegments) {
        EXPECT_LE(t.switches, 18);
      }
    }
}

TEST(GpuTime, of_a_call_whose_messages_arrive_slowly) {
  const Table table("link: latency/overhead/bandwidth");
  const auto call = [&](const char* codec, const char* link) {
    sim::Network network;
    ASSERT_TRUE(sim::parse_link(link, network).ok());
    expect_counts(codec, table.add(codec, link, 0, network));
  };
  for (const char* const link : {"2us/0.5us/100Gbit", "20us/1us/10Gbit", "50us/2us/1Gbit"})
    call("onebit", link);
  for (const char* const link : {"2us/0.5us/100Gbit", "20us/1us/10Gbit"}) call("bf16", link);
}

// Steps whose result is sent are launched as messages arrive, so with more ranks launches are short where the network is slow. Its time
// hides theirs.
TEST(GpuTime, of_a_call_of_four_ranks_over_a_slow_link) {
  const Table table("link of 4 ranks");
  for (const char* const link : {"2us/0.5us/100Gbit", "20us/1us/10Gbit"}) {
    sim::Network network;
    ASSERT_TRUE(sim::parse_link(link, network).ok());
    const Timed t = table.add("bf16", link, 0, network, 4);
    const double sent =
        2.0 * 3 / 4 * double(kBytes) / 2;  // by each rank: its parts, and its share of the sum
    if (network.bandwidth_Bps < 2e9) {
      EXPECT_LT(t.seconds, 1.02 * sent / network.bandwidth_Bps);
    }
  }
}

}  // namespace
}  // namespace mq::test
