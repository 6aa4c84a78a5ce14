// The options that a result depends on, as the text that is stored with it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/options.hpp"
#include "bench/points.hpp"
#include "mpi_quant/base/json.hpp"

namespace mq::bench {
namespace {

// The layers of --layers as their number and a hash, because their list may be long.
std::string layers_json(const std::vector<Layer>& layers) {
  if (layers.empty()) return "null";
  std::string all;
  for (const Layer& layer : layers) all += fmt::format("{},{}\n", layer.name, layer.count);
  return fmt::format(R"({{"hash":"{}","number":{}}})", hash128(all), layers.size());
}

}  // namespace

std::string config_json(const Options& o) {
  std::vector<std::string> elements, methods;
  for (const kernels::Element e : o.elements) elements.push_back(json_quote(name(e)));
  for (const MethodWord& m : o.methods) methods.push_back(json_quote(m.text));
  const bool range = o.sizes.empty() && o.sides.empty() && o.model.empty() && o.layers_file.empty();
  // the defaults are left out, so that files from before these options keep their text
  std::string lists, memory, simulation;
  if (!o.simulation.empty()) simulation = fmt::format(R"("simulation":{},)", o.simulation);
  if (o.memory != Place::host) memory = fmt::format(R"("memory":"{}",)", name(o.memory));
  if (o.sparse) {
    std::vector<std::string> supports;
    for (const SupportSpec& spec : o.sparse->supports) supports.push_back(json_quote(to_string(spec)));
    lists = fmt::format(
        R"("sparse":{{"density":[{}],"distribution":[{}],"in":"{}","lists":"{}","stride":[{}]}},)",
        fmt::join(o.sparse->densities, ","), fmt::join(supports, ","), o.sparse->want_union ? "union" : "own",
        o.sparse->fresh ? "new" : "same", fmt::join(o.sparse->strides, ","));
  }
  return fmt::format(
      R"({{"baseline":{},"bucket_bytes":{},"buffers":"{}","check":{},"data":{},"dtype":[{}],"feedback":{},"in_place":{},"iters":{},)"
      R"("keep_ranks":{},"launch":{},"layers":{},"link":{},"matrix":[{}],"max_reps":{},{}"methods":[{}],"min_reps":{},"mode":"{}","model":{},"point_time_s":{},"range":{},)"
      R"("ranks":[{}],"rel_ci":{},"rho":{},"seed":{},"shuffle":{},{}"sizes":[{}],{}"sync":"{}","warmup":{}}})",
      json_quote(o.baseline), o.bucket_bytes, name(o.buffers), o.check, json_quote(to_string(o.data)),
      fmt::join(elements, ","), o.feedback, o.in_place, o.iters, o.keep_ranks, o.launch,
      layers_json(o.layers), json_quote(o.link), fmt::join(o.sides, ","), o.max_reps, memory,
      fmt::join(methods, ","), o.min_reps, o.isolated ? "isolated" : "interleaved", json_quote(o.model),
      o.point_time_s, range ? fmt::format("[{},{},{}]", o.min_bytes, o.max_bytes, o.step_factor) : "null",
      fmt::join(o.ranks, ","), o.rel_ci, o.data.rho, o.data.seed, o.shuffle, simulation,
      fmt::join(o.sizes, ","), lists, name(o.sync), o.warmup);
}

}  // namespace mq::bench
