// Reduces values along existing routes: only values travel. kylix.hpp explains how to use it.
//
// Down pass (reduction): in each layer, received parts are combined in the order of the members, whatever
// arrives first. The combined values are sent on to the next layer. At the bottom, each rank has the result
// for its range.
//
// Up pass (allgather): results go back through the same ranks in reverse order. A rank picks the values that
// a member wants out of the values that it has. It stores received parts next to each other as they arrive.
//
// All receives are posted before anything is sent. Values are combined directly in the send buffers. Each
// rank sends sum(d_l - 1) messages down and the same number up, and in each direction the sum over the layers
// of (list length * (d_l - 1) / d_l) values.
//
// An unusable message does not end the schedule. The rank continues with headers that carry its error code,
// so that no other rank waits for it. Ranks that depend on it return an error too.
#pragma once

#include <algorithm>
#include <vector>

#include "sparse_allreduce/kylix_messages.hpp"

namespace mq::sparse {

// Runs reductions, one at a time; it may serve several routes one after the other. The object must not move.
// All ranks use theirs for the same runs in the same order.
//
// With replicas, receives stay posted between runs. So the tags belong to this object as long as it lives. If
// it is not quiet() when it is destroyed, they stay in use.
template <Comm C>
class KylixReduction {
 public:
  KylixReduction() = default;
  KylixReduction(const KylixReduction&) = delete;
  KylixReduction& operator=(const KylixReduction&) = delete;
  ~KylixReduction() {
    if (!quiet()) leak();
  }

  // Takes all memory that runs need. `kylix` must outlive the runs. Do not call it while a run is in progress
  // or receives are posted. An error concerns this rank only.
  Status prepare(const KylixRoutes& kylix, const Entry& entry, double timeout_s = 0) noexcept {
    try {
      return take_memory(kylix, entry, timeout_s);
    } catch (const std::bad_alloc&) {
      kylix_ = nullptr;
      return {Code::no_memory, "out of memory"};
    }
  }

  // Begins a run that reads the values of the caller's out list and writes the values of the caller's in
  // list. Both are aligned to the element. The out values must not change until done().
  //
  // Any Status returned here and below means that the communication failed (time-outs included) and is
  // unusable; only leak() may be called then. Errors of the reduction itself are in failure().
  Status start(C& comm, const void* out_values, void* in_values) {
    MQ_TRY(begin(comm, in_values));
    MQ_TRY(messages_.each_receive([&](ReplicatedReceive<C>& receive) { return receive.post(comm, run_); }));
    own_values_ = static_cast<const std::byte*>(out_values);
    if (!kylix_->out_position.empty()) {
      fill_identity(entry_, out_set_.data(), kylix_->out_set);
      combine_any(entry_, own_values_, kylix_->out_position, out_set_.data());
      own_values_ = out_set_.data();
    }
    phase_ = Phase::down;
    if (messages_.empty()) {
      bottom_values_ = own_values_;
      return {};
    }
    for (std::size_t j = 0; j < messages_[0].down_out.size(); ++j) {
      const Part& part = kylix_->layers[0].parts[j];
      if (j != kylix_->layers[0].me && part.out_count > 0)
        std::memcpy(messages_[0].down_out[j].values(), own_values_ + part.out_begin * entry_.bytes(),
                    part.out_count * entry_.bytes());
    }
    MQ_TRY(send_all(comm, messages_[0].down_out, kylix_->layers[0].me));
    clear_below(0);
    return {};
  }

  // Begins a run at the bottom, after the configuration phase has combined the values on its way down.
  // `bottom` has kylix.bottom_out entries.
  Status start_at_bottom(C& comm, const std::byte* bottom, void* in_values) {
    MQ_TRY(begin(comm, in_values));
    for (std::size_t l = 0; l < messages_.size(); ++l)
      for (ReplicatedReceive<C>& receive : messages_[l].up_in) MQ_TRY(receive.post(comm, run_));
    bottom_values_ = bottom;
    phase_ = Phase::down;
    layer_ = messages_.size();
    return {};
  }

