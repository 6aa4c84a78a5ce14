// The command line of mpiq-bench. Parsed before MPI starts, so that a usage error costs nothing on any rank.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "bench/data.hpp"
#include "bench/lists.hpp"
#include "bench/models.hpp"
#include "bench/sparse_data.hpp"
#include "bench/start.hpp"
#include "kernels/codec.hpp"

namespace mq::bench {

enum ExitCode : int { kDone = 0, kPointFailed = 1, kUsage = 2, kPointsLeft = 75 };

enum class Resume : std::uint8_t { on, off, force };  // what to do with an output file that exists

// March through a pool, always the same memory, or a pool and caches that are emptied before every call.
enum class Buffers : std::uint8_t { rotate, warm, cold };
const char* name(Buffers buffers);  // the word of --buffers

// Where the vectors are: of this process, or of a GPU.
enum class Place : std::uint8_t { host, cuda };
const char* name(Place place);  // the word of --memory

// Of a sweep over sparse vectors.
struct SparseOptions {
  std::vector<double> densities{0.01};
  std::vector<SupportSpec> supports{SupportSpec{}};  // their densities and seeds are the points'
  std::vector<std::uint64_t> strides{1};
  bool want_union = false;  // what kylix and fused ask for: the ranks' own indices, or all that any has
  bool fresh = false;       // other index lists in every call
};

struct Options {
  std::optional<SparseOptions> sparse;  // else dense vectors
  // What is measured. Sizes are in bytes; sizes, sides, model and layers take precedence over the range.
  std::uint64_t min_bytes = 64U << 10, max_bytes = 64U << 20, step_factor = 2;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> sides;  // of square matrices
  std::string model;
  std::string layers_file;         // rank 0 reads it, once MPI has started
  std::vector<Layer> layers;       // what is in it
  std::uint64_t bucket_bytes = 0;  // of neighbouring layers in one reduction; 0: each layer alone
  std::vector<kernels::Element> elements{kernels::Element::f32};
  std::vector<int> ranks;  // empty: all of the launch
  std::vector<MethodWord> methods;
  std::string baseline = "mpi";  // canonical; need not be among the methods
  bool feedback = true;
  DataSpec data;
  bool in_place = false;
  Buffers buffers = Buffers::rotate;
  Place memory = Place::host;
  std::string link;
  int launch = 0;

  // How.
  Sync sync = Sync::barrier;
  bool isolated = false;    // each method of a point alone, in place of interleaved with the others
  bool keep_ranks = false;  // store the time of every rank
  int iters = 0;            // 0: as many as the stop rule asks for
  int warmup = 5;
  double rel_ci = 0.02;
  int min_reps = 20, max_reps = 10000;
  double point_time_s = 2;  // for each method of a point
  bool check = true;
  bool shuffle = true;
  bool phases = false;  // print them; they are stored in any case

  // To where.
  std::string output;
  Resume resume = Resume::on;
  double deadline_s = std::numeric_limits<double>::infinity();
  double min_speedup = 0;  // 0: no gate
  int expect_ranks = 0;    // 0: any
  bool dry_run = false;
};

inline const char* collective_name(const Options& o) { return o.sparse ? "sparse_allreduce" : "allreduce"; }

// Canonical JSON of everything that a result depends on: files with different ones do not mix. Output,
// deadline and the like are not in it.
std::string config_json(const Options&);

struct CommandLine {
  bool run = false;  // else print the texts and exit with the code
  int exit_code = kDone;
  std::string out, err;
  Options options;
};
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace mq::bench
