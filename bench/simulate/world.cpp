#include "bench/simulate/world.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace mq::sim {
namespace {

constexpr int kPerNode = 3;  // servers: the port's way out, its way in, the memory
constexpr int kOut = 0, kIn = 1, kMemory = 2;

std::uint64_t key_of(int from, int tag) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(from)) << 32 | static_cast<std::uint32_t>(tag);
}

}  // namespace

int SimComm::size() const { return world_.size(); }
double SimComm::now_s() const { return world_.rank(rank_).clock_s; }
void SimComm::compute(double seconds) { world_.rank(rank_).clock_s += std::max(seconds, 0.0); }

Status SimComm::send(int to, int tag, std::span<const std::byte> out, Request& request) {
  MQ_TRY(world_.broken_);
  World::Rank& me = world_.rank(rank_);
  request = {};
  World::Message* const m = world_.new_message();
  m->sender = &request;
  m->from = rank_;
  m->to = to;
  m->tag = tag;
  m->size = static_cast<std::uint32_t>(out.size());
  m->wire_bytes = world_.wire_bytes_ != nullptr ? world_.wire_bytes_(out) : out.size();
  compute(world_.processor_s(m->wire_bytes));
  m->tail_s = me.clock_s;
  if (out.size() > World::kHead) m->rest = std::make_unique<std::byte[]>(out.size());
  if (!out.empty()) std::memcpy(m->rest ? m->rest.get() : m->head.data(), out.data(), out.size());
  me.counts.bytes += m->wire_bytes;
  const bool was_empty = me.outbox.first == nullptr;
  ++me.counts.messages;
  me.outbox.push(m);
  if (was_empty) world_.at(me.clock_s, World::Kind::send, rank_);
  return {};
}

Status SimComm::receive(int from, int tag, std::span<std::byte> in, Request& request) {
  MQ_TRY(world_.broken_);
  request = {in.data(), in.size(), 0, nullptr, false, true, false};
  auto& boxes = world_.rank(rank_).boxes;
  const auto box = boxes.try_emplace(key_of(from, tag)).first;
  if (World::Message* const m = box->second.arrived.pop()) {
    World::complete(request, *m);
    world_.free(m);
    if (box->second.arrived.first == nullptr) boxes.erase(box);
    return {};
  }
  (box->second.first == nullptr ? box->second.first : box->second.last->next) = &request;
  box->second.last = &request;
  return {};
}

Status SimComm::test(Request& request, bool& done, std::size_t& received_bytes) {
  MQ_TRY(world_.broken_);
  World::Rank& me = world_.rank(rank_);
  if (!request.is_done && me.clock_s > world_.now_s_) {
    world_.leave_until(rank_, me.clock_s);
    MQ_TRY(world_.broken_);
  }
  done = request.is_done;
  if (!done) {
    request.is_waited_for = me.has_tested = true;
  } else if (request.is_receive) {
    received_bytes = request.bytes;
    compute(world_.processor_s(request.wire_bytes));
  }
  return {};
}

void SimComm::idle() {
  World::Rank& me = world_.rank(rank_);
  if (!world_.broken_.ok() || std::exchange(me.was_woken, false) || !std::exchange(me.has_tested, false))
    return;
  const double start_s = me.clock_s;
  me.is_blocked = true;
  world_.fibers_->leave();
  me.clock_s = std::max(me.clock_s, world_.now_s_);
  me.counts.wait_s += me.clock_s - start_s;
}

World::World(int ranks, const Network& network, WireBytes wire_bytes, Loses loses)
    : size_(ranks),
      network_(network),
      wire_bytes_(wire_bytes),
      loses_(std::move(loses)),
      nodes_((ranks + network.per_node - 1) / network.per_node),
      ranks_(static_cast<std::size_t>(ranks)) {
  // Without oversubscription a switch passes all that its ports can send: it needs no servers.
  if (network.oversubscription > 1)
    switches_ = (nodes_ + network.nodes_per_switch - 1) / network.nodes_per_switch;
  servers_.resize(static_cast<std::size_t>(kPerNode * nodes_ + 2 * switches_));
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    Server& s = servers_[i];
    const bool is_of_node = i < static_cast<std::size_t>(kPerNode * nodes_);
    if (!is_of_node) {
      s.byte_s = network.oversubscription / (network.bandwidth_Bps * network.nodes_per_switch);
    } else if (i % kPerNode == kMemory) {
      s.byte_s = 1 / network.node_bandwidth_Bps;
    } else {
      s.byte_s = 1 / network.bandwidth_Bps;
      s.gap_s = network.gap_s;
    }
  }
}

