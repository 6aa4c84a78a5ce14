#include "mpi_quant/run/doctor.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant/base/doctor.h"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/family.h"
#include "mpi_quant/base/launchers.h"
#include "mpi_quant/run/elf.hpp"

namespace mq {
namespace {

constexpr unsigned kPatience_s = 60;
constexpr double kMostError = 0.01;  // bf16 has a fifth of it
constexpr const char* kVersion = ".so." MPIQ_SOVERSION;

class Findings {
 public:
  // On the launcher's first process.
  void ok(std::string_view what, const std::string& text) const {
    if (rank_ == 0) print("ok", what, text);
  }
  // On every process, because what is wrong may be so on one node only.
  void wrong(std::string_view what, const std::string& text, const std::string& remedy) {
    print("WRONG", what, text + ". " + remedy + (rank_ == 0 ? "" : fmt::format(" (process {})", rank_)));
    healthy_ = false;
  }
  bool healthy() const { return healthy_; }

 private:
  static void print(std::string_view mark, std::string_view what, const std::string& text) {
    fmt::print("{:<6} {:<9} {}\n", mark, what, text);
    std::fflush(stdout);
  }
  int rank_ = rank_by_launcher();
  bool healthy_ = true;
};

template <class F>
F function_of(void* library, const char* name) {
  void* const address = dlsym(library, name);
  F f = nullptr;
  std::memcpy(&f, &address, sizeof f);
  return f;
}

bool exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

std::string first_line(std::string_view text) {
  const std::string_view line = text.substr(0, text.find_first_of("\n,"));
  std::string words(line);
  for (char& c : words)
    if (c == '\t') c = ' ';
  return words;
}

// The family of an MPI library that has been opened; null if it is no such library.
const char* family_of(void* mpi) {
  static std::array<char, MPIQ_VERSION_BYTES> version;
  int length = 0;
  const auto get = function_of<int (*)(char*, int*)>(mpi, "PMPI_Get_library_version");
  if (get == nullptr || get(version.data(), &length) != 0) return nullptr;
  return mpiq_family_of(version.data(),
                        mpiq_abi_major(function_of<mpiq_get_abi_version>(mpi, "PMPI_Abi_get_version")));
}

// Which core is examined: the library to open, and the family.
struct Core {
  std::string path, family;
};

// The core for the program's own MPI library, which is opened first, so that the core takes its functions.
Core core_of_program(const Patient& p, const std::string& folder, Findings& found) {
  if (p.program.empty()) return {};
  const std::string file = program_file(p.program);
  if (file.empty() || !exists(file)) {
    found.wrong("program", "there is no program " + p.program, "Write its path, as ./app");
    return {};
  }
  for (const std::string& name : needed_libraries(file)) {
    if (!std::string_view(name).substr(name.rfind('/') + 1).starts_with("libmpi")) continue;
    void* const mpi = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
    const char* const family = mpi != nullptr ? family_of(mpi) : nullptr;
    if (family == nullptr) continue;
    found.ok("program", p.program + " is linked with " + name);
    return {folder + "libmpi_quant_core_" + family + kVersion, family};
  }
  found.ok("program",
           p.program + " is not linked with an MPI library itself; the MPI of the launcher is examined");
  return {};
}

// Opens the MPI library of a family that the system finds, so that a core takes its functions. Libraries with
// MPICH's ABI are called libmpi.so.12; Debian's MPICH is called libmpich.so.12.
void open_mpi_of(const std::string& family) {
  using Names = std::vector<const char*>;
  const Names names = family == "openmpi" ? Names{"libmpi.so.40"}
                      : family == "abi"   ? Names{"libmpi_abi.so.1", "libmpi_abi.so.0"}
                                          : Names{"libmpi.so.12", "libmpich.so.12"};
  for (const char* const name : names)
    if (dlopen(name, RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
}

// The core for the launcher's MPI, or for any.
Core core_of_launcher(const std::string& folder) {
  const bool openmpi = mpiq_number_in("OMPI_COMM_WORLD_SIZE") > 0, mpich = mpiq_number_in("PMI_SIZE") > 0;
  const std::string first = openmpi ? "openmpi" : "mpich";
  const auto path_of = [&](const std::string& family) {
    return folder + "libmpi_quant_core_" + family + kVersion;
  };
  for (const std::string& family : {first, std::string("openmpi"), std::string("abi")}) {
    const bool fits = family == first || family == "abi" || (!openmpi && !mpich);
    if (!fits || !exists(path_of(family))) continue;
    open_mpi_of(family);
    return {path_of(family), family};
  }
  if (openmpi || mpich) return {path_of(first), first};
  return {};
}

void out_of_patience(int) {
  constexpr std::string_view kText =
      "WRONG  mpi       MPI did not answer for 60 seconds. Try without mpiq-run: a program that calls MPI_Allreduce "
      "hangs too if the network or the launcher is at fault\n";
  (void)!write(STDOUT_FILENO, kText.data(), kText.size());
  _exit(1);
}

void examine_policy(const Patient& p, Findings& found) {
  if (!p.policy_problem.empty()) {
    found.wrong("policy", p.policy_problem,
                "docs/policy.md has the grammar, and --check-policy prints what rules decide");
  } else if (p.policy.rules().empty()) {
    found.ok("policy",
             "no rules, so MPI_Allreduce of a program stays as it is. A safe start is --policy '64K-: bf16'");
  } else {
    found.ok("policy", fmt::format("{} rule{}: {}", p.policy.rules().size(),
                                   p.policy.rules().size() == 1 ? "" : "s", p.policy.to_string()));
  }
}

// What the ranks have found. health: filled by the core.
void examine_health(const mpiq_health& health, Findings& found) {
  if (const mpiq_launcher* const other = mpiq_wrong_launcher(health.ranks)) {
    found.wrong("launcher",
                fmt::format("{} started {} processes, but MPI_COMM_WORLD has 1 rank, because this MPI is {}",
                            other->name, mpiq_number_in(other->size), first_line(health.library)),
                "Use the launcher of that MPI (mpiexec.mpich or mpiexec.openmpi on Debian)");
  } else if (health.ranks == 1) {
    found.wrong("ranks", "there is one rank, and nothing is sent",
                "Start it as the program is started: mpiexec -n 2 mpiq-run --doctor");
  } else {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    found.ok("ranks",
             fmt::format("{}, {} on this node, which has {} cores{}", health.ranks, health.node_ranks, cores,
                         health.node_ranks > cores ? "; with more ranks than cores times mean nothing" : ""));
  }
  const std::string what = std::string("1 MiB of floats by ") + MPIQ_DOCTOR_METHOD;
  if (health.code != 0)
    found.wrong("sum", what + " failed: " + first_line(health.message),
                "Try the program without mpiq-run; if it works, report this line");
  else if (health.equal == 0)
    found.wrong("sum", what + " has other bits on some rank",
                "The nodes may have different versions of this library, or memory that fails");
  else if (!(health.error <= kMostError))
    found.wrong("sum",
                fmt::format("{} has a relative error of {:.2g}, where 0.002 is right", what, health.error),
                "The nodes may have different versions of this library, or memory that fails");
  else
    found.ok("sum", fmt::format("{}: relative error {:.2g}, the same bits on all ranks", what, health.error));
}

void examine_core(const Core& core, Findings& found) {
  if (!exists(core.path))
    return found.wrong(
        "core", "this installation has no " + core.path.substr(core.path.rfind('/') + 1),
        "It was built without this family of MPI libraries: docs/library.md, \"Link\", says how to build all");
  void* const library = dlopen(core.path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  const auto ask = library != nullptr ? function_of<mpiq_doctor>(library, "mpiq_doctor_v1") : nullptr;
  if (ask == nullptr) {
    const char* const why = dlerror();
    return found.wrong(
        "core",
        std::string("cannot load ") + core.path + ": " + (why != nullptr ? why : "it is of another version"),
        "Load the module of the MPI that the library was built with, or build it again");
  }
  (void)std::signal(SIGALRM, out_of_patience);
  alarm(kPatience_s);
  mpiq_health health{};
  const int failed = ask(&health);
  alarm(0);
  if (failed != 0) return found.wrong("core", "MPI_Init failed", "Use the launcher of this MPI");
  found.ok("core", core.path.substr(core.path.rfind('/') + 1) + " runs with " + first_line(health.library));
  examine_health(health, found);
}

}  // namespace

int doctor(const Patient& p) {
  Findings found;
  examine_policy(p, found);
  if (p.library.empty()) {
    found.wrong(
        "library",
        p.asked.empty() ? "no preload library is beside mpiq-run" : "there is no preload library " + p.asked,
        "Install again, or name it with --library");
    return 1;
  }
  found.ok("library", p.library);
  const std::string folder = p.library.substr(0, p.library.rfind('/') + 1);
  Core core = core_of_program(p, folder, found);
  if (core.path.empty()) core = core_of_launcher(folder);
  if (core.path.empty())
    found.wrong("core", "this installation has no library for any MPI",
                "Build it with the MPI's compiler wrapper: README.md, \"Install\"");
  else
    examine_core(core, found);
  return found.healthy() ? 0 : 1;
}

}  // namespace mq
