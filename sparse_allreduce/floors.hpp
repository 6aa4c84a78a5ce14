// All messages of a reduction along routes, layer by layer, with the memory that they use.
#pragma once

#include <algorithm>
#include <vector>

#include "sparse_allreduce/kylix_setup.hpp"
#include "sparse_allreduce/racing.hpp"

namespace mq::sparse {

// The messages of one layer. A receive without values is never used, and a send without values sends nothing.
template <Comm C>
struct Floor {
  std::vector<Inlet<C>> down_in, up_in;     // by source; by part
  std::vector<Outlet<C>> down_out, up_out;  // by part; by source
};

template <Comm C>
class Floors {
 public:
  // Takes memory for all messages. Throws std::bad_alloc.
  Status prepare(const Kylix& kylix, const Entry& entry, Workspace& memory) {
    floors_.clear();
    floors_.resize(kylix.layers.size());
    for (std::size_t l = 0; l < floors_.size(); ++l) {
      const std::size_t n = kylix.layers[l].parts.size();
      for (auto* inlets : {&floors_[l].down_in, &floors_[l].up_in}) inlets->resize(n);
      for (auto* outlets : {&floors_[l].down_out, &floors_[l].up_out}) outlets->resize(n);
      for (std::size_t j = 0; j < n; ++j) MQ_TRY(prepare(kylix, entry, memory, l, j));
    }
    return {};
  }
  void clear() { floors_.clear(); }
  bool empty() const { return floors_.empty(); }
  std::size_t size() const { return floors_.size(); }
  Floor<C>& operator[](std::size_t layer) { return floors_[layer]; }

  // Call f for every message. If f returns a Status, the first error ends the loop.
  template <class F>
  auto each_inlet(const F& f) {
    return each(floors_, &Floor<C>::down_in, &Floor<C>::up_in, f);
  }
  template <class F>
  auto each_outlet(const F& f) {
    return each(floors_, &Floor<C>::down_out, &Floor<C>::up_out, f);
  }

  bool sent() const {
    return std::all_of(floors_.begin(), floors_.end(),
                       [](const Floor<C>& floor) { return quiet(floor.down_out) && quiet(floor.up_out); });
  }
  bool quiet() const {
    return sent() && std::all_of(floors_.begin(), floors_.end(), [](const Floor<C>& floor) {
             return quiet(floor.down_in) && quiet(floor.up_in);
           });
  }

 private:
  template <class M>
  static bool quiet(const std::vector<M>& messages) {
    return std::all_of(messages.begin(), messages.end(), [](const M& m) { return m.quiet(); });
  }
  template <class M, class F>
  static auto each(std::vector<Floor<C>>& floors, std::vector<M> Floor<C>::*down,
                   std::vector<M> Floor<C>::*up, const F& f) {
    constexpr bool kTries = std::is_same_v<decltype(f(std::declval<M&>())), Status>;
    for (Floor<C>& floor : floors)
      for (auto* messages : {&(floor.*down), &(floor.*up)})
        for (M& message : *messages)
          if constexpr (kTries)
            MQ_TRY(f(message));
          else
            f(message);
    if constexpr (kTries) return Status{};
  }

  Status prepare(const Kylix& kylix, const Entry& entry, Workspace& memory, std::size_t l, std::size_t j) {
    const Layer& layer = kylix.layers[l];
    const Part& part = layer.parts[j];
    const Source& source = layer.sources[j];
    Floor<C>& floor = floors_[l];
    const bool own = j == layer.me;
    const Address down{part.peer, tag_of(kylix.first_tag, KylixTag::down),
                       step_of(layer.number, KylixStep::down)};
    const Address up{part.peer, tag_of(kylix.first_tag, KylixTag::up), step_of(layer.number, KylixStep::up)};
    const std::size_t most = std::max({part.out_count, part.in_count, source.out.size(), source.in.size()});
    if (!own && most > (kMostMessageBytes - sizeof(Header)) / entry.bytes())
      return {Code::bad_argument, "a message would be longer than 2 GiB: use more ranks"};
    const auto bytes = [&](std::size_t count) { return count * entry.bytes(); };
    const int copies = kylix.replicas;
    if (!own && !source.out.empty()) floor.down_in[j].prepare(down, bytes(source.out.size()), copies, memory);
    if (!own && part.in_count > 0) floor.up_in[j].prepare(up, bytes(part.in_count), copies, memory);
    // The caller's own values stay where they are.
    floor.down_out[j].prepare(down, own && l == 0 ? 0 : bytes(part.out_count), own, copies, memory);
    floor.up_out[j].prepare(up, bytes(source.in.size()), own, copies, memory);
    return {};
  }

  std::vector<Floor<C>> floors_;  // by layer
};

}  // namespace mq::sparse
