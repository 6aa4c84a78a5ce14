// What a call with vectors on a GPU asks of its driver, and how long it would take: the library's agreement, executor and device
// steps among simulated ranks, whose GPU and driver are bench_timed_gpu.hpp. All times are virtual, of assumed costs: no measurement. They
// depend on nothing but the code, so that they show what a change does.
//
// `bench_gpu_time_test` prints the table of docs/gpu.md.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <string>

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
  double seconds = 0, switches = 0;
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

// Ranks of one node, which share a GPU. Messages as in shared memory.
Timed timed(const char* codec, std::size_t bytes, double switch_s, int ranks = 2) {
  constexpr std::size_t kRoom = std::size_t{1} << 32;  // addresses of a rank
  auto* const memory =
      static_cast<std::byte*>(mmap(nullptr, kRoom * static_cast<std::size_t>(ranks), PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  sim::Network network;
  network.per_node = ranks;
  sim::World world(ranks, network);
  TimedGpu gpu(switch_s);
  Timed result;
  const Status status = world.run([&](sim::SimComm& comm) {
    Device device;
    device.comm = &comm;
    device.gpu = &gpu;
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
  result.switches = gpu.switches();
  return result;
}

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(DeviceTime, counts_of_a_call_of_64_MiB) {
  std::printf(
      "| codec | switch cost | launches | segments a launch | copies | records | queries | entries | switches | ms |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n");
  for (const char* const codec : {"onebit", "bf16"})
    for (const double microseconds : {0, 25, 50, 100, 200}) {
      const Timed t = timed(codec, 64 * kMiB, microseconds * 1e-6);
      const DriverCounts& c = t.counts;
      std::printf("| %s | %.0f us | %d | %.1f | %d | %d | %d | %d | %.0f | %.2f |\n", codec, microseconds,
                  c.launches, double(c.runs) / c.launches, c.copies, c.records, c.queries, c.entries,
                  t.switches, t.seconds * 1e3);
    }
}

}  // namespace
}  // namespace mq::test
