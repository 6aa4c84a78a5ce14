#include "bench/tabulate.hpp"

#include <algorithm>

#include "bench/parts.hpp"
#include "bench/stats.hpp"

namespace mq::bench {
namespace {

const char* dense_name(Dense dense) {
  return dense == Dense::nccl ? "nccl" : dense == Dense::direct ? "mpi-direct" : "mpi";
}

// Fills the columns that name a method. For sparse vectors comp_params describes the lists too.
void name_method(PointRow& row, const Options& o, const Point& p, const MethodWord& m) {
  row.method = m.text;
  if (m.sparse) {
    row.compressor = "sparse";
    row.algorithm = m.sparse->algorithm.empty() ? name(m.sparse->kind) : m.sparse->algorithm;
  } else {
    const bool chooses = m.method.chooses();
    row.compressor = chooses ? "auto" : m.method.exact() ? "none" : m.method.codec->name;
    const PlanRow* plan = m.method.plan;
    if (!m.method.exact() && plan == nullptr) plan = plan_of(o.collective);
    if (plan == nullptr && !m.method.exact() && !chooses) plan = &choose_plan(p.bytes(), p.ranks);
    row.algorithm = plan != nullptr       ? std::string(plan->name)
                    : chooses             ? "auto"
                    : m.algorithm.empty() ? dense_name(m.dense)
                                          : m.algorithm;
  }
  std::string params = m.sparse ? "" : params_to_string(m.method);
  if (m.sparse && !m.sparse->degrees.empty()) params = "degrees=" + m.sparse->degrees;
  if (o.sparse) params += (params.empty() ? "" : ",") + sparse_params(o, p);
  row.comp_params = params;
}

// The grade of one launch. It is "smoke" if the options asked for less than the stop rule does without them,
// or if there were more ranks than processors; otherwise it is "normal". scripts/merge combines ten normal
// launches into a publication.
const char* grade(const Options& o, const Circumstances& c) {
  const Options preset;
  const bool less = o.iters > 0 || o.rel_ci > preset.rel_ci || o.min_reps < preset.min_reps ||
                    o.max_reps < preset.max_reps || o.point_time_s < preset.point_time_s || !o.check;
  return less || c.oversubscribed ? "smoke" : "normal";
}

void identify(PointRow& row, const Options& o, const Point& p, const MethodWord& m, const Circumstances& c) {
  row.key = hash128(variables_json(o, p, m, c.placement));
  row.grade = grade(o, c);
  row.collective = collective_name(o);
  name_method(row, o, p, m);
  row.dtype = name(p.element);
  row.op = "sum";
  row.memory = name(o.memory);
  row.place = o.in_place ? "in" : "out";
  row.layer = p.layer;
  row.model = model_label(o);
  row.layers_alike = p.layers_alike;
  row.ranks = p.ranks;
  row.nodes = c.placement.nodes;
  row.ranks_per_node = c.placement.ranks_per_node;
  row.count = static_cast<std::int64_t>(p.count);
  row.bytes = static_cast<std::int64_t>(p.bytes());
  row.input_id = c.input_id;
  row.detour = c.detours.share;
  row.detour_max_s = c.detours.longest_s;
  row.buffers = name(o.buffers);
  row.sync = name(o.sync);
  row.arrival = to_string(p.arrival);
  row.form = name(m.compute_percent >= 0 ? Form::nonblocking : o.form);
  row.window = o.window;
  row.mode = mode(o);
  row.launch = o.launch;
  row.block_order_seed = c.order_seed;
  row.feedback = !m.method.exact() && o.feedback;
  row.link = o.link;
  if (p.side > 0) row.matrix_side = static_cast<std::int64_t>(p.side);
  row.compute_percent = m.compute_percent;
  if (m.compute_percent >= 0) row.test_interval_us = o.test_interval_us;
  row.oversubscribed = c.oversubscribed;
  row.start_utc = c.start_utc;
  row.wall_s = c.wall_s;
}

void summarise_times(PointRow& row, const Outcome& out) {
  const std::vector<double> times = valid_times(out);
  const Summary s = summarize(times);
  row.warmup = out.warmup;
  row.reps = static_cast<std::int32_t>(s.n);
  row.batch = out.batch;
  row.invalid_reps = static_cast<std::int32_t>(out.t_max.size() - times.size());
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

void derive_rates(PointRow& row, const Outcome& out, const Options& o, const Point& p, const MethodWord& m) {
  const Method& method = m.method;
  const double bytes = static_cast<double>(p.bytes()), ranks = p.ranks;
  row.algbw_Bps = bytes / row.t_median_s;
  row.busbw_Bps = row.algbw_Bps * busiest_share(o.collective, ranks);
  // If the library leaves a union to MPI_Allreduce, the bytes sent are not counted.
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
  } else if (!method.chooses()) {
    row.ratio_target =
        bytes / static_cast<double>(method.codec->wire_bound(p.count, p.element, method.params));
  }
  if (out.wire_bytes_sum > 0)
    row.ratio_achieved =
        passes_of(o.collective) * (ranks - 1.0) * bytes / static_cast<double>(out.wire_bytes_sum);
}

void tell_energy(PointRow& row, const Energy& energy) {
  row.energy_J = energy.joules;
  row.energy_power_W = energy.watts;
  row.energy_calls = energy.calls;
}

void judge(PointRow& row, const Outcome& out, bool compares_replicas) {
  row.status = out.status;
  row.note = out.note;
  row.err_rel_l2 = out.errors.rel_l2;
  row.err_max_abs = out.errors.max_abs;
  row.snr_db = out.errors.snr_db;
  row.cosine = out.errors.cosine;
  row.n_wrong = out.errors.n_wrong;
  if (compares_replicas && out.errors.n_wrong >= 0) row.replicas_equal = out.errors.replicas_equal;
}

// The elements of a series whose repetitions count.
std::vector<double> chosen(const std::vector<double>& series, const std::vector<std::uint8_t>& valid,
                           const std::vector<std::uint8_t>& also_valid) {
  std::vector<double> some;
  for (std::size_t k = 0; k < std::min({series.size(), valid.size(), also_valid.size()}); ++k)
    if (valid[k] != 0 && also_valid[k] != 0) some.push_back(series[k]);
  return some;
}

double median(std::vector<double> sample) {
  std::sort(sample.begin(), sample.end());
  return median_of_sorted(sample);
}

// All time of steps on the host is exposed. Steps on a GPU run beside each other and beside messages. Their
// durations are known from the GPU's clock, but not how much of them anyone waited for. If encode and decode
// are both 0, the library did not read that clock; it does not mean that there were no such steps.
void tell_busy_from_exposed(Measurement& m, const Options& o) {
  auto& exposed = m.exposed_s;
  if (o.memory != Place::cuda || exposed[kEncode] != 0 || exposed[kDecode] != 0) {
    m.busy_s[kEncode] = exposed[kEncode];
    m.busy_s[kDecode] = exposed[kDecode];
  }
  if (o.memory == Place::cuda) exposed[kEncode] = exposed[kDecode] = exposed[kOther] = kUnknown;
}

// Uses the blocks in which both methods began in time. Methods that were not interleaved are not paired.
void compare(PointRow& row, const Outcome& base, const Outcome& mine, int comparisons) {
  const Speedup s = paired_speedup(chosen(base.t_max, base.valid, mine.valid),
                                   chosen(mine.t_max, base.valid, mine.valid), comparisons);
  row.speedup = s.ratio;
  row.speedup_lo = s.lo;
  row.speedup_hi = s.hi;
}

// The method of a point with this name and the same computation between start and end; the end if it has
// none.
std::size_t find_method(const Point& p, const std::string& text, int compute_percent) {
  return static_cast<std::size_t>(std::find_if(p.methods.begin(), p.methods.end(),
                                               [&](const MethodWord& m) {
                                                 return m.text == text &&
                                                        m.compute_percent == compute_percent;
                                               }) -
                                  p.methods.begin());
}

// pure: the same method without computation. Uses the blocks in which both began in time.
void tell_overlap(PointRow& row, const Outcome& pure, const Outcome& mine) {
  const auto both = [&](const std::vector<double>& series) { return chosen(series, pure.valid, mine.valid); };
  const std::vector<double> alone = both(pure.t_max), computation = both(mine.compute_s);
  row.t_pure_s = median(alone);
  row.t_compute_s = median(computation);
  const Overlap overlap = overlap_of(alone, computation, both(mine.t_max));
  row.overlap = overlap.percent;
  row.overlap_lo = overlap.lo;
  row.overlap_hi = overlap.hi;
}

}  // namespace

std::string baseline_at(const Options& o, const Point& p, const std::vector<Outcome>& outcomes,
                        int compute_percent) {
  if (o.baseline != kBestDense) return o.baseline;
  std::string best;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t m = 0; m < outcomes.size(); ++m) {
    const double time = summarize(valid_times(outcomes[m])).median;
    if (!is_dense(p.methods[m]) || p.methods[m].compute_percent != compute_percent || !(time < least))
      continue;
    best = p.methods[m].text;
    least = time;
  }
  return best;
}

