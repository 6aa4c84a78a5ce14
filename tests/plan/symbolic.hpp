// Runs the plans of all ranks on expressions instead of numbers: what a plan computes, proved without a
// codec, an executor or MPI. Separate from the proofs (plan_test.cpp), which say what the expressions should
// be.
//
// The machine is the strictest one the executor may meet: an exchange only posts its two halves, and neither
// half completes before the other side has posted the matching one. A step that reads a slot waits for the
// slot's receive, a step that writes one waits for the slot's sends, and nothing else waits. Steps read and
// write only what their own rank has, and each message has exactly one reader, so the outcome does not depend
// on the order in which ranks are run here; and what does not deadlock here does not deadlock where sends are
// buffered.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mpi_quant/plan/plan.hpp"

namespace mq::test::symbolic {

// Values by numbers, in one array with open addressing: the mutations of prover_test.cpp make and drop many
// thousands of them, and a node for each value took most of their time.
template <class T>
class NumberMap {
 public:
  // The value of this key, and whether it is new: then it is `value`. Valid until the next new key.
  std::pair<T&, bool> find_or_add(std::uint64_t key, const T& value) {
    if (2 * used_ >= entries_.size()) grow();
    Entry& entry = place(key);
    const bool is_new = entry.key_and_1 == 0;
    if (is_new) {
      entry = {key + 1, value};
      ++used_;
    }
    return {entry.value, is_new};
  }

 private:
  struct Entry {
    std::uint64_t key_and_1 = 0;  // 0: free
    T value{};
  };
  Entry& place(std::uint64_t key) {
    const std::uint64_t mixed = (key ^ key >> 29) * 0x9e3779b97f4a7c15u;
    std::size_t at = static_cast<std::size_t>(mixed >> 32) & (entries_.size() - 1);
    while (entries_[at].key_and_1 != 0 && entries_[at].key_and_1 != key + 1)
      at = (at + 1) & (entries_.size() - 1);
    return entries_[at];
  }
  void grow() {
    std::vector<Entry> old(std::max<std::size_t>(64, 4 * entries_.size()));
    old.swap(entries_);
    for (Entry& entry : old)
      if (entry.key_and_1 != 0) place(entry.key_and_1 - 1) = std::move(entry);
  }
  std::vector<Entry> entries_;  // a power of two
  std::size_t used_ = 0;
};

// Hash-consed expressions: equal expressions have equal ids, and an operand's id is smaller than its user's.
// Equal operands are encoded to equal wires, so the loss of an encode is named by the operand.
class Terms {
 public:
  using Id = int;
  using Linear = std::map<Id, long>;  // atom -> coefficient; atoms are inputs, residuals and losses

  Id input(int rank, int chunk) { return make(Kind::input, rank, chunk); }
  Id residual(int rank, int chunk) { return make(Kind::residual, rank, chunk); }  // before the call
  Id sum(Id a, Id b) { return make(Kind::sum, a, b); }
  Id zero() { return make(Kind::zero, 0, 0); }
  Id decoded(Id v) { return make(Kind::decoded, v, 0); }  // D(C(v)) = v - loss(v)
  Id loss(Id v) { return make(Kind::loss, v, 0); }

  void add(Linear& total, Id id, long factor) {
    std::map<Id, long, std::greater<>> todo{{id, factor}};  // users before operands: each is expanded once
    while (!todo.empty()) {
      const auto [at, count] = *todo.begin();
      todo.erase(todo.begin());
      const Node node = nodes_[static_cast<std::size_t>(at)];
      if (node.kind == Kind::sum) {
        todo[node.a] += count;
        todo[node.b] += count;
      } else if (node.kind == Kind::decoded) {
        todo[node.a] += count;
        add_atom(total, loss(node.a), -count);
      } else if (node.kind != Kind::zero) {
        add_atom(total, at, count);
      }
    }
  }

  // Calls f with each loss that happened. Its operand has the inputs of this many ranks.
  template <class F>
  void for_each_loss_in(const Linear& total, const F& f) {
    for (const auto& [atom, count] : total) {
      const Node node = nodes_[static_cast<std::size_t>(atom)];
      if (node.kind != Kind::loss) continue;
      Linear operand;
      add(operand, node.a, 1);
      int inputs = 0;
      for (const auto& [id, times] : operand)
        inputs += nodes_[static_cast<std::size_t>(id)].kind == Kind::input;
      f(inputs);
    }
  }

