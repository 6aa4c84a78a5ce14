// Measures device rows as a share of the device-to-device copy, which is measured again before each row.
//
// The bytes moved are the least that the algorithm must move, as on the host (kernels_host.cpp); decode-add
// reads and writes the sectors of 32 bytes to which something is added. The rate of the copy counts both what
// it reads and what it writes. Times are the GPU's own, between two events. A vector of 1 GiB is never in the
// L2 cache, one of 64 MiB in part. The shorter ones are always there (hot: several calls are timed together
// after one that is not): 4 MiB, and 512 KiB, which is a chunk of a long call.
#include "bench/kernels_cuda.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/gpu.hpp"
#include "bench/kernels_host.hpp"
#include "kernels/cuda/rows.hpp"
#include "mpi_quant/base/device.hpp"

namespace mq::bench {
namespace {

using namespace mq::kernels;

constexpr std::size_t kTile = std::size_t{16}
                              << 20;  // bytes of noise made on the host; longer vectors repeat it
constexpr std::size_t kSector = 32;
constexpr int kRampUp = 40;  // calls until the residual of threshold is in its steady state
constexpr double kHotTime_s = 0.01, kColdTime_s = 0.1;

enum class Work { encode, encode_feedback, decode, decode_add };
constexpr Work kWorks[]{Work::encode, Work::encode_feedback, Work::decode, Work::decode_add};
constexpr const char* kWorkNames[]{"encode", "encode+feedback", "decode", "decode+add"};

struct Ops {  // a row, or an earlier version of one
  std::string name;
  const Codec* codec;
  Element element;
  const DeviceOps* ops;
};

// The GPU, and the library's way to drive it.
struct Driver {
  std::shared_ptr<const Gpu> gpu;
  const DeviceApi* api = nullptr;
  Device* device = nullptr;
  DeviceStream* stream = nullptr;
  DeviceEvent *from = nullptr, *to = nullptr;