std::vector<Measurement> tabulate(const Options& o, const Point& p, const Circumstances& c,
                                  std::vector<Outcome> outcomes) {
  std::vector<Measurement> all(outcomes.size());
  const auto bases = std::count_if(p.methods.begin(), p.methods.end(), [&](const MethodWord& m) {
    return m.text == baseline_at(o, p, outcomes, m.compute_percent);
  });
  const int comparisons = static_cast<int>(p.methods.size()) - static_cast<int>(bases);
  for (std::size_t m = 0; m < all.size(); ++m) {
    PointRow& row = all[m].row;
    identify(row, o, p, p.methods[m], c);
    summarise_times(row, outcomes[m]);
    tell_energy(row, outcomes[m].energy);
    derive_rates(row, outcomes[m], o, p, p.methods[m]);
    judge(row, outcomes[m], o.check && has_replicas(o.collective));
    for (std::size_t phase = 0; phase < kPhases && !p.methods[m].sparse && !p.methods[m].method.exact();
         ++phase)
      all[m].exposed_s[phase] =
          median(chosen(outcomes[m].phase_s[phase], outcomes[m].valid, outcomes[m].valid));
    tell_busy_from_exposed(all[m], o);
    const int computation = p.methods[m].compute_percent;
    if (const std::size_t pure = find_method(p, p.methods[m].text, 0); computation > 0 && row.reps > 0)
      tell_overlap(row, outcomes[pure], outcomes[m]);
    const std::size_t base = find_method(p, baseline_at(o, p, outcomes, computation), computation);
    const bool has_base =
        outcomes.size() > 1 && base < outcomes.size() && !valid_times(outcomes[base]).empty();
    if (!has_base || row.reps == 0) continue;
    row.base_key = hash128(variables_json(o, p, p.methods[base], c.placement));
    compare(row, outcomes[base], outcomes[m], comparisons);
  }
  for (std::size_t m = 0; m < all.size(); ++m) {
    all[m].t_max = std::move(outcomes[m].t_max);
    all[m].t_span = std::move(outcomes[m].t_span);
    all[m].skew_in = std::move(outcomes[m].skew_in);
    all[m].valid = std::move(outcomes[m].valid);
    all[m].order = std::move(outcomes[m].order);
    all[m].t_rank = std::move(outcomes[m].t_rank);
    all[m].counters = std::move(outcomes[m].counts.rows);
  }
  return all;
}

}  // namespace mq::bench
