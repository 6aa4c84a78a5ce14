// Memory rules on a GPU, kernels and launches, against the rules on the host: every function of every rule,
// the sums that rules decide by, and chunks of every codec with a device row under every rule. They run in
// the emulator: no GPU is needed.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/memory_sums.hpp"
#include "mpi_quant/device/steps.hpp"
#include "tests/device/device_rows.hpp"
#include "tests/engine/scene.hpp"
#include "tests/kernels/inputs.hpp"

namespace mq::test {
namespace {

using kernels::DeviceMemory;
using kernels::Element;
using kernels::Isa;
using kernels::MemoryFunction;
using kernels::MemoryRule;
using kernels::MemoryTile;

constexpr std::array kFunctions{MemoryFunction::before, MemoryFunction::after, MemoryFunction::deliver,
                                MemoryFunction::skip};

// The rules that have functions, with the parameters that change what they do.
template <class F>
void for_each_rule(const F& f) {
  for (const MemoryRule& rule : kernels::memory_rules()) {
    if (rule.ops == nullptr) continue;
    kernels::Params params = kernels::preset_params(rule);
    f(rule, params);
    for (std::size_t i = 0; i < rule.specs.size(); ++i) {
      const kernels::ParamSpec& spec = rule.specs[i];
      if (spec.kind == kernels::ParamKind::word) {
        params.value[i] = 1;
        f(rule, params);
      } else if (spec.name == "v") {
        for (double v = spec.min; v <= spec.max; ++v) params.value[i] = v, f(rule, params);
      }
    }
  }
}

// Every kind of input, and among the elements numbers that are not finite, NaNs of any bits, and -0.
template <class T>
std::vector<T> hostile(Input kind, std::size_t n, std::uint64_t seed_value) {
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  std::vector<T> x = make_input<T>(kind, n, seed_value);
  plant_nonfinite(x, seed_value);
  std::mt19937_64 random(seed_value);
  constexpr Word kInf = std::bit_cast<Word>(std::numeric_limits<T>::infinity());
  for (std::size_t i = 0; i < n / 20; ++i)
    x[random() % n] = std::bit_cast<T>(static_cast<Word>(kInf | static_cast<Word>(random())));
  if (n > 3) x[3] = -T{0};
  return x;
}

// One case of many.
struct Case {
  std::uint64_t number = 0;
  std::size_t shift() const { return std::array<std::size_t, 4>{0, 4, 8, 1}[number % 4]; }
  std::uint64_t order() const { return number % 5 == 4 ? number : 0; }
};

// The arrays of a tile, each between canaries.
template <class T>
struct Arrays {
  std::vector<Guarded<T>> all;
  Arrays(const std::vector<std::vector<T>>& values, std::size_t shift) {
    for (const std::vector<T>& v : values) {
      all.emplace_back(v.size() * sizeof(T), shift);
      all.back().set(v);
    }
  }
  void* at(std::size_t i) { return all[i].data(); }
};

// x, three arrays, scratch memory and a sum, of which a function reads and writes what it wants.
template <class T>
void expect_function(const MemoryRule& rule, const MemoryTile& terms, MemoryFunction function,
                     const std::vector<std::vector<T>>& values, bool mirrors, Case which) {
  constexpr Element kElement = sizeof(T) == 8 ? Element::f64 : Element::f32;
  Arrays<T> host(values, 0), device(values, which.shift());
  const auto tile_of = [&](Arrays<T>& arrays) {
    MemoryTile tile = terms;
    tile.x = arrays.at(0);
    for (std::size_t i = 0; i < static_cast<std::size_t>(rule.arrays); ++i) tile.array[i] = arrays.at(i + 1);
    tile.scratch = arrays.at(4);
    if (mirrors) tile.array[0] = nullptr;
    return tile;
  };
  const kernels::MemoryOps& ops = *rule.ops(kElement, Isa::scalar);
  const MemoryTile on_host = tile_of(host), on_device = tile_of(device);
  if (function == MemoryFunction::before) {
    const kernels::Operand operand = ops.before(on_host);
    MemoryTile none = on_host;
    none.n = 0;
    EXPECT_EQ(operand.x, ops.before(none).x) << rule.name;
    EXPECT_EQ(operand.residual, ops.before(none).residual) << rule.name;
  } else if (function == MemoryFunction::after && ops.after != nullptr) {
    ops.after(on_host);
  } else if (function == MemoryFunction::deliver && ops.deliver != nullptr) {
    ops.deliver(on_host, host.at(5));
  } else if (function == MemoryFunction::skip && ops.skip != nullptr) {
    ops.skip(on_host);
  }
  simt::set_order(which.order());
  DeviceMemory{&rule, kElement, kSmallDevice}.run(function, on_device, device.at(5), simt::launcher());
  simt::set_order(0);
  const std::string where = std::string(rule.name) + " function " +
                            std::to_string(static_cast<int>(function)) + " n=" + std::to_string(terms.n) +
                            (sizeof(T) == 8 ? " f64" : " f32");
  EXPECT_STREQ(simt::error(), "") << where;
  simt::clear_error();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(device.all[i].intact()) << where << " array " << i;
    ASSERT_TRUE(same_bits(host.all[i].get(terms.n), device.all[i].get(terms.n))) << where << " array " << i;
  }
}

template <class T>
void expect_functions(const MemoryRule& rule, MemoryTile terms, bool mirrors, Case& which) {
  for (const std::size_t n : {0, 1, 3, 4, 5, 31, 33, 1000, 12345}) {
    terms.n = n;
    const Input kind = kInputs[which.number % std::size(kInputs)];
    std::vector<std::vector<T>> values{hostile<T>(kind, n, which.number)};
    for (std::size_t a = 0; a < kernels::kMaxArrays; ++a)  // finite
      values.push_back(make_input<T>(kInputs[(which.number + a) % std::size(kInputs)], n, which.number + a));
    values.push_back(hostile<T>(Input::normal, n, which.number + 7));  // scratch
    values.push_back(hostile<T>(kind, n, which.number + 8));           // the sum
    for (const MemoryFunction function : kFunctions)
      expect_function<T>(rule, terms, function, values, mirrors, which);
    ++which.number;
  }
}

TEST(DeviceMemory, functions_give_the_bits_of_the_host) {
  Case which;
  for_each_rule([&](const MemoryRule& rule, const kernels::Params& params) {
    for (const int form : {0, 1, 2, 3, 4}) {
      const bool mirrors = form == 4;
      if (mirrors && !rule.mirrors) break;
      MemoryTile terms;
      terms.params = params;
      terms.factor = form % 2 == 0 ? 1 : 0.3;
      terms.exact_restart = rule.keeps_estimates && form == 2;
      terms.message = form == 3 && rule.terms(params).messages == 2 ? 1 : 0;
      expect_functions<float>(rule, terms, mirrors, which);
      expect_functions<double>(rule, terms, mirrors, which);
    }
  });
}

// The parts are added in the same order as on the host.
template <class T, Element kElement>
void expect_sums(std::size_t n, double scale, std::size_t shift) {
  using Kept = Compute<T>;
  constexpr std::size_t kPart = kernels::memory_sums::kPart;
  const auto numbers = hostile<Kept>(kInputs[n % std::size(kInputs)], n, n);
  std::vector<T> x;
  for (const Kept v : numbers) x.push_back(static_cast<T>(v));
  const auto minus_h = make_input<Kept>(Input::normal, n, n + 1), last = make_input<Kept>(Input::huge, n, n);
  Guarded<T> in(n * sizeof(T), shift);
  in.set(x);
  Arrays<Kept> arrays({minus_h, minus_h, last}, shift);
  const MemoryRule& rule = *kernels::find_memory_rule("lazy");
  const DeviceMemory device{&rule, kElement, kSmallDevice};
  const std::size_t parts = kernels::memory_sums::parts_of(n);
  std::vector<double> squares(parts + 1, -1);
  std::vector<kernels::Distances> distances(parts + 1, {-1, -1});
  MemoryTile tile;
  tile.x = in.data();
  tile.array = {arrays.at(0), arrays.at(1), arrays.at(2)};
  tile.n = n;
  device.squares(in.data(), n, scale, squares.data(), simt::launcher());
  device.distances(tile, scale, distances.data(), simt::launcher());
  EXPECT_STREQ(simt::error(), "");
  simt::clear_error();
  const kernels::MemoryOps& momentum =
      *kernels::find_memory_rule("momentum")->ops(kElement, kernels::best_isa());
  const kernels::MemoryOps& lazy = *rule.ops(kElement, kernels::best_isa());
  std::vector<Kept> widened;
  for (const T v : x) widened.push_back(static_cast<Kept>(static_cast<double>(v)));
  const auto* const values =
      sizeof(T) == sizeof(Kept) ? reinterpret_cast<const Kept*>(x.data()) : widened.data();
  for (std::size_t p = 0; p < parts; ++p) {
    const std::size_t first = p * kPart, m = std::min(kPart, n - first);
    EXPECT_EQ(squares[p], momentum.squares(values + first, m, scale)) << "part " << p << " of " << n;
    MemoryTile part;
    part.x = values + first;
    std::vector<Kept> h(minus_h.begin() + static_cast<std::ptrdiff_t>(first), minus_h.end()),
        y(last.begin() + static_cast<std::ptrdiff_t>(first), last.end());
    part.array = {h.data(), h.data(), y.data()};
    part.n = m;
    const kernels::Distances expected = lazy.distances(part, scale);
    const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    EXPECT_TRUE(same(distances[p].from_estimate, expected.from_estimate)) << "part " << p << " of " << n;
    EXPECT_TRUE(same(distances[p].from_last, expected.from_last)) << "part " << p << " of " << n;
  }
  EXPECT_EQ(squares[parts], -1);
  EXPECT_EQ(distances[parts].from_last, -1);
}

TEST(DeviceMemory, sums_give_the_bits_of_the_host) {
  std::size_t turn = 0;
  for (const std::size_t n : {0, 1, 15, 17, 1023, 1024, 1025, 5000, 40001})
    for (const double scale : {1.0, 0x1p-600, 0x1p600}) {
      const std::size_t shift = turn++ % 3 == 0 ? 0 : turn % 3 == 1 ? 1 : 8;
      expect_sums<float, Element::f32>(n, scale, shift);
      expect_sums<double, Element::f64>(n, scale, shift);
      expect_sums<F16, Element::f16>(n, scale, shift);
      expect_sums<Bf16, Element::bf16>(n, scale, shift);
    }
}

// What a rank of a call keeps about one chunk, on the host or on the device.
template <class T>
struct Chunk {
  static constexpr Element kElement = sizeof(T) == 8 ? Element::f64 : Element::f32;
  std::vector<T> x, arrays;
  std::vector<std::byte> wire;
  kernels::Encoded encoded;
  kernels::Decoded outcome = kernels::Decoded::ok;
  std::vector<T> decoded;
};

// One encode and one final decode of a whole vector as one chunk.
template <class T>
class ChunkUnderTest {
 public:
  ChunkUnderTest(const kernels::Codec& codec, const kernels::Params& params, const MemoryRule& rule,
                 const kernels::Params& rule_params, std::size_t n)
      : plan_(find_plan("allgather")->make({0, 2, 1})), plan_index_(index_of(plan_)), n_(n) {
    r_.plan = &plan_;
    r_.plan_index = &plan_index_;
    r_.codec = &codec;
    r_.params = params;
    r_.element = Chunk<T>::kElement;
    r_.ops = codec.ops(r_.element, Isa::scalar);
    r_.raw_ops = raw_codec().ops(r_.element, Isa::scalar);
    r_.memory = {&rule, rule.ops(r_.element, Isa::scalar), rule_params, 0.7, rule.terms(rule_params)};
    r_.count = n;
    r_.rank = 0;
    r_.size = 2;
    layout_.emplace(n, 1, std::max<std::size_t>(n, 1), sizeof(T));
  }
  CallFeedback& memory() { return r_.memory; }
  bool has_device_rows() {
    device_.ops = kernels::device_ops(*r_.codec, r_.element, r_.params);
    device_.raw_ops = kernels::device_ops(raw_codec(), r_.element, {});
    device_.shape = kSmallDevice;
    return device_.ops != nullptr;
  }
  std::size_t bound() const { return wire_bound(r_, n_); }