  std::string text(Id id) const {
    const Node& node = nodes_[static_cast<std::size_t>(id)];
    const auto place = [&] { return std::to_string(node.a) + "." + std::to_string(node.b); };
    switch (node.kind) {
      case Kind::input: return "g" + place();
      case Kind::residual: return "e" + place();
      case Kind::sum: return "(" + text(node.a) + "+" + text(node.b) + ")";
      case Kind::decoded: return "Q" + (is_sum(node.a) ? text(node.a) : "(" + text(node.a) + ")");
      case Kind::zero: return "0";
      case Kind::loss: return "L" + (is_sum(node.a) ? text(node.a) : "(" + text(node.a) + ")");
    }
    return "?";
  }

 private:
  enum class Kind : std::uint8_t { input, residual, sum, decoded, loss, zero };
  struct Node {
    Kind kind;
    int a, b;
  };

  Id make(Kind kind, int a, int b) {
    const std::uint64_t key = (static_cast<std::uint64_t>(a) << 33) | (static_cast<std::uint64_t>(b) << 3) |
                              static_cast<std::uint64_t>(kind);
    const auto [id, is_new] = ids_.find_or_add(key, static_cast<Id>(nodes_.size()));
    if (is_new) nodes_.push_back({kind, a, b});
    return id;
  }
  static void add_atom(Linear& total, Id atom, long count) {
    if ((total[atom] += count) == 0) total.erase(atom);
  }
  bool is_sum(Id id) const { return nodes_[static_cast<std::size_t>(id)].kind == Kind::sum; }

  std::vector<Node> nodes_;
  NumberMap<Id> ids_;  // a < 2^31, b < 2^30
};

// What the ranks hold at the end. Nothing but `error` means anything if that is not empty.
struct Interpreted {
  std::string error;
  std::vector<std::vector<Terms::Id>> output, residual;  // [rank][chunk]
  std::vector<int> sent, sent_raw;                       // encoded and raw wires per rank
};

// All chunks, or chunk c by rank c alone: a reduce-scatter. Ranks without a result write none.
enum class Written : std::uint8_t { all, own };

class Machine {
 public:
  // feedback: the call has a residual array. written: which chunks of the output.
  Machine(const std::vector<Plan>& plans, bool feedback, Terms& terms, Written written)
      : plans_(plans), feedback_(feedback), written_(written), terms_(terms), ranks_(plans.size()) {
    outcome_.sent.resize(plans.size());
    outcome_.sent_raw.resize(plans.size());
    for (std::size_t r = 0; r < plans.size(); ++r) {
      ranks_[r].slots.resize(static_cast<std::size_t>(plans[r].slots));
      for (int c = 0; c < plans[r].chunks; ++c) {
        ranks_[r].chunks.push_back({terms.input(static_cast<int>(r), c), false});
        ranks_[r].residual.push_back(terms.residual(static_cast<int>(r), c));
      }
    }
  }

  Interpreted run() {
    check_shapes();
    for (bool moved = true; moved && outcome_.error.empty();) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        while (outcome_.error.empty() && ranks_[r].at < plans_[r].steps.size() && runnable(r)) {
          step(r, plans_[r].steps[ranks_[r].at]);
          ++ranks_[r].at;
          moved = true;
        }
    }
    if (outcome_.error.empty()) check_end();
    for (const Rank& rank : ranks_) {
      outcome_.output.emplace_back();
      for (const Chunk& chunk : rank.chunks) outcome_.output.back().push_back(chunk.value);
      outcome_.residual.push_back(rank.residual);
    }
    return outcome_;
  }

