#include "bench/console.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/build_info.hpp"
#include "bench/counters.hpp"
#include "bench/parts.hpp"
#include "bench/sync.hpp"

namespace mq::bench {
namespace {

std::string number(double value, const char* format) {
  return std::isnan(value) ? "-" : fmt::format(fmt::runtime(format), value);
}

std::string gigabytes(double bytes_per_s) { return number(bytes_per_s / 1e9, "{:.2f}"); }

// The time that a method needs for setup, warm-up and checks, in addition to its point time.
constexpr double kOverhead_s = 0.5;
constexpr double kMinutes_s = 120;  // from here on a duration is in minutes

// What sizes count, where a rank does not give and get the whole vector.
const char* sizes_of_parts(mq::Collective of) {
  if (of == mq::Collective::reduce_scatter)
    return "# reduce_scatter: the size counts the whole vector, which a rank gives; it gets a part\n";
  if (of == mq::Collective::allgather)
    return "# allgather: the size counts the whole vector, which a rank gets; it gives a part\n";
  if (of == mq::Collective::bcast)
    return "# bcast: the size counts the vector, which rank 0 gives and each rank gets\n";
  if (of == mq::Collective::reduce)
    return "# reduce: the size counts the vector, which a rank gives; rank 0 gets the sum\n";
  return "";
}

}  // namespace

void print_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void print_texts(std::string_view out, std::string_view err) {
  print_out(out);
  std::fwrite(err.data(), 1, err.size(), stderr);
}

void print_error(std::string_view text) { fmt::print(stderr, "mpiq-bench: {}\n", text); }

std::string duration(double seconds) {
  if (std::isnan(seconds)) return "-";
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3f} ms", seconds * 1e3);
  if (seconds < kMinutes_s) return fmt::format("{:.3f} s", seconds);
  return fmt::format("{:.0f} min", seconds / 60);
}

void print_header(const Options& o, const Topology& t, const std::string& mpi_library) {
  if (o.format == Format::csv) return;
  const BuildInfo& build = build_info();
  const int ranks = static_cast<int>(t.ranks.size());
  std::string text =
      fmt::format("# mpiq-bench {} commit {}{} {} ({}, {})\n", build.version,
                  *build.git_commit == '\0' ? "unknown" : build.git_commit, build.git_dirty ? "+changes" : "",
                  build.build_type, build.compiler, isa_name());
  text += fmt::format("# {}\n", mpi_library.substr(0, 60));
  text += fmt::format("# {} rank{} on {} node{}:", ranks, ranks == 1 ? "" : "s", t.nodes.size(),
                      t.nodes.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < t.nodes.size(); ++i)
    text += fmt::format(" {} ({}, {} CPUs allowed, load {:.1f})", t.nodes[i].host.str(),
                        t.nodes[i].cpu_model.str(), t.allowed_cpus[i], t.nodes[i].load1);
  if (ranks == 1)
    text += "\n# 1 rank: nothing is exchanged; start it with a launcher, such as mpiexec -n 2 mpiq-bench ...";
  if (t.oversubscribed(ranks)) text += "\n# MORE RANKS THAN CPUS: rows marked ! are no timings";
  text += fmt::format("\n# input {} rho {} seed {}, {} buffers, {} place, feedback {}{}\n", to_string(o.data),
                      o.data.rho, o.data.seed, name(o.buffers), o.in_place ? "in" : "out of",
                      o.feedback ? "on" : "off", o.link.empty() ? "" : ", link " + o.link);
  if (o.memory == Place::cuda) {
    text += fmt::format("# vectors in the memory of {} GPUs:", t.gpus.size());
    for (const GpuRow& gpu : t.gpus) text += fmt::format(" {} ({})", gpu.name.str(), gpu.gpu_uuid.str());
    text += "; mpi: copied to pinned host memory and back in its time\n";
  }
  text += fmt::format("# start of a repetition: {}; methods {}\n", description(o.sync), mode(o));
  if (o.sparse)
    text +=
        fmt::format("# sparse: {}\n", o.sparse->want_union
                                          ? "every method gives every rank the values at all indices"
                                          : "kylix and fused give each rank the values at its own indices, "
                                            "the others all");
  text += sizes_of_parts(o.collective);
  if (!o.overlap.empty())
    text += fmt::format(
        "# iallreduce: computing N % of the baseline's time without computation, {}; the time includes it\n",
        o.test_interval_us > 0 ? fmt::format("a test every {} us of it", o.test_interval_us)
                               : std::string("no tests"));
  if (!o.arrivals.empty())
    text += "# arrival: how late ranks enter a call; time is from the last arrival to the last end\n";
  if (o.format == Format::osu) return print_out(text);
  text += "# time: median over repetitions of the maximum over ranks, +-: half of its 95 % interval\n";
  text += fmt::format(
      "# algbw = size / time, busbw = algbw{}, effective: compressed methods may exceed the wire; GB = 10^9 B\n",
      has_root(o.collective)         ? ""
      : passes_of(o.collective) == 2 ? " 2(P-1)/P"
                                     : " (P-1)/P");
  text += fmt::format("# ratio: bytes of an uncompressed optimal {} over bytes sent\n", name(o.collective));
  text +=
      "# speed-up: paired over interleaved repetitions against " + o.baseline +
      " [95 % interval]\n"
      "# rel_err: |x - exact| / |exact| of the first call (auto: of the last); #wrong: see n_wrong in the file\n";
  text += fmt::format(
      "#{:>11} {:>7} {:>10} {:>4} {:>6} {:<24} {:>6} {:>11} {:>6} {:>8} {:>8} {:>8} {:<16} {:>8} {:>6}\n",
      "size", "", "count", "type", "ranks", "method", "ratio", "time", "+-%", "algbw", "busbw", "speed-up",
      "[low, high]", "rel_err", "#wrong");
  print_out(text);
}