  void run_on_host(const Step& encode, Chunk<T>& c) {
    std::vector<std::byte> scratch(MemorySteps::memory_bytes(r_, *layout_) + 64);
    MemorySteps steps;
    r_.residual = reinterpret_cast<std::byte*>(c.arrays.data());
    steps.prepare(r_, scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64);
    c.wire.assign(bound(), std::byte{0});
    c.encoded = steps.encode(encode, encode_args(encode, c.x.data(), c.arrays.data(), c.wire.data()));
    c.wire.resize(c.encoded.bytes);
    c.decoded = c.x;
    c.outcome = steps.decode(Step{.op = Op::decode}, true, {0, n_},
                             decode_args(encode, c.wire.data(), c.wire.size(), c.decoded.data()));
  }

  void run_on_device(const Step& encode, Chunk<T>& c, std::size_t shift) {
    const std::size_t codec_scratch =
        (std::max(device_.ops->scratch_bytes(n_, r_.params), device_.raw_ops->scratch_bytes(n_, {})) + 255) /
        256 * 256;
    Scratch memory(codec_scratch + RuleSteps::device_bytes(r_, *layout_));
    Guarded<T> x(n_ * sizeof(T), shift), arrays(c.arrays.size() * sizeof(T), shift),
        out(n_ * sizeof(T), shift);
    Guarded<std::byte> wire(bound(), shift);
    x.set(c.x);
    arrays.set(c.arrays);
    out.set(c.x);
    r_.residual = arrays.data();
    RuleSteps steps;
    steps.prepare(r_, device_, *layout_, memory.data() + codec_scratch, memory.data());
    const auto result = std::make_unique<DeviceResult>();
    steps.encode(encode, encode_args(encode, x.data(), arrays.data(), wire.data()), *result,
                 simt::launcher());
    c.encoded = {result->encoded.bytes, result->encoded.nonfinite, result->encoded.overflows};
    c.wire = wire.get(std::min<std::size_t>(result->encoded.bytes, bound()));
    const kernels::DecodeArgs args = decode_args(encode, wire.data(), c.wire.size(), out.data());
    steps.decode(Step{.op = Op::decode}, args, steps.messages(args), *result, simt::launcher());
    steps.deliver({0, n_}, out.data(), simt::launcher());
    c.outcome = result->malformed != 0 ? kernels::Decoded::malformed : kernels::Decoded::ok;
    c.decoded = out.get(n_);
    c.arrays = arrays.get(c.arrays.size());
    EXPECT_TRUE(same_bits(x.get(n_), c.x)) << "encode changed its input";
    EXPECT_TRUE(x.intact() && arrays.intact() && out.intact() && wire.intact() && memory.intact());
  }

