// Ranks that communicate in virtual time: SimComm is a Comm (mpi_quant/base/comm.hpp), so that the agreement,
// the executor and the sparse algorithms run over it as they are. World is the network between the ranks, and
// the queue of events.
//
// Every rank is a fiber with a clock of its own. compute() and the overhead of messages advance it without
// giving up the processor, so it may be ahead of the time of the world. Only a test of a request that is not
// complete yet needs to know what happens until then: there the rank leaves, and returns when the world's
// time has reached its clock. So a rank that tests sees exactly the messages that have arrived by its clock.
// Events at one time happen in the order in which they were made. Nothing else decides: equal inputs give
// equal times on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "bench/research/simulate/fiber.hpp"
#include "bench/research/simulate/network.hpp"
#include "mpi_quant/base/comm.hpp"

namespace mq::sim {

class World;

class SimComm {
 public:
  struct Request {
    static constexpr double kNotKnown = std::numeric_limits<double>::infinity();
    std::byte* in = nullptr;     // of a receive
    Request* next = nullptr;     // the next receive from this source
    double first_s = 0;          // when the first byte of the message came
    double done_s = kNotKnown;   // when it is done. It may be known before
    std::size_t wire_bytes = 0;  // length of the message on the network
    std::uint32_t bytes = 0;     // room for the message; once it has one, its length
    int tag : 30 = 0;
    bool is_receive : 1 = false, is_waited_for : 1 = false;
  };
  int rank() const { return rank_; }
  int size() const;
  // After the world has found that some rank waits for ever, all of these return that error. A message is for
  // another rank, and its contents have less than 4 GiB.
  Status send(int to, int tag, std::span<const std::byte> out, Request& request);
  Status receive(int from, int tag, std::span<std::byte> in, Request& request);
  Status test(Request& request, bool& done, std::size_t& received_bytes);
  void idle();
  void busy() {}
  // The processor of this rank is in use for so long.
  void compute(double seconds);
  // Returns when the world's time has reached this rank's clock: all that other ranks do until then has
  // happened.
  Status catch_up();
  // The virtual time on this rank, in seconds.
  double now_s() const;

 private:
  friend class World;
  SimComm(World& world, int rank) : world_(world), rank_(rank) {}
  double left_to_copy_s(const Request& request);
  World& world_;
  int rank_;
};
static_assert(Comm<SimComm>);

// What a rank did.
struct Counts {
  std::uint64_t messages = 0, bytes = 0;  // sent
  double wait_s = 0;                      // in idle()
  double end_s = 0;                       // when its function returned
};

class World {
 public:
  // How many bytes the network carries for a message; null: as many as it has.
  using WireBytes = std::size_t (*)(std::span<const std::byte> message);
  // Whether a message is lost on its way.
  using Loses = std::function<bool(int from, int to, int tag)>;

  // The network must be usable (check(network)). Throws std::bad_alloc. most_ahead: after so many messages a
  // rank that sends waits for the world's time, so that few messages exist at once. It changes no time.
  World(int ranks, const Network& network, WireBytes wire_bytes = nullptr, Loses loses = {},
        int most_ahead = 256);
  // Runs body on every rank, from time 0. If some rank waits for ever, all calls on all ranks return an error
  // from then on, and so does run(), once all bodies have returned. What a body throws is thrown here. To be
  // called once.
  Status run(const std::function<void(SimComm&)>& body);

  int size() const { return size_; }
  const Counts& counts(int rank) const { return ranks_[static_cast<std::size_t>(rank)].counts; }
  std::uint64_t events() const { return sequence_; }
  // Messages never received plus receives never completed.
  std::size_t leaked() const { return unmatched_; }

