// Runs a plan: the only code that turns steps into codec calls and messages. Any codec, any plan, any Comm.
//
// Segments run through the plan independently, up to kLanes of them at a time, each in a lane with slots of
// its own. A lane runs until the next step needs a slot whose message is still under way; then the next lane
// gets its turn. So encoding, the wire and decoding overlap without a second thread, and results do not
// depend on what arrives first: within a segment the plan fixes the order of all additions, and segments
// share no element. Receives whose slot is free from the start are posted before anything else.
//
// Requires that agree() has succeeded: all ranks hold the same signature, hence the same layout and the same
// messages. A frame that cannot be used does not end the schedule: the rank goes on with poison frames, so
// that nobody waits for ever and everyone who depends on it returns an error too.
#pragma once

#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "kernels/codec.hpp"
#include "mpi_quant/base/comm.hpp"
#include "mpi_quant/frame.hpp"
#include "mpi_quant/layout.hpp"
#include "mpi_quant/plan.hpp"

namespace mq {

// One reduction, described. input and output hold count elements and may be the same array, but not overlap
// otherwise.
struct Job {
  const Plan* plan = nullptr;
  const kernels::Codec* codec = nullptr;
  const kernels::CodecOps* ops = nullptr;
  kernels::Params params;
  kernels::Element element = kernels::Element::f32;
  std::size_t count = 0;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* residual = nullptr;  // null: no feedback
  std::uint64_t call = 0;         // hash of the signature
};

// What one execution did on this rank.
struct Tally {
  std::uint64_t sent_bytes = 0, received_bytes = 0, messages_sent = 0, nonfinite = 0;
  double encode_s = 0, decode_s = 0, wait_s = 0;
};

template <Comm C>
class Execution {
 public:
  static constexpr std::size_t kLanes = 4;  // enough to cover one message time by three others' codec time

  // Bytes of scratch that run() needs.
  static std::size_t scratch_bytes(const Job& job) {
    const Layout layout = layout_of(job);
    return std::min(kLanes, layout.segments()) * static_cast<std::size_t>(job.plan->slots) *
           slot_bytes(job, layout);
  }

  // comm, job and scratch outlive the execution; scratch has scratch_bytes(job) at a 64-byte boundary.
  // Allocates all that run() will need, so that a rank short of memory can say so in agree(); may throw
  // std::bad_alloc.
  Execution(C& comm, const Job& job, std::byte* scratch)
      : comm_(comm),
        job_(job),
        layout_(layout_of(job)),
        element_bytes_(kernels::element_bytes(job.element)),
        slot_bytes_(slot_bytes(job, layout_)),
        early_(early_receives(*job.plan)),
        lanes_(std::min(kLanes, layout_.segments())) {
    const auto slots = static_cast<std::size_t>(job.plan->slots);
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      lanes_[i].scratch = scratch + i * slots * slot_bytes_;
      lanes_[i].index = static_cast<int>(i);
      lanes_[i].slots.resize(slots);
      lanes_[i].written.resize(static_cast<std::size_t>(job.plan->chunks));
      for (const Step& step : job.plan->steps)
        if (step.op == Op::exchange && step.to != kNobody) {
          Slot& slot = lanes_[i].slots[static_cast<std::size_t>(step.slot)];
          slot.sends.reserve(slot.sends.capacity() + 1);
        }
    }
  }

  // Blocks until the output is complete. On an error the output and the residual are unspecified.
  Status run(Tally& tally) {
    for (std::size_t i = 0; i < lanes_.size(); ++i) MQ_TRY(start_segment(lanes_[i], i));
    double stalled_since = -1;
    for (std::size_t active = lanes_.size(); active > 0;) {
      const double codec_s = tally.encode_s + tally.decode_s;
      bool moved = false;
      active = 0;
      for (Lane& lane : lanes_) {
        MQ_TRY(advance(lane, tally, moved));
        active += lane.active;
      }
      if (moved) {
        comm_.busy();
        if (stalled_since >= 0)
          tally.wait_s += now_s() - stalled_since - (tally.encode_s + tally.decode_s - codec_s);
        stalled_since = -1;
      } else {
        comm_.idle();
        if (stalled_since < 0) stalled_since = now_s();
      }
    }
    return failure_;
  }

