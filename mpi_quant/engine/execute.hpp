// Runs a plan. This is the only code that turns steps into codec calls and messages. It works with any codec,
// any plan and any Comm.
//
// Segments run through the plan independently, up to job.lanes of them at a time. Each segment in flight has
// a Lane, with slots of its own. A segment advances until its next step needs a slot whose message is still
// under way; then the next segment advances. So encoding, the wire and decoding overlap without a second
// thread. Results do not depend on what arrives first: within a segment the plan fixes the order of all
// additions, and segments share no element. Receives whose slot is free from the start are posted first.
// Nothing here blocks: advance() does what can be done and returns, so that a call can be left and resumed.
//
// With job.threads > 1 the codec steps of different segments run side by side (OpenMP). Messages stay with
// the calling thread, and the bytes are the same. An asynchronous backend (job.backend, a device) launches
// codec steps and does not wait for them. A segment advances over steps that its stream orders after them,
// and waits where the processor needs what they write. So encoding, the wire and decoding overlap there, too.
//
// The ranks must have agreed before (agree.hpp): all have the same signature, and so the same layout and the
// same messages. An unusable frame does not end the schedule. The rank goes on and sends poison frames. So
// nobody waits for ever, and every rank that depends on that data returns an error too.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi_quant/base/comm.hpp"
#include "mpi_quant/engine/backend.hpp"
#include "mpi_quant/engine/frame_check.hpp"
#include "mpi_quant/engine/job.hpp"

namespace mq {

// Can be used for one job after the other. It allocates only if a job needs more than all jobs before. The
// object must stay where it is while a job is under way, and for ever after the communication has failed.
template <Comm C>
class Execution {
 public:
  // Bytes of host memory that a job needs. It has to be pinned memory if the backend is a device.
  static std::size_t scratch_bytes(const Job& job) {
    const Layout layout = layout_of(job);
    return lanes_of(job, layout) * lane_bytes(job, layout);
  }

  // Bytes of the longest message of a job, including the header.
  static std::size_t frame_bytes(const Job& job) { return slot_bytes_of(job, layout_of(job)); }

  // job and scratch must outlive the execution of the job. scratch has scratch_bytes(job) bytes at a 64-byte
  // boundary. May throw std::bad_alloc. Nothing after it can, so that a rank without memory can say so before
  // the ranks agree.
  void prepare(const Job& job, std::byte* scratch) {
    job_ = &job;
    layout_.emplace(layout_of(job));
    slot_bytes_ = slot_bytes_of(job, *layout_);
    failure_ = {};
    backend_failed_ = false;
    has_frames_ = job.backend->has_frames();
    is_asynchronous_ = job.backend->is_asynchronous();
    const auto slots = static_cast<std::size_t>(job.plan->slots);
    n_lanes_ = lanes_of(job, *layout_);
    if (lanes_.size() < n_lanes_) lanes_.resize(n_lanes_);
    batch_.reserve(n_lanes_);
    most_at_once_ = is_asynchronous_ ? n_lanes_ : static_cast<std::size_t>(job.threads);
    const std::size_t stride = lane_bytes(job, *layout_);
    job.backend->prepare(job, *layout_, n_lanes_, scratch + host_frames(job) * slot_bytes_, stride);
    for (std::size_t i = 0; i < n_lanes_; ++i) {
      Lane& lane = lanes_[i];
      lane.steps = &job.backend->lane(i);
      lane.frames = has_frames_ ? lane.steps->frames() : scratch + i * stride;
      lane.index = static_cast<int>(i);
      lane.slots.assign(slots, Slot{});
      lane.sends.resize(static_cast<std::size_t>(job.facts->first_send.back()));
    }
  }

  // Posts the first receives.
  Status start(C& comm) {
    active_ = n_lanes_;
    for (std::size_t i = 0; i < n_lanes_; ++i) MQ_TRY(start_segment(comm, lanes_[i], i));
    return {};
  }

