// What each row of the table of plans promises, written down independently of its steps, and the check of a
// set of plans against it. Separate from the tests because proofs and mutations use the same check.
#pragma once

#include <bit>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant/plan/plan.hpp"
#include "tests/plan/symbolic.hpp"

namespace mq::test {

using symbolic::interpret;
using symbolic::Interpreted;
using symbolic::Terms;

// Whatever rank `ranks` names.
inline std::vector<Plan> make_all(const PlanRow& row, Ranks ranks) {
  std::vector<Plan> all;
  for (ranks.rank = 0; ranks.rank < ranks.size; ++ranks.rank) all.push_back(row.make(ranks));
  return all;
}

// Plans that are not the same for every number of ranks per node.
inline bool minds_nodes(const PlanRow& row) { return row.name == "hierarchical"; }
inline std::vector<int> all_node_sizes(const PlanRow& row, int size) {
  std::vector<int> all{1};
  for (int per_node = 2; per_node <= size && minds_nodes(row); ++per_node)
    if (size % per_node == 0) all.push_back(per_node);
  return all;
}

// Rank 0 of all that a plan can be made for with so many ranks.
inline std::vector<Ranks> all_ranks(const PlanRow& row, int size) {
  std::vector<Ranks> all;
  for (const int per_node : all_node_sizes(row, size))
    for (const bool encodes_own : {false, true}) all.push_back({0, size, per_node, encodes_own});
  return all;
}

inline std::string name_of(const PlanRow& row, const Ranks& ranks) {
  return std::string(row.name) + ", " + std::to_string(ranks.size) + " ranks, " +
         std::to_string(ranks.per_node) + " a node" + (ranks.encodes_own ? ", own encoded" : "");
}

// The result of one chunk, written down independently of the steps. Everything is added from the left.
// Ranks::rank is ignored.
using Formula = Terms::Id (*)(Terms&, const Ranks& ranks, int chunk, bool feedback);

inline Terms::Id own(Terms& t, int rank, int chunk, bool feedback) {  // what a rank encodes of its input
  const Terms::Id g = t.input(rank, chunk);
  return feedback ? t.sum(g, t.residual(rank, chunk)) : g;
}

// What a rank adds the others' to: its input or, with Ranks::encodes_own, what it would send.
inline Terms::Id first_term(Terms& t, const Ranks& ranks, int rank, int chunk, bool feedback) {
  return ranks.encodes_own ? t.decoded(own(t, rank, chunk, feedback)) : t.input(rank, chunk);
}
// What a rank encodes of a sum that began with its first_term.
inline Terms::Id encoded_sum(Terms& t, const Ranks& ranks, Terms::Id sum, int rank, int chunk,
                             bool feedback) {
  return feedback && !ranks.encodes_own ? t.sum(sum, t.residual(rank, chunk)) : sum;
}

inline Terms::Id direct(Terms& t, const Ranks& ranks, int chunk, bool feedback) {
  Terms::Id total = first_term(t, ranks, chunk, chunk, feedback);
  for (int r = 0; r < ranks.size; ++r)
    if (r != chunk) total = t.sum(total, t.decoded(own(t, r, chunk, feedback)));
  return t.decoded(encoded_sum(t, ranks, total, chunk, chunk, feedback));
}

inline Terms::Id allgather(Terms& t, const Ranks& ranks, int chunk, bool feedback) {
  Terms::Id total = t.decoded(own(t, 0, chunk, feedback));
  for (int r = 1; r < ranks.size; ++r) total = t.sum(total, t.decoded(own(t, r, chunk, feedback)));
  return total;
}

// A node's sum: its gatherer's input, and what its other ranks give raw or, with Ranks::encodes_own, encoded.
inline Terms::Id node_sum(Terms& t, const Ranks& ranks, int node, int chunk, bool feedback) {
  const int gatherer = node * ranks.per_node + chunk % ranks.per_node;
  Terms::Id total = first_term(t, ranks, gatherer, chunk, feedback);
  for (int r = node * ranks.per_node; r < (node + 1) * ranks.per_node; ++r) {
    if (r == gatherer) continue;
    const Terms::Id given = own(t, r, chunk, feedback);
    total = t.sum(total, ranks.encodes_own ? t.decoded(given) : given);
  }
  return total;
}

inline Terms::Id hierarchical(Terms& t, const Ranks& ranks, int chunk, bool feedback) {
  if (ranks.per_node == 1) return direct(t, ranks, chunk, feedback);
  const int owner = chunk / ranks.per_node, local = chunk % ranks.per_node;
  Terms::Id total = node_sum(t, ranks, owner, chunk, feedback);
  for (int node = 0; node < ranks.nodes(); ++node) {
    if (node == owner) continue;
    const Terms::Id sum = node_sum(t, ranks, node, chunk, feedback);
    const int gatherer = node * ranks.per_node + local;
    total = t.sum(total, t.decoded(encoded_sum(t, ranks, sum, gatherer, chunk, feedback)));
  }
  return t.decoded(encoded_sum(t, ranks, total, chunk, chunk, feedback));
}

inline Terms::Id recursive_doubling(Terms& t, const Ranks& ranks, int chunk, bool feedback) {
  const int size = ranks.size;
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  std::vector<Terms::Id> part;
  for (int r = 0; r < core; ++r) {
    if (r + core >= size) {
      part.push_back(own(t, r, chunk, feedback));
      continue;
    }
    const Terms::Id extra = t.decoded(own(t, r + core, chunk, feedback));
    const Terms::Id sum = t.sum(first_term(t, ranks, r, chunk, feedback), extra);
    part.push_back(encoded_sum(t, ranks, sum, r, chunk, feedback));
  }
  while (part.size() > 1) {
    std::vector<Terms::Id> pairs;
    for (std::size_t i = 0; i < part.size(); i += 2)
      pairs.push_back(t.sum(t.decoded(part[i]), t.decoded(part[i + 1])));
    part = pairs;
  }
  return part[0];
}

inline Terms::Id ring(Terms& t, const Ranks& ranks, int chunk, bool feedback) {
  Terms::Id encoded = own(t, (chunk + 1) % ranks.size, chunk, feedback);
  for (int hop = 2; hop <= ranks.size; ++hop) {
    const int rank = (chunk + hop) % ranks.size;
    const Terms::Id sum = t.sum(first_term(t, ranks, rank, chunk, feedback), t.decoded(encoded));
    encoded = encoded_sum(t, ranks, sum, rank, chunk, feedback);
  }
  return t.decoded(encoded);
}

// What `rank` encodes of a chunk when it has added what log2(group) partners, and then a smaller block, gave
// it: the sum of the group of ranks that begins at `first`. The ranks from first + group to `end` are the
// smaller blocks.
inline Terms::Id halved(Terms& t, const Ranks& ranks, int chunk, bool feedback, int first, int group,
                        int rank, int end) {
  bool added = false;
  Terms::Id sum = first_term(t, ranks, rank, chunk, feedback);
  const auto add = [&](Terms::Id encoded) {
    sum = t.sum(sum, t.decoded(encoded));
    added = true;
  };
  for (int bit = 1; bit < group; bit *= 2) {
    const int partner = first + ((rank - first) ^ bit);
    add(halved(t, ranks, chunk, feedback, first + (partner - first) / bit * bit, bit, partner, 0));
  }
  if (const int rest = first + group; rest < end) {
    const int smaller = 1 << (std::bit_width(static_cast<unsigned>(end - rest)) - 1);
    add(halved(t, ranks, chunk, feedback, rest, smaller, rest + chunk % smaller, end));
  }
  return added ? encoded_sum(t, ranks, sum, rank, chunk, feedback) : own(t, rank, chunk, feedback);
}

// The shape of the grid for `size` ranks. Only the number of columns comes from the plan (its chunks); the
// rest is computed here.
struct GridOf {
  int columns = 0, rows = 0, rest = 0;
  explicit GridOf(int size) : columns(columns_of(size)), rows(size / columns), rest(size % columns) {}
  static int columns_of(int size) {
    thread_local std::map<int, int> known;  // the plans of thousands of ranks are long
    const auto [at, is_new] = known.try_emplace(size);
    if (is_new) at->second = find_plan("grid")->make({0, size}).chunks;
    return at->second;
  }
  bool is_direct() const { return rows == 1; }
  bool is_short(int rank) const { return rank >= rows * columns; }
  // Who adds what `rank` has of a chunk: the rank in the chunk's column of the same row. If that row is too
  // short, it is the rank of that column in the row above.
  int owner(int rank, int chunk) const {
    const int here = rank / columns * columns + chunk;
    return here < rows * columns + rest ? here : here - columns;
  }
  int owners(int chunk) const { return rows + (chunk < rest); }
  // Ranks of the short row that give to a rank of the last whole row.
  int above(int rank) const { return rank / columns == rows - 1 && rank % columns >= rest ? rest : 0; }
};

inline Terms::Id grid(Terms& t, const Ranks& ranks, int chunk, bool feedback) {
  const GridOf g(ranks.size);
  if (g.is_direct()) return direct(t, ranks, chunk, feedback);
  Terms::Id total = t.zero();
  for (int row = 0; row < g.owners(chunk); ++row) {
    const int owner = row * g.columns + chunk;
    Terms::Id sum = first_term(t, ranks, owner, chunk, feedback);
    for (int r = 0; r < ranks.size; ++r)
      if (r != owner && g.owner(r, chunk) == owner) sum = t.sum(sum, t.decoded(own(t, r, chunk, feedback)));
    const Terms::Id encoded = t.decoded(encoded_sum(t, ranks, sum, owner, chunk, feedback));
    total = row == 0 ? encoded : t.sum(total, encoded);
  }
  return t.decoded(total);
}

// What a row promises; a new row needs an entry.
struct Promise {
  Formula formula;
  int (*chunks)(int size);
  int (*sent)(const Ranks&);      // encoded wires of one chunk
  int (*sent_raw)(const Ranks&);  // raw ones
  int (*slots)(const Ranks&);
};

inline int log2_floor(int size) { return std::bit_width(static_cast<unsigned>(size)) - 1; }
inline bool is_extra(int rank, int size) { return rank >= 1 << log2_floor(size); }
inline bool has_extra(int rank, int size) { return rank + (1 << log2_floor(size)) < size; }

inline int none(const Ranks&) { return 0; }

// The block of a rank in halving_doubling: a power of two of ranks for each bit of the size, the largest
// first.
struct BlockOf {
  int size = 0;
  bool is_last = false;
  explicit BlockOf(const Ranks& ranks) {
    int left = ranks.size, first = 0;
    do {
      first += size;
      size = 1 << log2_floor(left);
      left -= size;
    } while (ranks.rank >= first + size);
    is_last = left == 0;
  }
};

inline Terms::Id halving_doubling(Terms& t, const Ranks& ranks, int chunk, bool feedback) {
  return t.decoded(halved(t, ranks, chunk, feedback, 0, 1 << log2_floor(ranks.size), chunk, ranks.size));
}

// Between sqrt 2P and sqrt 8P columns, and two rows at least: so at most 2.5 vectors are sent.
inline int grid_chunks(int size) {
  const int q = GridOf(size).columns;
  const bool is_usual = 2 * q <= size && q * q <= 8.01 * size && (q * q >= 1.98 * size || q == size / 2);
  return size < 4 ? size : is_usual ? q : -1;
}
inline int grid_sent(const Ranks& r) {
  const GridOf g(r.size);
  if (g.is_direct()) return 2 * (r.size - 1);
  const int results = (g.is_short(r.rank) ? g.rest : g.columns) - 1 + g.above(r.rank);
  return g.columns - 1 + g.owners(r.rank % g.columns) - 1 + results;
}
inline int grid_slots(const Ranks& r) {
  const GridOf g(r.size);
  if (g.is_direct()) return 2 * r.size - 1;
  return 2 * (g.columns - 1) + g.above(r.rank) + g.owners(r.rank % g.columns) + 1;
}

inline const Promise& promise(const PlanRow& row) {
  static const std::map<std::string_view, Promise> all{
      {"direct",
       {direct, [](int size) { return size; }, [](const Ranks& r) { return 2 * (r.size - 1); }, none,
        [](const Ranks& r) { return 2 * r.size - 1; }}},
      {"allgather",
       {allgather, [](int) { return 1; }, [](const Ranks& r) { return r.size - 1; }, none,
        [](const Ranks& r) { return r.size; }}},
      {"recursive_doubling",
       {recursive_doubling, [](int) { return 1; },
        [](const Ranks& r) {
          return is_extra(r.rank, r.size) ? 1 : log2_floor(r.size) + 2 * has_extra(r.rank, r.size);
        },
        none,
        [](const Ranks& r) {
          return is_extra(r.rank, r.size) ? 3 : 2 * log2_floor(r.size) + has_extra(r.rank, r.size);
        }}},
      {"ring",
       {ring, [](int size) { return size; }, [](const Ranks& r) { return 2 * (r.size - 1); }, none,
        [](const Ranks&) { return 3; }}},
      {"halving_doubling",
       {halving_doubling, [](int size) { return 1 << log2_floor(size); },
        [](const Ranks& r) {
          const BlockOf block(r);
          const int whole = 1 << log2_floor(r.size);  // chunks
          if (block.size == whole) return 2 * (whole - 1) + (r.size > whole);
          return block.is_last ? 2 * whole - whole / block.size : 2 * whole;
        },
        none,
        [](const Ranks& r) {
          const BlockOf block(r);
          const int whole = 1 << log2_floor(r.size);
          return 2 * whole - (block.size == whole && block.is_last);
        }}},
      {"grid", {grid, grid_chunks, grid_sent, none, grid_slots}},
      {"hierarchical",
       {hierarchical, [](int size) { return size; },
        [](const Ranks& r) { return 2 * (r.nodes() - 1) + (1 + r.encodes_own) * (r.size - r.nodes()); },
        [](const Ranks& r) { return r.encodes_own ? 0 : r.size - r.nodes(); },
        [](const Ranks& r) { return 2 * r.size - 1; }}},
  };
  return all.at(row.name);
}

inline std::string place(int rank, int chunk) {
  return "rank " + std::to_string(rank) + ", chunk " + std::to_string(chunk) + ": ";
}

// Inputs and residuals before = result and residuals after, for one chunk; and each of them once in the
// result.
inline std::string unbalanced(const Interpreted& out, int chunk, Terms& terms) {
  const auto c = static_cast<std::size_t>(chunk);
  Terms::Linear result;
  terms.add(result, out.output[0][c], 1);
  Terms::Linear gap = result;
  for (int r = 0; r < static_cast<int>(out.output.size()); ++r) {
    for (const Terms::Id atom : {terms.input(r, chunk), terms.residual(r, chunk)}) {
      if (!result.contains(atom) || result[atom] != 1) return terms.text(atom) + " is not once in the result";
      terms.add(gap, atom, -1);
    }
    terms.add(gap, out.residual[static_cast<std::size_t>(r)][c], 1);
  }
  return gap.empty() ? "" : terms.text(gap.begin()->first) + " is lost or counted twice";
}

// Why these plans do not do what the row promises; empty if they do.
inline std::string flaw(const PlanRow& row, const std::vector<Plan>& all, const Ranks& ranks) {
  const int size = ranks.size;
  for (const bool feedback : {false, true}) {
    Terms terms;
    const Interpreted out = interpret(all, feedback, terms);
    if (!out.error.empty()) return out.error;
    for (int c = 0; c < all[0].chunks; ++c) {
      const Terms::Id expected = promise(row).formula(terms, ranks, c, feedback);
      for (int r = 0; r < size; ++r) {
        const Terms::Id got = out.output[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)];
        if (got != expected) return place(r, c) + terms.text(got) + " instead of " + terms.text(expected);
      }
      if (!feedback) continue;
      const std::string imbalance = unbalanced(out, c, terms);
      if (!imbalance.empty()) return "chunk " + std::to_string(c) + ": " + imbalance;
    }
  }
  return "";
}

}  // namespace mq::test
