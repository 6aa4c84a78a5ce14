#include "mpi_quant/automatic/candidates.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "mpi_quant/plan/losses.hpp"
#include "mpi_quant/policy/words.hpp"

namespace mq {
namespace {

// A method, and what it usually takes for an f32 element of a long vector: `mpiq-kernels` on one core with
// AVX-512, and the bytes of docs/methods.md.
struct Usual {
  std::string_view text;
  double encode_ns, decode_ns, wire_bytes;
  bool sized_by_data = false;
};
constexpr std::array kLossless{
    Usual{"zerorun", 1.0, 0.7, 4, true},
    Usual{"raw", 0.7, 0.7, 4},
};
constexpr Usual kRated{"int8", 0.5, 0.4, 1.016};
constexpr std::array kLossy{
    Usual{"bf16", 0.5, 0.4, 2},
    Usual{"f16(scale=block)", 0.6, 0.4, 2.004},
    kRated,
    Usual{"int4", 0.5, 0.4, 0.516},
    Usual{"onebit", 0.5, 0.4, 0.129},
    Usual{"topk(k=0.1)", 2.0, 0.5, 0.45, true},
    Usual{"topk", 1.5, 0.2, 0.051},
    Usual{"adaptive", 1.2, 0.3, 0.034},
};
// A method with a key. debt: the vectors that it usually owes after some calls.
struct WithMemory {
  Usual usual;
  double debt;
};
constexpr std::array kWithFeedback{
#define MQ_FEEDBACK_CANDIDATE(text, encode_ns, decode_ns, wire_bytes, sized_by_data, debt) \
  WithMemory{{text, encode_ns, decode_ns, wire_bytes, sized_by_data}, debt},
#include "mpi_quant/policy/feedback_candidates.def"
#undef MQ_FEEDBACK_CANDIDATE
};
constexpr Usual kBound{"", 1.2, 0.9, 1.5, true};

// The plans that are worth a try: few messages, or few bytes. At two ranks all plans are one of the two.
constexpr std::array<std::string_view, 2> kFewRanks{"allgather", "direct"};
constexpr std::array<std::string_view, 3> kManyRanks{"recursive_doubling", "grid", "direct"};
constexpr std::string_view kByNodes =
    "hierarchical";  // also, where several ranks share each of several nodes
constexpr int kMany = 8;

// The ranks whose errors are in an element of a result.
int summands(const CallClass& calls) { return adds(calls.collective) ? calls.ranks : 1; }

// Lossless; or each element of a result is within the limit, whatever the vectors are.
bool promises(const CallClass& calls, const Method& method) {
  const kernels::Codec& codec = *method.codec;
  if (codec.lossless) return true;
  if (calls.limit.kind != Automatic::Kind::absolute || !codec.exact_sums) return false;
  const double of_a_rank = codec.absolute_bound(method.params, calls.ranks);
  return of_a_rank > 0 && summands(calls) * of_a_rank <= calls.limit.value;
}

double losses_over(const Method& method, const CallClass& calls) {
  const PlanRow* const own = plan_of(
      calls.collective, method.codec->wire_bound(calls.count(), calls.element, method.params), calls.ranks);
  // Where owners do not encode their own parts, the share is less than one if the ranks bring alike vectors.
  // They need not.
  return std::max(
      1.0,
      losses_of(own != nullptr ? *own : *method.plan,
                {.size = calls.ranks, .per_node = calls.per_node, .encodes_own = method.codec->exact_sums})
          .all());
}

// An element has as many floats.
double scale_of(kernels::Element element) { return element == kernels::Element::f64 ? 2 : 1; }

void add(const CallClass& calls, const Usual& usual, std::string_view text, bool is_sure,
         std::vector<AutoCandidate>& out) {
  Result<Method> method = parse_method(text);
  if (!method.ok() || method->exact()) return;  // cannot happen: a test parses every word of the tables
  if (!calls.can_use(*method)) return;
  const double scale = scale_of(calls.element);
  AutoCandidate candidate{.method = *method,
                          .encode_s = usual.encode_ns * scale * 1e-9,
                          .decode_s = usual.decode_ns * scale * 1e-9,
                          .wire_bytes = usual.wire_bytes,
                          .sized_by_data = usual.sized_by_data,
                          .is_sure = is_sure};
  if (method->codec->lossless || usual.sized_by_data)
    candidate.wire_bytes = usual.wire_bytes * static_cast<double>(kernels::element_bytes(calls.element)) / 4;
  candidate.usual_bytes = candidate.wire_bytes;
  const auto add_over = [&](std::string_view plan) {
    candidate.method.plan = find_plan(plan);
    candidate.losses = losses_over(candidate.method, calls);
    out.push_back(candidate);
  };
  if (calls.collective != Collective::allreduce)
    add_over("");
  else if (calls.ranks < kMany)
    std::for_each(kFewRanks.begin(), kFewRanks.end(), add_over);
  else
    std::for_each(kManyRanks.begin(), kManyRanks.end(), add_over);
  const bool has_nodes = calls.per_node > 1 && calls.per_node < calls.ranks;
  if (has_nodes && calls.collective == Collective::allreduce) add_over(kByNodes);
}

}  // namespace

// What a codec measures before a call is of one vector.
bool CallClass::can_use(const Method& method) const {
  return vectors == 0 || method.codec->measures(method.params) == kernels::Measures::nothing;
}

std::vector<AutoCandidate> candidates_of(const CallClass& calls) {
  std::vector<AutoCandidate> out(1);
  const Automatic& limit = calls.limit;
  if (kernels::element_bytes(calls.element) < sizeof(float)) return out;
  const auto add_all = [&](const auto& table) {
    for (const Usual& usual : table) add(calls, usual, usual.text, false, out);
  };
  for (const Usual& usual : kLossless) add(calls, usual, usual.text, true, out);
  // bound(abs=X) is a promise for a sum over the ranks.
  if (limit.kind == Automatic::Kind::absolute)
    add(calls, kBound, "bound(abs=" + number(limit.value * (calls.ranks / summands(calls))) + ")", true, out);
  if (limit.kind == Automatic::Kind::relative && limit.value > 0) add_all(kLossy);
  if (limit.kind == Automatic::Kind::feedback)
    for (const WithMemory& each : kWithFeedback)
      if (each.debt <= limit.value) add(calls, each.usual, each.usual.text, false, out);
  return out;
}

std::optional<AutoCandidate> candidate_for(const CallClass& calls, const std::vector<AutoCandidate>& listed,
                                           const Method& method) {
  const bool is_half = kernels::element_bytes(calls.element) < sizeof(float);
  if (is_half || method.exact() || method.scheme != nullptr || method.memory != nullptr) return {};
  if (!unfit_for(calls.collective, method).empty() || !calls.can_use(method)) return {};
  const auto same = std::find_if(listed.begin() + 1, listed.end(), [&](const AutoCandidate& other) {
    return other.method.codec == method.codec && other.method.params == method.params;
  });
  const Automatic& limit = calls.limit;
  const bool may_lose =
      limit.kind == Automatic::Kind::feedback || (limit.kind == Automatic::Kind::relative && limit.value > 0);
  const bool is_sure = promises(calls, method);
  if (same == listed.end() && !is_sure && !may_lose) return {};
  AutoCandidate candidate = same == listed.end() ? AutoCandidate{} : *same;
  if (same == listed.end()) candidate.is_sure = is_sure;
  candidate.method = method;
  if (method.plan == nullptr && calls.collective == Collective::allreduce)
    candidate.method.plan = &choose_plan(calls.bytes, calls.ranks);
  candidate.losses = losses_over(candidate.method, calls);
  return candidate;
}

double dense_seconds(const CallClass& calls, const Prices& prices) {
  const double vectors = std::max(1, calls.vectors);
  const double bytes = static_cast<double>(calls.bytes) / vectors;
  return vectors * dense_cost(calls.collective, bytes, calls.ranks, prices).seconds;
}

Prices fitted_prices(const CallClass& calls, double dense_s, double agreement_s) {
  Prices prices{};
  const double rounds = agreement_cost(calls.ranks, prices).amounts[Term::latency];
  constexpr double kUsualShare = 0.1, kOverheadShare = 0.2;  // of latency; of the overheads in a message
  const double message = (agreement_s > 0 ? agreement_s : kUsualShare * dense_s) / rounds;
  prices[Term::overhead] = kOverheadShare / 2 * message;
  prices[Term::latency] = (1 - kOverheadShare) * message;
  // The time grows with the price of a byte, so the price is found by halving an interval.
  double low = 0, high = 2 * dense_s / static_cast<double>(calls.bytes);
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings; ++i) {
    prices[Term::byte] = (low + high) / 2;
    (dense_seconds(calls, prices) < dense_s ? low : high) = prices[Term::byte];
  }
  return prices;
}