 private:
  struct Slot {
    bool receiving = false;
    typename C::Request receive{};
    std::vector<typename C::Request> sends;  // under way
    std::size_t received_bytes = 0;
  };
  struct Lane {
    std::byte* scratch = nullptr;
    int index = 0;
    bool active = false;
    std::size_t segment = 0;
    std::size_t at = 0;  // next step
    std::vector<Slot> slots;
    std::vector<char> written;  // per chunk: the output holds it
  };

  static double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  static Layout layout_of(const Job& job) {
    return Layout(job.count, job.plan->chunks, job.codec->block(job.params),
                  kernels::element_bytes(job.element));
  }
  static std::size_t slot_bytes(const Job& job, const Layout& layout) {
    const std::size_t bound = job.codec->wire_bound(layout.max_chunk(), job.element, job.params);
    return (sizeof(FrameHeader) + bound + 63) / 64 * 64;
  }
  // For each step: an exchange whose receive slot no earlier step uses.
  static std::vector<char> early_receives(const Plan& plan) {
    std::vector<char> used(static_cast<std::size_t>(plan.slots)), early;
    for (const Step& s : plan.steps) {
      const bool receives = s.op == Op::exchange && s.from != kNobody;
      early.push_back(receives && !used[static_cast<std::size_t>(s.recv_slot)]);
      used[static_cast<std::size_t>(receives ? s.recv_slot : s.slot)] = 1;
      if (s.op != Op::exchange || s.to != kNobody) used[static_cast<std::size_t>(s.slot)] = 1;
    }
    return early;
  }

  // Lane i runs segments i, i + kLanes, ... on every rank, whichever finishes first. So two messages between
  // the same two ranks that can be under way together differ in lane or round, and a lane's next segment
  // reuses its tags in order.
  int tag(const Lane& lane, const Step& step) const { return lane.index * job_.plan->rounds + step.round; }
  std::span<std::byte> frame(const Lane& lane, int slot) const {
    return {lane.scratch + static_cast<std::size_t>(slot) * slot_bytes_, slot_bytes_};
  }

  Status start_segment(Lane& lane, std::size_t segment) {
    lane.segment = segment;
    lane.active = true;
    lane.at = 0;
    std::fill(lane.written.begin(), lane.written.end(), char{0});
    for (std::size_t i = 0; i < early_.size(); ++i)
      if (early_[i]) MQ_TRY(post_receive(lane, job_.plan->steps[i]));
    return {};
  }

  Status post_receive(Lane& lane, const Step& step) {
    Slot& slot = lane.slots[static_cast<std::size_t>(step.recv_slot)];
    slot.receiving = true;
    return comm_.receive(step.from, tag(lane, step), frame(lane, step.recv_slot), slot.receive);
  }

  // Runs the lane until it must wait, or its segments are used up.
  Status advance(Lane& lane, Tally& tally, bool& moved) {
    while (lane.active) {
      bool ready = false;
      if (lane.at == job_.plan->steps.size()) {
        MQ_TRY(drained(lane, ready));
        if (!ready) return {};
        moved = true;
        const std::size_t next = lane.segment + lanes_.size();
        lane.active = next < layout_.segments();
        if (lane.active) MQ_TRY(start_segment(lane, next));
        continue;
      }
      const Step& step = job_.plan->steps[lane.at];
      MQ_TRY(runnable(lane, step, tally, ready));
      if (!ready) return {};
      MQ_TRY(run_step(lane, step, tally));
      ++lane.at;
      moved = true;
    }
    return {};
  }

