#include "tests/engine/loopback.hpp"

namespace mq::test {

Status Loopback::Rank::send(int to, int tag, std::span<const std::byte> out, Request& request) {
  ++unfinished_;
  request = {false, to, tag, {}, delay()};
  if (net_.rendezvous_) request.taken = std::make_shared<std::atomic<bool>>(false);
  Message message(out.size());
  net_.copy_(message.data(), out.data(), out.size());
  net_.post(rank_, to, tag, number_++, {std::move(message), 0, out.data(), request.taken});
  return {};
}

Status Loopback::Rank::receive(int from, int tag, std::span<std::byte> in, Request& request) {
  ++unfinished_;
  // Receives with one source and tag are matched in the order they were posted, as in MPI.
  posted_[{from, tag}].push_back(&request);
  request = {true, from, tag, in, delay()};
  return {};
}

Status Loopback::Rank::test(Request& request, bool& done, std::size_t& received_bytes) {
  done = false;
  if (request.polls_left-- > 0) return {};
  if (request.receive) {
    auto& queue = posted_[{request.peer, request.tag}];
    if (queue.front() != &request) return {};
    Message message;
    if (!net_.take(request.peer, rank_, request.tag, message)) return {};
    queue.pop_front();
    received_bytes = message.size();
    net_.copy_(request.in.data(), message.data(), std::min(message.size(), request.in.size()));
  } else if (request.taken && !*request.taken) {
    return {};
  }
  --unfinished_;
  done = true;
  return {};
}

Loopback::Loopback(int size, std::uint64_t delay_seed, Tamper tamper, Fault fault)
    : size_(size),
      delay_seed_(delay_seed),
      tamper_(std::move(tamper)),
      fault_(std::move(fault)),
      mailboxes_(static_cast<std::size_t>(size)) {}
Loopback::~Loopback() = default;

Loopback::Fault Loopback::dead(int rank, int from_message) {
  return [=](int from, int, int, int number) {
    return Fate{from == rank && number >= from_message ? 0 : 1, 0};
  };
}

Loopback::Fault Loopback::jumbled(std::uint64_t seed, int most_delay, bool duplicates) {
  return [=](int from, int to, int tag, int number) {
    std::seed_seq words{static_cast<int>(seed), from, to, tag, number};
    std::mt19937_64 random(words);
    const auto value = random();
    const int delay = static_cast<int>(value % static_cast<std::uint64_t>(most_delay + 1));
    return Fate{duplicates && value >> 60 < 6 ? 2 + static_cast<int>(value >> 63) : 1, delay};
  };
}

void Loopback::run(const std::function<void(Rank&)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < size_; ++r)
    threads.emplace_back([this, r, &body] {
      Rank rank(*this, r);
      body(rank);
      const std::scoped_lock lock(mutex_);
      unfinished_ += rank.unfinished();
    });
  for (std::thread& t : threads) t.join();
}

void Loopback::run_in_turn(const std::function<void(Rank&)>& body) {
  constexpr int kMost = 16;
  if (kSanitizedThreads || size_ > kMost) return run(body);
  static thread_local sim::Fibers fibers(kMost);
  fibers_ = &fibers;
  for (int r = 0; r < size_; ++r)
    fibers.set(static_cast<std::size_t>(r), [this, r, &body] {
      Rank rank(*this, r);
      body(rank);
      unfinished_ += rank.unfinished();
    });
  for (int over = 0; over < size_;) {
    over = 0;
    for (std::size_t r = 0; r < mailboxes_.size(); ++r) {
      if (!fibers.is_over(r)) fibers.resume(r);
      if (fibers.thrown(r)) std::terminate();  // as in a thread: the other ranks would wait for this one
      over += fibers.is_over(r);
    }
  }
  fibers_ = nullptr;
}

std::size_t Loopback::leaked() const {
  std::size_t n = static_cast<std::size_t>(unfinished_);
  for (const auto& [key, queue] : queues_) n += queue.size();
  return n;
}

void Loopback::post(int from, int to, int tag, int number, Queued queued) {
  if (tamper_) tamper_(from, to, tag, queued.message);
  const Fate fate = fault_ ? fault_(from, to, tag, number) : Fate{};
  queued.delay = fate.delay;
  const std::scoped_lock lock(mutex_);
  for (int i = 0; i < fate.copies; ++i) queues_[{from, to, tag}].push_back(queued);
  wake(to);
}

void Loopback::wait(int rank, std::uint64_t& seen) {
  if (fibers_ != nullptr) return fibers_->leave();
  if (delay_seed_ != 0 || fault_) return std::this_thread::yield();
  std::unique_lock lock(mutex_);
  Mailbox& mailbox = mailboxes_[static_cast<std::size_t>(rank)];
  mailbox.changed.wait_for(lock, patience_, [&] { return mailbox.events != seen; });
  seen = mailbox.events;
}

bool Loopback::take(int from, int to, int tag, Message& message) {
  const std::scoped_lock lock(mutex_);
  const auto at = queues_.find({from, to, tag});
  if (at == queues_.end() || at->second.empty()) return false;
  Queued& first = at->second.front();
  if (first.delay-- > 0) return false;
  message = std::move(first.message);
  if (first.taken && !*first.taken) {
    if (!tamper_) copy_(message.data(), first.source, message.size());
    *first.taken = true;
    wake(from);
  }
  at->second.pop_front();
  return true;
}

}  // namespace mq::test