  // Does what is possible without waiting.
  Status advance(C& comm, bool& moved) {
    bool any = false;
    for (bool again = true; again && phase_ != Phase::done;) {
      again = false;
      if (phase_ == Phase::down)
        MQ_TRY(go_down(comm, again));
      else if (phase_ == Phase::up)
        MQ_TRY(go_up(comm, again));
      else
        MQ_TRY(finish(comm, again));
      any = any || again;
    }
    moved = moved || any;
    if (any || phase_ == Phase::done) {
      progressed_ = true;
      return {};
    }
    return check_deadline();
  }

  // True when the result is complete, or when the run failed: see failure().
  bool done() const { return phase_ == Phase::done; }
  const Status& failure() const { return failure_; }
  const Traffic& traffic() const { return traffic_; }  // of all runs

  // With replicas: takes in messages that arrive late. quiet(): no message is in flight, so memory and tags
  // can be released.
  Status receive_late(C& comm) {
    MQ_TRY(messages_.each_receive(
        [&](ReplicatedReceive<C>& receive) { return receive.receive_late(comm, run_, traffic_); }));
    return messages_.each_send([&](ReplicatedSend<C>& send) { return send.poll(comm); });
  }
  bool quiet() const { return messages_.quiet(); }
  // Abandons the memory of the messages without freeing it.
  void leak() noexcept {
    memory_.leak();
    messages_.clear();
    kylix_ = nullptr;
    phase_ = Phase::done;
  }
  std::size_t memory_bytes() const { return memory_.bytes(); }

 private:
  enum class Phase { down, up, sends, done };
  Status take_memory(const KylixRoutes& kylix, const Entry& entry, double timeout_s) {
    kylix_ = &kylix;
    entry_ = entry;
    timeout_s_ = timeout_s;
    run_.ranks_each = kylix.ranks / kylix.replicas;
    run_.replicas = kylix.replicas;
    run_.call = kylix.call;
    run_.number = 0;  // also on a rank that forgot its earlier lists
    phase_ = Phase::done;
    if (!quiet()) memory_.leak();
    memory_.reset();
    MQ_TRY(messages_.prepare(kylix, entry, memory_));
    for (const Layer& layer : kylix.layers) arrived_.resize(std::max(arrived_.size(), layer.parts.size()));
    const auto take = [&](std::size_t count) { return memory_.take<std::byte>(count * entry.bytes()); };
    out_set_ = take(kylix.out_position.empty() ? 0 : kylix.out_set);
    in_set_ = take(kylix.in_position.empty() ? 0 : kylix.in_set);
    bottom_out_ = take(kylix.bottom_out);
    bottom_in_ = take(kylix.bottom_in);
    return {};
  }

  Status begin(C& comm, void* in_values) {
    failure_ = {};
    ++run_.number;
    in_values_ = static_cast<std::byte*>(in_values);
    layer_ = next_ = 0;
    progressed_ = true;
    messages_.each_receive([](ReplicatedReceive<C>& receive) { receive.begin(); });
    MQ_TRY(wait_for_slow_replicas(comm));
    messages_.each_send([](ReplicatedSend<C>& send) { send.begin(); });
    bottom_values_ = bottom_out_.data();
    return {};
  }

  // Gives a slow replica a moment to catch up; without this pause it would miss messages. Meanwhile this rank
  // takes in late messages, because the slow replica may be waiting for it.
  Status wait_for_slow_replicas(C& comm) {
    if (run_.replicas == 1) return {};
    constexpr double kPatience_s = 0.25;
    for (double end_s = 0;;) {
      bool lags = false;
      MQ_TRY(receive_late(comm));
      messages_.each_send([&](ReplicatedSend<C>& send) { lags = send.lags() || lags; });
      if (!lags) return {};
      const double now = now_s();
      if (end_s == 0) end_s = now + kPatience_s;
      if (now > end_s) break;
      comm.idle();
    }
    messages_.each_send([](ReplicatedSend<C>& send) { send.give_up(); });
    return {};
  }