void print_row(const PointRow& r) {
  const std::string interval =
      std::isnan(r.speedup_lo) ? "" : fmt::format("[{:.3g}, {:.3g}]", r.speedup_lo, r.speedup_hi);
  const double half = 50.0 * (r.t_ci_hi_s - r.t_ci_lo_s) / r.t_median_s;
  std::string text = fmt::format(
      "{:>12} {:>7} {:>10} {:>4} {:>6} {:<24} {:>6} {:>11} {:>6} {:>8} {:>8} {:>8} {:<16} {:>8} {:>6}",
      r.bytes, human_size(static_cast<std::uint64_t>(r.bytes)), r.count, r.dtype.str(),
      fmt::format("{}{}", r.ranks, r.oversubscribed == 1 ? "!" : ""), r.method.str(),
      number(r.ratio_achieved, "{:.4g}"), duration(r.t_median_s), number(half, "{:.1f}"),
      gigabytes(r.algbw_Bps), gigabytes(r.busbw_Bps), number(r.speedup, "{:.3g}"), interval,
      number(r.err_rel_l2, "{:.1e}"), r.n_wrong < 0 ? "-" : std::to_string(r.n_wrong));
  if (r.collective.str() == "sparse_allreduce") text += "  " + r.comp_params.str();
  if (r.compute_percent > 0)
    text += fmt::format("  computing {} % ({}): overlap {} % [{}, {}]", r.compute_percent,
                        duration(r.t_compute_s), number(r.overlap, "{:.0f}"), number(r.overlap_lo, "{:.0f}"),
                        number(r.overlap_hi, "{:.0f}"));
  if (r.energy_calls > 0)
    text += fmt::format("  energy {} J a call, {} J/GB, {} W", number(r.energy_J, "{:.3g}"),
                        number(r.energy_J / static_cast<double>(r.bytes) * 1e9, "{:.3g}"),
                        number(r.energy_power_W, "{:.3g}"));
  if (r.form.str() != name(Form::blocking) && r.compute_percent < 0)
    text += fmt::format("  {}, window {}", r.form.str(), r.window);
  if (r.arrival.str() != to_string(Arrival{})) text += "  arrival " + r.arrival.str();
  if (r.status.str() != "ok") text += fmt::format("  {}: {}", r.status.str(), r.note.str());
  print_out(text + "\n");
}

