// All messages of a reduction along routes, layer by layer, with the memory that they use.
#pragma once

#include <algorithm>
#include <vector>

#include "sparse_allreduce/configuration_phase.hpp"
#include "sparse_allreduce/replicated_messages.hpp"

namespace mq::sparse {

// The messages of one layer. A receive without values is never used, and a send without values sends nothing.
template <Comm C>
struct LayerMessages {
  std::vector<ReplicatedReceive<C>> down_in, up_in;  // by source; by part
  std::vector<ReplicatedSend<C>> down_out, up_out;   // by part; by source
};

template <Comm C>
class KylixMessages {
 public:
  // Takes memory for all messages. Throws std::bad_alloc.
  Status prepare(const KylixRoutes& kylix, const Entry& entry, Workspace& memory) {
    layers_.clear();
    layers_.resize(kylix.layers.size());
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const std::size_t n = kylix.layers[l].parts.size();
      for (auto* receives : {&layers_[l].down_in, &layers_[l].up_in}) receives->resize(n);
      for (auto* sends : {&layers_[l].down_out, &layers_[l].up_out}) sends->resize(n);
      for (std::size_t j = 0; j < n; ++j) MQ_TRY(prepare(kylix, entry, memory, l, j));
    }
    return {};
  }
  void clear() { layers_.clear(); }
  bool empty() const { return layers_.empty(); }
  std::size_t size() const { return layers_.size(); }
  LayerMessages<C>& operator[](std::size_t layer) { return layers_[layer]; }

  // Call f for every message. If f returns a Status, the first error ends the loop.
  template <class F>
  auto each_receive(const F& f) {
    return each(layers_, &LayerMessages<C>::down_in, &LayerMessages<C>::up_in, f);
  }
  template <class F>
  auto each_send(const F& f) {
    return each(layers_, &LayerMessages<C>::down_out, &LayerMessages<C>::up_out, f);
  }

  bool sent() const {
    return std::all_of(layers_.begin(), layers_.end(), [](const LayerMessages<C>& layer) {
      return quiet(layer.down_out) && quiet(layer.up_out);
    });
  }
  bool quiet() const {
    return sent() && std::all_of(layers_.begin(), layers_.end(), [](const LayerMessages<C>& layer) {
             return quiet(layer.down_in) && quiet(layer.up_in);
           });
  }

 private:
  template <class M>
  static bool quiet(const std::vector<M>& messages) {
    return std::all_of(messages.begin(), messages.end(), [](const M& m) { return m.quiet(); });
  }
  template <class M, class F>
  static auto each(std::vector<LayerMessages<C>>& layers, std::vector<M> LayerMessages<C>::*down,
                   std::vector<M> LayerMessages<C>::*up, const F& f) {
    constexpr bool kTries = std::is_same_v<decltype(f(std::declval<M&>())), Status>;
    for (LayerMessages<C>& layer : layers)
      for (auto* messages : {&(layer.*down), &(layer.*up)})
        for (M& message : *messages)
          if constexpr (kTries)
            MQ_TRY(f(message));
          else
            f(message);
    if constexpr (kTries) return Status{};
  }

  Status prepare(const KylixRoutes& kylix, const Entry& entry, Workspace& memory, std::size_t l,
                 std::size_t j) {
    const Layer& layer = kylix.layers[l];
    const Part& part = layer.parts[j];
    const Source& source = layer.sources[j];
    LayerMessages<C>& messages = layers_[l];
    const bool own = j == layer.me;
    const Address down{part.peer, tag_of(kylix.first_tag, KylixTag::down),
                       step_of(layer.number, KylixStep::down)};
    const Address up{part.peer, tag_of(kylix.first_tag, KylixTag::up), step_of(layer.number, KylixStep::up)};
    const std::size_t most = std::max({part.out_count, part.in_count, source.out.size(), source.in.size()});
    if (!own && most > (kMostMessageBytes - sizeof(Header)) / entry.bytes())
      return {Code::bad_argument, "a message would be longer than 2 GiB: use more ranks"};
    const auto bytes = [&](std::size_t count) { return count * entry.bytes(); };
    const int copies = kylix.replicas;
    if (!own && !source.out.empty())
      messages.down_in[j].prepare(down, bytes(source.out.size()), copies, memory);
    if (!own && part.in_count > 0) messages.up_in[j].prepare(up, bytes(part.in_count), copies, memory);
    // The caller's own values stay where they are.
    messages.down_out[j].prepare(down, own && l == 0 ? 0 : bytes(part.out_count), own, copies, memory);
    messages.up_out[j].prepare(up, bytes(source.in.size()), own, copies, memory);
    return {};
  }

  std::vector<LayerMessages<C>> layers_;  // by layer
};

}  // namespace mq::sparse
