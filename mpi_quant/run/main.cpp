// mpiq-run: starts a program with the preload library, or shows what a policy decides.
//
// It uses no MPI: it sets the environment variables that the preload library reads and then becomes the
// program (exec). So it works under any launcher and adds no process.

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/variables.hpp"
#include "mpi_quant/policy/policy.hpp"
#include "mpi_quant/run/doctor.hpp"
#include "mpi_quant/run/option_parser.hpp"
#include "mpi_quant/run/surroundings.hpp"
#include "mpi_quant/run/table.hpp"

namespace {

struct Options {
  // policy: from the environment unless an option gives one
  std::string policy, policy_file, library, report;
  bool has_policy = false;
  std::string isa, error;  // error: the text as the user gave it; the preload library reads it
  int threads = 0, watchdog = -1;
  bool check = false, explain = false, advise = false, doctor = false;
  std::vector<std::string> program;
};

// All ranks find the same, so only one of them prints.
void say(const std::string& what) {
  if (mq::rank_by_launcher() == 0) fmt::print(stderr, "mpiq-run: {}\n", what);
}

int fail(const std::string& what) {
  say(what);
  return 2;
}

// The whole path of a regular file, "" if there is none.
std::string real_file(const std::string& path) {
  struct stat status {};
  char* const real = realpath(path.c_str(), nullptr);
  const std::string found = real != nullptr ? real : "";
  std::free(real);
  return stat(found.c_str(), &status) == 0 && S_ISREG(status.st_mode) ? found : "";
}

// The preload library of this installation or build tree, "" if there is none.
std::string find_library() {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return "";
  std::string bin(self, static_cast<std::size_t>(length));
  bin.resize(bin.rfind('/'));
  for (const char* const lib : {"/../" MPIQ_LIBDIR, "/../lib"}) {
    std::string found = real_file(bin + lib + "/libmpi_quant_pmpi.so." MPIQ_SOVERSION);
    if (!found.empty()) return found;
  }
  return "";
}

int start(const Options& options) {
  const std::string& named = options.library;
  const std::string library = named.empty() ? find_library() : real_file(named);
  if (library.empty())
    return fail("no preload library " + (named.empty() ? "beside this program" : "\"" + named + "\"") +
                "; name it with --library");
  if (library.find_first_of(" :") != std::string::npos)
    return fail("the preload library is \"" + library +
                "\": LD_PRELOAD takes no path with a blank or a colon");
  mq::prepend_preload(library);
  mq::put_sanitizers_first(options.program[0]);
  if (options.has_policy) mq::pass_on_policy(options.policy);
  mq::pass_on("MPIQ_ISA", options.isa);
  mq::pass_on("MPIQ_MODE", options.explain ? "explain" : options.advise ? "advise" : "");
  mq::pass_on("MPIQ_REPORT", options.report);
  mq::pass_on("MPIQ_ADVISE_ERROR", options.error);
  if (options.threads > 0) mq::pass_on("MPIQ_THREADS", std::to_string(options.threads));
  if (options.watchdog >= 0) mq::pass_on("MPIQ_WATCHDOG", std::to_string(options.watchdog));
  for (const mq::Mistyped& mistyped : mq::mistyped_variables()) say(mq::words(mistyped));
  if (const std::string advice = mq::container_advice(options.program[0]); !advice.empty()) say(advice);
  if (!options.policy.empty() || options.explain || options.advise || !options.report.empty())
    mq::watch_for_calls();
  std::vector<char*> arguments;
  for (const std::string& word : options.program) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  (void)execvp(arguments[0], arguments.data());
  return fail(std::string("cannot run \"") + arguments[0] + "\": " + std::strerror(errno));
}

// Rules of --policy were typed a moment ago, so the message alone is enough. Rules of a file or a variable
// need their place named.
mq::Status explained(const Options& options, const mq::Status& why) {
  if (!options.policy_file.empty()) return mq::explain(why, options.policy_file, "--policy-file");
  return options.has_policy ? why : mq::explain(why, mq::policy_file_of_environment());
}

// What is wrong with the rules is one of the doctor's lines.
int examine(const Options& options, const mq::Result<mq::Policy>& policy, const std::string& problem) {
  mq::Patient patient;
  patient.library = options.library.empty() ? find_library() : real_file(options.library);
  patient.asked = options.library;
  patient.policy_problem = problem;
  if (policy.ok()) patient.policy = *policy;
  if (!options.program.empty()) patient.program = options.program[0];
  return mq::doctor(patient);
}

int run(Options& options) {
  if (!options.has_policy || !options.policy_file.empty()) {
    const mq::Result<std::string> rules =
        options.policy_file.empty() ? mq::policy_of_environment() : mq::rules_of_file(options.policy_file);
    if (!rules.ok() && options.doctor) return examine(options, rules.status(), rules.status().text());
    if (!rules.ok()) return fail(rules.status().text());
    options.policy = *rules;
  }
  const mq::Result<mq::Policy> policy = mq::Policy::parse(options.policy);
  if (options.doctor)
    return examine(options, policy, policy.ok() ? "" : explained(options, policy.status()).text());
  if (!policy.ok()) return fail(explained(options, policy.status()).text());
  if (options.check) {
    fmt::print("{}", mq::decision_table(*policy));
    return 0;
  }
  if (options.program.empty()) return fail("which program? see mpiq-run --help");
  return start(options);
}

void add_options(mq::OptionParser& parser, Options& options) {
  parser.group("Rules");
  parser.add({"--policy=RULES", &options.policy, "rules \"selectors: method; ...\", as in MPIQ_POLICY"});
  parser.add({.flags = "--policy-file=FILE",
              .value = &options.policy_file,
              .help = "the same from a file: a rule a line, # for comments",
              .excludes = {"--policy"}});
  parser.add(
      {"--check-policy", &options.check, "print what the rules decide, for every size and rank count"});
  parser.group("What to do");
  parser.add({"--doctor", &options.doctor, "do not run the program: say whether all fits, make one sum"});
  parser.add({"--explain", &options.explain,
              "change nothing; report for each class of calls what the rules would do, and why"});
  parser.add(
      {.flags = "--advise",
       .value = &options.advise,
       .help = "change nothing; report for each class of calls what each method would save, and its error",
       .excludes = {"--explain"}});
  parser.add(
      {.flags = "--error=X",
       .value = &options.error,
       .help =
           "with --advise: suggest no method with a larger relative error of one call, for programs that need the digits of "
           "every result, like 1e-6 (as MPIQ_ADVISE_ERROR)",
       .check =
           [](const std::string& text) {
             return mq::relative_error(text) ? std::string()
                                             : "\"" + text + "\" is not a number above 0, like 1e-6";
           },
       .needs = {"--advise"}});
  parser.add({"--report=FILE", &options.report,
              "file for a report of what was done, JSON if it ends in .json; - is stderr (as MPIQ_REPORT)"});
  parser.group("Settings of the library");
  parser.add({"--threads", &options.threads, "codec threads of a rank (as MPIQ_THREADS)",
              mq::from_to(1, mq::kMaxThreads)});
  parser.add({"--isa=scalar|avx2|avx512", &options.isa, "instruction set of the codecs (as MPIQ_ISA)"});
  parser.add(
      {"--watchdog=SECONDS", &options.watchdog,
       "a rank that waits longer than so many seconds for the others says so; 0: never (as MPIQ_WATCHDOG)",
       mq::from_to(0, 86400)});
  parser.add({"--library=FILE", &options.library, "the preload library, if it is not beside this program"});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  mq::OptionParser parser(
      "mpiq-run",
      "Runs an MPI program with MPI_Allreduce of large float vectors compressed as a policy says:\n\n"
      "  mpiexec -n 8 mpiq-run --advise ./app arguments                 what would help?\n"
      "  mpiexec -n 8 mpiq-run --advise --error 1e-6 ./app              what helps and keeps six digits?\n"
      "  mpiexec -n 8 mpiq-run --explain --policy '1M-: onebit' ./app   what would these rules do?\n"
      "  mpiexec -n 8 mpiq-run --report - --policy '1M-: onebit' ./app  do it, and say what was done\n"
      "  mpiexec -n 8 mpiq-run --doctor ./app                           does it work here?\n\n"
      "Without a policy nothing changes. Works with the launchers of all MPIs alike.");
  add_options(parser, options);
  parser.take_program();
  const mq::Parsed parsed = parser.parse(argc, argv, "mpiq-run " MPIQ_VERSION);
  if (!parsed.run) {
    if (mq::rank_by_launcher() == 0) {
      std::fputs(parsed.out.c_str(), stdout);
      std::fputs(parsed.err.c_str(), stderr);
    }
    return parsed.is_usage_error ? 2 : 0;
  }
  options.has_policy = parser.was_given("--policy") || parser.was_given("--policy-file");
  options.program = parser.rest();
  if (!options.program.empty() && options.program[0] == "--")
    options.program.erase(options.program.begin());
  else if (!options.program.empty() && options.program[0][0] == '-')
    return fail(options.program[0] + " is no option" +
                parser.like(options.program[0].substr(0, options.program[0].find('='))) +
                "; see mpiq-run --help");
  return run(options);
}
