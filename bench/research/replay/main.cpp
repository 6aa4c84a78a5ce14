// mpiq-replay sends recorded vectors through methods and prints, as CSV, how far the sum of all results is
// from the exact one.
#include <fmt/format.h>
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "bench/check.hpp"
#include "bench/console.hpp"
#include "bench/metadata.hpp"
#include "bench/parse.hpp"
#include "bench/report.hpp"
#include "bench/research/replay/replay.hpp"
#include "bench/stats.hpp"
#include "bench/with_mpi.hpp"

namespace mq::bench {
namespace {

constexpr const char* kWhat =
    "Sends the steps of a recording through methods, one call a step, and prints as CSV the error of the sum "
    "of all results, the bytes of a call and its time. Start it with its MPI's mpiexec:\n\n"
    "  mpiexec -n 2 mpiq-replay --data 'file:gradients/step{step}-rank{rank}-fc1.weight.f32' --row 784 "
    "--methods mpi,onebit,'lowrank(rank=4)'";

struct ReplayLine {
  bool run = false;
  int exit_code = kDone;
  std::string out, err;
  std::string path, name, link, csv;
  std::vector<MethodWord> methods;
  std::size_t row = 0;
  bool feedback = true;
};

Status take_words(const std::string& methods, const std::string& data, ReplayLine& line) {
  auto words = parse_methods(methods, MethodsFor::matrices);
  if (!words.ok()) return words.status();
  line.methods = std::move(*words);
  for (const MethodWord& word : line.methods)
    if (!word.algorithm.empty() || word.dense != Dense::host || word.text != word.plain_text())
      return {Code::bad_argument, fmt::format("--methods {}: not here", word.text)};
  auto spec = parse_data(data);
  if (!spec.ok()) return spec.status();
  if (spec->distribution != Distribution::file || has_layer(spec->path))
    return {Code::bad_argument, "--data: file:PATH with {rank} and {step}, without {layer}"};
  line.path = std::move(spec->path);
  for (const std::string* label : {&line.name, &line.link})
    if (label->find_first_of("\",\n") != std::string::npos)
      return {Code::bad_argument, "--name, --link: neither \", commas nor new lines"};
  return {};
}

ReplayLine parse_replay(int argc, const char* const* argv) {
  ReplayLine line;
  std::string methods = "mpi", data;
  CLI::App app{kWhat, "mpiq-replay"};
  app.add_option("--data", data, "file:PATH of the recording, see bench/README.md")->required();
  app.add_option("--methods", methods, "as in mpiq-bench, and lowrank for a matrix")->capture_default_str();
  app.add_option("--row", line.row, "elements of a row, if the vector is a matrix, row by row")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--feedback,!--no-feedback", line.feedback,
               "keep what a method drops until the next step [on]");
  app.add_option("--name", line.name, "what the table calls the data [PATH]");
  app.add_option("--link", line.link, "label of the network, for the table");
  app.add_option("--csv", line.csv, "file of the table [standard output]");
  if (!parse(app, argc, argv, line)) return line;
  if (const Status s = take_words(methods, data, line); !s.ok()) {
    line.exit_code = kUsage;
    line.err = fmt::format("mpiq-replay: {}\n", s.text());
    return line;
  }
  if (line.name.empty()) line.name = line.path;
  line.run = true;
  return line;
}

std::string number(double x) { return std::isnan(x) ? std::string() : fmt::format("{:.6g}", x); }

std::string table(const ReplayLine& line, const Recording& recording, const std::vector<Replayed>& rows,
                  MPI_Comm comm) {
  int ranks = 1;
  PMPI_Comm_size(comm, &ranks);
  std::string text =
      "method,feedback,data,elements,row,ranks,link,calls,bytes,error,debt,first_error,t_median_s,t_lo_s,"
      "t_hi_s,oversubscribed,problem\n";
  const int oversubscribed = find_topology(comm).oversubscribed(ranks) ? 1 : 0;
  for (std::size_t m = 0; m < rows.size(); ++m) {
    const Replayed& r = rows[m];
    const Summary time = summarize(r.seconds);
    text += fmt::format("\"{}\",{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},\"{}\"\n", line.methods[m].text,
                        static_cast<int>(line.feedback), line.name, recording.count(0), line.row, ranks,
                        line.link, recording.steps(), number(r.bytes), number(r.error), number(r.debt),
                        number(r.first), number(time.median), number(time.ci_lo), number(time.ci_hi),
                        oversubscribed, r.problem);
  }
  return text;
}

int replay(const ReplayLine& line, MPI_Comm comm) {
  int rank = 0, ranks = 1;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &ranks);
  constexpr kernels::Element kType[] = {kernels::Element::f32};
  auto recording = Recording::open(line.path, ranks, rank, kType, 1);
  Status mine = recording.status();
  if (mine.ok() && line.row != 0 && (*recording)->count(0) % line.row != 0)
    mine = {Code::bad_argument,
            fmt::format("--row {}: the vector has {} elements", line.row, (*recording)->count(0))};
  if (mine.ok() && rank == 0 && !line.csv.empty()) mine = check_place(line.csv);
  if (const int first = first_no(mine.ok(), comm); first != ranks) {
    if (first == rank) fmt::print(stderr, "mpiq-replay: rank {}: {}\n", rank, mine.text());
    return kUsage;
  }
  const std::vector<Replayed> rows = Replay(**recording, line.row, comm).run(line.methods, line.feedback);
  const std::string text = table(line, **recording, rows, comm);
  if (rank == 0 && line.csv.empty()) print_out(text);
  if (rank == 0 && !line.csv.empty()) mine = replace_file(line.csv, std::as_bytes(std::span(text)));
  if (!mine.ok()) fmt::print(stderr, "mpiq-replay: {}: {}\n", line.csv, mine.text());
  const bool whole =
      std::all_of(rows.begin(), rows.end(), [](const Replayed& r) { return r.problem.empty(); });
  return all_agree(mine.ok(), comm) && whole ? kDone : kPointFailed;
}

}  // namespace
}  // namespace mq::bench

int main(int argc, char** argv) {
  using namespace mq::bench;
  const ReplayLine line = parse_replay(argc, argv);
  if (!line.run) {
    if (launcher_rank() == 0) print_texts(line.out, line.err);
    return line.exit_code;
  }
  return with_mpi("mpiq-replay", argc, argv, [&](MPI_Comm comm) { return replay(line, comm); });
}
