#include "bench/research/simulate/world.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace mq::sim {
namespace {

constexpr int kPerNode = 3;  // servers: the port's way out, its way in, the memory
constexpr int kOut = 0, kIn = 1, kMemory = 2;
constexpr std::size_t kMostBytes = std::numeric_limits<std::uint32_t>::max();  // of the contents of a message

}  // namespace

int SimComm::size() const { return world_.size(); }
double SimComm::now_s() const { return world_.rank(rank_).clock_s; }
void SimComm::compute(double seconds) { world_.rank(rank_).clock_s += std::max(seconds, 0.0); }

Status SimComm::catch_up() {
  if (now_s() > world_.now_s_) world_.leave_until(rank_, now_s());
  return world_.broken_;
}

Status SimComm::send(int to, int tag, std::span<const std::byte> out, Request& request) {
  MQ_TRY(world_.broken_);
  if (to == rank_ || out.size() > kMostBytes)
    return {Code::bad_argument, "a simulated message is for another rank, and has less than 4 GiB"};
  World::Rank& me = world_.rank(rank_);
  request = {};
  World::Message* const m = world_.new_message();
  m->sender = &request;
  m->from = rank_;
  m->to = to;
  m->tag = tag;
  m->size = static_cast<std::uint32_t>(out.size());
  m->wire_bytes = world_.wire_bytes_ != nullptr ? world_.wire_bytes_(out) : out.size();
  compute(world_.network_.overhead_s);
  m->ready_s = me.clock_s;
  compute(world_.copy_s(m->wire_bytes));
  m->tail_s = me.clock_s;
  if (out.size() > World::kHead) m->rest = std::make_unique<std::byte[]>(out.size());
  if (!out.empty()) std::memcpy(m->rest ? m->rest.get() : m->head.data(), out.data(), out.size());
  me.counts.bytes += m->wire_bytes;
  const bool was_empty = me.outbox.first == nullptr;
  ++me.counts.messages;
  if (world_.has_own_ports_) world_.pass(m, m->ready_s);
  me.outbox.push(m);
  if (was_empty) world_.at(m->ready_s, World::Kind::send, rank_);
  if (++me.sent_ahead < world_.most_ahead_) return {};
  me.sent_ahead = 0;
  return catch_up();
}

Status SimComm::receive(int from, int tag, std::span<std::byte> in, Request& request) {
  MQ_TRY(world_.broken_);
  request = {};
  request.in = in.data();
  request.bytes = static_cast<std::uint32_t>(std::min(in.size(), kMostBytes));
  request.tag = tag;
  request.is_receive = true;
  World::Source& source = world_.source(rank_, from);
  if (World::Message* const m = source.arrived.take(tag)) {
    --world_.unmatched_;
    World::fill(request, *m);
    world_.free(m);
    return {};
  }
  (source.first == nullptr ? source.first : source.last->next) = &request;
  source.last = &request;
  ++world_.rank(rank_).posted;
  ++world_.unmatched_;
  return {};
}

Status SimComm::test(Request& request, bool& done, std::size_t& received_bytes) {
  MQ_TRY(world_.broken_);
  World::Rank& me = world_.rank(rank_);
  if (request.done_s == Request::kNotKnown && me.clock_s > world_.now_s_) {
    world_.leave_until(rank_, me.clock_s);
    MQ_TRY(world_.broken_);
  }
  done = request.done_s <= me.clock_s;
  if (!done) {
    request.is_waited_for = me.has_tested = true;
    me.wake_s = std::min(me.wake_s, request.done_s);
  } else if (request.is_receive) {
    received_bytes = request.bytes;
    compute(world_.network_.overhead_s + left_to_copy_s(request));
  }
  return {};
}

// What had come of a message while the rank was idle is copied already.
double SimComm::left_to_copy_s(const Request& request) {
  World::Rank& me = world_.rank(rank_);
  const double copy_s = world_.copy_s(request.wire_bytes), from_s = std::max(me.idle_from_s, request.first_s);
  const double come = me.idle_until_s >= request.done_s
                          ? 1
                          : (me.idle_until_s - request.first_s) / (request.done_s - request.first_s);
  const double copied_s = std::clamp(me.idle_until_s - from_s, 0.0, copy_s * std::max(come, 0.0));
  if (copied_s > 0) me.idle_from_s = from_s + copied_s;
  return copy_s - copied_s;
}