  Status send_all(C& comm, std::vector<ReplicatedSend<C>>& sends, std::size_t me) {
    // Each rank starts with a different peer, so that not all ranks send to the same one at once.
    for (std::size_t i = 1; i < sends.size(); ++i)
      MQ_TRY(sends[(me + i) % sends.size()].send(comm, run_, failure_.code(), traffic_));
    return {};
  }

  // Calls f(position, part): `part` is the part of `map` with values in [begin, begin + count), and
  // `position` is where it starts.
  template <class F>
  static void split(Map map, std::size_t begin, std::size_t count, const F& f) {
    const auto first = std::lower_bound(map.begin(), map.end(), begin);
    const auto last = std::lower_bound(first, map.end(), begin + count);
    const auto from = static_cast<std::size_t>(first - map.begin());
    f(from, map.subspan(from, static_cast<std::size_t>(last - first)));
  }

  // Fills the buffers into which the layer's parts are combined with the identity.
  void clear_below(std::size_t layer) {
    if (layer + 1 == messages_.size()) return fill_identity(entry_, bottom_out_.data(), kylix_->bottom_out);
    for (std::size_t j = 0; j < messages_[layer + 1].down_out.size(); ++j)
      fill_identity(entry_, messages_[layer + 1].down_out[j].values(),
                    kylix_->layers[layer + 1].parts[j].out_count);
  }
  void combine_below(std::size_t layer, Map map, const std::byte* from) {
    if (layer + 1 == messages_.size()) return combine(entry_, from, map, 0, bottom_out_.data());
    for (std::size_t j = 0; j < messages_[layer + 1].down_out.size(); ++j) {
      const Part& part = kylix_->layers[layer + 1].parts[j];
      split(map, part.out_begin, part.out_count, [&](std::size_t at, Map those) {
        combine(entry_, from + at * entry_.bytes(), those, static_cast<std::uint32_t>(part.out_begin),
                messages_[layer + 1].down_out[j].values());
      });
    }
  }

  Status go_down(C& comm, bool& moved) {
    while (layer_ < messages_.size()) {
      const Layer& layer = kylix_->layers[layer_];
      LayerMessages<C>& messages = messages_[layer_];
      for (; next_ < layer.sources.size(); ++next_) {
        const Map map = layer.sources[next_].out;
        if (map.empty()) continue;
        const std::byte* from = nullptr;
        if (next_ == layer.me) {
          from = layer_ == 0 ? own_values_ + layer.parts[next_].out_begin * entry_.bytes()
                             : messages.down_out[next_].values();
        } else {
          ReplicatedReceive<C>& receive = messages.down_in[next_];
          MQ_TRY(receive.poll(comm, run_, traffic_));
          from = receive.values();
          Status bad = receive.failure();
          if (from == nullptr && bad.ok()) return {};
          if (failure_.ok()) failure_ = std::move(bad);
        }
        moved = true;
        if (!failure_.ok()) continue;
        combine_below(layer_, map, from);
        worked(comm, Work::merge, map.size());
      }
      next_ = 0;
      moved = true;
      if (++layer_ == messages_.size()) break;
      MQ_TRY(send_all(comm, messages_[layer_].down_out, kylix_->layers[layer_].me));
      clear_below(layer_);
    }
    moved = true;
    if (failure_.ok()) {
      pick_or_absent(entry_, bottom_values_, kylix_->bottom, bottom_in_.data());
      deliver(comm, layer_, 0, kylix_->bottom_in, bottom_in_.data());
    }
    phase_ = Phase::up;
    return continue_up(comm);
  }

  // Passes on the values [begin, begin + count) of the in list before `layer`, which are known now.
  void deliver(C& comm, std::size_t layer, std::size_t begin, std::size_t count, const std::byte* values) {
    if (layer == 0) {
      std::byte* const to = kylix_->in_position.empty() ? in_values_ : in_set_.data();
      if (count > 0) std::memcpy(to + begin * entry_.bytes(), values, count * entry_.bytes());
      return;
    }
    const Layer& above = kylix_->layers[layer - 1];
    for (std::size_t j = 0; j < above.sources.size(); ++j)
      split(above.sources[j].in, begin, count, [&](std::size_t at, Map those) {
        pick(entry_, values, those, static_cast<std::uint32_t>(begin),
             messages_[layer - 1].up_out[j].values() + at * entry_.bytes());
        worked(comm, Work::merge, those.size());
      });
  }

