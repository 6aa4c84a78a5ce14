// Runs a plan (long on purpose: one class, of which every part needs the pipelines). This is the only code
// that turns steps into codec calls and messages. It works with any codec, any plan and any Comm.
//
// Segments run through the plan independently, up to reduction.pipelines of them at a time. Each segment in
// flight has a Pipeline, with slots of its own. A segment advances until its next step needs a slot whose
// message is still under way; then the next segment advances. So encoding, the wire and decoding overlap
// without a second thread. Results do not depend on what arrives first: within a segment the plan fixes the
// order of all additions, and segments share no element. Receives whose slot is free from the start are
// posted first. Nothing here blocks: advance() does what can be done and returns.
//
// With reduction.threads > 1 the codec steps of different segments run side by side (crew.hpp). Messages stay
// with the calling thread, and the bytes are the same. An asynchronous backend (reduction.backend, a device)
// launches codec steps and does not wait for them; neighbouring segments take their codec steps together
// (groups.hpp). A segment advances over steps that its stream orders after them, and waits where the
// processor needs what they write. So encoding, the wire and decoding overlap there, too.
//
// Decodes of one chunk that follow each other are one pass, if the backend can and their frames are there. A
// rank that has nothing else to do waits a moment for the last of them: two passes cost more. The bits do not
// depend on it.
//
// The ranks must have agreed before (agree.hpp): all have the same signature, and so the same layout and the
// same messages. An unusable frame does not end the schedule. The rank goes on and sends poison frames. So
// nobody waits for ever, and every rank that depends on that data returns an error too.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi_quant/base/comm.hpp"
#include "mpi_quant/base/crew.hpp"
#include "mpi_quant/engine/backend.hpp"
#include "mpi_quant/engine/frame_check.hpp"
#include "mpi_quant/engine/groups.hpp"
#include "mpi_quant/engine/reduction.hpp"

namespace mq {

// For one reduction after the other. It allocates only if a reduction needs more than all before. The object
// must stay where it is while a reduction is under way, and for ever after the communication has failed.
template <Comm C>
class Execution {
 public:
  // Bytes of host memory that a reduction needs. It has to be pinned memory if the backend is a device.
  static std::size_t scratch_bytes(const Reduction& reduction) {
    const Layout layout = layout_of(reduction);
    return pipelines_of(reduction, layout) * pipeline_bytes(reduction, layout);
  }

  // Bytes of the longest message of a reduction, including the header.
  static std::size_t frame_bytes(const Reduction& reduction) {
    return slot_bytes_of(reduction, layout_of(reduction));
  }

  // reduction and scratch must outlive the execution of the reduction. scratch has scratch_bytes(reduction)
  // bytes at a 64-byte boundary. May throw std::bad_alloc. Nothing after it can, so that a rank without
  // memory can say so before the ranks agree.
  void prepare(const Reduction& reduction, std::byte* scratch) {
    reduction_ = &reduction;
    layout_.emplace(layout_of(reduction));
    slot_bytes_ = slot_bytes_of(reduction, *layout_);
    failure_ = {};
    active_ = 0;
    polls_ = 0;
    backend_failed_ = false;
    has_frames_ = reduction.backend->has_frames();
    is_asynchronous_ = reduction.backend->is_asynchronous();
    const auto slots = static_cast<std::size_t>(reduction.plan->slots);
    n_pipelines_ = pipelines_of(reduction, *layout_);
    if (pipelines_.size() < n_pipelines_) pipelines_.resize(n_pipelines_);
    batch_.reserve(n_pipelines_);
    const std::vector<Step>& steps = reduction.plan->steps;
    const auto last_send = std::find_if(steps.rbegin(), steps.rend(), [](const Step& step) {
      return step.op == Op::exchange && step.to != kNobody;
    });
    steps_that_send_ = static_cast<std::size_t>(steps.rend() - last_send);
    groups_.prepare(n_pipelines_, reduction.backend->together(n_pipelines_));
    most_summed_ = is_asynchronous_ ? 1 : reduction.backend->most_summed(reduction);
    most_at_once_ = is_asynchronous_ ? n_pipelines_ : static_cast<std::size_t>(reduction.threads);
    const std::size_t stride = pipeline_bytes(reduction, *layout_);
    reduction.backend->prepare(reduction, *layout_, n_pipelines_,
                               scratch + host_frames(reduction) * slot_bytes_, stride);
    for (std::size_t i = 0; i < n_pipelines_; ++i) {
      Pipeline& pipeline = pipelines_[i];
      pipeline.steps = &reduction.backend->pipeline(i);
      pipeline.frames = has_frames_ ? pipeline.steps->frames() : scratch + i * stride;
      pipeline.index = static_cast<int>(i);
      pipeline.slots.assign(slots, Slot{});
      pipeline.sends.resize(static_cast<std::size_t>(reduction.plan_index->first_send.back()));
    }
  }