  void check(const Status& s) const {
    if (!s.ok()) throw GpuError(s.text());
  }
  // Returns seconds on the GPU.
  template <class F>
  double seconds(const F& work) const {
    check(api->record(from, stream));
    work();
    check(api->launch_error(stream));
    check(api->record(to, stream));
    check(api->synchronize(stream));
    double s = 0;
    check(api->elapsed(from, to, s));
    return s;
  }
};

Status open(Driver& d) {
  auto gpu = Gpu::open(0);
  if (!gpu.ok()) return gpu.status();
  d.gpu = std::move(*gpu);
  d.api = device_api();
  if (d.api == nullptr)
    return {Code::bad_argument, device_unusable_reason() != nullptr ? device_unusable_reason()
                                                                    : "libmpi_quant_cuda.so is not found"};
  const GpuMemory probe(d.gpu, GpuMemory::Kind::device, kSector);
  Where where;
  MQ_TRY(d.api->where(probe.data(), where));
  d.device = where.device;
  if (d.device == nullptr) return {Code::bad_argument, "the library does not know the GPU's memory"};
  if (const char* why = d.api->no_kernels(d.device); why != nullptr) return {Code::bad_argument, why};
  MQ_TRY(d.api->make_stream(d.device, d.stream));
  MQ_TRY(d.api->make_event(d.device, true, d.from));
  return d.api->make_event(d.device, true, d.to);
}

Driver& driver() {
  static Driver& only = *new Driver;  // never destroyed, because the process's end destroys its streams
  return only;
}

// What the library's launches report about an encode or a decode. It lies in memory that host and device
// share.
struct LaunchResult {
  DeviceEncoded encoded;
  std::uint32_t malformed;
};

struct Case {
  Ops row;
  Work work;
  std::size_t bytes;
};

std::string name_of(const Case& c) {
  return fmt::format("{}/{}/{}/cuda/{}KiB", c.row.name, kWorkNames[static_cast<int>(c.work)],
                     name(c.row.element), c.bytes >> 10);
}

Params params_of(const Case& c) {
  // of noise(): 1 / 32 of it is larger than kQuantile; kMeanMagnitude is E |x|
  constexpr double kQuantile = 1.2175e-3, kMeanMagnitude = 0.4667e-3;
  Params params = preset_params(*c.row.codec);
  if (c.row.codec->name == "threshold")
    params.value[0] = c.work == Work::encode_feedback ? 32 * kMeanMagnitude : kQuantile;
  return params;
}

template <class T>
std::vector<T> make_tile() {
  std::vector<T> tile(kTile / sizeof(T));
  for (std::size_t i = 0; i < tile.size(); ++i) tile[i] = static_cast<T>(noise(i + 1));
  return tile;
}

// The arrays of one case, on the GPU.
class Arrays {
 public:
  explicit Arrays(const Case& c)
      : c_(c),
        n_(c.bytes / element_bytes(c.row.element)),
        params_(params_of(c)),
        bound_(c.row.codec->wire_bound(n_, c.row.element, params_)),
        x_(d_.gpu, kDevice, c.bytes),
        out_(d_.gpu, kDevice, c.bytes),
        spare_(d_.gpu, kDevice, c.bytes),
        wire_(d_.gpu, kDevice, bound_),
        scratch_(d_.gpu, kDevice, std::max<std::size_t>(c.row.ops->scratch_bytes(n_, params_), 256)),
        result_(d_.gpu, GpuMemory::Kind::pinned, sizeof(LaunchResult)),
        shape_(*d_.api->shape(d_.device)) {
    fill();
    d_.gpu->zero(out_.data(), c.bytes);
    *result() = {};
    const bool ramp = c.row.codec->name == "threshold" && c.work == Work::encode_feedback;
    for (int i = 0; i < (ramp ? kRampUp : 1); ++i) encode(ramp ? Feedback::carry : Feedback::none);
    d_.check(d_.api->launch_error(d_.stream));
    d_.check(d_.api->synchronize(d_.stream));
    encoded_ = result()->encoded.bytes;
    moved_ = bytes_moved();
  }
  void run() {
    switch (c_.work) {
      case Work::encode: return encode(Feedback::none);
      case Work::encode_feedback: return encode(Feedback::carry);
      case Work::decode: return decode(nullptr);
      case Work::decode_add: return decode(out_.data());
    }
  }
  void copy() { d_.check(d_.api->copy(d_.stream, spare_.data(), x_.data(), c_.bytes)); }
  bool malformed() const { return result()->malformed != 0; }
  double moved() const { return static_cast<double>(moved_); }
  double wire_per_element() const { return static_cast<double>(encoded_) / static_cast<double>(n_); }

 private:
  static constexpr auto kDevice = GpuMemory::Kind::device;
  LaunchResult* result() const { return reinterpret_cast<LaunchResult*>(result_.data()); }
  void fill() {
    static const std::vector<float> floats = make_tile<float>();
    static const std::vector<double> doubles = make_tile<double>();
    const void* tile = floats.data();
    if (c_.row.element == Element::f64) tile = doubles.data();
    const std::size_t first = std::min(kTile, c_.bytes);
    d_.gpu->to_device(x_.data(), tile, first);
    for (std::size_t at = first; at < c_.bytes; at += kTile)
      d_.check(d_.api->copy(d_.stream, x_.data() + at, x_.data(), std::min(kTile, c_.bytes - at)));
  }
  void encode(Feedback mode) {
    const EncodeArgs args{x_.data(),   mode == Feedback::none ? nullptr : out_.data(), mode, n_, params_,
                          wire_.data()};
    c_.row.ops->encode({args, &result()->encoded, scratch_.data(), shape_}, d_.api->launcher(d_.stream));
  }
  void decode(const void* base) {
    const DecodeArgs args{wire_.data(), encoded_, n_, params_, base, out_.data()};
    c_.row.ops->decode({args, &result()->malformed, scratch_.data(), shape_}, d_.api->launcher(d_.stream));
  }
  std::size_t bytes_moved() {
    switch (c_.work) {
      case Work::encode: return c_.bytes + encoded_;
      case Work::encode_feedback: return 3 * c_.bytes + encoded_;
      case Work::decode: return c_.bytes + encoded_;
      case Work::decode_add: return 2 * bytes_changed() + encoded_;
    }
    return 0;
  }
  // The bytes of the sectors to which something other than 0 is added, extrapolated from the first tile.
  std::size_t bytes_changed() {
    decode(nullptr);
    d_.check(d_.api->synchronize(d_.stream));
    std::vector<std::byte> host(std::min(kTile, c_.bytes));
    d_.gpu->to_host(host.data(), out_.data(), host.size());
    std::size_t changed = 0;
    for (std::size_t at = 0; at < host.size(); at += kSector)
      changed += std::any_of(host.data() + at, host.data() + at + kSector,
                             [](std::byte v) { return v != std::byte{0}; });
    return static_cast<std::size_t>(static_cast<double>(changed * kSector) /
                                    static_cast<double>(host.size()) * static_cast<double>(c_.bytes));
  }

