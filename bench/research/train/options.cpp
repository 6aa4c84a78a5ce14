#include "bench/research/train/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "bench/parse.hpp"

namespace mq::bench {
namespace {

constexpr const char* kWhat =
    "Data-parallel training of a network on MNIST: what compression does to accuracy, and to the time of a "
    "step. Every rank computes the gradient of its share of a batch; the sum of all is one allreduce a "
    "piece. Start it with its MPI's mpiexec:\n\n"
    "  mpiexec -n 2 mpiq-train --data mnist --methods mpi,bf16,onebit --seeds 1,2,3\n"
    "  mpiexec -n 2 mpiq-run --policy '64K-: onebit' mpiq-train --data mnist";

Status read_network(const std::string& text, TrainOptions& o) {
  auto spec = parse_network(text);
  if (!spec.ok()) return spec.status();
  o.network = text;
  o.spec = std::move(*spec);
  return {};
}

Status read_rule(const std::string& text, TrainOptions& o) {
  for (std::size_t r = 0; r < std::size(kRules); ++r)
    if (text == kRules[r]) o.rule = static_cast<Rule>(r);
  return {};
}

Status read_bucket(const std::string& text, TrainOptions& o) {
  o.bucket_bytes = 0;
  if (text == "0") return {};
  const auto bytes = parse_sizes(text);
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() != 1) return bad_argument("one size");
  o.bucket_bytes = (*bytes)[0];
  return {};
}

Status read_methods(const std::string& text, TrainOptions& o) {
  auto methods = parse_methods(text, MethodsFor::matrices);
  if (!methods.ok()) return methods.status();
  o.methods = std::move(*methods);
  for (const MethodWord& method : o.methods)
    if (!method.algorithm.empty()) return bad_argument(fmt::format("{}: not here", method.text));
  return {};
}

// A text of the options that this function reads.
Option::Text text(const char* preset, Status (*read)(const std::string&, TrainOptions&), TrainOptions& o) {
  return {preset, [read, &o](const std::string& word) { return read(word, o); }};
}

void add_training(OptionParser& parser, TrainOptions& o) {
  parser.group("Training");
  parser.add({.flags = "--data=FOLDER",
              .value = &o.data,
              .help = "folder of the MNIST files, .gz or not",
              .environment = "MNIST_DIR"});
  parser.add({"--images", &o.most_images, "only so many examples of the training set"});
  parser.add({"--network=mlp:NxN...|cnn:NxN", text("mlp:512x512", read_network, o),
              "layers of so many units (mlp), or two of so many filters (cnn)"});
  parser.add({"--optimizer=sgd|momentum|adagrad|adamw", text("sgd", read_rule, o),
              "how a gradient changes the parameters", one_of({"sgd", "momentum", "adagrad", "adamw"})});
  parser.add(
      {"--adapt=after|before",
       Option::Text{"after",
                    [&o](const std::string& word) {
                      o.adapt_before = word == "before";
                      return Status{};
                    }},
       "where momentum or AdaGrad work: after, on the sum; before, on each rank's gradient before it is sent",
       one_of({"after", "before"})});
  parser.add({"--rate", &o.rate, "learning rate", above_zero()});
  parser.add({"--warmup", &o.warmup,
              "the rate rises from rate / ranks to rate in so many steps (Goyal et al. 2017, section 2.2)",
              from_to(0, 1 << 30)});
  parser.add({"--momentum", &o.momentum, "of --optimizer momentum; beta 1 of adamw", from_to(0, 0.9999)});
  parser.add({"--second-momentum", &o.second_momentum, "beta 2 of --optimizer adamw", from_to(0, 0.99999)});
  parser.add(
      {"--weight-decay", &o.weight_decay,
       "of --optimizer adamw: each step takes the rate times this from every parameter (Loshchilov and Hutter 2019)",
       from_to(0, 1000)});
  parser.add({"--decay", &o.decay, "the rate is multiplied by this after each epoch", from_to(1e-3, 1)});
  parser.add({"--batch", &o.batch,
              "examples of a step, on all ranks together; 0: all, so that an epoch is a step",
              from_to(0, 1 << 20)});
  parser.add({"--epochs", &o.epochs, "passes over the training set", from_to(1, 100000)});
  parser.add({"--evaluate-every", &o.evaluate_every, "steps from one test to the next; 0: an epoch",
              at_least_zero()});
  parser.add({"--target", &o.target, "stop at this accuracy, and say how long it took", from_to(0, 1)});
  parser.add({"--seeds=N,...", &o.seeds, "of parameters and of the order of images; each in turn [1]"});
}

void add_reductions(OptionParser& parser, TrainOptions& o) {
  parser.group("Reductions");
  parser.add({"--methods=METHOD,...", text("mpi", read_methods, o),
              "mpi (MPI_Allreduce), or methods as in mpiq-bench; each in turn"});
  parser.add(
      {"--ramp=X,...", &o.ramp,
       "the share k that methods with a k send in the first epochs, one number an epoch: 0.25,0.0625,...",
       from_to(1e-9, 1)});
  parser.add({"--feedback,!--no-feedback", &o.feedback, "keep what a method drops until the next step [on]"});
  parser.add({"--bucket-bytes=BYTES", text("4M", read_bucket, o),
              "neighbouring tensors are reduced together up to this; 0: each alone"});
  parser.add({"--half-batches", &o.half_batches,
              "halve each batch, and reduce one half's gradient while the next is computed (1-bit SGD)"});
  parser.add(
      {"--local-steps", &o.local_steps,
       "so many steps of each rank alone between two reductions; then what they changed, averaged over the ranks, is taken as a "
       "gradient (DiLoCo, Douillard et al. 2023); 0: a reduction a step",
       from_to(0, 1 << 20)});
  parser.add({.flags = "--outer-rate",
              .value = &o.outer_rate,
              .help = "learning rate of that gradient",
              .check = above_zero(),
              .needs = {"--local-steps"}});
  parser.add({.flags = "--outer-momentum",
              .value = &o.outer_momentum,
              .help = "its Nesterov momentum",
              .check = from_to(0, 0.9999),
              .needs = {"--local-steps"}});
}

void add_output(OptionParser& parser, TrainOptions& o) {
  parser.group("Output");
  parser.add({"--csv=FILE", &o.csv, "write the table to this file too"});
  parser.add({"--link=LABEL", &o.link, "label of the network, stored with the table"});
  parser.add({"--record=FOLDER", &o.record, "write each rank's gradients, tensor by tensor, to this folder"});
  parser.add({"--record-steps=N,...", &o.record_steps, "at these steps"});
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
  if (o.local_steps == 0) return {};
  if (o.half_batches) return bad_argument("--local-steps: not with --half-batches, whose halves are reduced");
  if (o.adapt_before) return bad_argument("--local-steps: gradients are not sent: not with --adapt before");
  if (!o.record_steps.empty())
    return bad_argument("--local-steps: gradients are not sent: not with --record");
  if (o.batch == 0) return bad_argument("--local-steps: --batch says how many examples a step takes");
  for (const MethodWord& method : o.methods)
    if (method.method.memory != nullptr && method.method.memory->name == "momentum")
      return bad_argument(fmt::format("--local-steps: {}: --outer-momentum sets the momentum", method.text));
  return {};
}

// What options say of each other.
Status check_together(const TrainOptions& o) {
  if (o.data.empty()) return bad_argument("--data: which folder? (scripts/get_mnist fetches the files)");
  if (o.link.find_first_of("\",\n") != std::string::npos)
    return bad_argument("--link: neither \", commas nor new lines");
  if (o.adapt_before && (o.rule == Rule::sgd || o.rule == Rule::adamw))
    return bad_argument("--adapt before works with --optimizer momentum and adagrad only");
  if (o.rule != Rule::adamw &&
      (o.second_momentum != TrainOptions{}.second_momentum || o.weight_decay != TrainOptions{}.weight_decay))
    return bad_argument("--second-momentum and --weight-decay work with --optimizer adamw only");
  for (const MethodWord& method : o.methods)
    if (!takes(o.ramp, method.method))
      return bad_argument(fmt::format("--ramp: {} has no such k", method.text));
  if (o.half_batches && o.batch % 2 != 0) return bad_argument("--half-batches: --batch must be even");
  if (!o.record_steps.empty() && o.record.empty()) return bad_argument("--record-steps: --record says where");
  return check_local_steps(o);
}

}  // namespace

TrainCommandLine parse_train(int argc, const char* const* argv) {
  TrainCommandLine line;
  OptionParser parser("mpiq-train", kWhat);
  add_training(parser, line.options);
  add_reductions(parser, line.options);
  add_output(parser, line.options);
  line.run = parse(parser, argc, argv, line) && refuse(parser, check_together(line.options), line);
  return line;
}

}  // namespace mq::bench
