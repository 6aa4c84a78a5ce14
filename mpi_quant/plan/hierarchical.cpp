// The plan for nodes of several ranks: sums inside a node lose nothing, and only its sum goes to other nodes.
// Apart from the flat plans because it alone has two kinds of neighbours.

#include <utility>

#include "mpi_quant/plan/rows.hpp"

namespace mq {
namespace {

// Of P = L M ranks, L to a node, this is the local-th of node `node`. Chunk m L + l belongs to rank m L + l,
// as in direct; here its *gatherer* on a node is the local rank l, which holds the node's sum of it.
class Hierarchical {
 public:
  explicit Hierarchical(const Ranks& ranks)
      : per_node_(ranks.per_node),
        nodes_(ranks.nodes()),
        node_(ranks.rank / ranks.per_node),
        local_(ranks.rank % ranks.per_node),
        plan_{.chunks = ranks.size, .slots = 2 * ranks.size - 1, .rounds = 2 * nodes_, .steps = {}} {}

  Plan make() {
    for (int s = 1; s <= nodes_; ++s) give_inside((node_ + s) % nodes_);  // what other nodes wait for first
    for (int s = 1; s < nodes_; ++s) send_sum(s);
    add_inside(node_);
    for (int source = 0; source < nodes_; ++source)
      if (source != node_) decode(Op::decode_add, node_, local_, come((node_ - source + nodes_) % nodes_));
    plan_.steps.push_back({.op = Op::encode,
                           .chunk = chunk(node_, local_),
                           .slot = own_slot(),
                           .feedback = StepFeedback::carry});
    for (int s = 1; s < nodes_; ++s) between(own_slot(), s, 1);
    forward(node_, own_slot());
    for (int s = 1; s < nodes_; ++s) forward(from(s), come(s));
    decode(Op::decode, node_, local_, own_slot());
    for (int s = 1; s < nodes_; ++s) decode(Op::decode, from(s), local_, come(s));
    for (int s = 0; s < nodes_; ++s)
      for (int t = 1; t < per_node_; ++t) decode(Op::decode, from(s), giver(t), taken(from(s), t));
    return std::move(plan_);
  }

 private:
  int chunk(int node, int local) const { return node * per_node_ + local; }
  int rank(int node, int local) const { return node * per_node_ + local; }
  int to(int s) const { return (node_ + s) % nodes_; }
  int from(int s) const { return (node_ - s + nodes_) % nodes_; }
  int taker(int t) const { return (local_ + t) % per_node_; }
  int giver(int t) const { return (local_ - t + per_node_) % per_node_; }

  // Slots: what is given to and taken from the node's other ranks, L - 1 for each node's chunks; what goes to
  // and comes from the other nodes; the own sum of all.
  int inside() const { return (per_node_ - 1) * nodes_; }
  int given(int node, int t) const { return node * (per_node_ - 1) + t - 1; }
  int taken(int node, int t) const { return inside() + given(node, t); }
  int go(int s) const { return 2 * inside() + s - 1; }
  int come(int s) const { return 2 * inside() + nodes_ - 1 + s - 1; }
  int own_slot() const { return 2 * inside() + 2 * (nodes_ - 1); }

  void decode(Op op, int node, int local, int slot, bool raw = false) {
    plan_.steps.push_back({.op = op, .chunk = chunk(node, local), .slot = slot, .raw = raw});
  }
  // To the same local rank s nodes on, from the one s nodes back.
  void between(int slot, int s, int round) {
    plan_.steps.push_back({.op = Op::exchange,
                           .slot = slot,
                           .to = rank(to(s), local_),
                           .from = rank(from(s), local_),
                           .recv_slot = come(s),
                           .round = round});
  }
  void within(int slot, int t, int recv_slot, int round) {
    plan_.steps.push_back({.op = Op::exchange,
                           .slot = slot,
                           .to = rank(node_, taker(t)),
                           .from = rank(node_, giver(t)),
                           .recv_slot = recv_slot,
                           .round = round});
  }

  // The own part of a node's chunks to their gatherers here, and theirs of the own.
  void give_inside(int node) {
    for (int t = 1; t < per_node_; ++t) {
      plan_.steps.push_back({.op = Op::encode,
                             .chunk = chunk(node, taker(t)),
                             .slot = given(node, t),
                             .feedback = StepFeedback::carry,
                             .raw = true});
      within(given(node, t), t, taken(node, t), node);
    }
  }
  // In rank order, to the own part.
  void add_inside(int node) {
    for (int local = 0; local < per_node_; ++local)
      if (local != local_)
        decode(Op::decode_add, node, local_, taken(node, (local_ - local + per_node_) % per_node_), true);
  }
  void send_sum(int s) {
    add_inside(to(s));
    plan_.steps.push_back(
        {.op = Op::encode, .chunk = chunk(to(s), local_), .slot = go(s), .feedback = StepFeedback::carry});
    between(go(s), s, 0);
  }
  // The encoded sum of all as it is, and theirs.
  void forward(int node, int slot) {
    for (int t = 1; t < per_node_; ++t) within(slot, t, taken(node, t), nodes_ + node);
  }

  const int per_node_, nodes_, node_, local_;
  Plan plan_;
};

}  // namespace

// Two levels of owner-computes reduce-scatter and allgather (leaders of a node as in Karonis et al., IPDPS
// 2000, but all ranks of a node are leaders, each of its share, as in Bayatpour et al., SC 2017). L ranks a
// node, M = P/L nodes.
//   1. inside a node: everyone sends each local rank raw frames of the M chunks that it gathers, which adds
//      them to its own part in rank order. Nothing is lost: residuals go along and become 0.
//   2. between the gatherers of the same chunks, one a node: direct, of the node's sums. Gatherers of
//      different chunks do this side by side, over all the node's links.
//   3. inside a node: everyone passes the M encoded sums of all that it has on to the others, unchanged.
// One loss for each node and one for the sum, against P of direct, on the residual elements of the gatherer.
// To other nodes go 2(M-1)/P w a rank, 2(M-1)/M w a node: an L-th of direct's 2(P-L)/P w a rank. Inside a
// node go (1 - 1/L) n and (1 - 1/L) w a rank. 2(M-1) + 2(L-1)M messages; encodes M/P n by the codec and
// (1 - 1/L) n raw, decodes (M-1)/P n + n by the codec and (1 - 1/L) n raw.
//
// 2P-1 slots; as in direct, what comes last is received into the slots of the wires that were added first.
// Rounds 0 to M-1 are of raw frames, by chunk's node, M to 2M-1 of what is passed on; 0 and 1, between nodes,
// of sums and of the sums of all. On nodes of one rank, or so many that the rounds do not suffice, it is
// direct.
Plan make_hierarchical(const Ranks& ranks) {
  if (ranks.per_node == 1 || 2 * ranks.nodes() > kMaxRounds) return make_direct(ranks);
  return Hierarchical(ranks).make();
}

}  // namespace mq