  const Driver& d_ = driver();
  const Case& c_;
  std::size_t n_;
  Params params_;
  std::size_t bound_;
  GpuMemory x_, out_, spare_, wire_, scratch_, result_;
  DeviceShape shape_;
  std::size_t encoded_ = 0, moved_ = 0;
};

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// For short vectors several calls are timed together, because a launch takes some microseconds.
int inner_calls(const Case& c) { return c.bytes >= (std::size_t{256} << 20) ? 1 : 8; }

void run(benchmark::State& state, const Case& c) try {
  const Driver& d = driver();
  Arrays m(c);
  const int inner = inner_calls(c);
  std::vector<double> kernel_s, copy_s;
  for (auto _ : state) {
    if (inner > 1) m.copy();
    copy_s.push_back(d.seconds([&] {
      for (int i = 0; i < inner; ++i) m.copy();
    }));
    m.run();
    kernel_s.push_back(d.seconds([&] {
      for (int i = 0; i < inner; ++i) m.run();
    }));
    state.SetIterationTime(kernel_s.back() / inner);
  }
  if (m.malformed()) return state.SkipWithError("the decoder found the wire malformed");
  const double rate = m.moved() * inner / median(kernel_s);
  const double copy_rate = 2.0 * static_cast<double>(c.bytes) * inner / median(copy_s);
  state.counters["moved_GB/s"] = rate / 1e9;
  state.counters["copy_GB/s"] = copy_rate / 1e9;
  state.counters["of_copy"] = rate / copy_rate;
  state.counters["wire_B/elt"] = m.wire_per_element();
} catch (const std::exception& e) {
  state.SkipWithError(e.what());
}

// Every device row, and also the earlier versions of rows that are kept for comparison.
std::vector<Ops> rows() {
  std::vector<Ops> all;
  for (const Codec& codec : codecs())
    for (const Element element : kComputeElements) {
      if (const DeviceOps* ops = device_ops(codec, element, preset_params(codec)); ops != nullptr)
        all.push_back({std::string(codec.name), &codec, element, ops});
      if (codec.name == "onebit")
        all.push_back({std::string(codec.name) + "_steps", &codec, element,
                       &onebit_steps_device_row.ops[element == Element::f64 ? 1 : 0]});
    }
  return all;
}

}  // namespace

bool register_gpu_cases() {
  if (const Status s = open(driver()); !s.ok()) {
    std::fprintf(stderr, "mpiq-kernels: --memory cuda: %s\n", s.text().c_str());
    return false;
  }
  const GpuRow info = driver().gpu->info();
  benchmark::AddCustomContext("gpu", info.name.str());
  benchmark::AddCustomContext("gpu_uuid", info.gpu_uuid.str());
  benchmark::AddCustomContext("gpu_driver", info.driver.str());
  benchmark::AddCustomContext("gpu_l2_bytes", std::to_string(info.l2_B));
  for (const std::size_t bytes :
       {std::size_t{1} << 30, std::size_t{64} << 20, std::size_t{4} << 20, std::size_t{512} << 10})
    for (const Ops& row : rows())
      for (const Work work : kWorks) {
        // to save time, long vectors are floats only
        if (row.element == Element::f64 && bytes > kTile) continue;
        const Case c{row, work, bytes};
        benchmark::RegisterBenchmark(name_of(c).c_str(), [c](benchmark::State& state) { run(state, c); })
            ->UseManualTime()
            ->MinTime(inner_calls(c) > 1 ? kHotTime_s : kColdTime_s)
            ->Unit(benchmark::kMicrosecond);
      }
  return true;
}

}  // namespace mq::bench