  // A slot may be read once its message is here, and written once it is neither being received nor sent.
  Status runnable(Lane& lane, const Step& step, Tally& tally, bool& ready) {
    ready = true;
    if (step.op == Op::exchange) {
      if (step.to != kNobody) MQ_TRY(arrived(lane, step.slot, tally, ready));
      if (ready && step.from != kNobody && !early_[lane.at])
        MQ_TRY(sent(lane.slots[static_cast<std::size_t>(step.recv_slot)], ready));
    } else {
      MQ_TRY(arrived(lane, step.slot, tally, ready));
      if (ready && step.op == Op::encode)
        MQ_TRY(sent(lane.slots[static_cast<std::size_t>(step.slot)], ready));
    }
    return {};
  }

  Status arrived(Lane& lane, int index, Tally& tally, bool& ready) {
    Slot& slot = lane.slots[static_cast<std::size_t>(index)];
    if (!slot.receiving) return {};
    MQ_TRY(comm_.test(slot.receive, ready, slot.received_bytes));
    if (!ready) return {};
    slot.receiving = false;
    tally.received_bytes += slot.received_bytes;
    return {};
  }

  Status sent(Slot& slot, bool& ready) {
    while (!slot.sends.empty()) {
      std::size_t ignored = 0;
      MQ_TRY(comm_.test(slot.sends.back(), ready, ignored));
      if (!ready) return {};
      slot.sends.pop_back();
    }
    ready = true;
    return {};
  }

  Status drained(Lane& lane, bool& ready) {
    ready = true;
    for (Slot& slot : lane.slots) {
      MQ_TRY(sent(slot, ready));
      if (!ready) return {};
    }
    return {};
  }

  Status run_step(Lane& lane, const Step& step, Tally& tally) {
    switch (step.op) {
      case Op::encode: encode(lane, step, tally); return {};
      case Op::exchange: return exchange(lane, step, tally);
      case Op::decode:
      case Op::decode_add: decode(lane, step, tally); return {};
    }
    return {};
  }

  void encode(Lane& lane, const Step& step, Tally& tally) {
    const std::span<std::byte> out = frame(lane, step.slot);
    FrameHeader header;
    header.trouble = static_cast<std::uint16_t>(failure_.code());
    header.call = job_.call;
    header.segment = static_cast<std::uint32_t>(lane.segment);
    header.chunk = static_cast<std::uint32_t>(step.chunk);
    if (failure_.ok()) {
      const Range range = layout_.chunk(lane.segment, static_cast<std::size_t>(step.chunk));
      const std::size_t offset = range.begin * element_bytes_;
      kernels::EncodeArgs args;
      args.x = (lane.written[static_cast<std::size_t>(step.chunk)] ? job_.output : job_.input) + offset;
      args.residual = job_.residual ? job_.residual + offset : nullptr;
      args.feedback = job_.residual ? feedback_of(step) : kernels::Feedback::none;
      args.n = range.n;
      args.params = job_.params;
      args.wire = out.data() + sizeof header;
      const double start = now_s();
      const kernels::Encoded encoded = job_.ops->encode(args);
      tally.encode_s += now_s() - start;
      tally.nonfinite += encoded.nonfinite;
      header.payload_bytes = encoded.bytes;
    }
    std::memcpy(out.data(), &header, sizeof header);
    lane.slots[static_cast<std::size_t>(step.slot)].received_bytes = sizeof header + header.payload_bytes;
  }

  static kernels::Feedback feedback_of(const Step& step) {
    switch (step.feedback) {
      case StepFeedback::none: return kernels::Feedback::none;
      case StepFeedback::carry: return kernels::Feedback::carry;
      case StepFeedback::deposit: return kernels::Feedback::deposit;
    }
    return kernels::Feedback::none;
  }

  Status exchange(Lane& lane, const Step& step, Tally& tally) {
    if (step.from != kNobody && !early_[lane.at]) MQ_TRY(post_receive(lane, step));
    if (step.to == kNobody) return {};
    Slot& slot = lane.slots[static_cast<std::size_t>(step.slot)];
    if (slot.received_bytes > slot_bytes_) {  // to be forwarded, but it was too long to receive
      if (failure_.ok()) failure_ = too_long(place(lane, step));
      poison(lane, step.slot, Code::bad_frame);
    }
    const std::size_t bytes = slot.received_bytes;
    tally.sent_bytes += bytes;
    ++tally.messages_sent;
    slot.sends.emplace_back();
    return comm_.send(step.to, tag(lane, step), frame(lane, step.slot).first(bytes), slot.sends.back());
  }

