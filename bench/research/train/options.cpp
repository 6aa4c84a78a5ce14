#include "bench/research/train/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "bench/parse.hpp"

namespace mq::bench {
namespace {

constexpr const char* kWhat =
    "Data-parallel training of a network on MNIST: what compression does to accuracy, and to the time of a "
    "step. Every rank computes the gradient of its share of a batch; the sum of all is one allreduce a "
    "piece. Start it with its MPI's mpiexec:\n\n"
    "  mpiexec -n 2 mpiq-train --data mnist --methods mpi,bf16,onebit --seeds 1,2,3\n"
    "  mpiexec -n 2 mpiq-run --policy '64K-: onebit' mpiq-train --data mnist      # under the preload "
    "library";

struct Words {
  std::string methods = "mpi", rule = "sgd", placement = "after", bucket = "4M";
  std::vector<std::uint64_t> seeds;
};

void add_options(CLI::App& app, TrainOptions& o, Words& w) {
  if (const char* folder = std::getenv("MNIST_DIR")) o.data = folder;
  app.add_option("--data", o.data, "folder of the MNIST files, .gz or not [MNIST_DIR]");
  app.add_option("--images", o.most_images, "only so many examples of the training set");
  app.add_option("--network", o.network, "mlp:WIDTHxWIDTH... or cnn:FILTERSxFILTERS")->capture_default_str();
  app.add_option("--optimizer", w.rule, "sgd, momentum or adagrad")
      ->check(CLI::IsMember({"sgd", "momentum", "adagrad"}))
      ->capture_default_str();
  app.add_option(
         "--adapt", w.placement,
         "where momentum or AdaGrad work: after, on the sum; before, on each rank's gradient before it is "
         "sent")
      ->check(CLI::IsMember({"after", "before"}))
      ->capture_default_str();
  app.add_option("--rate", o.rate, "learning rate")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--warmup", o.warmup,
                 "the rate rises from rate / ranks to rate in so many steps (Goyal et al. 2017, section 2.2)")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  app.add_option("--momentum", o.momentum)->check(CLI::Range(0.0, 0.9999))->capture_default_str();
  app.add_option("--decay", o.decay, "the rate is multiplied by this after each epoch")
      ->check(CLI::Range(1e-3, 1.0))
      ->capture_default_str();
  app.add_option("--batch", o.batch,
                 "examples of a step, on all ranks together; 0: all, so that an epoch is a step")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--epochs", o.epochs)->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--evaluate-every", o.evaluate_every, "steps from one test to the next; 0: an epoch")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--target", o.target, "stop at this accuracy, and say how long it took")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--methods", w.methods, "mpi (MPI_Allreduce), or methods as in mpiq-bench; each in turn")
      ->capture_default_str();
  app.add_option(
         "--ramp", o.ramp,
         "the share k that methods with a k send in the first epochs, one number an epoch: 0.25,0.0625,...")
      ->delimiter(',')
      ->check(CLI::Range(1e-9, 1.0));
  app.add_flag("--feedback,!--no-feedback", o.feedback, "keep what a method drops until the next step [on]");
  app.add_option("--bucket-bytes", w.bucket,
                 "neighbouring tensors are reduced together up to this; 0: each alone")
      ->capture_default_str();
  app.add_flag("--half-batches", o.half_batches,
               "halve each batch, and reduce one half's gradient while the next is computed (1-bit SGD)");
  app.add_option("--seeds", w.seeds, "of parameters and of the order of images; each in turn [1]")
      ->delimiter(',');
  app.add_option("--record", o.record, "write each rank's gradients, tensor by tensor, to this folder");
  app.add_option("--record-steps", o.record_steps, "at these steps")->delimiter(',');
  app.add_option("--csv", o.csv, "write the table to this file too");
  app.add_option("--link", o.link, "label of the network, stored with the table");
}

