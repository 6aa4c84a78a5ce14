// Runs a plan: the only code that turns steps into codec calls and messages. Any codec, any plan, any Comm.
//
// Segments run through the plan independently, up to job.lanes of them at a time, each in a lane with slots
// of its own. A lane goes on until the next step needs a slot whose message is still under way; then the next
// lane gets its turn. So encoding, the wire and decoding overlap without a second thread, and results do not
// depend on what arrives first: within a segment the plan fixes the order of all additions, and segments
// share no element. Receives whose slot is free from the start are posted before anything else. Nothing here
// blocks: advance() does what can be done and returns, so that a call can be left and taken up again.
//
// With job.threads > 1 the codec steps of different lanes run side by side (OpenMP); messages stay with the
// calling thread, and the bytes are the same.
//
// Requires that the ranks have agreed (agree.hpp): all hold the same signature, hence the same layout and the
// same messages. A frame that cannot be used does not end the schedule: the rank goes on with poison frames,
// so that nobody waits for ever and everyone who depends on it returns an error too.
#pragma once

#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi_quant/base/comm.hpp"
#include "mpi_quant/chunks.hpp"
#include "mpi_quant/frame.hpp"
#include "mpi_quant/layout.hpp"
#include "mpi_quant/plan.hpp"

namespace mq {

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Can be used for one job after the other; allocates only what a larger job than all before needs. Must stay
// where it is while a job is under way, and for ever after an error of the communication.
template <Comm C>
class Execution {
 public:
  // Bytes of scratch that a job needs.
  static std::size_t scratch_bytes(const Job& job) {
    const Layout layout = layout_of(job);
    return lanes_of(job, layout) * lane_bytes(job, layout);
  }

  // Bytes of the longest message of a job, header included.
  static std::size_t frame_bytes(const Job& job) { return slot_bytes(job, layout_of(job)); }

