// The options of mpiq-bench as values; option_table.cpp has a row for each. They are parsed before MPI
// starts, so that a usage error costs no rank any time.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/arrival.hpp"
#include "bench/data.hpp"
#include "bench/form.hpp"
#include "bench/models.hpp"
#include "bench/parse_lists.hpp"
#include "bench/sparse_data.hpp"
#include "bench/start.hpp"
#include "kernels/codec.hpp"
#include "mpi_quant/plan/collective.hpp"

namespace mq::bench {

enum ExitCode : int { kDone = 0, kPointFailed = 1, kUsage = 2, kPointsLeft = 75 };

enum class Resume : std::uint8_t { on, off, force };  // what to do with an output file that exists

// rotate: use the slots of a pool in turn. warm: always use the same memory. cold: like rotate, and empty the
// caches before every call.
enum class Buffers : std::uint8_t { rotate, warm, cold };
const char* name(Buffers buffers);  // the word of --buffers

// Where the vectors are: in the memory of this process, or of a GPU.
enum class Place : std::uint8_t { host, cuda };
const char* name(Place place);  // the word of --memory

// Word of --baseline: at each point, the fastest of its dense methods (is_dense).
inline constexpr std::string_view kBestDense = "best-dense";

// What is printed of each row: a line of a table, the text of osu_allreduce at the end, or a line of CSV.
enum class Format : std::uint8_t { table, osu, csv };
const char* name(Format format);  // the word of --format

// Options of a sweep over sparse vectors.
struct SparseOptions {
  std::vector<double> densities{0.01};
  std::vector<SupportSpec> supports{SupportSpec{}};  // each point has its own density and seed
  std::vector<std::uint64_t> strides{1};
  bool want_union = false;  // kylix and fused ask for the indices of all ranks, not for the rank's own
  bool fresh = false;       // every call has other index lists
};

struct Options {
  mq::Collective collective = mq::Collective::allreduce;
  std::optional<SparseOptions> sparse;  // not set: dense vectors
  bool is_link = false;                 // messages between pairs of ranks, no reduction; see link.hpp
  // What is measured. Sizes are in bytes. sizes, sides, model and layers take precedence over the range.
  std::uint64_t min_bytes = 64U << 10, max_bytes = 64U << 20, step_factor = 2;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> sides;  // of square matrices
  std::string model;
  std::string layers_file;         // rank 0 reads it after MPI has started
  std::vector<Layer> layers;       // the contents of that file
  std::uint64_t bucket_bytes = 0;  // of neighbouring layers in one reduction; 0: each layer alone
  std::vector<kernels::Element> elements{kernels::Element::f32};
  std::vector<int> ranks;  // empty: all ranks of the launch
  std::vector<MethodWord> methods;
  std::string baseline = "mpi";  // canonical; it need not be among the methods
  bool feedback = true;
  DataSpec data;
  bool in_place = false;
  Buffers buffers = Buffers::rotate;
  Place memory = Place::host;
  std::string link;
  std::string simulation;  // of mpiq-simulate: its network and rates, as JSON; "": calls are measured
  int launch = 0;

  // How it is measured.
  Sync sync = Sync::barrier;
  std::vector<Arrival> arrivals;  // how late ranks are; each is a point of its own. Empty: together
  bool isolated = false;          // each method of a point is measured alone, not interleaved with the others
  bool keep_ranks = false;        // store the time of every rank
  int iters = 0;                  // 0: as many as the stop rule asks for
  int warmup = 5;
  double rel_ci = 0.02;
  int min_reps = 20, max_reps = 10000;
  double point_time_s = 2;  // per method of a point
  bool check = true;
  bool shuffle = true;
  // Calls that do not block: lengths of the computation between start and end, in percent of the baseline's
  // time without any. Ascending, each once. Empty: calls that block.
  std::vector<int> overlap;
  int test_interval_us = 100;  // of that computation between two tests of the request; 0: no tests
  Form form = Form::blocking;
  int window = 1;                     // calls in flight at once, if they do not block
  std::uint64_t cache_bytes = 0;      // of the last level, for buffers that rotate; 0: what the system says
  double energy_s = 0;                // of calls by which the energy of a method is measured; 0: it is not
  std::vector<std::string> counters;  // events that are counted in calls, as PAPI names them
  bool phases = false;                // print the phases; they are stored in any case
  Format format = Format::table;      // osu has keep_ranks set
  bool graph = false;                 // draw times over sizes in characters, at the end

  // Where the results go.
  std::string output;
  Resume resume = Resume::on;
  double deadline_s = std::numeric_limits<double>::infinity();
  double min_speedup = 0;  // 0: no gate
  int expect_ranks = 0;    // 0: any number
  bool dry_run = false;
};

// The text of the column `collective`.
inline std::string_view collective_name(const Options& o) {
  return o.is_link            ? "link"
         : o.sparse           ? "sparse_allreduce"
         : !o.overlap.empty() ? "iallreduce"
                              : name(o.collective);
}

// Canonical JSON of everything that a result depends on. Files with different texts are never mixed. Output,
// deadline and similar options are not part of it.
std::string config_json(const Options&);

struct CommandLine {
  bool run = false;  // false: print the texts and exit with the code
  int exit_code = kDone;
  std::string out, err;
  Options options;
};
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace mq::bench