 private:
  friend class SimComm;
  static constexpr std::size_t kHead =
      40;  // a frame's header and eight bytes: most messages need no memory of their own
  struct Message {
    Message* next = nullptr;
    SimComm::Request* sender = nullptr;  // null once its rank is over
    int from = 0, to = 0, tag = 0;
    std::uint32_t size = 0;  // of the contents
    int hop = 0;
    std::size_t wire_bytes = 0;  // for the network
    double ready_s = 0;          // when its first byte is at the next server on its way
    double tail_s =
        0;  // when its last byte is there; once all is on its way to its receiver, when it is there
    std::array<std::byte, kHead> head{};
    std::unique_ptr<std::byte[]> rest;  // the contents, if they are longer
  };
  struct Fifo {
    Message *first = nullptr, *last = nullptr;
    void push(Message* m);
    Message* pop();
    Message* take(int tag);
  };
  // What messages pass one after the other, in the order in which their first bytes come.
  struct Server {
    double byte_s = 0, gap_s = 0;
    double burst_s = 0;  // the burst at the rate of the server
    double free_s = 0;   // when all messages that have come have passed, and the gap after them
    double full_s = 0;   // when the whole burst can be used again, if nothing more comes
    // How long a message takes that comes at this time. Parts of the burst that it uses pass at once.
    double take(double time_s, std::size_t bytes);
  };
  // What a rank has of one other rank: receives that wait for a message, and messages that wait for a
  // receive. All bytes 0: nothing.
  struct Source {
    SimComm::Request *first = nullptr, *last = nullptr;
    Fifo arrived;
  };
  struct Rank {
    double clock_s = 0;
    int posted = 0;      // receives without a message
    int sent_ahead = 0;  // messages since it has last caught up in order to send
    Fifo outbox;         // by Message::ready_s, which may be later than the time of the world
    double wake_s =
        SimComm::Request::kNotKnown;  // when the first request is done that a test found unfinished
    bool has_tested = false;          // found a request unfinished, since the last idle()
    bool is_blocked = false;
    double idle_from_s = 0,
           idle_until_s = 0;   // the last time in which it waited, less what it has copied then
    std::uint64_t blocks = 0;  // how often it has been blocked
    Counts counts;
  };
  enum class Kind : std::uint8_t { resume, wake, send, arrive };
  struct Event {
    double time_s;
    std::uint64_t sequence;
    union {
      Message* message;      // arrive
      std::uint64_t blocks;  // wake: Rank::blocks
    };
    int index;  // of a rank
    Kind kind;
    bool operator<(const Event& o) const {  // the first one is the greatest for std::priority_queue
      return time_s != o.time_s ? time_s > o.time_s : sequence > o.sequence;
    }
  };

  Rank& rank(int r) { return ranks_[static_cast<std::size_t>(r)]; }
  double copy_s(std::size_t wire_bytes) const { return network_.copy_s * static_cast<double>(wire_bytes); }
  int node(int r) const { return r / network_.per_node; }
  Source& source(int to, int from) {
    return sources_[static_cast<std::size_t>(to) * static_cast<std::size_t>(size_) +
                    static_cast<std::size_t>(from)];
  }
  const Source& source(int to, int from) const { return const_cast<World*>(this)->source(to, from); }
  void at(double time_s, Kind kind, int index, Message* message = nullptr);
  void handle(const Event& event);
  void leave_until(int r, double time_s);
  void wake_at(int r, double time_s);
  void done_at(SimComm::Request& request, int r, double time_s);
  int server_of(const Message& m, int hop, double& latency_s) const;  // -1: after the last one
  bool pass(Message* m, double time_s);
  void deliver(Message* m);
  static void fill(SimComm::Request& request, const Message& m);
  Message* new_message();
  void free(Message* m);
  void forget(int r);
  void give_up();
  std::string stuck() const;
  std::string first_left(bool is_receive, const char* what) const;
  std::pair<int, int> first_left_of(int rank, bool is_receive) const;

  int size_;
  Network network_;
  WireBytes wire_bytes_;
  Loses loses_;
  int most_ahead_;
  int nodes_ = 1, switches_ = 0;
  std::vector<Rank> ranks_;
  std::vector<Server> servers_;  // per node: out, in, memory; then per switch: up, down
  bool has_own_ports_ = false;   // no rank shares its port, and all paths are as long
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<Source[], Free>
      sources_;  // by receiver and sender. Memory of pairs that never meet is not touched
  std::priority_queue<Event> queue_;
  std::uint64_t sequence_ = 0;
  std::size_t unmatched_ = 0;  // messages without a receive, and receives without a message
  double now_s_ = 0;
  Status broken_;
  std::deque<Message> messages_;
  Message* free_ = nullptr;
  std::unique_ptr<Fibers> fibers_;
};

}  // namespace mq::sim
