#include "mpi_quant/plan/cost.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "mpi_quant/plan/layout.hpp"

namespace mq {
namespace {

// Messages that follow each other, each after the one before has come. Each rank copies what it sends and
// what it receives.
Cost messages_in_turn(double messages, double bytes, const Prices& prices) {
  Cost all;
  all.add(Term::latency, messages, prices);
  all.add(Term::overhead, 2 * messages, prices);
  if (prices[Term::byte] < 2 * prices[Term::copy])
    all.add(Term::copy, 2 * bytes, prices);
  else
    all.add(Term::byte, bytes, prices);
  return all;
}

double log2_up(int ranks) { return std::bit_width(static_cast<unsigned>(std::max(ranks, 2) - 1)); }

// One rank's way through one segment.
class Walk {
 public:
  Walk(const Plan& plan, const Layout& layout, const CallShape& call, const Prices& prices)
      : plan_(plan), layout_(layout), call_(call), prices_(prices) {
    arrives_.resize(static_cast<std::size_t>(plan.slots));
    bytes_.resize(arrives_.size());
    is_coming_.resize(arrives_.size());
    writes_left_.resize(static_cast<std::size_t>(plan.chunks));
    is_touched_.resize(writes_left_.size());
    for (const Step& s : plan.steps)
      if (s.op == Op::decode || s.op == Op::decode_add) ++writes_left_[index(s.chunk)];
  }

  // The rank only receives from others what a rank sent that was walked before: its last message.
  void comes_from(const Walk& sender) {
    upstream_ = sender.port_free_;
    upstream_.add(Term::latency, 1, prices_);
    has_upstream_ = true;
  }
  void run() {
    for (const Step& s : plan_.steps)
      if (s.op == Op::exchange)
        exchange(s);
      else
        code(s);
    all_ = longer(now_, port_free_);
  }
  const Cost& all() const { return all_; }    // from the first step to the last
  const Cost& work() const { return work_; }  // of the processor
  const Cost& sent() const { return sent_; }  // of the port

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  void spend(Term term, double amount) {
    now_.add(term, amount, prices_);
    work_.add(term, amount, prices_);
  }
  // A message is copied while its bytes come.
  void wait_for(int slot) {
    if (!is_coming_[index(slot)]) return;
    is_coming_[index(slot)] = 0;
    spend(Term::copy, bytes_[index(slot)]);
    now_ = longer(now_, arrives_[index(slot)]);
    spend(Term::overhead, 1);
  }

  void exchange(const Step& s) {
    Cost arrival;
    double bytes = longest_frame();  // of a message whose sender does something else than this rank
    if (s.to != kNobody) {
      wait_for(s.slot);
      bytes = bytes_[index(s.slot)];
      spend(Term::overhead, 1);
      port_free_ = longer(port_free_, now_);
      port_free_.add(Term::byte, bytes, prices_);
      spend(Term::copy, bytes);  // its bytes leave as they are copied
      port_free_ = longer(port_free_, now_);
      sent_.add(Term::byte, bytes, prices_);
      arrival = port_free_;
    } else if (has_upstream_) {
      arrival = upstream_;
    } else {
      arrival = now_;
      arrival.add(Term::overhead, 1, prices_);
      arrival.add(Term::byte, bytes, prices_);
    }
    if (s.from == kNobody) return;
    if (s.to != kNobody || !has_upstream_) arrival.add(Term::latency, 1, prices_);
    arrives_[index(s.recv_slot)] = arrival;
    bytes_[index(s.recv_slot)] = bytes;
    is_coming_[index(s.recv_slot)] = 1;
  }

  void code(const Step& s) {
    const auto n = static_cast<double>(layout_.chunk(0, index(s.chunk)).n);
    if (s.op != Op::encode) wait_for(s.slot);
    const bool is_last = s.op != Op::encode && --writes_left_[index(s.chunk)] == 0;
    const bool is_first = s.op != Op::decode && !is_touched_[index(s.chunk)];
    is_touched_[index(s.chunk)] = 1;
    spend(s.op == Op::encode ? Term::encode : Term::decode, n);
    spend(Term::memory, (is_first ? n : 0) + (is_last ? n : 0));
    spend(Term::step, 1);
    if (s.op == Op::encode) bytes_[index(s.slot)] = frame(n, s.raw);
  }
  double frame(double n, bool raw) const {
    return static_cast<double>(kFrameHeaderBytes) +
           n * (raw ? static_cast<double>(call_.element_bytes) : call_.wire_bytes);
  }
  double longest_frame() const { return frame(static_cast<double>(layout_.max_chunk()), false); }