  // Posts the first receives.
  Status start(C& comm) {
    active_ = n_pipelines_;
    for (std::size_t i = 0; i < n_pipelines_; ++i) MQ_TRY(start_segment(comm, pipelines_[i], i));
    return {};
  }

  // Does all that can be done now. A returned error means that the communication failed. Then advance() must
  // not be called again.
  Status advance(C& comm, Tally& tally, bool& moved) {
    for (;;) {
      batch_.clear();
      bool progress = false;
      if (is_asynchronous_) reduction_->backend->look();
      for (Pipeline& pipeline : pipelines_) {
        if (!pipeline.active || batch_.size() >= most_at_once_) continue;
        bool codec_step = false;
        MQ_TRY(communicate(comm, pipeline, tally, progress, codec_step));
        if (codec_step) batch_.push_back(&pipeline);
      }
      moved = moved || progress;
      polls_ = progress || !batch_.empty() ? 0 : polls_ + 1;
      groups_.hold_back(
          batch_, progress, [&](std::size_t i) { return round_of(pipelines_[i]); },
          [&](const Pipeline& pipeline) { return pipeline.at >= steps_that_send_; });
      if (batch_.empty()) return {};
      run_batch(tally);
      moved = true;
    }
  }

  // True once the output is complete, or worthless: see failure(). If the backend may outlast the reduction,
  // the last decodes may still run.
  bool done() const { return active_ == 0; }
  // Gives up the result. The schedule goes on, and the other ranks learn of it.
  void give_up(Status why) {
    if (failure_.ok()) failure_ = std::move(why);
  }
  // Why there is no result. After an error output and residual are unspecified.
  const Status& failure() const { return failure_; }

 private:
  struct Slot {
    typename C::Request receive{};
    std::size_t bytes = 0;
    int sends = 0;  // number of sends under way
    bool receiving = false;
    bool is_header = false;  // a header only, written by the processor: see header_place()
  };
  struct Pipeline {
    std::byte* frames = nullptr;
    Steps* steps = nullptr;
    int index = 0;
    bool active = false;
    std::size_t segment = 0;
    std::size_t at = 0;     // number of the next step
    std::size_t taken = 1;  // so many steps from `at` on are done together
    std::vector<Slot> slots;
    std::vector<typename C::Request> sends;  // numbered as in PlanIndex::first_send
    bool running = false;                    // true: the last step to begin was launched
    StepResult result;                       // its result, if it was not launched
  };

  static std::size_t host_frames(
      const Reduction& reduction) {  // frames in host memory of one segment in flight
    return reduction.backend->has_frames() ? 0 : static_cast<std::size_t>(reduction.plan->slots);
  }
  static std::size_t pipeline_bytes(const Reduction& reduction, const Layout& layout) {
    return host_frames(reduction) * slot_bytes_of(reduction, layout) +
           reduction.backend->pipeline_bytes(reduction, layout);
  }

  // Segments with the same tags are a multiple of tag_segments apart. So they run one after the other in the
  // same pipeline of every rank. Only messages of one segment can share a tag while they are under way
  // between two ranks, and they are in the order of the plan.
  int tag(const Pipeline& pipeline, const Step& step) const {
    const Plan& plan = *reduction_->plan;
    const std::size_t number = pipeline.segment % static_cast<std::size_t>(reduction_->tag_segments);
    return reduction_->first_tag + static_cast<int>(number) * tags_of(plan) + tag_of(plan, step);
  }
  std::span<std::byte> frame(const Pipeline& pipeline, int slot) const {
    return {pipeline.frames + static_cast<std::size_t>(slot) * slot_bytes_, slot_bytes_};
  }
  // Where the processor writes the header of a slot.
  std::byte* header_place(const Pipeline& pipeline, int slot) const {
    return has_frames_ ? pipeline.steps->header(slot) : frame(pipeline, slot).data();
  }
  std::span<const std::byte> to_send(const Pipeline& pipeline, int index) const {
    const Slot& slot = pipeline.slots[static_cast<std::size_t>(index)];
    return {slot.is_header ? header_place(pipeline, index) : frame(pipeline, index).data(), slot.bytes};
  }
  Slot& slot_of(Pipeline& pipeline, int slot) const { return pipeline.slots[static_cast<std::size_t>(slot)]; }
  const Step& step_of(const Pipeline& pipeline, std::size_t later = 0) const {
    return reduction_->plan->steps[pipeline.at + later];
  }