 private:
  kernels::EncodeArgs encode_args(const Step& step, const void* x, void* residual, std::byte* wire) const {
    return {x,
            residual,
            step.feedback == StepFeedback::carry     ? kernels::Feedback::carry
            : step.feedback == StepFeedback::deposit ? kernels::Feedback::deposit
                                                     : kernels::Feedback::none,
            n_,
            params_of(r_, step),
            wire,
            kNoiseIndex};
  }
  kernels::DecodeArgs decode_args(const Step& step, const std::byte* wire, std::size_t bytes, void* x) const {
    return {wire, bytes, n_, params_of(r_, step), nullptr, x, false, kNoiseIndex};
  }

  Plan plan_;
  PlanIndex plan_index_;
  Reduction r_;
  DeviceReduction device_;
  std::optional<Layout> layout_;
  std::size_t n_;
};

template <class T>
void expect_chunk(ChunkUnderTest<T>& chunk, const Step& encode, std::size_t n, int arrays, Case which,
                  const std::string& where) {
  Chunk<T> host;
  host.x = which.number % 3 == 0 ? hostile<T>(kInputs[which.number % std::size(kInputs)], n, which.number)
                                 : make_input<T>(kInputs[which.number % std::size(kInputs)], n, which.number);
  for (int a = 0; a < arrays; ++a) {
    const auto more = make_input<T>(Input::laplace, n, which.number + static_cast<std::uint64_t>(a));
    host.arrays.insert(host.arrays.end(), more.begin(), more.end());
  }
  Chunk<T> device = host;
  chunk.run_on_host(encode, host);
  simt::set_order(which.order());
  chunk.run_on_device(encode, device, which.shift());
  simt::set_order(0);
  EXPECT_STREQ(simt::error(), "") << where;
  simt::clear_error();
  EXPECT_EQ(device.encoded.bytes, host.encoded.bytes) << where;
  EXPECT_EQ(device.encoded.nonfinite, host.encoded.nonfinite) << where;
  EXPECT_EQ(device.encoded.overflows, host.encoded.overflows) << where;
  ASSERT_TRUE(same_bits(device.wire, host.wire)) << where << " wire";
  EXPECT_EQ(device.outcome, host.outcome) << where;
  ASSERT_TRUE(same_bits(device.arrays, host.arrays)) << where << " arrays";
  ASSERT_TRUE(same_bits(device.decoded, host.decoded)) << where << " decoded";
}

// Its own elements, a sum, an exact call, elements that are not sent, a first message that is not, and
// elements of which all ranks keep one estimate.
template <class T>
void expect_chunks(const kernels::Codec& codec, const kernels::Params& params, const MemoryRule& rule,
                   const kernels::Params& rule_params, std::size_t n, Case& which) {
  const kernels::EstimateTerms terms = rule.terms(rule_params);
  for (const int form : {0, 1, 2, 3, 4, 5}) {
    if (!rule.keeps_estimates && form > 1) break;
    if ((form == 4 && terms.messages == 1) || (form == 5 && !rule.mirrors)) continue;
    ChunkUnderTest<T> chunk(codec, params, rule, rule_params, n);
    if (!chunk.has_device_rows()) return;
    const Step encode{.op = Op::encode, .feedback = form == 1 ? StepFeedback::deposit : StepFeedback::carry};
    chunk.memory().exact_restart = form == 2;
    chunk.memory().mirrors = form == 5;
    chunk.memory().skipped_messages = form == 3 ? terms.messages : form == 4 ? 1 : 0;
    const std::string where = std::string(codec.name) + " memory=" + std::string(rule.name) +
                              " n=" + std::to_string(n) + " form " + std::to_string(form) +
                              (sizeof(T) == 8 ? " f64" : " f32");
    expect_chunk<T>(chunk, encode, n, std::max(1, chunk.memory().arrays()), which, where);
    ++which.number;
  }
}

TEST(DeviceMemory, chunks_of_every_codec_and_rule_are_those_of_the_host) {
  Case which;
  for (const kernels::Codec& codec : kernels::codecs())
    for (const kernels::Params& params : param_sets(codec))
      for_each_rule([&](const MemoryRule& rule, const kernels::Params& rule_params) {
        const std::size_t n = std::array<std::size_t, 5>{1, 77, 700, 1024, 2500}[which.number % 5];
        if (which.number++ % 2 == 0)
          expect_chunks<float>(codec, params, rule, rule_params, n, which);
        else
          expect_chunks<double>(codec, params, rule, rule_params, n, which);
      });
}

}  // namespace
}  // namespace mq::test
