#include "bench/metadata.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "bench/buffers.hpp"
#include "bench/provenance.hpp"
#include "kernels/codec.hpp"

extern char** environ;

namespace mq::bench {
namespace {

// What every rank sends to all others, as plain bytes.
struct Answer {
  RankRow rank;
  NodeRow node;
  GpuRow gpu;  // has no name if there is no GPU
  cpu_set_t cpus;
  std::uint64_t machine;
};

// The chosen word of "a [b] c". The kernel prints switches in this way.
std::string bracketed(const std::string& text) {
  const auto open = text.find('['), close = text.find(']');
  return open == std::string::npos || close == std::string::npos ? ""
                                                                 : text.substr(open + 1, close - open - 1);
}

void read_cpuinfo(NodeRow& node) {
  std::ifstream in("/proc/cpuinfo");
  std::set<std::string> sockets, cores;
  std::string line, socket;
  int threads = 0;
  while (std::getline(in, line)) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(std::min(line.size(), colon + 2));
    if (line.starts_with("processor")) ++threads;
    if (line.starts_with("model name")) node.cpu_model = value;
    if (line.starts_with("physical id")) sockets.insert(socket = value);
    if (line.starts_with("core id")) cores.insert(socket + "/" + value);
  }
  if (sockets.empty() || cores.empty()) return;
  node.sockets = static_cast<std::int16_t>(sockets.size());
  node.cores = static_cast<std::int32_t>(cores.size());
  node.smt = static_cast<std::int8_t>(threads / std::max(1, node.cores));
}

NodeRow this_node() {
  NodeRow node;
  utsname system{};
  uname(&system);
  node.host = std::string(system.nodename);
  node.kernel = std::string(system.release);
  read_cpuinfo(node);
  node.mem_B = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  node.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  node.thp = bracketed(first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  const std::string aslr = first_line("/proc/sys/kernel/randomize_va_space");
  if (!aslr.empty()) node.aslr = static_cast<std::int8_t>(std::atoi(aslr.c_str()));
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (cache > 0) node.llc_B = cache;
  std::array<double, 1> load{};
  if (getloadavg(load.data(), 1) == 1) node.load1 = load[0];
  read_provenance(node);
  return node;
}

Answer answer(MPI_Comm comm, const Gpu* gpu) {
  Answer a{};
  PMPI_Comm_rank(comm, &a.rank.rank);
  MPI_Comm node = MPI_COMM_NULL;
  PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, a.rank.rank, MPI_INFO_NULL, &node);
  PMPI_Comm_rank(node, &a.rank.local_rank);
  a.rank.node_index = a.rank.rank;  // the rank of the node's first rank; find_topology() numbers the nodes
  PMPI_Bcast(&a.rank.node_index, 1, MPI_INT, 0, node);
  PMPI_Comm_free(&node);
  if (gpu != nullptr) {
    a.gpu = gpu->info();
    a.rank.gpu_uuid = a.gpu.gpu_uuid;
  }
  a.rank.pid = getpid();
  CPU_ZERO(&a.cpus);
  if (sched_getaffinity(0, sizeof a.cpus, &a.cpus) == 0) {
    a.rank.cpu_count = CPU_COUNT(&a.cpus);
    for (int c = CPU_SETSIZE - 1; c >= 0; --c)
      if (CPU_ISSET(c, &a.cpus)) a.rank.cpu_first = c;
  }
  unsigned cpu = 0, numa = 0;
  if (getcpu(&cpu, &numa) == 0) a.rank.numa = static_cast<std::int16_t>(numa);
  a.rank.numa_policy = numa_policy();
  a.node = this_node();
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  a.machine =
      boot.empty() ? 1 + static_cast<std::uint64_t>(a.rank.node_index) : hash_bytes(boot.data(), boot.size());
  return a;
}

void add_gpu(Topology& t, GpuRow gpu, int node_index) {
  if (gpu.gpu_uuid.str().empty()) return;
  const auto same = [&](const GpuRow& known) { return known.gpu_uuid.str() == gpu.gpu_uuid.str(); };
  if (std::any_of(t.gpus.begin(), t.gpus.end(), same)) return;
  gpu.node_index = node_index;
  t.gpus.push_back(gpu);
}

}  // namespace

int local_rank(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm node = MPI_COMM_NULL;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  PMPI_Comm_rank(node, &rank);
  PMPI_Comm_free(&node);
  return rank;
}