void add_local_steps(CLI::App& app, TrainOptions& o) {
  app.add_option(
         "--local-steps", o.local_steps,
         "so many steps of each rank alone between two reductions; then what they changed, averaged over "
         "the ranks, is taken as a gradient (DiLoCo, Douillard et al. 2023); 0: a reduction a step")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--outer-rate", o.outer_rate, "learning rate of that gradient")
      ->needs("--local-steps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--outer-momentum", o.outer_momentum, "its Nesterov momentum")
      ->needs("--local-steps")
      ->check(CLI::Range(0.0, 0.9999))
      ->capture_default_str();
}

// Whether the method's k, if it has one, can be each of these.
bool takes(const std::vector<double>& ramp, const Method& method) {
  return method.codec == nullptr || std::all_of(method.codec->specs.begin(), method.codec->specs.end(),
                                                [&](const kernels::ParamSpec& spec) {
                                                  return spec.name != "k" ||
                                                         std::all_of(ramp.begin(), ramp.end(), [&](double k) {
                                                           return spec.min <= k && k <= spec.max;
                                                         });
                                                });
}

// What local steps cannot be combined with.
Status check_local_steps(const TrainOptions& o) {
  const auto bad = [](std::string text) { return Status{Code::bad_argument, std::move(text)}; };
  if (o.local_steps == 0) return {};
  if (o.half_batches) return bad("--local-steps: not with --half-batches, whose halves are reduced");
  if (o.adapt_before) return bad("--local-steps: gradients are not sent: not with --adapt before");
  if (!o.record_steps.empty()) return bad("--local-steps: gradients are not sent: not with --record");
  if (o.batch == 0) return bad("--local-steps: --batch says how many examples a step takes");
  for (const MethodWord& method : o.methods)
    if (method.method.memory != nullptr && method.method.memory->name == "momentum")
      return bad(fmt::format("--local-steps: {}: the momentum is that of --outer-momentum", method.text));
  return {};
}

Status take_words(const Words& w, TrainOptions& o) {
  const auto bad = [](std::string text) { return Status{Code::bad_argument, std::move(text)}; };
  if (o.data.empty()) return bad("--data: which folder? (scripts/get_mnist fetches the files)");
  auto spec = parse_network(o.network);
  if (!spec.ok()) return spec.status();
  o.spec = std::move(*spec);
  for (std::size_t r = 0; r < std::size(kRules); ++r)
    if (w.rule == kRules[r]) o.rule = static_cast<Rule>(r);
  if (o.link.find_first_of("\",\n") != std::string::npos)
    return bad("--link: neither \", commas nor new lines");
  o.adapt_before = w.placement == "before";
  if (o.adapt_before && o.rule == Rule::sgd) return bad("--adapt before: sgd has nothing to adapt");
  auto methods = parse_methods(w.methods, MethodsFor::matrices);
  if (!methods.ok()) return methods.status();
  o.methods = std::move(*methods);
  for (const MethodWord& method : o.methods) {
    if (!method.algorithm.empty()) return bad(fmt::format("--methods {}: not here", method.text));
    if (!takes(o.ramp, method.method)) return bad(fmt::format("--ramp: {} has no such k", method.text));
  }
  if (!w.seeds.empty()) o.seeds = w.seeds;
  if (w.bucket == "0") {
    o.bucket_bytes = 0;
  } else {
    const auto bytes = parse_sizes(w.bucket);
    if (!bytes.ok()) return bytes.status();
    if (bytes->size() != 1) return bad("--bucket-bytes: one size");
    o.bucket_bytes = (*bytes)[0];
  }
  if (o.half_batches && o.batch % 2 != 0) return bad("--half-batches: --batch must be even");
  if (!o.record_steps.empty() && o.record.empty()) return bad("--record-steps: --record says where");
  return check_local_steps(o);
}

}  // namespace

TrainCommandLine parse_train(int argc, const char* const* argv) {
  TrainCommandLine line;
  Words words;
  CLI::App app{kWhat, "mpiq-train"};
  add_options(app, line.options, words);
  add_local_steps(app, line.options);
  if (!parse(app, argc, argv, line)) return line;
  if (const Status s = take_words(words, line.options); !s.ok()) {
    line.exit_code = kUsage;
    line.err = fmt::format("mpiq-train: {}\n", s.text());
    return line;
  }
  line.run = true;
  return line;
}

}  // namespace mq::bench