 private:
  struct Chunk {
    Terms::Id value;
    bool written;  // in the output; else still the input
  };
  struct Slot {
    bool full = false, used = true;  // holds a wire; somebody decoded or sent it
    bool receiving = false;
    bool raw = false;  // the wire
    int sends = 0;     // under way
    int chunk = 0;     // of the wire
    int sum = 0;       // of the wire: Step::sum
    Terms::Id value = 0;
  };
  struct Rank {
    std::size_t at = 0;
    std::vector<Slot> slots;
    std::vector<Chunk> chunks;
    std::vector<Terms::Id> residual;
  };
  // Halves of messages between the same ranks with the same tag that have no partner yet: either sends or
  // receives.
  struct Posted {
    Slot* first = nullptr;
    std::vector<Slot*> others;  // behind it, in the order in which they were posted
    bool sends = false;
  };
  // One number for two small ones, that maps are hashed by.
  static std::uint64_t joined(int a, int b) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32 | static_cast<std::uint32_t>(b);
  }

  void fail(std::size_t rank, const std::string& what) {
    if (outcome_.error.empty())
      outcome_.error =
          "rank " + std::to_string(rank) + ", step " + std::to_string(ranks_[rank].at) + ": " + what;
  }

  // Chunks and rounds belong to the frame and the message tag: all ranks must mean the same by them.
  void check_shapes() {
    for (std::size_t r = 0; r < plans_.size(); ++r) {
      if (plans_[r].chunks != plans_[0].chunks || plans_[r].rounds != plans_[0].rounds)
        return fail(r, "another number of chunks or rounds than rank 0");
      for (const Step& s : plans_[r].steps)
        if (!in_range(s, plans_[r], static_cast<int>(r))) return fail(r, "a number out of range");
    }
  }
  bool in_range(const Step& s, const Plan& plan, int rank) const {
    const int size = static_cast<int>(plans_.size());
    const auto below = [](int i, int end) { return i >= 0 && i < end; };
    const auto peer = [&](int p) { return p == kNobody || (below(p, size) && p != rank); };
    if (!below(s.slot, plan.slots)) return false;
    if (s.op != Op::exchange) return below(s.chunk, plan.chunks);
    return peer(s.to) && peer(s.from) && (s.to != kNobody || s.from != kNobody) &&
           below(s.recv_slot, plan.slots) && below(s.round, plan.rounds) &&
           !(s.to != kNobody && s.from != kNobody && s.slot == s.recv_slot);
  }

  Slot& slot(std::size_t rank, int i) { return ranks_[rank].slots[static_cast<std::size_t>(i)]; }

  bool runnable(std::size_t r) {
    const Step& s = plans_[r].steps[ranks_[r].at];
    const bool reads = s.op != Op::encode && (s.op != Op::exchange || s.to != kNobody);
    const bool receives = s.op == Op::exchange && s.from != kNobody;
    return !(reads && slot(r, s.slot).receiving) && !(receives && slot(r, s.recv_slot).sends > 0) &&
           !(s.op == Op::encode && slot(r, s.slot).sends > 0);
  }

  void step(std::size_t r, const Step& s) {
    switch (s.op) {
      case Op::encode: return encode(r, s);
      case Op::exchange: return exchange(r, s);
      case Op::decode:
      case Op::decode_add: return decode(r, s);
    }
  }

  void encode(std::size_t r, const Step& s) {
    Slot& out = slot(r, s.slot);
    if (!writable(r, out)) return;
    const auto c = static_cast<std::size_t>(s.chunk);
    Terms::Id v = ranks_[r].chunks[c].value;
    Terms::Id& residual = ranks_[r].residual[c];
    if (feedback_ && s.feedback == StepFeedback::carry) {
      v = terms_.sum(v, residual);
      residual = s.raw ? terms_.zero() : terms_.loss(v);
    } else if (feedback_ && s.feedback == StepFeedback::deposit && !s.raw) {
      residual = terms_.sum(residual, terms_.loss(v));
    }
    check_sum(r, s, v);
    out.full = true;
    out.used = false;
    out.chunk = s.chunk;
    out.sum = s.sum;
    out.raw = s.raw;
    out.value = s.raw ? v : terms_.decoded(v);
  }

  // Step::sum: equal numbers if and only if equal operands, on all ranks.
  void check_sum(std::size_t r, const Step& s, Terms::Id operand) {
    const Terms::Id known = operand_of_.find_or_add(joined(s.chunk, s.sum), operand).first;
    if (known != operand) return fail(r, "encodes another operand by the number of one");
    const int number = sum_of_.find_or_add(joined(s.chunk, operand), s.sum).first;
    if (number != s.sum) fail(r, "encodes one operand by two numbers");
  }

  void decode(std::size_t r, const Step& s) {
    Slot& in = slot(r, s.slot);
    Chunk& chunk = ranks_[r].chunks[static_cast<std::size_t>(s.chunk)];
    if (!in.full) return fail(r, "decodes an empty slot");
    if (in.chunk != s.chunk) return fail(r, "decodes the wire of another chunk");
    if (in.raw != s.raw) return fail(r, "decodes by another codec than encoded");
    if (in.sum != s.sum) return fail(r, "decodes the wire of another sum");
    chunk.value = s.op == Op::decode ? in.value : terms_.sum(chunk.value, in.value);
    chunk.written = true;
    in.used = true;
  }

  void exchange(std::size_t r, const Step& s) {
    const int rank = static_cast<int>(r);
    if (s.from != kNobody) {
      Slot& in = slot(r, s.recv_slot);
      if (!writable(r, in)) return;
      in.receiving = true;
      in.full = false;
      post(s.from, rank, tag_of(plans_[r], s), false, in);
    }
    if (s.to != kNobody) {
      Slot& out = slot(r, s.slot);
      if (!out.full) return fail(r, "sends an empty slot");
      out.used = true;
      ++out.sends;
      ++(out.raw ? outcome_.sent_raw : outcome_.sent)[r];
      post(rank, s.to, tag_of(plans_[r], s), true, out);
    }
  }

  bool writable(std::size_t r, const Slot& target) {
    if (target.receiving) fail(r, "writes a slot whose message nobody waited for");
    if (!target.used) fail(r, "overwrites a wire that nobody used");
    return outcome_.error.empty();
  }

  // Messages with the same ranks and tag are matched in the order in which they are posted.
  void post(int sender, int receiver, int tag, bool send, Slot& mine) {
    const int size = static_cast<int>(plans_.size());
    Posted& posted = posted_.find_or_add(joined(sender * size + receiver, tag), {}).first;
    if (posted.first == nullptr) {
      posted.sends = send;
      posted.first = &mine;
      return;
    }
    if (posted.sends == send) {
      posted.others.push_back(&mine);
      return;
    }
    Slot& first = *posted.first;
    posted.first = posted.others.empty() ? nullptr : posted.others.front();
    if (!posted.others.empty()) posted.others.erase(posted.others.begin());
    Slot &from = send ? mine : first, &to = send ? first : mine;
    --from.sends;
    to.receiving = false;
    to.full = true;
    to.used = false;
    to.raw = from.raw;
    to.chunk = from.chunk;
    to.sum = from.sum;
    to.value = from.value;
  }

  void check_end() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].at < plans_[r].steps.size()) return fail(r, "deadlock: waits for ever");
      for (const Slot& s : ranks_[r].slots) {
        if (s.sends > 0) return fail(r, "a message is never received");
        if (s.receiving) return fail(r, "a message is never sent");
        if (!s.used) return fail(r, "a wire is never used");
      }
      if (!plans_[r].has_result) continue;
      for (std::size_t c = 0; c < ranks_[r].chunks.size(); ++c)
        if (ranks_[r].chunks[c].written != (written_ == Written::all || c == r))
          return fail(r, "a chunk of the output is never written, or one of another rank is");
    }
  }

  const std::vector<Plan>& plans_;
  const bool feedback_;
  const Written written_;
  Terms& terms_;
  std::vector<Rank> ranks_;
  NumberMap<Posted> posted_;         // by sender and receiver, and tag
  NumberMap<Terms::Id> operand_of_;  // by chunk and Step::sum
  NumberMap<int> sum_of_;            // by chunk and operand
  Interpreted outcome_;
};

inline Interpreted interpret(const std::vector<Plan>& plans, bool feedback, Terms& terms,
                             Written written = Written::all) {
  return Machine(plans, feedback, terms, written).run();
}

}  // namespace mq::test::symbolic
