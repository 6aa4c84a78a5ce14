#include "tests/engine/scene.hpp"

#include <deque>
#include <numeric>

namespace mq::test {

Plan Scene::plan_of(int rank, bool half) const {
  return plan->make({rank, ranks, half ? 1 : per_node, codec->exact_sums || memory->encodes_own,
                     ((!ends.empty() && !gathers) || reduces) && feedback, std::max(root, 0)});
}
kernels::Params Scene::params() const {
  kernels::Params p = kernels::preset_params(*codec);
  for (std::size_t i = 0; i < codec->specs.size() && short_blocks; ++i)
    if (codec->specs[i].name == "block") p.value[i] = 64;
  for (const auto& [i, value] : values) p.value[i] = value;
  return p;
}
CallFeedback Scene::call_memory(kernels::Element element) const {
  CallFeedback of{memory,
                  memory->ops == nullptr ? nullptr : memory->ops(element, isa),
                  kernels::preset_params(*memory),
                  1,
                  {}};
  for (const auto& [i, value] : memory_values) of.params.value[i] = value;
  of.terms = memory->terms(of.params);
  of.exact_restart = exact_restart;
  of.mirrors = of.keeps_estimates() && (gathers || (root != kNobody && !reduces));
  return of;
}
std::string Scene::describe(std::size_t n) const {
  const std::size_t vectors = vector_ends.size();
  return std::string(codec->name) + "/" + std::string(plan->name) + " ranks=" + std::to_string(ranks) +
         (per_node > 1 ? "/" + std::to_string(per_node) : "") + " n=" + std::to_string(n) +
         (memory != &kernels::carry_rule() ? " memory=" + std::string(memory->name) : "") +
         (mean ? " mean" : "") + (feedback ? " feedback" : "") + (in_place ? " in place " : " ") +
         (vectors > 0 ? "in " + std::to_string(vectors) + " vectors " : "");
}

std::vector<int> rank_counts() {
  if (kSanitized) return {2, 3, 4, 6, 9};
  return {2, 3, 4, 5, 8, 9, 13};
}

std::vector<int> node_sizes(const PlanRow& plan, int ranks) {
  if (plan.name != "hierarchical") return {1};
  std::vector<int> all;
  for (const int per_node : {2, 3, 4})
    if (ranks % per_node == 0) all.push_back(per_node);
  return all;
}

std::vector<int> damages(const Codec& codec) {
  if (kSanitized) return {codec.id % kDamages};
  std::vector<int> all(kDamages);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Loopback::Tamper damage_second(int damage, std::atomic<int>& messages, std::atomic<int>& victim) {
  return [damage, &messages, &victim](int, int to, int, Loopback::Message& m) {
    if (messages++ != 1) return;
    victim = to;
    if (damage == 0) m.clear();
    if (damage == 1) m.resize(m.size() - 1);
    if (damage == 2) m[0] ^= std::byte{1};  // magic
    if (damage == 3) m.resize(1 << 20);     // longer than any bound here
    if (damage == 4) m[8] ^= std::byte{1};  // hash of another call
  };
}

template <class T>
Vectors<T> inputs(int ranks, std::size_t n, Input kind) {
  Vectors<T> x;
  for (int r = 0; r < ranks; ++r) {
    auto values = make_input<Compute<T>>(kind, n, seed() + static_cast<std::uint64_t>(r));
    if constexpr (std::is_same_v<T, Compute<T>>) {
      x.push_back(std::move(values));
    } else {
      x.emplace_back(n);
      kernels::convert(element_of<T>, kernels::Isa::scalar)
          ->narrow(values.data(), x.back().data(), nullptr, n);
    }
  }
  return x;
}

Parts parts_of_root(const Scene& scene, int rank, std::size_t n) {
  const Range all{0, n}, of_root = rank == scene.root ? all : Range{};
  return scene.reduces ? Parts{{}, all, of_root, {}, false, scene.root}
                       : Parts{{}, of_root, all, {}, false, scene.root};
}
bool lacks_output(const Scene& scene, int rank) { return scene.reduces && rank != scene.root; }

namespace {

// The input and output of rank r. places: of an allgather.
template <class T>
void place_vectors(const Scene& scene, std::size_t r, const std::vector<T>& input, std::vector<T>& output,
                   std::vector<std::size_t>& places, Reduction& reduction) {
  reduction.count = input.size();
  const T* from = scene.in_place ? output.data() : input.data();
  if (scene.root != kNobody) reduction.parts = parts_of_root(scene, static_cast<int>(r), input.size());
  if (lacks_output(scene, static_cast<int>(r))) {
    from = input.data();
    std::fill(output.begin(), output.end(), T(7));
  }
  if (!scene.ends.empty()) {
    const std::size_t n = reduction.count = scene.ends.back(), begin = r == 0 ? 0 : scene.ends[r - 1];
    if (scene.gathers) {
      for (std::size_t q = 0; q < scene.ends.size(); ++q)
        places.push_back((q + 1) * scene.gap + (q == 0 ? 0 : scene.ends[q - 1]));
      output.assign(n + (scene.ends.size() + 1) * scene.gap, T(7));
      reduction.parts = {scene.ends, {begin, input.size()}, {0, output.size()}, places};
      from = output.data() + places[r];
      if (scene.in_place) std::copy(input.begin(), input.end(), output.data() + places[r]);
    } else {
      reduction.parts = {scene.ends, {0, n}, {begin, scene.ends[r] - begin}, {}};
      if (scene.in_place)
        reduction.parts.output.begin = 0;  // it is written where it is read
      else
        output.resize(reduction.parts.output.n);
    }
  }
  if (!scene.in_place) from = input.data();
  reduction.output = reinterpret_cast<std::byte*>(output.data());
  reduction.input = reinterpret_cast<const std::byte*>(from);
}

// Several vectors, which follow each other in the arrays of the reduction, and so do their residuals.
std::vector<VectorPlace> cut_into_vectors(const Scene& scene, Reduction& reduction) {
  std::vector<VectorPlace> vectors;
  std::size_t first = 0;
  for (const std::size_t end : scene.vector_ends) {
    const std::size_t at = first * kernels::element_bytes(reduction.element);
    vectors.push_back(
        {first, end - first, reduction.input + at, reduction.output + at,
         reduction.residual == nullptr ? nullptr : reduction.residual + value_bytes(reduction, first)});
    vectors.back().is_raw = end - first < scene.raw_below;
    if (vectors.back().is_raw) reduction.raw_ops = raw_codec().ops(reduction.element, scene.isa);
    first = end;
  }
  if (vectors.empty()) return vectors;
  reduction.input = reduction.output = reduction.residual = nullptr;
  reduction.vector_ends = scene.vector_ends;
  return vectors;
}

// Leaves the part of a reduce-scatter in place.
template <class T>
void keep_part(const Scene& scene, std::size_t r, std::vector<T>& output) {
  if (scene.ends.empty() || scene.gathers || !scene.in_place) return;
  const auto at = [&](std::size_t i) { return output.begin() + static_cast<std::ptrdiff_t>(i); };
  output = std::vector<T>(at(r == 0 ? 0 : scene.ends[r - 1]), at(scene.ends[r]));
}

}  // namespace

// Runs a prepared execution to its end.
Status complete(Loopback::Rank& comm, Execution<Loopback::Rank>& execution, Tally& tally) {
  MQ_TRY(execution.start(comm));
  while (!execution.done()) {
    bool moved = false;
    MQ_TRY(execution.advance(comm, tally, moved));
    if (!moved) comm.idle();
  }
  return execution.failure();
}

template <class T>
Outcome<T> run(const Scene& scene, const Vectors<T>& input, Vectors<Compute<T>> residual) {
  const auto ranks = static_cast<std::size_t>(scene.ranks);
  const std::size_t n = input[0].size();
  Outcome<T> out{Vectors<T>(ranks, std::vector<T>(n)), std::move(residual), std::vector<Status>(ranks),
                 std::vector<Tally>(ranks), 0};
  if (scene.in_place) out.output = input;
  Loopback net(scene.ranks, scene.delay_seed, scene.tamper);
  net.run_in_turn([&](Loopback::Rank& comm) {
    const auto r = static_cast<std::size_t>(comm.rank());
    Reduction reduction;
    reduction.element = element_of<T>;
    const bool half = kernels::compute_element(reduction.element) != reduction.element;
    const Plan plan = scene.plan_of(comm.rank(), half);
    const PlanIndex plan_index = index_of(plan);
    reduction.plan = &plan;
    reduction.plan_index = &plan_index;
    reduction.codec = scene.codec;
    reduction.ops = scene.codec->ops(reduction.element, scene.isa);
    reduction.convert = kernels::convert(reduction.element, scene.isa);
    reduction.memory = scene.call_memory(reduction.element);
    if (!scene.skipped_messages.empty()) reduction.memory.skipped_messages = scene.skipped_messages[r];
    reduction.raw_ops = may_be_raw(reduction) ? raw_codec().ops(reduction.element, scene.isa) : nullptr;
    reduction.params = scene.params();
    std::vector<std::size_t> places;
    place_vectors(scene, r, input[r], out.output[r], places, reduction);
    // The arrays of a rule stand one after the other.
    const std::size_t kept = reduction.memory.mirrors ? reduction.count : input[r].size();
    out.residual[r].resize(kept * static_cast<std::size_t>(std::max(1, reduction.memory.arrays())));
    reduction.residual = scene.feedback && scene.memory->arrays > 0 &&
                                 (scene.root == kNobody || scene.reduces || scene.root == comm.rank() ||
                                  reduction.memory.mirrors)
                             ? reinterpret_cast<std::byte*>(out.residual[r].data())
                             : nullptr;
    const std::vector<VectorPlace> vectors = cut_into_vectors(scene, reduction);
    reduction.vectors = vectors;
    reduction.call = 7;
    reduction.random_key = scene.random_key;
    reduction.rank = comm.rank();
    reduction.size = comm.size();
    reduction.divisor = scene.mean ? comm.size() : 1;
    reduction.pipelines = scene.pipelines;
    reduction.tag_segments = 8 * scene.pipelines;
    reduction.threads = scene.threads;
    if (scene.memory->measures(reduction.memory.params)) reduction.memory.factor = memory_factor(reduction);
    HostBackend backend;
    reduction.backend = &backend;
    std::vector<std::byte> scratch(Execution<Loopback::Rank>::scratch_bytes(reduction));
    Execution<Loopback::Rank> execution;
    execution.prepare(reduction, scratch.data());
    out.status[r] = complete(comm, execution, out.tally[r]);
    keep_part(scene, r, out.output[r]);
  });
  out.leaked = net.leaked();
  return out;
}

template <class T>
void expect_sound(const Outcome<T>& got, const std::string& where) {
  for (std::size_t r = 0; r < got.output.size(); ++r) {
    ASSERT_TRUE(got.status[r].ok()) << where << "rank " << r << ": " << got.status[r].text();
    ASSERT_TRUE(same_bits(got.output[r], got.output[0])) << where << "rank " << r << " differs from rank 0";
  }
  ASSERT_EQ(got.leaked, 0u) << where << "requests or messages left";
}

// The numbers of a vector in the type of residuals. `made` keeps the numbers made of half types.
template <class T>
const Compute<T>* computed(const std::vector<T>& x, std::deque<std::vector<Compute<T>>>& made) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    return x.data();
  } else {
    std::vector<Compute<T>>& wide = made.emplace_back(x.size());
    kernels::convert(element_of<T>, kernels::Isa::scalar)->widen(x.data(), wide.data(), x.size());
    return wide.data();
  }
}