  // Does all that can be done now. A returned error means that the communication failed. Then advance() must
  // not be called again.
  Status advance(C& comm, Tally& tally, bool& moved) {
    for (;;) {
      batch_.clear();
      for (Lane& lane : lanes_) {
        if (!lane.active || batch_.size() >= most_at_once_) continue;
        bool codec_step = false;
        MQ_TRY(communicate(comm, lane, tally, moved, codec_step));
        if (codec_step) batch_.push_back(&lane);
      }
      if (batch_.empty()) return {};
      run_batch(tally);
      moved = true;
    }
  }

  // True once the output is complete, or worthless: see failure(). If the backend may outlast the job, the
  // last decodes may still run.
  bool done() const { return active_ == 0; }
  // Gives up the result. The schedule goes on, and the other ranks learn of it.
  void give_up(Status why) {
    if (failure_.ok()) failure_ = std::move(why);
  }
  // Why there is no result. After an error output and residual are unspecified.
  const Status& failure() const { return failure_; }

 private:
  struct Slot {
    bool receiving = false;
    typename C::Request receive{};
    int sends = 0;  // number of sends under way
    std::size_t bytes = 0;
    bool is_header = false;  // a header only, written by the processor: see header_place()
  };
  struct Lane {
    std::byte* frames = nullptr;
    Steps* steps = nullptr;
    int index = 0;
    bool active = false;
    std::size_t segment = 0;
    std::size_t at = 0;  // number of the next step
    std::vector<Slot> slots;
    std::vector<typename C::Request> sends;  // numbered as in PlanFacts::first_send
    bool running = false;                    // true: the last step to begin was launched
    StepResult result;                       // its result, if it was not launched
  };

  static std::size_t host_frames(const Job& job) {  // frames in host memory of one segment in flight
    return job.backend->has_frames() ? 0 : static_cast<std::size_t>(job.plan->slots);
  }
  static std::size_t lane_bytes(const Job& job, const Layout& layout) {
    return host_frames(job) * slot_bytes_of(job, layout) + job.backend->lane_bytes(job, layout);
  }

  // Lane i runs segments i, i + lanes, ... on every rank, whichever finishes first. So two messages between
  // the same two ranks that are under way at once differ in lane or round. The next segment of a lane uses
  // the same tags, in order.
  int tag(const Lane& lane, const Step& step) const {
    return job_->first_tag + lane.index * job_->plan->rounds + step.round;
  }
  std::span<std::byte> frame(const Lane& lane, int slot) const {
    return {lane.frames + static_cast<std::size_t>(slot) * slot_bytes_, slot_bytes_};
  }
  // Where the processor writes the header of a slot.
  std::byte* header_place(const Lane& lane, int slot) const {
    return has_frames_ ? lane.steps->header(slot) : frame(lane, slot).data();
  }
  std::span<const std::byte> to_send(const Lane& lane, int index) const {
    const Slot& slot = lane.slots[static_cast<std::size_t>(index)];
    return {slot.is_header ? header_place(lane, index) : frame(lane, index).data(), slot.bytes};
  }
  Slot& slot_of(Lane& lane, int slot) const { return lane.slots[static_cast<std::size_t>(slot)]; }
  const Step& step_of(const Lane& lane) const { return job_->plan->steps[lane.at]; }

  Status start_segment(C& comm, Lane& lane, std::size_t segment) {
    lane.segment = segment;
    lane.active = true;
    lane.at = 0;
    lane.steps->start_segment(segment);
    for (std::size_t i = 0; i < job_->facts->early.size(); ++i)
      if (job_->facts->early[i]) MQ_TRY(post_receive(comm, lane, job_->plan->steps[i]));
    return {};
  }

  Status post_receive(C& comm, Lane& lane, const Step& step) {
    Slot& slot = slot_of(lane, step.recv_slot);
    slot.receiving = true;
    return comm.receive(step.from, tag(lane, step), frame(lane, step.recv_slot), slot.receive);
  }

  // Runs the exchanges of a lane until it must wait, until its next step is an encode or decode, or until no
  // segment is left.
  Status communicate(C& comm, Lane& lane, Tally& tally, bool& moved, bool& codec_step) {
    while (lane.active) {
      bool ready = false;
      end_launched(lane, tally, moved);
      if (lane.at == job_->plan->steps.size()) {
        MQ_TRY(drained(comm, lane, ready));
        if (!ready) return {};
        moved = true;
        const std::size_t next = lane.segment + n_lanes_;
        lane.active = next < layout_->segments();
        if (lane.active) MQ_TRY(start_segment(comm, lane, next));
        active_ -= !lane.active;
        continue;
      }
      const Step& step = step_of(lane);
      MQ_TRY(runnable(comm, lane, step, tally, ready));
      if (!ready) return {};
      codec_step = step.op != Op::exchange;
      if (codec_step) return {};
      MQ_TRY(exchange(comm, lane, step, tally));
      ++lane.at;
      moved = true;
    }
    return {};
  }

