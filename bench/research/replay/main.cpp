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
    "  mpiexec -n 2 mpiq-replay --data 'file:gradients/step{step}-rank{rank}-fc1.weight.f32' \\\n"
    "      --row 784 --methods mpi,onebit,'lowrank(rank=4)'";

struct ReplayLine {
  bool run = false;
  int exit_code = kDone;
  std::string out, err;
  std::string path, name, link, csv;
  std::vector<MethodWord> methods;
  std::size_t row = 0;
  bool feedback = true;
};

Status read_methods(const std::string& text, ReplayLine& line) {
  auto words = parse_methods(text, MethodsFor::matrices);
  if (!words.ok()) return words.status();
  line.methods = std::move(*words);
  for (const MethodWord& word : line.methods)
    if (!word.algorithm.empty() || word.dense != Dense::host || word.text != word.plain_text())
      return bad_argument(fmt::format("{}: not here", word.text));
  return {};
}

Status read_data(const std::string& text, ReplayLine& line) {
  auto spec = parse_data(text);
  if (!spec.ok()) return spec.status();
  if (spec->distribution != Distribution::file || has_layer(spec->path))
    return bad_argument("file:PATH with {rank} and {step}, without {layer}");
  line.path = std::move(spec->path);
  return {};
}

Status check_labels(const ReplayLine& line) {
  for (const std::string* label : {&line.name, &line.link})
    if (label->find_first_of("\",\n") != std::string::npos)
      return bad_argument("--name, --link: neither \", commas nor new lines");
  return {};
}

ReplayLine parse_replay(int argc, const char* const* argv) {
  ReplayLine line;
  OptionParser parser("mpiq-replay", kWhat);
  parser.add({.flags = "--data=file:PATH",
              .value = Option::Text{"", [&](const std::string& text) { return read_data(text, line); }},
              .help = "the recording, see bench/README.md",
              .required = true});
  parser.add({"--methods=METHOD,...",
              Option::Text{"mpi", [&](const std::string& text) { return read_methods(text, line); }},
              "as in mpiq-bench, and lowrank for a matrix"});
  parser.add({"--row", &line.row, "elements of a row, if the vector is a matrix, row by row"});
  parser.add(
      {"--feedback,!--no-feedback", &line.feedback, "keep what a method drops until the next step [on]"});
  parser.add({"--name=LABEL", &line.name, "what the table calls the data [PATH]"});
  parser.add({"--link=LABEL", &line.link, "label of the network, for the table"});
  parser.add({"--csv=FILE", &line.csv, "file of the table [standard output]"});
  line.run = parse(parser, argc, argv, line) && refuse(parser, check_labels(line), line);
  if (line.name.empty()) line.name = line.path;
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
