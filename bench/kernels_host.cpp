// Measures every codec row on every instruction set, as a fraction of the memory bandwidth that one core
// reaches in this run.
//
// The bytes moved are the least that the algorithm must move. Encode reads x, reads and writes the residual
// (with feedback), and writes the wire. Decode reads the wire and writes x. Decode-add, in place, reads the
// wire, and reads and writes the cache lines of x to which something other than 0 is added: all of them for a
// dense code, 0.4 of them for floats of which one in 32 is sent. The bandwidth comes from the triad a = b + s
// c, with 12 bytes per element for floats; the better of ordinary and streaming (non-temporal) stores counts.
// of_triad is the ratio of the two rates.
//
// threshold sends one element in 32. Its residual is the one after many calls, because only then does it send
// as much as comes in. Without feedback, and for decoding, tau is the matching quantile of the input.
//
// A memory rule runs as in the library (MemorySteps). Its encode also reads and writes the momentum, or
// writes the last vector. The decode of a rule with estimates also reads and writes the sum of estimates.
//
// The triad is measured again before each row, and the ratio uses that measurement, because machines drift.

#include "bench/kernels_host.hpp"

#include <benchmark/benchmark.h>
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant/engine/memory_steps.hpp"

namespace mq::bench {
namespace {

using namespace kernels;

// Floats at the start of a page, on huge pages if the system grants them. Every page is touched.
class Vector {
 public:
  explicit Vector(std::size_t bytes) : bytes_((bytes + kHuge - 1) / kHuge * kHuge) {
    data_ = static_cast<std::byte*>(std::aligned_alloc(kHuge, bytes_));
    if (data_ == nullptr) std::abort();
    (void)madvise(data_, bytes_, MADV_HUGEPAGE);
    std::memset(data_, 0, bytes_);
  }
  ~Vector() { std::free(data_); }
  Vector(const Vector&) = delete;
  Vector& operator=(const Vector&) = delete;
  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  double* doubles() const { return reinterpret_cast<double*>(data_); }