Status World::run(const std::function<void(SimComm&)>& body) {
  fibers_ = std::make_unique<Fibers>(ranks_.size());
  std::vector<SimComm> comms;
  comms.reserve(ranks_.size());
  for (int r = 0; r < size_; ++r) {
    comms.push_back(SimComm(*this, r));
    fibers_->set(static_cast<std::size_t>(r), [this, r, &body, &comm = comms.back()] {
      body(comm);
      rank(r).counts.end_s = rank(r).clock_s;
    });
    at(0, Kind::resume, r);
  }
  while (!queue_.empty()) {
    const Event event = queue_.top();
    queue_.pop();
    now_s_ = event.time_s;
    handle(event);
  }
  give_up();
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    if (const std::exception_ptr thrown = fibers_->thrown(r)) std::rethrow_exception(thrown);
  return broken_;
}

// If a rank is not over and nothing can happen any more, it waits for ever. All ranks are told, and return.
void World::give_up() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (fibers_->is_over(r)) continue;
    if (broken_.ok()) broken_ = {Code::timed_out, stuck()};
    while (!fibers_->is_over(r)) fibers_->resume(r);
  }
}

std::string World::stuck() const {
  return "the ranks wait for ever" + first_left(true, " waits for a message from rank ") +
         first_left(false, " did not take a message from rank ");
}

// Names a receive (is_receive) or a message that is left: of the lowest rank that has one, that with the lowest source and tag.
std::string World::first_left(bool is_receive, const char* what) const {
  for (int r = 0; r < size_; ++r) {
    std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
    for (const auto& [key, box] : ranks_[static_cast<std::size_t>(r)].boxes)
      if ((box.first != nullptr) == is_receive) first = std::min(first, key);
    if (first != std::numeric_limits<std::uint64_t>::max())
      return "; rank " + std::to_string(r) + what + std::to_string(first >> 32) + " with tag " +
             std::to_string(first & 0xffffffffU);
  }
  return {};
}

std::size_t World::leaked() const {
  std::size_t n = 0;
  for (const Rank& r : ranks_)
    for (const auto& [key, box] : r.boxes) {
      for (const SimComm::Request* q = box.first; q != nullptr; q = q->next) ++n;
      for (const Message* m = box.arrived.first; m != nullptr; m = m->next) ++n;
    }
  return n;
}

void World::at(double time_s, Kind kind, int index, Message* message) {
  queue_.push({time_s, sequence_++, message, index, kind});
}

void World::handle(const Event& event) {
  switch (event.kind) {
    case Kind::resume: return fibers_->resume(static_cast<std::size_t>(event.index));
    case Kind::send: {
      Rank& sender = rank(event.index);
      Message* const m = sender.outbox.pop();
      if (sender.outbox.first != nullptr) at(sender.outbox.first->tail_s, Kind::send, event.index);
      return route(m);
    }
    case Kind::arrive: return offer(event.index, event.message);
    case Kind::served: return served(event.index);
    case Kind::freed: {
      Server& s = servers_[static_cast<std::size_t>(event.index)];
      s.is_busy = false;
      if (Message* const next = s.waiting.pop()) begin(event.index, next);
      return;
    }
    case Kind::deliver: return deliver(event.message);
  }
}

void World::leave_until(int r, double time_s) {
  at(time_s, Kind::resume, r);
  fibers_->leave();
}

void World::wake(int r) {
  Rank& me = rank(r);
  if (!std::exchange(me.is_blocked, false)) {
    me.was_woken = true;
    return;
  }
  me.was_woken = false;
  at(std::max(now_s_, me.clock_s), Kind::resume, r);
}

void World::route(Message* m) {
  double latency_s = 0;
  offer(server_of(*m, 0, latency_s), m);
}

