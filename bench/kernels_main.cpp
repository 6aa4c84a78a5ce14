// mpiq-kernels measures every codec row on every instruction set, as a fraction of the memory bandwidth that
// one core reaches in this run.
//
// The bytes moved are the least that the algorithm must move. Encode reads x, reads and writes the residual
// (with feedback), and writes the wire. Decode reads the wire and writes x. Decode-add, in place, reads the
// wire, and reads and writes the cache lines of x to which something other than 0 is added: all of them for a
// dense code, 0.4 of them for floats of which one in 32 is sent. The bandwidth is that of the triad a = b + s
// c, with 12 bytes per element for floats; the better of ordinary and streaming (non-temporal) stores counts.
// of_triad is the ratio of the two rates.
//
// threshold sends one element in 32. Its residual is the one after many calls, because only then does it send
// as much as comes in. Without feedback, and for decoding, tau is the matching quantile of the input.
//
// With --memory cuda the rows of GPUs are measured instead, see kernels_cuda.cpp.
//
// The triad is measured again before each row, and the ratio uses that measurement, because machines drift.

#include <benchmark/benchmark.h>
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kernels_cuda.hpp"
#include "kernels/codec.hpp"

namespace {

using namespace mq::kernels;

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
    const double value = mq::bench::noise(i + seed);
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

// apart: the base is not x and lies in the L2 cache, as in the executor. streamed: see DecodeArgs::stream.
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
  const Codec* codec;
  Element element;
  Isa isa;
  Work work;
  std::size_t vector_bytes;
};

std::string name_of(const Case& c) {
  constexpr std::string_view works[]{
      "encode",           "encode+feedback",          "decode", "decode+streamed", "decode+add",
      "decode+add+apart", "decode+add+apart+streamed"};
  std::string text(c.codec->name);
  for (const std::string_view part : {works[static_cast<int>(c.work)], name(c.element), name(c.isa)})
    text.append("/").append(part);
  return text + "/" + std::to_string(c.vector_bytes >> 10) + "KiB";
}

Params params_of(const Case& c) {
  // of fill(): 1 / 32 of it is larger than kQuantile; kMeanMagnitude is E |x|
  constexpr double kQuantile = 1.2175e-3, kMeanMagnitude = 0.4667e-3;
  Params params = preset_params(*c.codec);
  if (c.codec->name == "threshold")
    params.value[0] = c.work == Work::encode_feedback ? 32 * kMeanMagnitude : kQuantile;
  return params;
}

// The arrays of one case: x, residual or base, and wire; and three for the triad of the same size.
struct Arrays {
  explicit Arrays(const Case& k)
      : bytes(k.vector_bytes),
        n(bytes / element_bytes(k.element)),
        params(params_of(k)),
        x(k.vector_bytes),
        residual(k.vector_bytes),
        wire(k.codec->wire_bound(n, k.element, params)),
        a(k.vector_bytes),
        b(k.vector_bytes),
        c(k.vector_bytes),
        ops(k.codec->ops(k.element, k.isa)) {
    fill(x, n, k.element, 1);
    fill(b, k.vector_bytes / 4, Element::f32, 2);
    fill(c, k.vector_bytes / 4, Element::f32, 3);
    if (k.work == Work::add_apart || k.work == Work::add_apart_streamed)
      n = std::min(k.vector_bytes, kChunkBytes) / element_bytes(k.element);
    encoded = ops->encode({x.data(), nullptr, Feedback::none, n, params, wire.data()}).bytes;
    if (k.codec->name == "threshold" && k.work == Work::encode_feedback)
      for (int call = 0; call < 40; ++call)
        encoded = ops->encode({x.data(), residual.data(), Feedback::carry, n, params, wire.data()}).bytes;
    moved = bytes_moved(k);
  }
  // The bytes that the algorithm must move between core and memory.
  std::size_t bytes_moved(const Case& k) const {
    switch (k.work) {
      case Work::encode: return k.vector_bytes + encoded;
      case Work::encode_feedback: return 3 * k.vector_bytes + encoded;
      case Work::decode:
      case Work::decode_streamed: return k.vector_bytes + encoded;
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
  std::size_t encoded = 0, moved = 0;
};

// Decodes chunk by chunk into the residual. The wire is always that of the first chunk, and the base is
// always the same.
void add_apart(const Case& c, const Arrays& m, bool streamed) {
  const std::size_t chunk_bytes = m.n * element_bytes(c.element);
  for (std::size_t begin = 0; begin < c.vector_bytes; begin += chunk_bytes)
    benchmark::DoNotOptimize(m.ops->decode(
        {m.wire.data(), m.encoded, m.n, m.params, m.x.data(), m.residual.data() + begin, streamed}));
}

void work(const Case& c, const Arrays& m) {
  switch (c.work) {
    case Work::encode:
    case Work::encode_feedback: {
      const auto mode = c.work == Work::encode ? Feedback::none : Feedback::carry;
      benchmark::DoNotOptimize(
          m.ops->encode({m.x.data(), m.residual.data(), mode, m.n, m.params, m.wire.data()}));
      break;
    }
    case Work::decode:
    case Work::decode_streamed:
    case Work::decode_add: {
      DecodeArgs args{m.wire.data(), m.encoded, m.n, m.params, nullptr, m.residual.data()};
      if (c.work == Work::decode_add) args.base = args.x;
      args.stream = c.work == Work::decode_streamed;
      benchmark::DoNotOptimize(m.ops->decode(args));
      break;
    }
    case Work::add_apart: add_apart(c, m, false); break;
    case Work::add_apart_streamed: add_apart(c, m, true); break;
  }
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

void register_cases() {
  benchmark::AddCustomContext("best_isa", std::string(name(best_isa())));
  for (const std::size_t bytes : {std::size_t{64} << 20, std::size_t{256} << 10})
    for (const Codec& codec : codecs())
      for (const Element element : kComputeElements)
        for (const Work w : kWorks)
          for (const Isa isa : kIsas) {
            if (isa > best_isa()) continue;
            const Case c{&codec, element, isa, w, bytes};
            auto* const registered = benchmark::RegisterBenchmark(
                                         name_of(c).c_str(), [c](benchmark::State& state) { run(state, c); })
                                         ->UseManualTime()
                                         ->Unit(benchmark::kMicrosecond);
            if (inner_calls(c) > 1) registered->MinTime(kShortTime_s);
          }
}

// Removes `--memory host|cuda` from the arguments; Google Benchmark gets the rest. Returns "" for an unknown
// word.
std::string take_memory(int& argc, char** argv) {
  std::string memory = "host";
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--memory")
      memory = i + 1 < argc ? argv[++i] : "";
    else if (word.starts_with("--memory="))
      memory = word.substr(word.find('=') + 1);
    else
      argv[kept++] = argv[i];
  }
  argc = kept;
  return memory == "host" || memory == "cuda" ? memory : "";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::puts("mpiq-kernels " MPIQ_VERSION);
    return 0;
  }
  const std::string memory = take_memory(argc, argv);
  if (memory.empty()) {
    std::fputs("mpiq-kernels: --memory: neither host nor cuda\n", stderr);
    return 2;
  }
  if (memory == "host")
    register_cases();
  else if (!mq::bench::register_gpu_cases())
    return 2;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