  // A slot may be read once its message has arrived. It may be written once it is neither received nor sent.
  Status runnable(C& comm, Lane& lane, const Step& step, Tally& tally, bool& ready) {
    ready = !is_asynchronous_ || !lane.steps->holds_up(step);
    if (!ready) return {};
    if (step.op == Op::exchange) {
      if (step.to != kNobody) MQ_TRY(arrived(comm, lane, step.slot, tally, ready));
      if (ready && step.from != kNobody && !job_->facts->early[lane.at])
        MQ_TRY(sent(comm, lane, step.recv_slot, ready));
    } else {
      MQ_TRY(arrived(comm, lane, step.slot, tally, ready));
      if (ready && step.op == Op::encode) MQ_TRY(sent(comm, lane, step.slot, ready));
    }
    return {};
  }

  Status arrived(C& comm, Lane& lane, int index, Tally& tally, bool& ready) {
    Slot& slot = slot_of(lane, index);
    if (!slot.receiving) return {};
    MQ_TRY(comm.test(slot.receive, ready, slot.bytes));
    if (!ready) return {};
    slot.receiving = false;
    slot.is_header = false;
    tally.received_bytes += slot.bytes;
    return {};
  }

  Status sent(C& comm, Lane& lane, int index, bool& ready) {
    Slot& slot = slot_of(lane, index);
    ready = true;
    while (slot.sends > 0) {
      std::size_t ignored = 0;
      MQ_TRY(comm.test(send_request(lane, index, slot.sends - 1), ready, ignored));
      if (!ready) return {};
      --slot.sends;
    }
    return {};
  }

  typename C::Request& send_request(Lane& lane, int slot, int number) const {
    const int first = job_->facts->first_send[static_cast<std::size_t>(slot)];
    return lane.sends[static_cast<std::size_t>(first + number)];
  }

  Status drained(C& comm, Lane& lane, bool& ready) {
    ready = !is_asynchronous_ || !lane.steps->is_busy() || may_end_without(lane);
    for (int slot = 0; slot < job_->plan->slots && ready; ++slot) MQ_TRY(sent(comm, lane, slot, ready));
    return {};
  }

  Status exchange(C& comm, Lane& lane, const Step& step, Tally& tally) {
    if (step.from != kNobody && !job_->facts->early[lane.at]) MQ_TRY(post_receive(comm, lane, step));
    if (step.to == kNobody) return {};
    Slot& slot = slot_of(lane, step.slot);
    if (slot.bytes > slot_bytes_) {  // a frame to pass on was too long to receive
      if (failure_.ok()) failure_ = frame_too_long(place(lane, step), slot_bytes_);
      write_header(lane, step, Code::bad_frame, 0);
    } else if (has_frames_ && backend_failed_ && !slot.is_header) {
      write_header(lane, step, Code::device_failed, 0);
    }
    tally.sent_bytes += slot.bytes;
    ++tally.messages_sent;
    return comm.send(step.to, tag(lane, step), to_send(lane, step.slot),
                     send_request(lane, step.slot, slot.sends++));
  }

  void run_batch(Tally& tally) {
    const int n = static_cast<int>(batch_.size());
#ifdef _OPENMP
#  pragma omp parallel for num_threads(n) schedule(static, 1) if (n > 1 && !is_asynchronous_)
#endif
    for (int i = 0; i < n; ++i) begin(*batch_[static_cast<std::size_t>(i)]);
    for (Lane* lane : batch_) {  // in a fixed order
      if (!lane->running) end(*lane, step_of(*lane), lane->result, tally);
      ++lane->at;
    }
  }