  const Plan& plan_;
  const Layout& layout_;
  const CallShape& call_;
  const Prices& prices_;
  Cost now_, port_free_, work_, sent_, all_, upstream_;
  bool has_upstream_ = false;
  std::vector<Cost> arrives_;     // by slot
  std::vector<double> bytes_;     // by slot
  std::vector<char> is_coming_;   // by slot
  std::vector<int> writes_left_;  // by chunk
  std::vector<char> is_touched_;  // by chunk
};

// What a call of several segments takes whose first segment takes `first`.
Cost of_all_segments(const Layout& layout, const Cost& first, const Cost& work, const Cost& sent, int ranks,
                     const Prices& prices) {
  const auto segments = static_cast<double>(layout.segments());
  Cost rest = longer(work, sent).times(segments - 1);
  rest += first;
  Cost total = longer(rest, first.times(segments / usual_pipelines(ranks)));
  total += agreement_cost(ranks, prices);
  return total;
}

Layout layout_of(const Plan& plan, const CallShape& call) {
  return {call.count, plan.chunks, call.block, call.element_bytes, call.whole, plan.rooted};
}

// What ranks between the leaves and the root of a reduction do beside the two ends of its longest chain, for
// n elements: an owner adds up its chunks; in a tree each rank on the way adds and encodes.
Cost between(const Plan& plan, double n, int ranks, const Prices& prices) {
  Cost all;
  const double levels = plan.chunks > 1 ? 1 : log2_up(ranks) - 1;
  all.add(Term::decode, levels * n, prices);
  all.add(Term::encode, plan.chunks > 1 ? 0 : levels * n, prices);
  return all;
}

// The root's way, and from there the way of the rank that gets its last message. A reduction goes it
// backwards.
Cost rooted_cost(Collective collective, const PlanRow& row, const CallShape& call, const Prices& given) {
  const bool adds_up = adds(collective);
  Prices prices = given;
  if (adds_up) std::swap(prices[Term::encode], prices[Term::decode]);
  Ranks ranks = call.ranks;
  ranks.size = std::max(ranks.size, 2);
  ranks.root = ranks.rank = 0;
  const Plan of_root = row.make(ranks);
  int last = 0;
  for (const Step& s : of_root.steps)
    if (s.op == Op::exchange && s.to != kNobody) last = s.to;
  ranks.rank = last;
  const Plan of_last = row.make(ranks);
  const Layout layout = layout_of(of_root, call);
  Walk root(of_root, layout, call, prices), end(of_last, layout, call, prices);
  root.run();
  end.comes_from(root);
  end.run();
  Cost first = longer(root.all(), end.all()), work = longer(root.work(), end.work());
  if (adds_up) {
    for (Cost* const cost : {&first, &work})
      std::swap(cost->amounts[Term::encode], cost->amounts[Term::decode]);
    double n = 0;
    for (int c = 0; c < of_root.chunks; ++c)
      n += static_cast<double>(layout.chunk(0, static_cast<std::size_t>(c)).n);
    const Cost more = between(of_root, n, ranks.size, given);
    first += more;
    work += more;
  }
  return of_all_segments(layout, first, work, longer(root.sent(), end.sent()), ranks.size, given);
}

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  for (std::size_t i = 0; i < amounts.of.size(); ++i) amounts.of[i] += other.amounts.of[i];
  seconds += other.seconds;
  return *this;
}

Cost Cost::times(double factor) const {
  Cost product = *this;
  for (double& amount : product.amounts.of) amount *= factor;
  product.seconds *= factor;
  return product;
}

Cost agreement_cost(int ranks, const Prices& prices) {
  return messages_in_turn(log2_up(ranks), log2_up(ranks) * static_cast<double>(kHelloBytes), prices);
}

std::array<Cost, kDenseNames.size()> dense_costs(double bytes, int ranks, const Prices& prices) {
  const double p = std::max(ranks, 2), rounds = log2_up(ranks), twice = 2 * (p - 1) / p * bytes;
  return {messages_in_turn(rounds, rounds * bytes, prices), messages_in_turn(2 * rounds, twice, prices),
          messages_in_turn(2 * (p - 1), twice, prices)};
}

Cost dense_cost(double bytes, int ranks, const Prices& prices) {
  const auto costs = dense_costs(bytes, ranks, prices);
  return *std::min_element(costs.begin(), costs.end(),
                           [](const Cost& a, const Cost& b) { return a.seconds < b.seconds; });
}

Cost dense_cost(Collective collective, double bytes, int ranks, const Prices& prices) {
  if (collective == Collective::allreduce) return dense_cost(bytes, ranks, prices);
  const double p = std::max(ranks, 2), rounds = log2_up(ranks), but_own = (p - 1) / p * bytes;
  if (!has_root(collective)) return messages_in_turn(rounds, but_own, prices);
  const Cost tree = messages_in_turn(rounds, rounds * bytes, prices),
             halves = messages_in_turn(2 * rounds, 2 * but_own, prices);
  return tree.seconds < halves.seconds ? tree : halves;
}

Cost cost_of(const PlanRow& row, const CallShape& call, const Prices& prices) {
  Ranks ranks = call.ranks;
  ranks.rank = 0;  // has the most work in every plan, or nearly (grid)
  ranks.size = std::max(ranks.size, 2);
  const Plan plan = row.make(ranks);
  const Layout layout = layout_of(plan, call);
  Walk walk(plan, layout, call, prices);
  walk.run();
  return of_all_segments(layout, walk.all(), walk.work(), walk.sent(), ranks.size, prices);
}

Cost cost_of(Collective collective, const CallShape& call, const Prices& prices) {
  const int ranks = call.ranks.size;
  if (collective == Collective::allreduce)
    return cost_of(choose_plan(call.count * call.element_bytes, ranks), call, prices);
  const auto encoded = static_cast<std::uint64_t>(static_cast<double>(call.count) * call.wire_bytes);
  if (!has_root(collective)) return cost_of(*plan_of(collective, encoded, ranks), call, prices);
  return rooted_cost(collective, *plan_of(Collective::bcast, encoded, ranks), call, prices);
}

}  // namespace mq