  int round_of(const Pipeline& pipeline) const {
    return pipeline.active ? static_cast<int>(pipeline.segment / n_pipelines_) : -1;
  }

  Status start_segment(C& comm, Pipeline& pipeline, std::size_t segment) {
    pipeline.segment = segment;
    pipeline.active = true;
    pipeline.at = 0;
    pipeline.steps->start_segment(segment);
    for (std::size_t i = 0; i < reduction_->plan_index->early.size(); ++i)
      if (reduction_->plan_index->early[i]) MQ_TRY(post_receive(comm, pipeline, reduction_->plan->steps[i]));
    return {};
  }

  Status post_receive(C& comm, Pipeline& pipeline, const Step& step) {
    Slot& slot = slot_of(pipeline, step.recv_slot);
    slot.receiving = true;
    return comm.receive(step.from, tag(pipeline, step), frame(pipeline, step.recv_slot), slot.receive);
  }

  // Runs the exchanges of a pipeline until it must wait, until its next step is an encode or decode, or until
  // no segment is left.
  Status communicate(C& comm, Pipeline& pipeline, Tally& tally, bool& moved, bool& codec_step) {
    while (pipeline.active) {
      bool ready = false;
      end_launched(pipeline, tally, moved);
      if (pipeline.at == reduction_->plan->steps.size()) {
        MQ_TRY(drained(comm, pipeline, ready));
        if (!ready) return {};
        moved = true;
        const std::size_t next = pipeline.segment + n_pipelines_;
        pipeline.active = next < layout_->segments();
        if (pipeline.active) MQ_TRY(start_segment(comm, pipeline, next));
        active_ -= !pipeline.active;
        continue;
      }
      const Step& step = step_of(pipeline);
      MQ_TRY(runnable(comm, pipeline, step, tally, ready));
      if (!ready) return {};
      codec_step = step.op != Op::exchange;
      if (codec_step) return {};
      MQ_TRY(exchange(comm, pipeline, step, tally));
      ++pipeline.at;
      moved = true;
    }
    return {};
  }

  // A slot may be read once its message has arrived. It may be written once it is neither received nor sent.
  Status runnable(C& comm, Pipeline& pipeline, const Step& step, Tally& tally, bool& ready) {
    ready = !is_asynchronous_ || !pipeline.steps->holds_up(step);
    if (!ready) return {};
    if (step.op == Op::exchange) {
      if (step.to != kNobody) MQ_TRY(arrived(comm, pipeline, step.slot, tally, ready));
      if (ready && step.from != kNobody && !reduction_->plan_index->early[pipeline.at])
        MQ_TRY(sent(comm, pipeline, step.recv_slot, ready));
    } else {
      MQ_TRY(arrived(comm, pipeline, step.slot, tally, ready));
      if (ready && step.op == Op::encode) MQ_TRY(sent(comm, pipeline, step.slot, ready));
      if (ready) MQ_TRY(take(comm, pipeline, tally, ready));
    }
    return {};
  }

  // Finds how many steps the next codec step takes together.
  Status take(C& comm, Pipeline& pipeline, Tally& tally, bool& ready) {
    const auto summands = static_cast<std::size_t>(reduction_->plan_index->summands[pipeline.at]);
    const std::size_t most = std::min(summands, most_summed_);
    bool is_here = true;
    for (pipeline.taken = 1; pipeline.taken < most && is_here; pipeline.taken += is_here)
      MQ_TRY(arrived(comm, pipeline, step_of(pipeline, pipeline.taken).slot, tally, is_here));
    ready = is_here || polls_ >= kPatience;
    return {};
  }