const kernels::Codec& rated_codec() {
  static const kernels::Codec& codec = *kernels::find_codec(kRated.text);
  return codec;
}

CodecRates usual_rates(kernels::Element element) {
  return {1e9 / (kRated.encode_ns * scale_of(element)), 1e9 / (kRated.decode_ns * scale_of(element))};
}

Slowness slowness_of(const CodecRates& here, kernels::Element element) {
  const auto slowness = [](double usual, double rate) {
    constexpr double kMost = 5;  // what is farther off was disturbed
    return rate > 0 ? std::clamp(usual / rate, 1 / kMost, kMost) : 1;
  };
  const CodecRates usual = usual_rates(element);
  return {slowness(usual.encode, here.encode), slowness(usual.decode, here.decode)};
}

double predicted_s(const CallClass& calls, const AutoCandidate& candidate, const Prices& network,
                   const Slowness& slowness) {
  Prices prices = network;
  prices[Term::encode] = candidate.encode_s * slowness.encode;
  prices[Term::decode] = candidate.decode_s * slowness.decode;
  const Method& method = candidate.method;
  CallShape shape;
  shape.ranks = {
      .rank = 0, .size = calls.ranks, .per_node = calls.per_node, .encodes_own = method.encodes_own()};
  shape.count = calls.count();
  shape.element_bytes = kernels::element_bytes(calls.element);
  shape.block = method.codec->block(method.params);
  shape.whole = method.codec->whole(method.params);
  shape.wire_bytes = candidate.wire_bytes;
  return (method.plan != nullptr ? cost_of(*method.plan, shape, prices)
                                 : cost_of(calls.collective, shape, prices))
      .seconds;
}

}  // namespace mq
