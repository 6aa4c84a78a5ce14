#include "bench/points.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "bench/buffers.hpp"
#include "bench/layers.hpp"
#include "bench/models.hpp"
#include "bench/random.hpp"
#include "mpi_quant/base/json.hpp"

namespace mq::bench {
namespace {

struct Size {
  std::uint64_t count;
  std::string layer;
  int alike = 1;
  std::uint64_t side = 0;
};

// Layers of one size cost the same. So one of them is measured, and the number of such layers is stored with
// it.
std::vector<Size> layer_sizes(std::vector<Layer> layers) {
  std::vector<Size> sizes;
  for (Layer& layer : layers) {
    const auto same =
        std::find_if(sizes.begin(), sizes.end(), [&](const Size& s) { return s.count == layer.count; });
    if (same != sizes.end())
      ++same->alike;
    else
      sizes.push_back({layer.count, std::move(layer.name)});
  }
  return sizes;
}

Result<std::vector<Size>> sizes_of(const Options& o, kernels::Element element) {
  const std::size_t width = kernels::element_bytes(element);
  if (!o.model.empty() || !o.layers.empty()) {
    std::vector<Layer> layers = o.model.empty() ? o.layers : find_model(o.model)->layers();
    return layer_sizes(o.bucket_bytes > 0 ? fuse_layers(layers, o.bucket_bytes / width) : std::move(layers));
  }
  std::vector<Size> sizes;
  for (const std::uint64_t side : o.sides) sizes.push_back({side * side, "", 1, side});
  if (!sizes.empty()) return sizes;
  for (const std::uint64_t bytes :
       o.sizes.empty() ? size_range(o.min_bytes, o.max_bytes, o.step_factor) : o.sizes) {
    if (bytes % width != 0)
      return Status{Code::bad_argument, fmt::format("size {} is not a multiple of the {} bytes of {}", bytes,
                                                    width, name(element))};
    sizes.push_back({bytes / width, ""});
  }
  return sizes;
}

Result<std::vector<MethodWord>> methods_at(const Options& o, kernels::Element element, const Size& size) {
  std::vector<MethodWord> methods;
  for (const MethodWord& word : o.methods) {
    auto method = at_side(word, size.side);
    if (!method.ok())
      return Status{Code::bad_argument,
                    fmt::format("--methods: {} for {}: {}", word.text,
                                size.side > 0 ? fmt::format("a matrix of side {}", size.side)
                                              : fmt::format("{} elements", size.count),
                                method.status().text())};
    if (method->method.exact() && adds(o.collective) && kernels::compute_element(element) != element)
      return Status{Code::bad_argument,
                    fmt::format("--methods: MPI has no sum of {}: compare with the codec {} in place of {}",
                                name(element), name(element), word.text)};
    methods.push_back(std::move(*method));
  }
  return methods;
}

// Adds the points of a sweep of sparse vectors for one number of ranks and one type. The options name the
// methods.
Status add_sparse_points(const Options& o, int ranks, kernels::Element element, std::vector<Point>& points) {
  const auto unusable = [](std::string text) { return Status{Code::bad_argument, std::move(text)}; };
  if (element != kernels::Element::f32 && element != kernels::Element::f64)
    return unusable(fmt::format("--dtype: sparse reductions are of f32 and f64, not {}", name(element)));
  for (const MethodWord& m : o.methods)
    if (m.sparse && !m.sparse->degrees.empty())
      if (const Status s = check_degrees(m.sparse->degrees, ranks); !s.ok())
        return unusable(fmt::format("--methods: {} at {} ranks: {}", m.text, ranks, s.text()));
  for (const std::uint64_t stride : o.sparse->strides)
    for (const std::uint64_t bytes :
         o.sizes.empty() ? size_range(o.min_bytes, o.max_bytes, o.step_factor) : o.sizes) {
      const std::size_t width = kernels::element_bytes(element) * stride;
      if (bytes % width != 0)
        return unusable(fmt::format("size {} is not a multiple of the {} bytes of stride {} of {}", bytes,
                                    width, stride, name(element)));
      for (const SupportSpec& support : o.sparse->supports)
        for (const double density : o.sparse->densities) {
          points.push_back({element, ranks, bytes / kernels::element_bytes(element), ""});
          Point& p = points.back();
          p.methods = o.methods;
          p.support = support;
          p.support.density = density;
          p.support.seed = o.data.seed;
          p.stride = stride;
        }
    }
  return {};
}

// Each method without computation between start and end, and with each length of it.
std::vector<MethodWord> with_computation(const Options& o, const std::vector<MethodWord>& methods) {
  std::vector<int> percents{0};
  percents.insert(percents.end(), o.overlap.begin(), o.overlap.end());
  std::vector<MethodWord> all;
  for (const int percent : percents)
    for (const MethodWord& m : methods) all.emplace_back(m).compute_percent = percent;
  return all;
}

Status add_dense_points(const Options& o, int ranks, kernels::Element element, std::vector<Point>& points) {
  auto sizes = sizes_of(o, element);
  if (!sizes.ok()) return sizes.status();
  if (o.is_link && ranks % 2 != 0)
    return {Code::bad_argument,
            fmt::format("{} ranks are not pairs: start an even number, or use --ranks", ranks)};
  for (const Size& s : *sizes) {
    auto methods = methods_at(o, element, s);
    if (!methods.ok()) return methods.status();
    if (!o.overlap.empty()) *methods = with_computation(o, *methods);
    points.push_back({element, ranks, s.count, s.layer, s.alike, s.side, std::move(*methods)});
    points.back().number = static_cast<std::size_t>(&s - sizes->data());
  }
  return {};
}

std::vector<Point> at_each_arrival(const std::vector<Arrival>& arrivals, const std::vector<Point>& points) {
  std::vector<Point> all;
  for (const Point& p : points)
    for (const Arrival& arrival : arrivals) all.emplace_back(p).arrival = arrival;
  return all;
}

std::vector<Point> one_method_each(const std::vector<Point>& points) {
  std::vector<Point> alone;
  for (const Point& p : points)
    for (const MethodWord& m : p.methods) {
      alone.push_back(p);
      alone.back().methods = {m};
    }
  return alone;
}

}  // namespace

Result<std::vector<Point>> make_points(const Options& o, int launch_ranks) {
  std::vector<Point> points;
  for (const int ranks : o.ranks.empty() ? std::vector<int>{launch_ranks} : o.ranks) {
    if (ranks > launch_ranks)
      return Status{Code::bad_argument, fmt::format("--ranks: {} of a launch of {}", ranks, launch_ranks)};
    for (const kernels::Element element : o.elements)
      MQ_TRY(o.sparse ? add_sparse_points(o, ranks, element, points)
                      : add_dense_points(o, ranks, element, points));
  }
  if (!o.arrivals.empty()) points = at_each_arrival(o.arrivals, points);
  if (o.isolated) points = one_method_each(points);
  if (o.shuffle) Random(o.data.seed).shuffle(points);
  return points;
}

std::string model_label(const Options& o) {
  std::string label = o.layers_file.empty() ? o.model : std::filesystem::path(o.layers_file).stem().string();
  if (o.bucket_bytes > 0) label += fmt::format("/{}", o.bucket_bytes);
  return label;
}

const char* mode(const Options& o) {
  return o.methods.size() > 1 && !o.isolated ? "interleaved" : "isolated";
}

std::string sparse_params(const Options& o, const Point& p) {
  return fmt::format("density={},distribution={},stride={},in={},lists={}", p.support.density,
                     to_string(p.support), p.stride, o.sparse->want_union ? "union" : "own",
                     o.sparse->fresh ? "new" : "same");
}

std::string variables_json(const Options& o, const Point& p, const MethodWord& m, const Placement& where) {
  // Keys of dense vectors do not
  // mention lists, so that files from before there were sparse vectors can be continued.
  const std::string lists =
      o.sparse ? fmt::format(R"("lists":{},)", json_quote(sparse_params(o, p))) : std::string();
  const std::string computation = m.compute_percent < 0
                                      ? std::string()
                                      : fmt::format(R"("compute_percent":{},"test_interval_us":{},)",
                                                    m.compute_percent, o.test_interval_us);
  const std::string form = o.form == Form::blocking
                               ? std::string()
                               : fmt::format(R"("form":"{}","window":{},)", name(o.form), o.window);
  const std::string cache = o.cache_bytes == 0 ? std::string() : fmt::format(R"("cache":{},)", o.cache_bytes);
  const std::string arrival =
      p.arrival == Arrival{} ? std::string() : fmt::format(R"("arrival":"{}",)", to_string(p.arrival));
  return fmt::format(
      R"({{{}"buffers":"{}",{}"collective":"{}",{}{}"count":{},"data":{},"dtype":"{}","feedback":{},"launch":{},)"
      R"("layer":{},"link":{},{}"memory":"{}","method":{},"mode":"{}","model":{},"nodes":{},"op":"sum","place":"{}",)"
      R"("ranks":{},"ranks_per_node":{},"rho":{},"seed":{},"sync":"{}"}})",
      arrival, name(o.buffers), cache, collective_name(o), computation, form, p.count,
      json_quote(to_string(o.data)), name(p.element), o.feedback, o.launch, json_quote(p.layer),
      json_quote(o.link), lists, name(o.memory), json_quote(m.text), mode(o), json_quote(model_label(o)),
      where.nodes, o.in_place ? "in" : "out", p.ranks, where.ranks_per_node, o.data.rho, o.data.seed,
      name(o.sync));
}

// Two independently seeded 64-bit FNV-1a sums, each finished by a mixer. It does not resist adversaries. A
// sweep has at most some 10^5 keys, which collide by chance with a probability of 10^-28.
std::string hash128(std::string_view text) {
  std::uint64_t a = 0xcbf29ce484222325U, b = 0x6c62272e07bb0142U;
  for (const char c : text) {
    a = (a ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    b = (b ^ static_cast<unsigned char>(c)) * 0x9e3779b97f4a7c15U + a;
  }
  return fmt::format("{:016x}{:016x}", Random(a).next(), Random(b ^ (a << 1)).next());
}

std::uint64_t pool_bytes(const Options& o, std::uint64_t largest_bytes, int ranks_per_node) {
  const std::uint64_t slot = slot_stride(largest_bytes);
  const std::uint64_t steps =
      static_cast<unsigned>(o.data.steps) * slot;  // one slot for each step, whatever its size
  const std::uint64_t window = static_cast<unsigned>(o.window) * slot;  // each call in flight has a result
  if (o.buffers == Buffers::warm) return std::max(steps, window);
  // Not divided by the ranks: they may be on several dies.
  if (o.cache_bytes > 0 && o.memory == Place::host)
    return std::max({2 * slot, steps, window, 2 * o.cache_bytes});
  // On a GPU: at least twice the largest L2 cache.
  const std::uint64_t floor = std::uint64_t{o.memory == Place::cuda ? 256U : 64U} << 20;
  // Twice the cache of one die. Some processors report the sum of all dies, but a core reaches only one.
  constexpr std::uint64_t kMostCache = std::uint64_t{192} << 20;
  const auto cache = static_cast<std::uint64_t>(std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), 0L));
  const std::uint64_t share = std::min(2 * cache / static_cast<unsigned>(ranks_per_node), kMostCache);
  return std::max({2 * slot, steps, window, floor, share});
}

}  // namespace mq::bench