// The servers on the way of a message, and how long its bytes need from one to the next.
int World::server_of(const Message& m, int hop, double& latency_s) const {
  const int from = node(m.from), to = node(m.to);
  if (from == to) {
    latency_s = network_.node_latency_s;
    return hop == 0 ? kPerNode * from + kMemory : -1;
  }
  const int a = from / network_.nodes_per_switch, b = to / network_.nodes_per_switch;
  if (switches_ == 0 || a == b) {
    latency_s = network_.latency_s;
    return hop == 0 ? kPerNode * from + kOut : hop == 1 ? kPerNode * to + kIn : -1;
  }
  latency_s = network_.latency_s / 3;
  switch (hop) {
    case 0: return kPerNode * from + kOut;
    case 1: return kPerNode * nodes_ + 2 * a;
    case 2: return kPerNode * nodes_ + 2 * b + 1;
    case 3: return kPerNode * to + kIn;
    default: return -1;
  }
}

void World::offer(int server, Message* m) {
  Server& s = servers_[static_cast<std::size_t>(server)];
  if (s.is_busy)
    s.waiting.push(m);
  else
    begin(server, m);
}

// The first byte goes on to the next server at once, the last one follows.
void World::begin(int server, Message* m) {
  Server& s = servers_[static_cast<std::size_t>(server)];
  s.is_busy = true;
  s.in_service = m;
  const double end_s = std::max(now_s_ + s.byte_s * static_cast<double>(m->wire_bytes), m->tail_s);
  at(end_s, Kind::served, server);
  double latency_s = 0;
  const int next = server_of(*m, ++m->hop, latency_s);
  if (next < 0) return;
  m->tail_s = end_s + latency_s;
  at(now_s_ + latency_s, Kind::arrive, next, m);
}

void World::served(int server) {
  Server& s = servers_[static_cast<std::size_t>(server)];
  Message* const m = std::exchange(s.in_service, nullptr);
  const bool is_of_node = server < kPerNode * nodes_;
  const int way = server % kPerNode;
  if (is_of_node && way != kIn) {  // the message has left its sender
    m->sender->is_done = true;
    if (m->sender->is_waited_for) wake(m->from);
  }
  if (is_of_node && way == kMemory) {
    at(now_s_ + network_.node_latency_s, Kind::deliver, m->to, m);
  } else if (is_of_node && way == kIn) {
    deliver(m);
  }
  if (s.gap_s > 0) return at(now_s_ + s.gap_s, Kind::freed, server);
  s.is_busy = false;
  if (Message* const next = s.waiting.pop()) begin(server, next);
}

void World::deliver(Message* m) {
  Rank& to = rank(m->to);
  if (loses_ && loses_(m->from, m->to, m->tag)) return free(m);
  const auto box = to.boxes.try_emplace(key_of(m->from, m->tag)).first;
  SimComm::Request* const request = box->second.first;
  if (request == nullptr) return box->second.arrived.push(m);
  box->second.first = request->next;
  if (box->second.first == nullptr) to.boxes.erase(box);
  complete(*request, *m);
  if (request->is_waited_for) wake(m->to);
  free(m);
}

void World::complete(SimComm::Request& request, const Message& m) {
  const std::size_t n = std::min<std::size_t>(m.size, request.bytes);
  if (n > 0) std::memcpy(request.in, m.rest ? m.rest.get() : m.head.data(), n);
  request.bytes = m.size;
  request.wire_bytes = m.wire_bytes;
  request.is_done = true;
}

World::Message* World::new_message() {
  if (free_ == nullptr) return &messages_.emplace_back();
  Message* const m = std::exchange(free_, free_->next);
  m->next = nullptr;
  m->hop = 0;
  return m;
}

void World::free(Message* m) {
  m->rest.reset();
  m->next = free_;
  free_ = m;
}

void World::Fifo::push(Message* m) {
  m->next = nullptr;
  (first == nullptr ? first : last->next) = m;
  last = m;
}

World::Message* World::Fifo::pop() {
  Message* const m = first;
  if (m != nullptr) first = m->next;
  return m;
}

}  // namespace mq::sim
