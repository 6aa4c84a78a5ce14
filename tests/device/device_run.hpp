// An allreduce whose vectors are in the memory of the tests' GPUs (device_table.hpp), beside the same on the
// host: what the tests of the executor's device side share.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/device/device_table.hpp"
#include "tests/engine/scene.hpp"

namespace mq::test {

// Where a rank's vectors are.
struct Kinds {
  bool input = true, output = true;
};

// What a rank keeps from call to call.
struct Keeper {
  DevicePool pool;
  DevicePlacement call{pool};
};

// An allreduce with the vectors of rank r on device r, as kinds(r) says.
struct DeviceScene {
  Scene scene;
  std::function<Kinds(int)> kinds = [](int) { return Kinds{}; };
  unsigned device_wire = 0;  // bit r: rank r has its frames on its device, if it can
  bool stream_ordered = false, rendezvous = false, is_timed = false;
  std::vector<std::unique_ptr<Keeper>>* keepers = nullptr;
};

// In place of the agreement: whether all ranks can go on.
struct Agreed {
  bool all(Loopback::Rank& comm, bool mine) {
    if (!mine) failed = true;
    ++here;
    while (here < comm.size()) comm.idle();
    return !failed;
  }
  std::atomic<int> here = 0;
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
    const Status trouble = begin();
    if (!agreed.all(comm_, trouble.ok())) {
      call_->settle();
      return trouble.ok() ? Status{Code::peer_failed, "another rank cannot take part"} : trouble;
    }
    (void)complete(comm_, execution_, tally);
    return end();
  }
  // The parts of it; between them the execution runs.
  Status begin() {
    const bool half = kernels::compute_element(element_of<T>) != element_of<T>;
    plan_ = s_.scene.plan_of(comm_.rank(), half);
    plan_index_ = index_of(plan_);
    reduction_ = describe(plan_, plan_index_);
    call_ = &(own_ ? own_ : (*s_.keepers)[static_cast<std::size_t>(rank_)])->call;
    return prepare(reduction_, *call_, execution_, scratch_);
  }
  E& execution() { return execution_; }
  Status end() {
    Status status;
    for (bool over = false; !over;) {
      over = true;
      status = call_->deliver(execution_.failure(), over);
    }
    take_back();
    return status;
  }

 private:
  Reduction describe(const Plan& plan, const PlanIndex& plan_index) {
    const Kinds kinds = s_.kinds(rank_);
    Reduction reduction;
    reduction.plan = &plan;
    reduction.plan_index = &plan_index;
    reduction.codec = s_.scene.codec;
    reduction.element = element_of<T>;
    reduction.ops = reduction.codec->ops(reduction.element, kernels::best_isa());
    reduction.memory = s_.scene.call_memory(reduction.element);
    if (!s_.scene.skipped_messages.empty())
      reduction.memory.skipped_messages = s_.scene.skipped_messages[static_cast<std::size_t>(rank_)];
    reduction.raw_ops =
        may_be_raw(reduction) ? raw_codec().ops(reduction.element, kernels::best_isa()) : nullptr;
    reduction.convert = kernels::convert(reduction.element, kernels::best_isa());
    reduction.params = s_.scene.params();
    reduction.count = input_.size();
    device_output_ = place(rank_, output_, kinds.output);
    reduction.output = device_output_ ? device_output_ : reinterpret_cast<std::byte*>(output_.data());
    if (s_.scene.root != kNobody) reduction.parts = parts_of_root(s_.scene, rank_, input_.size());
    const bool lacks = lacks_output(s_.scene, rank_);
    if (lacks) {
      std::fill(output_.begin(), output_.end(), T(7));
      reduction.output = device_output_ = nullptr;
    }
    if (s_.scene.in_place && !lacks) {
      reduction.input = reduction.output;
    } else {
      const std::byte* const device_input = place(rank_, input_, kinds.input);
      reduction.input = device_input ? device_input : reinterpret_cast<const std::byte*>(input_.data());
    }
    reduction.call = reduction.random_key = 7;
    reduction.rank = rank_;
    reduction.size = comm_.size();
    reduction.divisor = s_.scene.mean ? comm_.size() : 1;
    reduction.pipelines = s_.scene.pipelines;
    reduction.tag_segments = 8 * s_.scene.pipelines;
    return reduction;
  }
  Status prepare(Reduction& reduction, DevicePlacement& call, E& execution, std::vector<std::byte>& scratch) {
    MQ_TRY(call.locate(reduction, Gpus::get().rows((s_.device_wire >> rank_ & 1) != 0, s_.is_timed)));
    if (s_.scene.feedback && s_.scene.memory->arrays > 0 && input_of(reduction).n > 0) {
      device_residual_ = place(rank_, residual_, call.residual_device() != nullptr);
      reduction.residual =
          device_residual_ ? device_residual_ : reinterpret_cast<std::byte*>(residual_.data());
    }
    const std::size_t bytes = E::scratch_bytes(reduction);
    const DeviceOrder order{DeviceSync::legacy, s_.stream_ordered,
                            Gpus::get().program(&Gpus::get().device(rank_))};
    MQ_TRY(call.prepare(reduction, {order, s_.stream_ordered, false, false, bytes}));
    if (!call.is_on_device()) {
      scratch.resize(E::scratch_bytes(reduction) + 64);
      bring_residual(reduction);
    }
    if (reduction.memory.rule->measures(reduction.memory.params))
      MQ_TRY(call.memory_factor(reduction, reduction.memory.factor));
    auto* const aligned = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64;
    execution.prepare(reduction, call.is_on_device() ? call.frames() : aligned);
    return {};
  }
  // Staged after all: the residual, too, is needed on the host.
  void bring_residual(Reduction& reduction) {
    if (device_residual_ == nullptr) return;
    Gpus::get().read(residual_.data(), device_residual_, residual_.size() * sizeof(Compute<T>));
    device_residual_ = nullptr;
    reduction.residual = reinterpret_cast<std::byte*>(residual_.data());
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
  Plan plan_;
  PlanIndex plan_index_;
  Reduction reduction_;
  DevicePlacement* call_ = nullptr;
  E execution_;
  std::vector<std::byte> scratch_;
  std::byte *device_output_ = nullptr, *device_residual_ = nullptr;
};

// T: float, double or a half type.
template <class T>
Outcome<T> run_on_devices(const DeviceScene& s, const Vectors<T>& input, Vectors<Compute<T>> residual);

// The same vectors reduced on the host and on devices: the same bits, and as many bytes sent.
template <class T>
void expect_same(const DeviceScene& s, std::size_t n, const std::string& what);
// The same for several ways to have one scene on devices; the host reduces once for all of them.
template <class T>
void expect_all_same(std::span<const DeviceScene> ways, std::size_t n, const std::string& what);

}  // namespace mq::test