  // All values before layer_ are known: continues with the layer above.
  Status continue_up(C& comm) {
    if (layer_ == 0) {
      if (failure_.ok() && !kylix_->in_position.empty())
        pick_any(entry_, in_set_.data(), kylix_->in_position, in_values_);
      phase_ = Phase::sends;
      return {};
    }
    const Layer& above = kylix_->layers[--layer_];
    LayerMessages<C>& messages = messages_[layer_];
    MQ_TRY(send_all(comm, messages.up_out, above.me));
    missing_ = 0;
    for (std::size_t j = 0; j < above.parts.size(); ++j) {
      arrived_[j] = j == above.me || above.parts[j].in_count == 0;
      missing_ += !arrived_[j];
    }
    const Part& own = above.parts[above.me];
    if (failure_.ok()) deliver(comm, layer_, own.in_begin, own.in_count, messages.up_out[above.me].values());
    return {};
  }

  Status go_up(C& comm, bool& moved) {
    const Layer& layer = kylix_->layers[layer_];
    for (std::size_t j = 0; missing_ > 0 && j < layer.parts.size(); ++j) {
      if (arrived_[j]) continue;
      ReplicatedReceive<C>& receive = messages_[layer_].up_in[j];
      MQ_TRY(receive.poll(comm, run_, traffic_));
      Status bad = receive.failure();
      if (receive.values() == nullptr && bad.ok()) continue;
      if (failure_.ok()) failure_ = std::move(bad);
      if (failure_.ok())
        deliver(comm, layer_, layer.parts[j].in_begin, layer.parts[j].in_count, receive.values());
      arrived_[j] = true;
      --missing_;
      moved = true;
    }
    if (missing_ > 0) return {};
    moved = true;
    return continue_up(comm);
  }

  // Without replicas, a run ends when all sends are complete. With replicas, it does not wait for that.
  Status finish(C& comm, bool& moved) {
    if (run_.replicas == 1)
      MQ_TRY(messages_.each_send([&](ReplicatedSend<C>& send) { return send.poll(comm); }));
    moved = run_.replicas > 1 || messages_.sent();
    if (moved) phase_ = Phase::done;
    return {};
  }

  // Time-outs count from the first check without progress, because the caller may not have called advance()
  // for a long time.
  Status check_deadline() {
    if (timeout_s_ <= 0 || ++idle_ % 64 != 0) return {};
    if (std::exchange(progressed_, false)) deadline_ = Deadline(timeout_s_);
    return deadline_.over() ? deadline_.error(silent_peer()) : Status{};
  }
  int silent_peer() {
    if (phase_ == Phase::down) return messages_[layer_].down_in[next_].peer();
    if (phase_ == Phase::up)
      for (std::size_t j = 0; j < messages_[layer_].up_in.size(); ++j)
        if (!arrived_[j]) return messages_[layer_].up_in[j].peer();
    int peer = -1;
    messages_.each_send([&](const ReplicatedSend<C>& send) {
      if (!send.quiet()) peer = send.peer();
    });
    return peer;
  }

  const KylixRoutes* kylix_ = nullptr;
  Entry entry_;
  double timeout_s_ = 0;
  Workspace memory_;
  KylixMessages<C> messages_;
  std::span<std::byte> out_set_, in_set_, bottom_out_, bottom_in_;
  std::vector<char> arrived_;  // by part of the layer, during the up pass
  Traffic traffic_;

  Run run_;
  Phase phase_ = Phase::done;
  std::size_t layer_ = 0, next_ = 0, missing_ = 0;
  const std::byte *own_values_ = nullptr, *bottom_values_ = nullptr;
  std::byte* in_values_ = nullptr;
  Status failure_;
  Deadline deadline_;
  std::size_t idle_ = 0;
  bool progressed_ = true;
};

}  // namespace mq::sparse