Topology find_topology(MPI_Comm comm, const Gpu* gpu) {
  int size = 1;
  PMPI_Comm_size(comm, &size);
  const Answer mine = answer(comm, gpu);
  std::vector<Answer> all(static_cast<std::size_t>(size));
  PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm);
  Topology t;
  std::map<int, int> index_of;  // first rank of a node -> number of the node
  std::vector<cpu_set_t> cpus;
  for (Answer& a : all) {
    const auto [found, fresh] = index_of.try_emplace(a.rank.node_index, static_cast<int>(index_of.size()));
    a.rank.node_index = a.node.node_index = found->second;
    if (fresh) {
      t.nodes.push_back(a.node);
      cpus.push_back(a.cpus);
    }
    cpu_set_t& of_node = cpus[static_cast<std::size_t>(found->second)];
    CPU_OR(&of_node, &of_node, &a.cpus);
    add_gpu(t, a.gpu, a.node.node_index);
    t.ranks.push_back(a.rank);
    t.machine.push_back(a.machine);
  }
  for (const cpu_set_t& set : cpus) t.allowed_cpus.push_back(CPU_COUNT(&set));
  return t;
}

int Topology::nodes_of(int first_ranks) const {
  std::set<int> seen;
  for (int r = 0; r < first_ranks; ++r) seen.insert(ranks[static_cast<std::size_t>(r)].node_index);
  return static_cast<int>(seen.size());
}

int Topology::ranks_per_node(int first_ranks) const {
  std::map<int, int> count;
  int most = 0;
  for (int r = 0; r < first_ranks; ++r)
    most = std::max(most, ++count[ranks[static_cast<std::size_t>(r)].node_index]);
  return most;
}

// Counts by machine, not by node, because virtual nodes (network namespaces, MPIR_CVAR_NOLOCAL) share the
// processors of one machine.
bool Topology::oversubscribed(int first_ranks) const {
  std::map<std::uint64_t, int> on_machine, cpus_of;
  for (int r = 0; r < first_ranks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    ++on_machine[machine[i]];
    int& cpus = cpus_of[machine[i]];
    cpus = std::max(cpus, allowed_cpus[static_cast<std::size_t>(ranks[i].node_index)]);
  }
  return std::any_of(on_machine.begin(), on_machine.end(),
                     [&](const auto& m) { return m.second > cpus_of[m.first]; });
}

bool Topology::one_clock(int first_ranks) const {
  return std::all_of(machine.begin(), machine.begin() + first_ranks,
                     [&](std::uint64_t m) { return m == machine[0]; });
}

bool Topology::is_first_of_machine(int rank) const {
  const auto mine = machine.begin() + rank;
  return std::find(machine.begin(), mine, *mine) == mine;
}

bool Topology::is_first_of_gpu(int rank) const {
  const auto mine = ranks.begin() + rank;
  const std::string uuid = mine->gpu_uuid.str();
  return !uuid.empty() &&
         std::none_of(ranks.begin(), mine, [&](const RankRow& r) { return r.gpu_uuid.str() == uuid; });
}

std::string without_folders(std::string_view text) {
  std::string shown;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find_first_of(" :;,'\"", begin), text.size());
    std::string_view word = text.substr(begin, end + 1 - begin);  // and what ends it
    const std::size_t path = word.starts_with('/') ? 0 : word.find("=/");
    if (path != word.npos) {
      shown += word.substr(0, path + (word[path] == '='));
      word.remove_prefix(word.rfind('/') + 1);
    }
    shown += word;
  }
  return shown;
}

std::string command_line_text(int argc, const char* const* argv) {
  std::string text;
  for (int i = 0; i < argc; ++i) text.append(i == 0 ? "" : " ").append(argv[i]);
  return without_folders(text);
}

std::vector<EnvRow> allowed_environment() {
  static constexpr std::array<std::string_view, 15> prefixes{"MPIR_CVAR_",
                                                             "UCX_",
                                                             "FI_",
                                                             "OMP_",
                                                             "MPIQ_",
                                                             "OMPI_MCA_",
                                                             "CUDA_VISIBLE_DEVICES=",
                                                             "SLURM_JOB_ID=",
                                                             "SLURM_JOB_NODELIST=",
                                                             "SLURM_NNODES=",
                                                             "SLURM_NTASKS=",
                                                             "SLURM_ARRAY_",
                                                             "SLURM_RESTART_COUNT=",
                                                             "SLURM_CPU_BIND",
                                                             "SLURM_CPUS_PER_TASK="};
  std::vector<EnvRow> rows;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (std::none_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view p) { return text.starts_with(p); }))
      continue;
    const std::size_t equals = text.find('=');
    rows.push_back({text.substr(0, equals), without_folders(text.substr(equals + 1))});
  }
  std::sort(rows.begin(), rows.end(),
            [](const EnvRow& a, const EnvRow& b) { return a.name.str() < b.name.str(); });
  return rows;
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  PMPI_Get_library_version(text.data(), &length);
  std::string line(text.data(), static_cast<std::size_t>(length));
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::replace(line.begin(), line.end(), '\t', ' ');
  line.resize(std::min(line.size(), line.find('\0')));
  return line;
}

std::string isa_name() { return std::string(kernels::name(kernels::best_isa())); }

int launcher_rank() {
  for (const char* variable : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    if (const char* rank = std::getenv(variable); rank != nullptr) return std::atoi(rank);
  return 0;
}

}  // namespace mq::bench