template <class T>
void expect_conserved(const Outcome<T>& got, const Vectors<T>& x, const Vectors<Compute<T>>& e,
                      const std::string& where, double divisor) {
  std::deque<std::vector<Compute<T>>> made;
  const Compute<T>* const output = computed(got.output[0], made);
  std::vector<const Compute<T>*> inputs;
  for (const std::vector<T>& of_rank : x) inputs.push_back(computed(of_rank, made));
  constexpr double kUnit = static_cast<double>(std::numeric_limits<Compute<T>>::epsilon()) / 2;
  const double tolerance = 2 * kUnit * (static_cast<double>(x.size()) + 4);
  double left = 0, right = 0, magnitude = 0;
  const auto is_conserved = [&](std::size_t i) {
    left = static_cast<double>(output[i]) * divisor;
    right = 0;
    magnitude = std::abs(left);
    for (std::size_t r = 0; r < x.size(); ++r) {
      const auto kept = static_cast<double>(got.residual[r][i]), in = static_cast<double>(inputs[r][i]),
                 before = static_cast<double>(e[r][i]);
      left += kept;
      right += in + before;
      magnitude += std::abs(in) + std::abs(before) + std::abs(kept);
    }
    return std::abs(left - right) <= tolerance * magnitude;
  };
  // One assertion for all elements: one for each took a third of the time of the tests of long vectors.
  std::size_t lost = 0;
  while (lost < x[0].size() && is_conserved(lost)) ++lost;
  ASSERT_EQ(lost, x[0].size()) << where << ": that element has " << left << " of " << right;
}

#define MQ_SCENE_OF(T)                                                                             \
  template Vectors<T> inputs(int, std::size_t, Input);                                             \
  template Outcome<T> run(const Scene&, const Vectors<T>&, Vectors<Compute<T>>);                   \
  template void expect_sound(const Outcome<T>&, const std::string&);                               \
  template void expect_conserved(const Outcome<T>&, const Vectors<T>&, const Vectors<Compute<T>>&, \
                                 const std::string&, double);
MQ_SCENE_OF(float)
MQ_SCENE_OF(double)
MQ_SCENE_OF(F16)
MQ_SCENE_OF(Bf16)
#undef MQ_SCENE_OF

}  // namespace mq::test