  Status arrived(C& comm, Pipeline& pipeline, int index, Tally& tally, bool& ready) {
    Slot& slot = slot_of(pipeline, index);
    if (!slot.receiving) return {};
    MQ_TRY(comm.test(slot.receive, ready, slot.bytes));
    if (!ready) return {};
    slot.receiving = false;
    slot.is_header = false;
    tally.received_bytes += slot.bytes;
    return {};
  }

  Status sent(C& comm, Pipeline& pipeline, int index, bool& ready) {
    Slot& slot = slot_of(pipeline, index);
    ready = true;
    while (slot.sends > 0) {
      std::size_t ignored = 0;
      MQ_TRY(comm.test(send_request(pipeline, index, slot.sends - 1), ready, ignored));
      if (!ready) return {};
      --slot.sends;
    }
    return {};
  }

  typename C::Request& send_request(Pipeline& pipeline, int slot, int number) const {
    const int first = reduction_->plan_index->first_send[static_cast<std::size_t>(slot)];
    return pipeline.sends[static_cast<std::size_t>(first + number)];
  }

  Status drained(C& comm, Pipeline& pipeline, bool& ready) {
    ready = !is_asynchronous_ || !pipeline.steps->is_busy() || may_end_without(pipeline);
    for (int slot = 0; slot < reduction_->plan->slots && ready; ++slot)
      MQ_TRY(sent(comm, pipeline, slot, ready));
    return {};
  }

  Status exchange(C& comm, Pipeline& pipeline, const Step& step, Tally& tally) {
    if (step.from != kNobody && !reduction_->plan_index->early[pipeline.at])
      MQ_TRY(post_receive(comm, pipeline, step));
    if (step.to == kNobody) return {};
    Slot& slot = slot_of(pipeline, step.slot);
    if (slot.bytes > slot_bytes_) {  // a frame to pass on was too long to receive
      if (failure_.ok()) failure_ = frame_too_long(place(pipeline, step), slot_bytes_);
      write_header(pipeline, step, Code::bad_frame, 0);
    } else if (has_frames_ && backend_failed_ && !slot.is_header) {
      write_header(pipeline, step, Code::device_failed, 0);
    }
    tally.sent_bytes += slot.bytes;
    ++tally.messages_sent;
    return comm.send(step.to, tag(pipeline, step), to_send(pipeline, step.slot),
                     send_request(pipeline, step.slot, slot.sends++));
  }

  void run_batch(Tally& tally) {
    const int n = static_cast<int>(batch_.size());
    const auto part = [this](int i) { begin(*batch_[static_cast<std::size_t>(i)]); };
    if (!is_asynchronous_) run_together(n, part);
    for (int i = 0; i < n && is_asynchronous_; ++i) part(i);
    if (!reduction_->backend->launch()) backend_failed_ = true;
    for (Pipeline* pipeline : batch_) {  // in a fixed order
      if (!pipeline->running) end(*pipeline, step_of(*pipeline), pipeline->result, tally);
      pipeline->at += pipeline->taken;
    }
  }

  // Begins the next step of the pipeline. With a backend that is not asynchronous the step is then over.
  void begin(Pipeline& pipeline) const noexcept {
    const Step& step = step_of(pipeline);
    pipeline.running = false;
    pipeline.result = {};
    if (!failure_.ok()) return;
    if (step.op == Op::encode) {
      pipeline.running =
          pipeline.steps->encode(step, header_of(place(pipeline, step)),
                                 frame(pipeline, step.slot).data() + sizeof(FrameHeader), pipeline.result);
      return;
    }
    std::array<kernels::WireView, kernels::kMostSummed> wires;
    const std::size_t n = pipeline.taken;
    for (std::size_t i = 0; i < n && pipeline.result.status.ok(); ++i) {
      const Step& one = step_of(pipeline, i);
      pipeline.result.status = check_frame(pipeline, one);
      if (pipeline.result.status.ok())
        wires[i] =
            frame(pipeline, one.slot).first(slot_of(pipeline, one.slot).bytes).subspan(sizeof(FrameHeader));
    }
    if (!pipeline.result.status.ok()) return;
    const bool final = reduction_->plan_index->final[pipeline.at + n - 1];
    if (n == 1)
      pipeline.running =
          pipeline.steps->decode(step, final, is_header_there(pipeline, step), wires[0], pipeline.result);
    else
      pipeline.steps->decode_sum({&step, n}, final, {wires.data(), n}, pipeline.result);
  }