// "#   counters: PAPI_TOT_INS 8.19e+05 a call (encode 4.1e+05, decode 2.6e+05), ..."
void print_counters(const Measurement& m) {
  std::string text, event, steps;
  const auto end_event = [&] {
    if (!event.empty())
      text += (text.empty() ? "" : ", ") + event + (steps.empty() ? "" : fmt::format(" ({})", steps));
    event.clear(), steps.clear();
  };
  for (const CounterRow& c : m.counters) {
    const std::string phase = c.phase.str(), count = number(c.count, "{:.3g}");
    if (phase == name(kInCall)) {
      end_event();
      event = fmt::format("{} {} a call", c.event.str(), count);
    } else if (phase != name(kInNothing)) {
      steps += fmt::format("{}{} {}", steps.empty() ? "" : ", ", phase, count);
    }
  }
  end_event();
  if (!text.empty()) print_out("#   counters: " + text + "\n");
}

void print_phases(const Measurement& m) {
  if (m.row.compressor.str() == "none" || m.row.reps <= 0) return;
  if (m.row.arrival.str() != to_string(Arrival{})) return;  // not known
  if (std::isnan(m.exposed_s[kOther])) {
    const bool known = !std::isnan(m.busy_s[kEncode]);
    print_out(fmt::format(
        "#   phases: wait {}; on the GPU, beside it: {}\n", duration(m.exposed_s[kWait]),
        known ? fmt::format("encode {}, decode {}", duration(m.busy_s[kEncode]), duration(m.busy_s[kDecode]))
              : std::string("not measured")));
    return;
  }
  print_out(fmt::format("#   phases: encode {}, wait {}, decode {}, other {}\n",
                        duration(m.exposed_s[kEncode]), duration(m.exposed_s[kWait]),
                        duration(m.exposed_s[kDecode]), duration(m.exposed_s[kOther])));
}

void print_plan(const Options& o, const std::vector<Point>& points, const Topology& t) {
  const int ranks = static_cast<int>(t.ranks.size());
  std::uint64_t largest = 0;
  std::string text;
  for (const Point& p : points) {
    largest = std::max(largest, p.bytes());
    text += fmt::format(
        "{:>12} {:>7} {:>10} {:>4} {:>6} {}{}{}{}\n", p.bytes(), human_size(p.bytes()), p.count,
        name(p.element), p.ranks, p.side > 0 ? fmt::format("{0} x {0}", p.side) : p.layer,
        p.layers_alike > 1 ? fmt::format(" x{}", p.layers_alike) : "", o.sparse ? sparse_params(o, p) : "",
        o.arrivals.empty() ? "" : "  arrival " + to_string(p.arrival));
  }
  std::size_t methods = 0, most_methods = 0;
  for (const Point& p : points) {
    methods += p.methods.size();
    most_methods = std::max(most_methods, p.methods.size());
  }
  const std::uint64_t pools = o.buffers == Buffers::cold ? 3 : 2;
  // The pools, the reference of the check, and for each method at most a residual and as much scratch. For
  // sparse vectors: result and input as dense vectors, the sums of the check in double, and lists that are at
  // most as large.
  const std::uint64_t memory = o.sparse ? 12 * largest
                                        : pools * pool_bytes(o, largest, t.ranks_per_node(ranks)) +
                                              4 * largest + 2 * most_methods * largest;
  const double expected_s = static_cast<double>(methods) * (o.point_time_s + kOverhead_s);
  text += fmt::format(
      "# {} points of {} methods; about {} bytes on each rank; about {} if the stop rule is met in time\n",
      points.size(), o.isolated ? 1 : o.methods.size(), human_size(memory),
      expected_s < kMinutes_s ? fmt::format("{:.0f} s", std::ceil(expected_s)) : duration(expected_s));
  print_out(text);
}

Progress::Progress(std::size_t points)
    : points_(points), terminal_(isatty(STDERR_FILENO) == 1), start_s_(now_s()) {}

void Progress::show(std::size_t done, const Point& next) {
  if (!terminal_) return;
  std::string left;
  if (done > 0) {
    const double each = (now_s() - start_s_) / static_cast<double>(done);
    left = fmt::format(", {} left", duration(std::round(each * static_cast<double>(points_ - done))));
  }
  fmt::print(stderr, "\r\033[K[{}/{}] {} {} {} ranks{}", done + 1, points_, human_size(next.bytes()),
             name(next.element), next.ranks, left);
  std::fflush(stderr);
}

void Progress::clear() {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

}  // namespace mq::bench
