#include "bench/tabulate.hpp"

#include <algorithm>

#include "bench/stats.hpp"

namespace mq::bench {
namespace {

// The columns that name a method. Of sparse vectors comp_params says what the lists are like too.
void name_method(PointRow& row, const Options& o, const Point& p, const MethodWord& m) {
  row.method = m.text;
  if (m.sparse) {
    row.compressor = "sparse";
    row.algorithm = m.sparse->algorithm.empty() ? name(m.sparse->kind) : m.sparse->algorithm;
  } else {
    row.compressor = m.method.exact() ? "none" : m.method.codec->name;
    const PlanRow* plan = m.method.plan;
    if (plan == nullptr && !m.method.exact()) plan = &choose_plan(p.bytes(), p.ranks);
    row.algorithm = plan != nullptr ? std::string(plan->name) : m.algorithm.empty() ? "mpi" : m.algorithm;
  }
  std::string params = m.sparse ? "" : params_to_string(m.method);
  if (m.sparse && !m.sparse->degrees.empty()) params = "degrees=" + m.sparse->degrees;
  if (o.sparse) params += (params.empty() ? "" : ",") + sparse_params(o, p);
  row.comp_params = params;
}

void identify(PointRow& row, const Options& o, const Point& p, const MethodWord& m, const Circumstances& c) {
  row.key = hash128(variables_json(o, p, m, c.placement));
  row.grade = "smoke";  // one launch; the median over ten launches makes a publication, see README
  row.collective = collective_name(o);
  name_method(row, o, p, m);
  row.dtype = name(p.element);
  row.op = "sum";
  row.memory = "host";
  row.place = o.in_place ? "in" : "out";
  row.layer = p.layer;
  row.model = o.model;
  row.layers_alike = p.layers_alike;
  row.ranks = p.ranks;
  row.nodes = c.placement.nodes;
  row.ranks_per_node = c.placement.ranks_per_node;
  row.count = static_cast<std::int64_t>(p.count);
  row.bytes = static_cast<std::int64_t>(p.bytes());
  row.input_id = c.input_id;
  row.buffers = o.rotate ? "rotate" : "warm";
  row.sync = "barrier";
  row.mode = p.methods.size() > 1 ? "interleaved" : "isolated";
  row.launch = o.launch;
  row.block_order_seed = c.order_seed;
  row.feedback = !m.method.exact() && o.feedback;
  row.link = o.link;
  if (p.side > 0) row.matrix_side = static_cast<std::int64_t>(p.side);
  row.oversubscribed = c.oversubscribed;
  row.start_utc = c.start_utc;
  row.wall_s = c.wall_s;
}

void summarise_times(PointRow& row, const Outcome& out) {
  const Summary s = summarize(out.t_max);
  row.warmup = out.warmup;
  row.reps = static_cast<std::int32_t>(s.n);
  row.batch = 1;
  row.invalid_reps = 0;
  row.stop_reason = out.stop_reason;
  row.t_first_s = out.t_first_s;
  row.t_median_s = s.median;
  row.t_ci_lo_s = s.ci_lo;
  row.t_ci_hi_s = s.ci_hi;
  row.t_min_s = s.min;
  row.t_mean_s = s.mean;
  row.t_p5_s = s.p5;
  row.t_p95_s = s.p95;
  row.t_p99_s = s.p99;
  row.t_mad_s = s.mad;
  row.outliers_mild = s.outliers_mild;
  row.outliers_severe = s.outliers_severe;
  row.lag1 = s.lag1;
}

void derive_rates(PointRow& row, const Outcome& out, const Point& p, const MethodWord& m) {
  const Method& method = m.method;
  const double bytes = static_cast<double>(p.bytes()), ranks = p.ranks;
  row.algbw_Bps = bytes / row.t_median_s;
  row.busbw_Bps = row.algbw_Bps * 2.0 * (ranks - 1.0) / ranks;
  // A union that the library leaves to MPI_Allreduce sends nothing that is counted.
  const bool counted = !m.sparse || out.wire_bytes_sum > 0 || p.ranks == 1;
  row.wire_bytes_max = counted ? out.wire_bytes_max : -1;
  row.wire_bytes_sum = counted ? out.wire_bytes_sum : -1;
  row.scratch_bytes = out.scratch_bytes;
  row.residual_bytes = out.residual_bytes;
  if (row.wire_bytes_max >= 0) row.wirebw_Bps = static_cast<double>(out.wire_bytes_max) / row.t_median_s;
  if (m.sparse) {
    row.ratio_target = p.support.density;
  } else if (method.exact()) {
    row.ratio_target = row.ratio_achieved = 1.0;
    return;
  } else {
    row.ratio_target =
        bytes / static_cast<double>(method.codec->wire_bound(p.count, p.element, method.params));
  }
  if (out.wire_bytes_sum > 0)
    row.ratio_achieved = 2.0 * (ranks - 1.0) * bytes / static_cast<double>(out.wire_bytes_sum);
}

void judge(PointRow& row, const Outcome& out, bool checked) {
  row.status = out.status;
  row.note = out.note;
  row.err_rel_l2 = out.verdict.rel_l2;
  row.err_max_abs = out.verdict.max_abs;
  row.snr_db = out.verdict.snr_db;
  row.cosine = out.verdict.cosine;
  row.n_wrong = out.verdict.n_wrong;
  if (checked && out.verdict.n_wrong >= 0) row.replicas_equal = out.verdict.replicas_equal;
}

double median(std::vector<double> sample) {
  std::sort(sample.begin(), sample.end());
  return median_of_sorted(sample);
}

}  // namespace

std::vector<Measurement> tabulate(const Options& o, const Point& p, const Circumstances& c,
                                  std::vector<Outcome> outcomes) {
  std::vector<Measurement> all(outcomes.size());
  const auto base =
      static_cast<std::size_t>(std::find_if(p.methods.begin(), p.methods.end(),
                                            [&](const MethodWord& m) { return m.text == o.baseline; }) -
                               p.methods.begin());
  const bool has_base = base < outcomes.size() && !outcomes[base].t_max.empty();
  const int comparisons = static_cast<int>(outcomes.size()) - 1;
  for (std::size_t m = 0; m < all.size(); ++m) {
    PointRow& row = all[m].row;
    identify(row, o, p, p.methods[m], c);
    summarise_times(row, outcomes[m]);
    derive_rates(row, outcomes[m], p, p.methods[m]);
    judge(row, outcomes[m], o.check);
    for (std::size_t phase = 0; phase < kPhases && !p.methods[m].sparse && !p.methods[m].method.exact();
         ++phase)
      all[m].exposed_s[phase] = median(outcomes[m].phase_s[phase]);
    if (!has_base || outcomes[m].t_max.empty()) continue;
    row.base_key = hash128(variables_json(o, p, p.methods[base], c.placement));
    const Speedup s = paired_speedup(outcomes[base].t_max, outcomes[m].t_max, comparisons);
    row.speedup = s.ratio;
    row.speedup_lo = s.lo;
    row.speedup_hi = s.hi;
  }
  for (std::size_t m = 0; m < all.size(); ++m) {
    all[m].t_max = std::move(outcomes[m].t_max);
    all[m].t_span = std::move(outcomes[m].t_span);
    all[m].skew_in = std::move(outcomes[m].skew_in);
    all[m].order = std::move(outcomes[m].order);
  }
  return all;
}

}  // namespace mq::bench
