// Ranks that communicate in virtual time: SimComm is a Comm (mpi_quant/base/comm.hpp), so that the agreement, the executor and
// the sparse algorithms run over it as they are. World is the network between the ranks, and the queue of events.
//
// Every rank is a fiber with a clock of its own. compute() and the overhead of messages advance it without giving up the
// processor, so it may be ahead of the time of the world. Only a test of a request that is not complete yet needs to
// know what happens until then: there the rank leaves, and returns when the world's time has reached its clock. So a
// rank that tests sees exactly the messages that have arrived by its clock. Events at one time happen in the order in
// which they were made. Nothing else decides: equal inputs give equal times on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/simulate/fiber.hpp"
#include "bench/simulate/network.hpp"
#include "mpi_quant/base/comm.hpp"

namespace mq::sim {

class World;

class SimComm {
 public:
  struct Request {
    std::byte* in = nullptr;     // of a receive
    std::size_t bytes = 0;       // room for the message; once done, its length
    std::size_t wire_bytes = 0;  // length on the network of a message that has arrived
    Request* next = nullptr;     // the next receive with this source and tag
    bool is_done = false, is_receive = false, is_waited_for = false;
  };
  int rank() const { return rank_; }
  int size() const;
  // After the world has found that some rank waits for ever, all of these return that error.
  Status send(int to, int tag, std::span<const std::byte> out, Request& request);
  Status receive(int from, int tag, std::span<std::byte> in, Request& request);
  Status test(Request& request, bool& done, std::size_t& received_bytes);
  void idle();
  void busy() {}
  // The processor of this rank is in use for so long.
  void compute(double seconds);
  // The virtual time on this rank, in seconds.
  double now_s() const;

 private:
  friend class World;
  SimComm(World& world, int rank) : world_(world), rank_(rank) {}
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

  // The network must be usable (check(network)). Throws std::bad_alloc.
  World(int ranks, const Network& network, WireBytes wire_bytes = nullptr, Loses loses = {});
  // Runs body on every rank, from time 0. If some rank waits for ever, its calls and those of all others
  // return an error from then on; so does this, once all have returned. What a body throws is thrown here. To be
  // called once.
  Status run(const std::function<void(SimComm&)>& body);

  int size() const { return size_; }
  const Counts& counts(int rank) const { return ranks_[static_cast<std::size_t>(rank)].counts; }
  std::uint64_t events() const { return sequence_; }
  // Messages never received plus receives never completed.
  std::size_t leaked() const;

 private:
  friend class SimComm;
  static constexpr std::size_t kHead =
      40;  // a frame's header and eight bytes: most messages need no memory of their own
  struct Message {
    Message* next = nullptr;
    SimComm::Request* sender = nullptr;
    int from = 0, to = 0, tag = 0;
    std::uint32_t size = 0;      // of the contents
    std::size_t wire_bytes = 0;  // for the network
    double tail_s = 0;           // when its last byte reaches where its first one is
    std::array<std::byte, kHead> head{};
    std::unique_ptr<std::byte[]> rest;  // the contents, if they are longer
    int hop = 0;
  };
  struct Fifo {
    Message *first = nullptr, *last = nullptr;
    void push(Message* m);
    Message* pop();
  };
  // A queue that messages pass one after the other.
  struct Server {
    double byte_s = 0, gap_s = 0;
    Message* in_service = nullptr;  // null: free, or in the gap after a message
    bool is_busy = false;
    Fifo waiting;
  };
  struct Box {  // of one source and tag
    SimComm::Request *first = nullptr, *last = nullptr;
    Fifo arrived;
  };
  struct Rank {
    double clock_s = 0;
    Fifo outbox;  // sent at Message::tail_s, which may be later than the time of the world
    std::unordered_map<std::uint64_t, Box> boxes;
    bool has_tested = false;  // in vain, since the last idle()
    bool is_blocked = false, was_woken = false;
    Counts counts;
  };
  enum class Kind : std::uint8_t { resume, send, arrive, served, freed, deliver };
  struct Event {
    double time_s;
    std::uint64_t sequence;
    Message* message;
    int index;  // of a rank or a server
    Kind kind;
    bool operator<(const Event& o) const {  // the first one is the greatest for std::priority_queue
      return time_s != o.time_s ? time_s > o.time_s : sequence > o.sequence;
    }
  };

  Rank& rank(int r) { return ranks_[static_cast<std::size_t>(r)]; }
  // The processor's time for a message, at its sender or its receiver.
  double processor_s(std::size_t wire_bytes) const {
    return network_.overhead_s + network_.copy_s * static_cast<double>(wire_bytes);
  }
  int node(int r) const { return r / network_.per_node; }
  void at(double time_s, Kind kind, int index, Message* message = nullptr);
  void handle(const Event& event);
  void leave_until(int r, double time_s);
  void wake(int r);
  void route(Message* m);
  int server_of(const Message& m, int hop, double& latency_s) const;  // -1: after the last one
  void offer(int server, Message* m);
  void begin(int server, Message* m);
  void served(int server);
  void deliver(Message* m);
  static void complete(SimComm::Request& request, const Message& m);
  Message* new_message();
  void free(Message* m);
  void give_up();
  std::string stuck() const;
  std::string first_left(bool is_receive, const char* what) const;

  int size_;
  Network network_;
  WireBytes wire_bytes_;
  Loses loses_;
  int nodes_ = 1, switches_ = 0;
  std::vector<Rank> ranks_;
  std::vector<Server> servers_;  // per node: out, in, memory; then per switch: up, down
  std::priority_queue<Event> queue_;
  std::uint64_t sequence_ = 0;
  double now_s_ = 0;
  Status broken_;
  std::deque<Message> messages_;
  Message* free_ = nullptr;
  std::unique_ptr<Fibers> fibers_;
};

}  // namespace mq::sim