  void poison(Lane& lane, int slot, Code code) {
    FrameHeader header;
    header.trouble = static_cast<std::uint16_t>(code);
    header.call = job_.call;
    header.segment = static_cast<std::uint32_t>(lane.segment);
    std::memcpy(frame(lane, slot).data(), &header, sizeof header);
    lane.slots[static_cast<std::size_t>(slot)].received_bytes = sizeof header;
  }

  void decode(Lane& lane, const Step& step, Tally& tally) {
    if (!failure_.ok()) return;
    const std::span<const std::byte> in = frame(lane, step.slot);
    const std::size_t bytes = lane.slots[static_cast<std::size_t>(step.slot)].received_bytes;
    failure_ = check(lane, step, in, bytes);
    if (!failure_.ok()) return;
    const Range range = layout_.chunk(lane.segment, static_cast<std::size_t>(step.chunk));
    const std::size_t offset = range.begin * element_bytes_;
    char& written = lane.written[static_cast<std::size_t>(step.chunk)];
    kernels::DecodeArgs args;
    args.wire = in.data() + sizeof(FrameHeader);
    args.wire_bytes = bytes - sizeof(FrameHeader);
    args.n = range.n;
    args.params = job_.params;
    if (step.op == Op::decode_add) args.base = (written ? job_.output : job_.input) + offset;
    args.x = job_.output + offset;
    const double start = now_s();
    const kernels::Decoded decoded = job_.ops->decode(args);
    tally.decode_s += now_s() - start;
    written = 1;
    if (decoded == kernels::Decoded::malformed)
      failure_ = {Code::bad_frame, place(lane, step) + ": the payload is not what " +
                                       std::string(job_.codec->name) + " writes"};
  }

  std::string place(const Lane& lane, const Step& step) const {
    return "segment " + std::to_string(lane.segment) + ", chunk " + std::to_string(step.chunk);
  }

  Status too_long(const std::string& where) const {
    return {Code::bad_frame,
            where + ": a frame is longer than the bound of " + std::to_string(slot_bytes_) + " bytes"};
  }

  Status check(const Lane& lane, const Step& step, std::span<const std::byte> in, std::size_t bytes) const {
    FrameHeader h;
    if (bytes < sizeof h)
      return {Code::bad_frame,
              place(lane, step) + ": a frame of " + std::to_string(bytes) + " bytes has no header"};
    if (bytes > in.size()) return too_long(place(lane, step));
    std::memcpy(&h, in.data(), sizeof h);
    if (h.magic != kFrameMagic || h.version != kWireVersion)
      return {Code::bad_frame, place(lane, step) + ": a message is not an mpi_quant frame of version " +
                                   std::to_string(kWireVersion)};
    if (h.trouble != 0)
      return {Code::peer_failed,
              place(lane, step) + ": a peer gave up (code " + std::to_string(h.trouble) + ")"};
    if (h.call != job_.call || h.segment != static_cast<std::uint32_t>(lane.segment) ||
        h.chunk != static_cast<std::uint32_t>(step.chunk))
      return {Code::bad_frame, place(lane, step) + ": a frame of another call, or for segment " +
                                   std::to_string(h.segment) + ", chunk " + std::to_string(h.chunk)};
    if (h.payload_bytes != bytes - sizeof h)
      return {Code::bad_frame, place(lane, step) + ": the header promises " +
                                   std::to_string(h.payload_bytes) + " bytes, " +
                                   std::to_string(bytes - sizeof h) + " came"};
    return {};
  }

  C& comm_;
  const Job& job_;
  const Layout layout_;
  const std::size_t element_bytes_, slot_bytes_;
  const std::vector<char> early_;
  std::vector<Lane> lanes_;
  Status failure_;  // the first; results are worthless from here on, the schedule goes on
};

}  // namespace mq