 private:
  static constexpr std::size_t kHuge = std::size_t{2} << 20;
  std::size_t bytes_;
  std::byte* data_;
};

void fill(const Vector& v, std::size_t n, Element element, std::uint64_t seed) {
  for (std::size_t i = 0; i < n; ++i) {
    const double value = noise(i + seed);
    if (element == Element::f32) v.floats()[i] = static_cast<float>(value);
    if (element == Element::f64) v.doubles()[i] = value;
  }
}

void triad(float* a, const float* b, const float* c, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + 0.5F * c[i];
}

void triad_streaming(float* a, const float* b, const float* c, std::size_t n) {
  const __m128 half = _mm_set1_ps(0.5F);
  for (std::size_t i = 0; i < n; i += 16)
    for (std::size_t k = 0; k < 16; k += 4)
      _mm_stream_ps(a + i + k, _mm_add_ps(_mm_load_ps(b + i + k), _mm_mul_ps(half, _mm_load_ps(c + i + k))));
  _mm_sfence();
}

template <class F>
double seconds(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// apart: the base is not x and lies in the L2 cache, as half of a chunk of the executor does. streamed: see
// DecodeArgs::stream.
constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
enum class Work {
  encode,
  encode_feedback,
  decode,
  decode_streamed,
  decode_add,
  add_apart,
  add_apart_streamed
};
constexpr Work kWorks[]{
    Work::encode,    Work::encode_feedback,   Work::decode, Work::decode_streamed, Work::decode_add,
    Work::add_apart, Work::add_apart_streamed};

struct Case {
  Method method;
  Element element;
  Isa isa;
  Work work;
  std::size_t vector_bytes;
};

std::string name_of(const Case& c) {
  constexpr std::string_view works[]{
      "encode",           "encode+feedback",          "decode", "decode+streamed", "decode+add",
      "decode+add+apart", "decode+add+apart+streamed"};
  std::string text = to_string(c.method);
  for (const std::string_view part : {works[static_cast<int>(c.work)], name(c.element), name(c.isa)})
    text.append("/").append(part);
  return text + "/" + std::to_string(c.vector_bytes >> 10) + "KiB";
}

Params params_of(const Case& c) {
  // of fill(): 1 / 32 of it is larger than kQuantile; kMeanMagnitude is E |x|
  constexpr double kQuantile = 1.2175e-3, kMeanMagnitude = 0.4667e-3;
  const Codec& codec = *c.method.codec;
  Params params = c.method.params;
  if (codec.name == "threshold" && params == preset_params(codec))
    params.value[0] = c.work == Work::encode_feedback ? 32 * kMeanMagnitude : kQuantile;
  return params;
}

// What the engine runs a codec and a memory rule with. arrays: the arrays of the rule, one after the other.
class Steps {
 public:
  Steps(const Case& c, const Params& params, std::size_t n, std::byte* arrays)
      : layout_(n, 1, c.method.codec->block(params), element_bytes(c.element), c.method.codec->whole(params)),
        scratch_(scratch_bytes(c, params, n, arrays)) {
    steps_.prepare(reduction_, scratch_.data());
  }
  EncodeArgs encode_args(const std::byte* x, std::byte* wire) const {
    return {x, reduction_.residual, Feedback::carry, reduction_.count, reduction_.params, wire};
  }
  Encoded encode(const EncodeArgs& args) const {
    Step step{.op = Op::encode, .feedback = StepFeedback::carry};
    return steps_.encode(step, args);
  }
  Decoded decode_final(const DecodeArgs& args) const {
    return steps_.decode(Step{.op = Op::decode}, true, {0, args.n}, args);
  }

 private:
  std::size_t scratch_bytes(const Case& c, const Params& params, std::size_t n, std::byte* arrays) {
    const MemoryRule& rule = c.method.memory_rule();
    reduction_.plan_index = &plan_index_;
    reduction_.codec = c.method.codec;
    reduction_.ops = c.method.codec->ops(c.element, c.isa);
    reduction_.raw_ops = raw_codec().ops(c.element, c.isa);
    reduction_.params = params;
    reduction_.memory.rule = &rule;
    if (rule.ops != nullptr) reduction_.memory.ops = rule.ops(c.element, c.isa);
    reduction_.memory.params = c.method.memory_params;
    if (rule.terms != nullptr) reduction_.memory.terms = rule.terms(c.method.memory_params);
    reduction_.element = c.element;
    reduction_.count = n;
    reduction_.residual = arrays;
    return std::max<std::size_t>(1, MemorySteps::memory_bytes(reduction_, layout_));
  }
  PlanIndex plan_index_;
  Reduction reduction_;
  Layout layout_;
  Vector scratch_;
  MemorySteps steps_;
};

// The arrays of one case: x, residual or base, and wire; and three for the triad of the same size.
struct Arrays {
  explicit Arrays(const Case& k)
      : bytes(k.vector_bytes),
        n(bytes / element_bytes(k.element)),
        params(params_of(k)),
        x(k.vector_bytes),
        residual(k.vector_bytes * static_cast<std::size_t>(std::max(1, k.method.memory_rule().arrays))),
        wire(kernels_wire_bound(k)),
        a(k.vector_bytes),
        b(k.vector_bytes),
        c(k.vector_bytes),
        ops(k.method.codec->ops(k.element, k.isa)),
        steps(k, params, n, residual.data()) {
    fill(x, n, k.element, 1);
    fill(b, k.vector_bytes / 4, Element::f32, 2);
    fill(c, k.vector_bytes / 4, Element::f32, 3);
    if (k.work == Work::add_apart || k.work == Work::add_apart_streamed)
      n = std::min(k.vector_bytes, kChunkBytes) / element_bytes(k.element);
    encoded = ops->encode({x.data(), nullptr, Feedback::none, n, params, wire.data()}).bytes;
    if (k.work == Work::encode_feedback || k.method.memory_rule().keeps_estimates)
      for (int call = 0; call < calls_before(k); ++call)
        encoded = steps.encode(steps.encode_args(x.data(), wire.data())).bytes;
    moved = bytes_moved(k);
  }
  // Calls until the residual is as after many.
  static int calls_before(const Case& k) { return k.method.codec->name == "threshold" ? 40 : 1; }
  std::size_t kernels_wire_bound(const Case& k) const {
    // A rule with two messages has two of them in one payload.
    return 2 * k.method.codec->wire_bound(n, k.element, params) + kLengthBytes;
  }
  // The bytes that the algorithm must move between core and memory.
  std::size_t bytes_moved(const Case& k) const {
    const MemoryRule& rule = k.method.memory_rule();
    // Of momentum the second array is read and written. Of rules with estimates the third one is written.
    const int further = rule.keeps_estimates ? rule.arrays - 2 : 2 * (std::max(1, rule.arrays) - 1);
    switch (k.work) {
      case Work::encode: return k.vector_bytes + encoded;
      case Work::encode_feedback: return static_cast<std::size_t>(3 + further) * k.vector_bytes + encoded;
      case Work::decode:
      case Work::decode_streamed: return (rule.keeps_estimates ? 3 : 1) * k.vector_bytes + encoded;
      case Work::add_apart:
      case Work::add_apart_streamed: return k.vector_bytes;  // base and wire stay in the cache
      case Work::decode_add: return 2 * lines_changed() * kLine + encoded;
    }
    return 0;
  }
  std::size_t lines_changed() const {
    (void)ops->decode({wire.data(), encoded, n, params, nullptr, a.data()});
    std::size_t lines = 0;
    for (const std::byte* line = a.data(); line < a.data() + bytes; line += kLine)
      lines += std::any_of(line, line + kLine, [](std::byte v) { return v != std::byte{0}; });
    return lines;
  }
  static constexpr std::size_t kLine = 64;
  std::size_t bytes, n;
  Params params;
  Vector x, residual, wire, a, b, c;
  const CodecOps* ops;
  Steps steps;
  std::size_t encoded = 0, moved = 0;
};

// Decodes chunk by chunk into the residual. The wire is always of the first chunk, and the base is always the
// same.
void add_apart(const Case& c, const Arrays& m, bool streamed) {
  const std::size_t chunk_bytes = m.n * element_bytes(c.element);
  for (std::size_t begin = 0; begin < c.vector_bytes; begin += chunk_bytes)
    benchmark::DoNotOptimize(m.ops->decode(
        {m.wire.data(), m.encoded, m.n, m.params, m.x.data(), m.residual.data() + begin, streamed}));
}

void work(const Case& c, const Arrays& m) {
  switch (c.work) {
    case Work::encode:
      benchmark::DoNotOptimize(
          m.ops->encode({m.x.data(), nullptr, Feedback::none, m.n, m.params, m.wire.data()}));
      break;
    case Work::encode_feedback:
      benchmark::DoNotOptimize(m.steps.encode(m.steps.encode_args(m.x.data(), m.wire.data())));
      break;
    case Work::decode:
    case Work::decode_streamed:
    case Work::decode_add: {
      DecodeArgs args{m.wire.data(), m.encoded, m.n, m.params, nullptr, m.a.data()};
      if (c.work == Work::decode_add) args.base = args.x = m.residual.data();
      args.stream = c.work == Work::decode_streamed;
      benchmark::DoNotOptimize(c.method.memory_rule().keeps_estimates ? m.steps.decode_final(args)
                                                                      : m.ops->decode(args));
      break;
    }
    case Work::add_apart: add_apart(c, m, false); break;
    case Work::add_apart_streamed: add_apart(c, m, true); break;
  }
}

// A memory rule changes the encode of a rank's own elements, and if it has estimates the last decode.
bool has_work(const Method& method, Work work) {
  const MemoryRule& rule = method.memory_rule();
  return rule.ops == nullptr || work == Work::encode_feedback ||
         (work == Work::decode && rule.keeps_estimates);
}

// For short vectors several calls are timed together, so that they find the vectors in the cache.
int inner_calls(const Case& c) {
  return static_cast<int>(std::max<std::size_t>(1, (std::size_t{4} << 20) / c.vector_bytes));
}
// Google Benchmark counts only one call of an iteration, but the other calls and the triads take time too.
constexpr double kShortTime_s = 0.005;

// The kernel and both triads alternate, so that all see the machine in the same state. Rates are bytes over
// median times.
void run(benchmark::State& state, const Case& c) {
  const Arrays m(c);
  const std::size_t floats = c.vector_bytes / 4;
  const int inner = inner_calls(c);
  std::vector<double> kernel_s, triad_s, streaming_s;
  for (auto _ : state) {
    triad_s.push_back(seconds([&] {
      for (int i = 0; i < inner; ++i) triad(m.a.floats(), m.b.floats(), m.c.floats(), floats);
    }));
    kernel_s.push_back(seconds([&] {
      for (int i = 0; i < inner; ++i) work(c, m);
    }));
    streaming_s.push_back(seconds([&] {
      for (int i = 0; i < inner; ++i) triad_streaming(m.a.floats(), m.b.floats(), m.c.floats(), floats);
    }));
    state.SetIterationTime(kernel_s.back() / inner);
  }
  const double moved = static_cast<double>(m.moved) * inner;
  const double triad_rate =
      3.0 * static_cast<double>(c.vector_bytes) * inner / std::min(median(triad_s), median(streaming_s));
  state.counters["moved_GB/s"] = moved / median(kernel_s) / 1e9;
  state.counters["triad_GB/s"] = triad_rate / 1e9;
  state.counters["of_triad"] = moved / median(kernel_s) / triad_rate;
  state.counters["wire_B/elt"] = static_cast<double>(m.encoded) / static_cast<double>(m.n);
}

}  // namespace

void register_host_cases(const std::vector<Method>& methods) {
  benchmark::AddCustomContext("best_isa", std::string(name(best_isa())));
  for (const std::size_t bytes : {std::size_t{64} << 20, std::size_t{256} << 10})
    for (const Method& method : methods)
      for (const Element element : kComputeElements)
        for (const Work w : kWorks)
          for (const Isa isa : kIsas) {
            if (isa > best_isa() || !has_work(method, w)) continue;
            const Case c{method, element, isa, w, bytes};
            auto* const registered = benchmark::RegisterBenchmark(
                                         name_of(c).c_str(), [c](benchmark::State& state) { run(state, c); })
                                         ->UseManualTime()
                                         ->Unit(benchmark::kMicrosecond);
            if (inner_calls(c) > 1) registered->MinTime(kShortTime_s);
          }
}

double noise(unsigned long long index) {
  unsigned long long z = index * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  double sum = -2.0;
  for (int k = 0; k < 4; ++k) sum += static_cast<double>((z >> (16 * k)) & 0xffff) / 65536.0;
  return sum * 1e-3;
}

}  // namespace mq::bench
