// mpiq-train shows what compression does to a whole program that trains a network. It runs every method with
// every seed and prints a table.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "bench/check.hpp"
#include "bench/console.hpp"
#include "bench/metadata.hpp"
#include "bench/report.hpp"
#include "bench/research/train/trainer.hpp"
#include "bench/with_mpi.hpp"

#ifdef __SSE2__
#  include <xmmintrin.h>
#endif

namespace mq::bench {
namespace {

class Program {
 public:
  Program(const TrainOptions& options, MPI_Comm comm) : options_(options), comm_(comm) {
    PMPI_Comm_rank(comm, &rank_);
    PMPI_Comm_size(comm, &size_);
    oversubscribed_ = find_topology(comm).oversubscribed(size_);
  }
  int run() {
    const auto data = read_data(options_);
    if (!well("--data", data.ok() ? Status{} : data.status())) return kUsage;
    if (!well("--csv", rank_ != 0 || options_.csv.empty() ? Status{} : check_place(options_.csv)))
      return kUsage;
    int code = kDone;
    for (const std::uint64_t seed : options_.seeds)
      for (const MethodWord& method : options_.methods) {
        if (!run_one(method, seed, *data)) code = kPointFailed;
        if (!well("--csv", save())) return kPointFailed;
      }
    return code;
  }

 private:
  // Saves the table so far, so that an interrupted program keeps the runs that it has finished.
  Status save() const {
    if (rank_ != 0 || options_.csv.empty()) return {};
    return replace_file(options_.csv, std::as_bytes(std::span(csv_)));
  }
  // Whether all ranks are well. The first rank that is not prints the reason.
  bool well(std::string_view what, const Status& mine) const {
    const int first = first_no(mine.ok(), comm_);
    if (first == rank_) fmt::print(stderr, "mpiq-train: rank {}: {}: {}\n", rank_, what, mine.text());
    return first == size_;
  }
  bool run_one(const MethodWord& method, std::uint64_t seed, const TrainData& data) {
    Trainer trainer(options_, method, seed, data, comm_);
    if (csv_.empty()) print_head(trainer);
    const Status status = trainer.run([&](const Evaluation& now) { print(method, seed, now); });
    if (!well(method.text, status)) return false;
    if (options_.target > 0 && rank_ == 0)
      print_out(fmt::format("# {} seed {}: {} {}\n", method.text, seed,
                            trainer.reached() ? "reached" : "did not reach", options_.target));
    return true;
  }
  // Columns of the outer steps, which are empty if there are none.
  std::string outer_columns() const {
    if (options_.local_steps == 0) return "0,,";
    return fmt::format("{},{},{}", options_.local_steps, options_.outer_rate, options_.outer_momentum);
  }
  // The last columns: what the optimizer has of these.
  std::string rule_columns() const {
    if (options_.rule == Rule::momentum) return fmt::format("{},,", options_.momentum);
    if (options_.rule != Rule::adamw) return ",,";
    return fmt::format("{},{},{}", options_.momentum, options_.second_momentum, options_.weight_decay);
  }
  std::string local_words() const {
    if (options_.local_steps == 0) return "";
    return fmt::format(", {} local steps, then one at outer rate {} with outer momentum {}",
                       options_.local_steps, options_.outer_rate, options_.outer_momentum);
  }
  void print_head(Trainer& trainer) {
    parameters_ = trainer.parameters();
    batch_ = trainer.batch();
    csv_ =
        "method,feedback,seed,ranks,network,parameters,optimizer,adapt,half_batches,batch,rate,warmup,epoch,step,"
        "loss,accuracy,train_s,compute_s,reduce_s,update_s,encode_s,decode_s,wait_s,sent_bytes,link,"
        "oversubscribed,ramp,local_steps,outer_rate,outer_momentum,momentum,second_momentum,weight_decay\n";
    if (rank_ != 0) return;
    print_out(fmt::format(
        "# {}: {} parameters, {} ranks, batch {}, {} at rate {}{}\n"
        "{}# times since the start without tests: of the slowest rank; bytes: sent by the busiest rank so far\n"
        "{:<24} {:>5} {:>6} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12}\n",
        options_.network, parameters_, size_, batch_, kRules[static_cast<std::size_t>(options_.rule)],
        options_.rate, options_.half_batches ? std::string(", half batches") : local_words(),
        oversubscribed_ ? "# MORE RANKS THAN CPUS: times say nothing\n" : "", "method", "seed", "step",
        "loss", "accuracy", "time", "compute", "reduce", "update", "a step", "bytes"));
  }
  void print(const MethodWord& method, std::uint64_t seed, const Evaluation& now) {
    const std::string bytes = now.sent_bytes < 0 ? "" : std::to_string(now.sent_bytes);
    print_out(fmt::format("{:<24} {:>5} {:>6} {:>8.4f} {:>8.4f} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12}\n",
                          method.text, seed, now.step, now.loss, now.accuracy, duration(now.train_s),
                          duration(now.compute_s), duration(now.reduce_s), duration(now.update_s),
                          duration(now.train_s / static_cast<double>(now.step)), bytes));
    csv_ += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
        "\"" + method.text + "\"", static_cast<int>(options_.feedback), seed, size_, options_.network,
        parameters_, kRules[static_cast<std::size_t>(options_.rule)],
        options_.adapt_before ? "before" : "after", static_cast<int>(options_.half_batches), batch_,
        options_.rate, options_.warmup, now.epoch, now.step, now.loss, now.accuracy, now.train_s,
        now.compute_s, now.reduce_s, now.update_s, now.encode_s, now.decode_s, now.wait_s, bytes,
        "\"" + options_.link + "\"", static_cast<int>(oversubscribed_), fmt::join(options_.ramp, " "),
        outer_columns(), rule_columns());
  }

  const TrainOptions& options_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  bool oversubscribed_ = false;  // more ranks than processors; times mean nothing
  std::size_t parameters_ = 0, batch_ = 0;
  std::string csv_;
};

}  // namespace
}  // namespace mq::bench

// If the gradients of a parameter stay 0, its velocity decays to denormal numbers, which take a hundred times
// as long as others. Sparse gradients cause many of them. Training frameworks can flush them to zero too.
static void flush_denormals() {
#ifdef __SSE2__
  _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, denormals are zero
#endif
}

// A function of OpenBLAS, if that is the BLAS. Without this call every rank would use all processors.
extern "C" __attribute__((weak)) void openblas_set_num_threads(int threads);

int main(int argc, char** argv) {
  using namespace mq::bench;
  const TrainCommandLine line = parse_train(argc, argv);
  if (!line.run) {
    if (launcher_rank() == 0) print_texts(line.out, line.err);
    return line.exit_code;
  }
  flush_denormals();
  if (openblas_set_num_threads != nullptr && std::getenv("OPENBLAS_NUM_THREADS") == nullptr)
    openblas_set_num_threads(1);
  return with_mpi("mpiq-train", argc, argv, [&](MPI_Comm comm) { return Program(line.options, comm).run(); });
}