  // job and scratch outlive the job's execution; scratch has scratch_bytes(job) at a 64-byte boundary. May
  // throw std::bad_alloc; nothing can after it, so that a rank short of memory can say so before the ranks
  // agree.
  void prepare(const Job& job, std::byte* scratch) {
    job_ = &job;
    layout_.emplace(layout_of(job));
    slot_bytes_ = slot_bytes(job, *layout_);
    failure_ = {};
    const auto slots = static_cast<std::size_t>(job.plan->slots);
    n_lanes_ = lanes_of(job, *layout_);
    if (lanes_.size() < n_lanes_) lanes_.resize(n_lanes_);
    batch_.reserve(n_lanes_);
    for (std::size_t i = 0; i < n_lanes_; ++i) {
      Lane& lane = lanes_[i];
      lane.frames = scratch + i * lane_bytes(job, *layout_);
      lane.chunks.prepare(job, *layout_, lane.frames + slots * slot_bytes_);
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

  // Does whatever can be done now. An error is one of the communication; then nothing must be advanced again.
  Status advance(C& comm, Tally& tally, bool& moved) {
    for (;;) {
      batch_.clear();
      for (Lane& lane : lanes_) {
        if (!lane.active || batch_.size() >= static_cast<std::size_t>(job_->threads)) continue;
        bool codec_step = false;
        MQ_TRY(communicate(comm, lane, tally, moved, codec_step));
        if (codec_step) batch_.push_back(&lane);
      }
      if (batch_.empty()) return {};
      run_batch(tally);
      moved = true;
    }
  }

  // Once the output is complete, or worthless: see failure().
  bool done() const { return active_ == 0; }
  // Of the result: on an error output and residual are unspecified.
  const Status& failure() const { return failure_; }

 private:
  struct Slot {
    bool receiving = false;
    typename C::Request receive{};
    int sends = 0;  // under way
    std::size_t bytes = 0;
  };
  struct Lane {
    std::byte* frames = nullptr;
    Chunks chunks;
    int index = 0;
    bool active = false;
    std::size_t segment = 0;
    std::size_t at = 0;  // next step
    std::vector<Slot> slots;
    std::vector<typename C::Request> sends;  // by plan's numbers
    Tally codec;                             // of the step that just ran
    Status failure;
  };

  static Layout layout_of(const Job& job) {
    return Layout(job.count, job.plan->chunks, job.codec->block(job.params),
                  kernels::element_bytes(kernels::compute_element(job.element)),
                  job.codec->whole(job.params));
  }
  static std::size_t lanes_of(const Job& job, const Layout& layout) {
    return std::min(static_cast<std::size_t>(job.lanes), layout.segments());
  }
  static std::size_t slot_bytes(const Job& job, const Layout& layout) {
    const std::size_t bound = wire_bound(job, layout.max_chunk());
    return (sizeof(FrameHeader) + bound + 63) / 64 * 64;
  }
  static std::size_t lane_bytes(const Job& job, const Layout& layout) {
    return static_cast<std::size_t>(job.plan->slots) * slot_bytes(job, layout) +
           Chunks::scratch_bytes(job, layout);
  }

  // Lane i runs segments i, i + lanes, ... on every rank, whichever finishes first. So two messages between
  // the same two ranks that can be under way together differ in lane or round, and a lane's next segment
  // reuses its tags in order.
  int tag(const Lane& lane, const Step& step) const {
    return job_->first_tag + lane.index * job_->plan->rounds + step.round;
  }
  std::span<std::byte> frame(const Lane& lane, int slot) const {
    return {lane.frames + static_cast<std::size_t>(slot) * slot_bytes_, slot_bytes_};
  }
  Slot& slot_of(Lane& lane, int slot) const { return lane.slots[static_cast<std::size_t>(slot)]; }
  const Step& step_of(const Lane& lane) const { return job_->plan->steps[lane.at]; }

  Status start_segment(C& comm, Lane& lane, std::size_t segment) {
    lane.segment = segment;
    lane.active = true;
    lane.at = 0;
    lane.chunks.start_segment(segment);
    for (std::size_t i = 0; i < job_->facts->early.size(); ++i)
      if (job_->facts->early[i]) MQ_TRY(post_receive(comm, lane, job_->plan->steps[i]));
    return {};
  }

  Status post_receive(C& comm, Lane& lane, const Step& step) {
    Slot& slot = slot_of(lane, step.recv_slot);
    slot.receiving = true;
    return comm.receive(step.from, tag(lane, step), frame(lane, step.recv_slot), slot.receive);
  }

  // Runs the lane's exchanges until it must wait, has to encode or decode next, or its segments are used up.
  Status communicate(C& comm, Lane& lane, Tally& tally, bool& moved, bool& codec_step) {
    while (lane.active) {
      bool ready = false;
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

  // A slot may be read once its message is here, and written once it is neither being received nor sent.
  Status runnable(C& comm, Lane& lane, const Step& step, Tally& tally, bool& ready) {
    ready = true;
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
    ready = true;
    for (int slot = 0; slot < job_->plan->slots && ready; ++slot) MQ_TRY(sent(comm, lane, slot, ready));
    return {};
  }

  Status exchange(C& comm, Lane& lane, const Step& step, Tally& tally) {
    if (step.from != kNobody && !job_->facts->early[lane.at]) MQ_TRY(post_receive(comm, lane, step));
    if (step.to == kNobody) return {};
    Slot& slot = slot_of(lane, step.slot);
    if (slot.bytes > slot_bytes_) {  // to be forwarded, but it was too long to receive
      if (failure_.ok()) failure_ = too_long(lane, step);
      write_header(lane, step, Code::bad_frame, 0);
    }
    tally.sent_bytes += slot.bytes;
    ++tally.messages_sent;
    return comm.send(step.to, tag(lane, step), frame(lane, step.slot).first(slot.bytes),
                     send_request(lane, step.slot, slot.sends++));
  }

  void run_batch(Tally& tally) {
    const int n = static_cast<int>(batch_.size());
#ifdef _OPENMP
#  pragma omp parallel for num_threads(n) schedule(static, 1) if (n > 1)
#endif
    for (int i = 0; i < n; ++i) run_step(*batch_[static_cast<std::size_t>(i)]);
    for (Lane* lane : batch_) {  // in a fixed order
      tally.encode_s += lane->codec.encode_s;
      tally.decode_s += lane->codec.decode_s;
      tally.nonfinite += lane->codec.nonfinite;
      lane->codec = {};
      if (failure_.ok() && !lane->failure.ok()) failure_ = std::move(lane->failure);
      lane->failure = {};
      ++lane->at;
    }
  }

  void run_step(Lane& lane) const noexcept {
    const Step& step = step_of(lane);
    if (step.op == Op::encode)
      encode(lane, step);
    else if (failure_.ok())
      decode(lane, step);
  }

  void encode(Lane& lane, const Step& step) const {
    if (!failure_.ok()) return write_header(lane, step, failure_.code(), 0);
    const double start = now_s();
    const kernels::Encoded encoded =
        lane.chunks.encode(step, frame(lane, step.slot).data() + sizeof(FrameHeader));
    lane.codec.encode_s = now_s() - start;
    lane.codec.nonfinite = encoded.nonfinite;
    write_header(lane, step, Code::ok, encoded.bytes);
  }

  // A header with a trouble is a poison frame.
  void write_header(Lane& lane, const Step& step, Code trouble, std::size_t payload_bytes) const {
    FrameHeader header;
    header.trouble = static_cast<std::uint16_t>(trouble);
    header.call = job_->call;
    header.segment = static_cast<std::uint32_t>(lane.segment);
    header.chunk = static_cast<std::uint32_t>(step.chunk);
    header.payload_bytes = payload_bytes;
    std::memcpy(frame(lane, step.slot).data(), &header, sizeof header);
    slot_of(lane, step.slot).bytes = sizeof header + payload_bytes;
  }

  void decode(Lane& lane, const Step& step) const {
    const std::size_t bytes = slot_of(lane, step.slot).bytes;
    const std::span<const std::byte> in = frame(lane, step.slot);
    lane.failure = check(lane, step, in, bytes);
    if (!lane.failure.ok()) return;
    const double start = now_s();
    const kernels::Decoded decoded =
        lane.chunks.decode(step, job_->facts->final[lane.at], in.first(bytes).subspan(sizeof(FrameHeader)));
    lane.codec.decode_s = now_s() - start;
    if (decoded == kernels::Decoded::malformed)
      lane.failure = bad_frame(lane, step, [&] {
        return "the payload is not what " + std::string(codec_of(*job_, step).name) + " writes";
      });
  }

  template <class Text>
  static Status bad_frame(const Lane& lane, const Step& step, const Text& text) noexcept {
    return status_of(Code::bad_frame, [&] {
      return "segment " + std::to_string(lane.segment) + ", chunk " + std::to_string(step.chunk) + ": " +
             text();
    });
  }

  Status too_long(const Lane& lane, const Step& step) const noexcept {
    return bad_frame(lane, step, [&] {
      return "a frame is longer than the bound of " + std::to_string(slot_bytes_) + " bytes";
    });
  }

  Status check(const Lane& lane, const Step& step, std::span<const std::byte> in,
               std::size_t bytes) const noexcept {
    FrameHeader h;
    if (bytes < sizeof h)
      return bad_frame(lane, step,
                       [&] { return "a frame of " + std::to_string(bytes) + " bytes has no header"; });
    if (bytes > in.size()) return too_long(lane, step);
    std::memcpy(&h, in.data(), sizeof h);
    if (h.magic != kFrameMagic || h.version != kWireVersion)
      return bad_frame(lane, step, [&] {
        return "a message is not an mpi_quant frame of version " + std::to_string(kWireVersion);
      });
    if (h.trouble != 0)
      return status_of(Code::peer_failed,
                       [&] { return "a peer gave up (code " + std::to_string(h.trouble) + ")"; });
    if (h.call != job_->call || h.segment != static_cast<std::uint32_t>(lane.segment) ||
        h.chunk != static_cast<std::uint32_t>(step.chunk))
      return bad_frame(lane, step, [&] {
        return "a frame of another call, or for segment " + std::to_string(h.segment) + ", chunk " +
               std::to_string(h.chunk);
      });
    if (h.payload_bytes != bytes - sizeof h)
      return bad_frame(lane, step, [&] {
        return "the header promises " + std::to_string(h.payload_bytes) + " bytes, " +
               std::to_string(bytes - sizeof h) + " came";
      });
    return {};
  }

  const Job* job_ = nullptr;
  std::optional<Layout> layout_;
  std::size_t slot_bytes_ = 0, n_lanes_ = 0, active_ = 0;
  std::vector<Lane> lanes_;  // n_lanes_ of them in use
  std::vector<Lane*> batch_;
  Status failure_;  // the first; results are worthless from here on, the schedule goes on
};

}  // namespace mq
