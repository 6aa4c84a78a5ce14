// The plan for nodes of several ranks. Sums inside a node are exact, and only the sum of a node goes to other
// nodes. The plan has a file of its own because it alone has two kinds of neighbours.

#include <utility>

#include "mpi_quant/plan/rows.hpp"

namespace mq {
namespace {

// The steps of one rank: the local-th rank of node `node`. There are P = L M ranks, L on each of M nodes.
// Chunk m L + l belongs to rank m L + l, as in direct. On each node, local rank l is the *gatherer* of that
// chunk: it holds the node's sum of the chunk.
class Hierarchical {
 public:
  explicit Hierarchical(const Ranks& ranks)
      : per_node_(ranks.per_node),
        nodes_(ranks.nodes()),
        node_(ranks.rank / ranks.per_node),
        local_(ranks.rank % ranks.per_node),
        encodes_own_(ranks.encodes_own),
        plan_{.chunks = ranks.size, .slots = 2 * ranks.size - 1, .rounds = 2 * nodes_, .steps = {}} {}

  Plan make() {
    for (int s = 1; s <= nodes_; ++s) give_inside((node_ + s) % nodes_);  // first what other nodes wait for
    for (int s = 1; s < nodes_; ++s) send_sum(s);
    add_inside(node_, own_slot());
    for (int source = 0; source < nodes_; ++source)
      if (source != node_)
        plan_.decode_add(chunk(node_, local_), come((node_ - source + nodes_) % nodes_), source);
    plan_.encode(chunk(node_, local_), own_slot(), of_sum(), all());
    for (int s = 1; s < nodes_; ++s) between(own_slot(), s, 1);
    forward(node_, own_slot());
    for (int s = 1; s < nodes_; ++s) forward(from(s), come(s));
    plan_.decode(chunk(node_, local_), own_slot(), all());
    for (int s = 1; s < nodes_; ++s) plan_.decode(chunk(from(s), local_), come(s), all());
    for (int s = 0; s < nodes_; ++s)
      for (int t = 1; t < per_node_; ++t) plan_.decode(chunk(from(s), giver(t)), taken(from(s), t), all());
    return std::move(plan_);
  }

 private:
  int chunk(int node, int local) const { return node * per_node_ + local; }
  int rank(int node, int local) const { return node * per_node_ + local; }
  int to(int s) const { return (node_ + s) % nodes_; }
  int from(int s) const { return (node_ - s + nodes_) % nodes_; }
  int taker(int t) const { return (local_ + t) % per_node_; }
  int giver(int t) const { return (local_ - t + per_node_) % per_node_; }

  // Slots, in this order: frames given to the other ranks of the node, and frames taken from them (L - 1 for
  // the chunks of each node); frames that go to other nodes, and frames that come from them; the sum of all.
  int inside() const { return (per_node_ - 1) * nodes_; }
  int given(int node, int t) const { return node * (per_node_ - 1) + t - 1; }
  int taken(int node, int t) const { return inside() + given(node, t); }
  int go(int s) const { return 2 * inside() + s - 1; }
  int come(int s) const { return 2 * inside() + nodes_ - 1 + s - 1; }
  int own_slot() const { return 2 * inside() + 2 * (nodes_ - 1); }

  // Step::sum: of a node's sum its number, of the result `all`, of a rank's part a number above.
  int all() const { return nodes_; }
  int part(int rank) const { return nodes_ + 1 + rank; }

  // The feedback of the first encode of a sum. If own elements are encoded, an encode of this rank's elements
  // came before it, and took the residual.
  StepFeedback of_sum() const { return encodes_own_ ? StepFeedback::deposit : StepFeedback::carry; }

  // Sends to the same local rank s nodes further, and receives from the one s nodes back.
  void between(int slot, int s, int round) {
    plan_.exchange(slot, rank(to(s), local_), come(s), rank(from(s), local_), round);
  }
  void within(int slot, int t, int recv_slot, int round) {
    plan_.exchange(slot, rank(node_, taker(t)), recv_slot, rank(node_, giver(t)), round);
  }

  // Gives each gatherer on this node this rank's part of its chunk, and takes the parts of the other ranks.
  void give_inside(int node) {
    for (int t = 1; t < per_node_; ++t) {
      plan_.encode(chunk(node, taker(t)), given(node, t), StepFeedback::carry, part(rank(node_, local_)),
                   !encodes_own_);
      within(given(node, t), t, taken(node, t), node);
    }
  }
  // Adds the parts of the other ranks to this rank's own part, in rank order. Nothing uses `slot` yet.
  void add_inside(int node, int slot) {
    if (encodes_own_) round_own(plan_, rank(node_, local_), chunk(node, local_), slot);
    for (int local = 0; local < per_node_; ++local)
      if (local != local_)
        plan_.decode_add(chunk(node, local_), taken(node, (local_ - local + per_node_) % per_node_),
                         part(rank(node_, local)), !encodes_own_);
  }
  void send_sum(int s) {
    add_inside(to(s), go(s));
    plan_.encode(chunk(to(s), local_), go(s), of_sum(), node_);
    between(go(s), s, 0);
  }
  // Passes an encoded sum on unchanged to the other ranks of the node, and receives theirs.
  void forward(int node, int slot) {
    for (int t = 1; t < per_node_; ++t) within(slot, t, taken(node, t), nodes_ + node);
  }

  const int per_node_, nodes_, node_, local_;
  const bool encodes_own_;
  Plan plan_;
};

}  // namespace

// Reduce-scatter and allgather by owners, on two levels. Leaders of a node are as in Karonis et al., IPDPS
// 2000, but all ranks of a node are leaders, each of its share, as in Bayatpour et al., SC 2017. There are L
// ranks on a node and M = P/L nodes.
//   1. Inside a node: everyone sends each local rank raw frames of the M chunks that it gathers. The gatherer
//      adds them to its own part in rank order. Nothing is lost: the frames include the residuals, which
//      become 0.
//   2. Between the gatherers of the same chunks, one on each node: the plan direct, on the sums of the nodes.
//      Gatherers of different chunks do this side by side, over all links of the node.
//   3. Inside a node: everyone passes its M encoded sums of all ranks on to the others, unchanged.
// An element takes one loss for each node and one for the sum, where direct takes P losses. They are kept in
// the residual of the gatherer.
// To other nodes a rank sends 2(M-1)/P w, a node 2(M-1)/M w. With direct a rank sends them 2(P-L)/P w, which
// is L times as much. Inside a node a rank sends (1 - 1/L) n and (1 - 1/L) w. There are 2(M-1) + 2(L-1)M
// messages. The codec encodes M/P n and decodes (M-1)/P n + n; raw encodes and decodes (1 - 1/L) n each.
//
// With Ranks::encodes_own the parts inside a node are encoded by the codec, and each rank's own part is
// encoded and decoded. Then an element takes a loss for each rank too, unless the codec's sums are exact.
//
// 2P-1 slots. As in direct, the last frames are received into the slots of the wires that were added first.
// Inside a node, rounds 0 to M-1 are raw frames, one round for the chunks of each node, and rounds M to 2M-1
// are frames that are passed on. Between nodes, round 0 is sums of nodes and round 1 is sums of all.
// With one rank on a node the plan is direct.
Plan make_hierarchical(const Ranks& ranks) {
  if (ranks.per_node == 1) return make_direct(ranks);
  return Hierarchical(ranks).make();
}

}  // namespace mq