  // True if the frame is in the backend's memory. Its header can be checked only after the backend has copied
  // it.
  bool is_header_there(const Pipeline& pipeline, const Step& step) const {
    return has_frames_ && !pipeline.slots[static_cast<std::size_t>(step.slot)].is_header;
  }

  Status check_frame(const Pipeline& pipeline, const Step& step) const noexcept {
    const std::size_t bytes = pipeline.slots[static_cast<std::size_t>(step.slot)].bytes;
    MQ_TRY(check_length(place(pipeline, step), slot_bytes_, bytes));
    if (is_header_there(pipeline, step)) return {};
    return check_header(place(pipeline, step), header_place(pipeline, step.slot), bytes);
  }

  // Handles the result of a step that is over.
  void end(Pipeline& pipeline, const Step& step, StepResult& result, Tally& tally) {
    (step.op == Op::encode ? tally.encode_s : tally.decode_s) += result.seconds;
    tally.nonfinite += result.encoded.nonfinite;
    tally.overflows += result.encoded.overflows;
    if (result.status.ok() && result.decoded == kernels::Decoded::malformed)
      result.status = bad_frame(place(pipeline, step), [&] {
        return "the payload is not what " + std::string(codec_of(*reduction_, step).name) + " writes";
      });
    backend_failed_ = backend_failed_ || result.status.code() == Code::device_failed;
    if (failure_.ok() && !result.status.ok()) failure_ = std::move(result.status);
    if (step.op == Op::encode)
      write_header(pipeline, step, failure_.code(), failure_.ok() ? result.encoded.bytes : 0);
  }

  // Handles the launched steps of a pipeline that are over.
  void end_launched(Pipeline& pipeline, Tally& tally, bool& moved) {
    if (!is_asynchronous_) return;
    StepResult result;
    while (const Step* const step = pipeline.steps->over(result)) {
      moved = true;
      if (is_header_there(pipeline, *step) && step->op != Op::encode && result.status.ok())
        result.status = check_header(place(pipeline, *step), pipeline.steps->received(*step),
                                     slot_of(pipeline, step->slot).bytes);
      end(pipeline, *step, result, tally);
    }
  }

  // True if only the last decodes are left, and the backend may run them after the end of the reduction.
  bool may_end_without(const Pipeline& pipeline) const {
    return reduction_->backend->may_outlast() && failure_.ok() &&
           pipeline.segment + n_pipelines_ >= layout_->segments() && !pipeline.steps->is_encoding();
  }

  FramePlace place(const Pipeline& pipeline, const Step& step) const {
    return {reduction_->call, pipeline.segment, step.chunk};
  }

  // A header with an error code is a poison frame.
  void write_header(Pipeline& pipeline, const Step& step, Code error, std::size_t payload_bytes) const {
    FrameHeader header = header_of(place(pipeline, step));
    header.error_code = static_cast<std::uint16_t>(error);
    header.payload_bytes = payload_bytes;
    std::memcpy(header_place(pipeline, step.slot), &header, sizeof header);
    Slot& slot = slot_of(pipeline, step.slot);
    slot.bytes = sizeof header + payload_bytes;
    slot.is_header = payload_bytes == 0;
  }

  // So many times a rank looks for a frame that has not come, before it decodes without it. That takes about
  // as long as a decode of a chunk.
  static constexpr int kPatience = 32;

  const Reduction* reduction_ = nullptr;
  std::optional<Layout> layout_;
  std::size_t slot_bytes_ = 0, n_pipelines_ = 0, active_ = 0, most_at_once_ = 1;
  std::size_t most_summed_ = 1;      // frames of one decode
  int polls_ = 0;                    // since something moved
  std::size_t steps_that_send_ = 0;  // the last of so many steps of the plan sends
  std::vector<Pipeline> pipelines_;  // the first n_pipelines_ are in use
  std::vector<Pipeline*> batch_;
  Groups groups_;
  bool has_frames_ = false, is_asynchronous_ = false, backend_failed_ = false;
  Status failure_;  // the first one; from then on results are worthless, but the schedule goes on
};

}  // namespace mq