  // Begins the next step of the lane. With a backend that is not asynchronous the step is then over.
  void begin(Lane& lane) const noexcept {
    const Step& step = step_of(lane);
    lane.running = false;
    lane.result = {};
    if (!failure_.ok()) return;
    const std::span<std::byte> in = frame(lane, step.slot);
    const std::size_t bytes = slot_of(lane, step.slot).bytes;
    if (step.op != Op::encode) lane.result.status = check_frame(lane, step);
    if (!lane.result.status.ok()) return;
    lane.running = step.op == Op::encode
                       ? lane.steps->encode(step, header_of(place(lane, step)),
                                            in.data() + sizeof(FrameHeader), lane.result)
                       : lane.steps->decode(step, job_->facts->final[lane.at], is_header_there(lane, step),
                                            in.first(bytes).subspan(sizeof(FrameHeader)), lane.result);
  }

  // True if the frame is in the backend's memory. Its header can be checked only after the backend has copied
  // it.
  bool is_header_there(const Lane& lane, const Step& step) const {
    return has_frames_ && !lane.slots[static_cast<std::size_t>(step.slot)].is_header;
  }

  Status check_frame(const Lane& lane, const Step& step) const noexcept {
    const std::size_t bytes = lane.slots[static_cast<std::size_t>(step.slot)].bytes;
    MQ_TRY(check_length(place(lane, step), slot_bytes_, bytes));
    if (is_header_there(lane, step)) return {};
    return check_header(place(lane, step), header_place(lane, step.slot), bytes);
  }

  // Handles the result of a step that is over.
  void end(Lane& lane, const Step& step, StepResult& result, Tally& tally) {
    (step.op == Op::encode ? tally.encode_s : tally.decode_s) += result.seconds;
    tally.nonfinite += result.encoded.nonfinite;
    if (result.status.ok() && result.decoded == kernels::Decoded::malformed)
      result.status = bad_frame(place(lane, step), [&] {
        return "the payload is not what " + std::string(codec_of(*job_, step).name) + " writes";
      });
    backend_failed_ = backend_failed_ || result.status.code() == Code::device_failed;
    if (failure_.ok() && !result.status.ok()) failure_ = std::move(result.status);
    if (step.op == Op::encode)
      write_header(lane, step, failure_.code(), failure_.ok() ? result.encoded.bytes : 0);
  }

  // Handles the launched steps of a lane that are over.
  void end_launched(Lane& lane, Tally& tally, bool& moved) {
    if (!is_asynchronous_) return;
    StepResult result;
    while (const Step* const step = lane.steps->over(result)) {
      moved = true;
      if (is_header_there(lane, *step) && step->op != Op::encode && result.status.ok())
        result.status =
            check_header(place(lane, *step), lane.steps->received(*step), slot_of(lane, step->slot).bytes);
      end(lane, *step, result, tally);
    }
  }

  // True if only the last decodes are left, and the backend may run them after the end of the job.
  bool may_end_without(const Lane& lane) const {
    return job_->backend->may_outlast() && failure_.ok() && lane.segment + n_lanes_ >= layout_->segments() &&
           !lane.steps->is_encoding();
  }

  FramePlace place(const Lane& lane, const Step& step) const {
    return {job_->call, lane.segment, step.chunk};
  }

  // A header with an error code is a poison frame.
  void write_header(Lane& lane, const Step& step, Code error, std::size_t payload_bytes) const {
    FrameHeader header = header_of(place(lane, step));
    header.error_code = static_cast<std::uint16_t>(error);
    header.payload_bytes = payload_bytes;
    std::memcpy(header_place(lane, step.slot), &header, sizeof header);
    Slot& slot = slot_of(lane, step.slot);
    slot.bytes = sizeof header + payload_bytes;
    slot.is_header = payload_bytes == 0;
  }

  const Job* job_ = nullptr;
  std::optional<Layout> layout_;
  std::size_t slot_bytes_ = 0, n_lanes_ = 0, active_ = 0, most_at_once_ = 1;
  std::vector<Lane> lanes_;  // the first n_lanes_ are in use
  std::vector<Lane*> batch_;
  bool has_frames_ = false, is_asynchronous_ = false, backend_failed_ = false;
  Status failure_;  // the first one; from then on results are worthless, but the schedule goes on
};

}  // namespace mq