void SimComm::idle() {
  World::Rank& me = world_.rank(rank_);
  const double wake_s = std::exchange(me.wake_s, Request::kNotKnown);
  if (!world_.broken_.ok() || !std::exchange(me.has_tested, false) || wake_s <= me.clock_s) return;
  const double start_s = me.clock_s;
  me.is_blocked = true;
  ++me.blocks;
  if (wake_s != Request::kNotKnown) world_.wake_at(rank_, wake_s);
  world_.fibers_->leave();
  me.wake_s = Request::kNotKnown;
  me.clock_s = std::max(me.clock_s, world_.now_s_);
  me.counts.wait_s += me.clock_s - start_s;
  if (start_s > me.idle_until_s) me.idle_from_s = start_s;
  me.idle_until_s = me.clock_s;
}

World::World(int ranks, const Network& network, WireBytes wire_bytes, Loses loses, int most_ahead)
    : size_(ranks),
      network_(network),
      wire_bytes_(wire_bytes),
      loses_(std::move(loses)),
      most_ahead_(most_ahead),
      nodes_((ranks + network.per_node - 1) / network.per_node),
      ranks_(static_cast<std::size_t>(ranks)) {
  // Without oversubscription a switch passes all that its ports can send: it needs no servers.
  if (network.oversubscription > 1)
    switches_ = (nodes_ + network.nodes_per_switch - 1) / network.nodes_per_switch;
  has_own_ports_ = network.per_node == 1 && switches_ == 0;
  const auto n = static_cast<std::size_t>(ranks);
  sources_.reset(static_cast<Source*>(std::calloc(n * n, sizeof(Source))));
  if (sources_ == nullptr) throw std::bad_alloc();
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
      s.burst_s = network.burst_bytes / network.bandwidth_Bps;
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
      struct End {  // also of a body that throws
        World& world;
        int r;
        ~End() { world.forget(r); }
      } const end{*this, r};
      body(comm);
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

// A rank is over. The requests that it has left do not exist any more.
void World::forget(int r) {
  Rank& me = rank(r);
  me.counts.end_s = me.clock_s;
  for (Message* m = me.outbox.first; m != nullptr; m = m->next) m->sender = nullptr;
  for (int from = 0; me.posted > 0 && from < size_; ++from)
    source(r, from).first = source(r, from).last = nullptr;
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

// Source and tag of a receive (is_receive) or a message that is left on a rank: the lowest ones. -1: there is
// none.
std::pair<int, int> World::first_left_of(int rank, bool is_receive) const {
  for (int from = 0; from < size_; ++from) {
    int tag = std::numeric_limits<int>::max();
    const Source& s = source(rank, from);
    for (const SimComm::Request* q = is_receive ? s.first : nullptr; q != nullptr; q = q->next)
      tag = std::min(tag, q->tag);
    for (const Message* m = is_receive ? nullptr : s.arrived.first; m != nullptr; m = m->next)
      tag = std::min(tag, m->tag);
    if (tag != std::numeric_limits<int>::max()) return {from, tag};
  }
  return {-1, 0};
}

// Names what is left on the lowest rank that has something.
std::string World::first_left(bool is_receive, const char* what) const {
  for (int r = 0; r < size_; ++r)
    if (const auto [from, tag] = first_left_of(r, is_receive); from >= 0)
      return "; rank " + std::to_string(r) + what + std::to_string(from) + " with tag " + std::to_string(tag);
  return {};
}

void World::at(double time_s, Kind kind, int index, Message* message) {
  queue_.push({time_s, sequence_++, {message}, index, kind});
}

void World::handle(const Event& event) {
  switch (event.kind) {
    case Kind::resume: return fibers_->resume(static_cast<std::size_t>(event.index));
    case Kind::wake: {
      Rank& me = rank(event.index);
      if (!me.is_blocked || me.blocks != event.blocks) return;  // something else was earlier
      me.is_blocked = false;
      return fibers_->resume(static_cast<std::size_t>(event.index));
    }
    case Kind::send: {
      Rank& sender = rank(event.index);
      Message* const m = sender.outbox.pop();
      if (sender.outbox.first != nullptr) at(sender.outbox.first->ready_s, Kind::send, event.index);
      if (!pass(m, now_s_)) at(m->ready_s, Kind::arrive, m->to, m);
      return;
    }
    case Kind::arrive:
      if (!pass(event.message, now_s_)) at(event.message->ready_s, Kind::arrive, event.index, event.message);
      return;
  }
}

void World::leave_until(int r, double time_s) {
  at(time_s, Kind::resume, r);
  fibers_->leave();
}

void World::wake_at(int r, double time_s) {
  Event event{std::max(now_s_, time_s), sequence_++, {}, r, Kind::wake};
  event.blocks = rank(r).blocks;
  queue_.push(event);
}

// From now on it is known when a request of a rank is done.
void World::done_at(SimComm::Request& request, int r, double time_s) {
  request.done_s = time_s;
  if (!request.is_waited_for) return;
  Rank& me = rank(r);
  if (time_s >= me.wake_s) return;
  me.wake_s = time_s;
  if (me.is_blocked) wake_at(r, std::max(time_s, me.clock_s));
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

// The first byte of a message comes to the next server on its way. When those before it have passed, it goes
// on to the one after it at once, and the last byte follows. True if there is none after it: then the message
// is with its receiver.
bool World::pass(Message* m, double time_s) {
  double latency_s = 0;
  Server& s = servers_[static_cast<std::size_t>(server_of(*m, m->hop, latency_s))];
  const double begin_s = std::max(time_s, s.free_s), passed_s = begin_s + s.take(begin_s, m->wire_bytes),
               end_s = std::max(passed_s, m->tail_s);
  s.free_s = passed_s + s.gap_s;
  if (m->hop == 0 && m->sender != nullptr) done_at(*m->sender, m->from, end_s);
  const bool is_last = server_of(*m, ++m->hop, latency_s) < 0;
  if (is_last && node(m->from) != node(m->to)) latency_s = 0;  // a port's way in is where the receiver is
  m->ready_s = begin_s + latency_s;
  m->tail_s = end_s + latency_s;
  if (is_last) deliver(m);
  return is_last;
}

void World::deliver(Message* m) {
  if (loses_ && loses_(m->from, m->to, m->tag)) return free(m);
  Source& s = source(m->to, m->from);
  SimComm::Request *before = nullptr, *request = s.first;
  while (request != nullptr && request->tag != m->tag) before = std::exchange(request, request->next);
  if (request == nullptr) {
    ++unmatched_;
    return s.arrived.push(m);
  }
  --unmatched_;
  --rank(m->to).posted;
  (before == nullptr ? s.first : before->next) = request->next;
  if (s.last == request) s.last = before;
  fill(*request, *m);
  done_at(*request, m->to, request->done_s);
  free(m);
}

void World::fill(SimComm::Request& request, const Message& m) {
  const std::size_t n = std::min<std::size_t>(m.size, request.bytes);
  if (n > 0) std::memcpy(request.in, m.rest ? m.rest.get() : m.head.data(), n);
  request.bytes = m.size;
  request.wire_bytes = m.wire_bytes;
  request.first_s = m.ready_s;
  request.done_s = m.tail_s;
}

double World::Server::take(double time_s, std::size_t bytes) {
  const double whole_s = byte_s * static_cast<double>(bytes), empty_s = std::max(full_s - time_s, 0.0);
  full_s = std::max(full_s, time_s) + whole_s;
  return std::max(whole_s - std::max(burst_s - empty_s, 0.0), 0.0);
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

// The first one with a tag.
World::Message* World::Fifo::take(int tag) {
  Message *before = nullptr, *m = first;
  while (m != nullptr && m->tag != tag) before = std::exchange(m, m->next);
  if (m == nullptr) return nullptr;
  (before == nullptr ? first : before->next) = m->next;
  if (last == m) last = before;
  return m;
}

World::Message* World::Fifo::pop() {
  Message* const m = first;
  if (m != nullptr) first = m->next;
  return m;
}

}  // namespace mq::sim
