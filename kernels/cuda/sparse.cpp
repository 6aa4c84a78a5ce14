// The launches of threshold, adaptive, topk and zerorun (sparse.cuh).

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/cuda/rows.hpp"
#include "kernels/cuda/sparse_args.hpp"
#include "kernels/hd.hpp"

namespace mq::kernels {
namespace cuda {
namespace {

// clang-format off
#include "kernels/codecs/keys-inl.hpp"
#include "kernels/codecs/ternary_format-inl.hpp"
#include "kernels/codecs/valued_format-inl.hpp"
#include "kernels/codecs/cutoff-inl.hpp"
// clang-format on

constexpr std::size_t kBinBytes = 8192;  // of a histogram of 11 bits
// Where there are many blocks: words per thread, and whether the elements stay in device memory.
constexpr std::size_t kManyWords = 4;
constexpr bool kManyAreFar = true;

// What an encode needs to know; each codec below derives it from its parameters. pool_bytes: room for a
// histogram, if one is needed, and for what is written to the wire at once.
struct Setting {
  std::size_t block = 0, pool_bytes = 0;
  std::uint32_t search = 0, separate = 0, format = 0;
  double value = 0;
  std::uint32_t kernel = 0;  // which of the codec's kEncode
};

template <class T>
std::size_t ternary_pool(std::size_t block) {
  return sizeof(TernaryHeader<T>) + sizeof(T) + dense_bytes(block) + 16;
}

struct ThresholdSetting {
  static constexpr bool kKeeps = true;
  static constexpr std::uint32_t kThreads = kSelectThreads;
  static constexpr const char* kEncode[1][2][2]{{{"threshold_encode_f32_far", "threshold_encode_f32_near"},
                                                 {"threshold_encode_f64_far", "threshold_encode_f64_near"}}};
  static constexpr WalkKernels kWalk[2]{{"ternary_survey_f32", "ternary_walk_f32", "ternary_list_f32"},
                                        {"ternary_survey_f64", "ternary_walk_f64", "ternary_list_f64"}};
  static constexpr const char* kDecode[2]{"ternary_decode_f32", "ternary_decode_f64"};
  template <class T>
  static Setting of(const Params& params) {
    const ThresholdParams p(params);
    const auto tau = static_cast<double>(p.value<T>());
    return {p.block, ternary_pool<T>(p.block), 0, 0, static_cast<std::uint32_t>(p.format), tau};
  }
  static std::size_t share(std::size_t, const Params&) { return 0; }
  static std::size_t most(std::size_t, const Params&) { return 0; }
};

struct AdaptiveSetting {
  static constexpr bool kKeeps = true;
  static constexpr std::uint32_t kThreads = kSelectThreads;
  static constexpr const char* kEncode[2][2][2]{
      {{"adaptive_encode_f32_far", "adaptive_encode_f32_near"},
       {"adaptive_encode_f64_far", "adaptive_encode_f64_near"}},
      {{"adaptive_rare_encode_f32_far", "adaptive_rare_encode_f32_near"},
       {"adaptive_rare_encode_f64_far", "adaptive_rare_encode_f64_near"}}};
  static constexpr WalkKernels kWalk[2]{{"ternary_survey_f32", "ternary_walk_f32", "ternary_list_f32"},
                                        {"ternary_survey_f64", "ternary_walk_f64", "ternary_list_f64"}};
  static constexpr const char* kDecode[2]{"ternary_decode_f32", "ternary_decode_f64"};
  template <class T>
  static Setting of(const Params& params) {
    const AdaptiveParams p(params);
    Setting setting{
        p.block,    std::max(kBinBytes, ternary_pool<T>(p.block)), static_cast<std::uint32_t>(p.search),
        p.separate, static_cast<std::uint32_t>(p.format),          p.pi};
    setting.kernel = p.search != Search::exact || p.separate;
    return setting;
  }
  static std::size_t share(std::size_t n, const Params& params) {
    return adaptive_share(n, AdaptiveParams(params).pi);
  }
  static std::size_t most(std::size_t, const Params&) { return 0; }
};

struct TopKSetting {
  static constexpr bool kKeeps = true;
  static constexpr std::uint32_t kThreads = kSelectThreads;
  static constexpr const char* kEncode[1][2][2]{
      {{"topk_encode_f32_far", "topk_encode_f32_near"}, {"topk_encode_f64_far", "topk_encode_f64_near"}}};
  static constexpr WalkKernels kWalk[2]{{"valued_survey_f32", "valued_walk_f32", "valued_list_f32"},
                                        {"valued_survey_f64", "valued_walk_f64", "valued_list_f64"}};
  static constexpr const char* kDecode[2]{"valued_decode_f32", "valued_decode_f64"};
  template <class T>
  static Setting of(const Params& params) {
    const TopKParams p(params);
    const std::size_t listed = (p.block + 3) / 4, gaps = listed + p.block / kSkip<false> + 1;
    const std::size_t front = sizeof(ValuedHeader) + sizeof(T) + std::max(gaps, 2 * bitmap_bytes(p.block));
    return {p.block, std::max(kBinBytes, front + 16),      static_cast<std::uint32_t>(p.select),
            0,       static_cast<std::uint32_t>(p.format), p.k};
  }
  static std::size_t share(std::size_t n, const Params& params) { return TopKParams(params).share(n); }
  static std::size_t most(std::size_t n, const Params& params) { return TopKParams(params).most(n); }
};

struct ZeroRunSetting {
  static constexpr bool kKeeps = false;  // it has no candidates
  static constexpr std::uint32_t kThreads = kSparseThreads;
  static constexpr const char* kEncode[1][2][2]{{{"zerorun_encode_f32_far", "zerorun_encode_f32_near"},
                                                 {"zerorun_encode_f64_far", "zerorun_encode_f64_near"}}};
  static constexpr WalkKernels kWalk[2]{{"zeros_survey_f32", "zeros_walk_f32", "zeros_list_f32"},
                                        {"zeros_survey_f64", "zeros_walk_f64", "zeros_list_f64"}};
  static constexpr const char* kDecode[2]{"zeros_decode_f32", "zeros_decode_f64"};
  static constexpr std::size_t kZeroBlock = 16384, kStage = 4096;
  template <class T>
  static Setting of(const Params&) {
    return {kZeroBlock, kStage, 0, 0, 0, 0};
  }
  static std::size_t share(std::size_t, const Params&) { return 0; }
  static std::size_t most(std::size_t, const Params&) { return 0; }
};

std::uint32_t word_bytes(std::size_t block) { return 4 * padded_words(block); }
// One thread per word, from two warps to `most` threads.
std::uint32_t threads_of(std::size_t block, std::uint32_t most) {
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(block / 32, 64, most));
}

template <class T, class Q>
struct SparseRow {
  static constexpr int kType = sizeof(T) == 8;

  static std::size_t blocks_of(std::size_t n, const Params& params) {
    const std::size_t block = Q::template of<T>(params).block;
    return (n + block - 1) / block;
  }
  static std::size_t scratch_bytes(std::size_t n, const Params& params) noexcept {
    const std::size_t blocks = blocks_of(n, params);
    return std::max(ChainState::bytes_of(blocks), walk_bytes(blocks));
  }

  static void encode(const DeviceEncode& e, const Launcher& launch) noexcept {
    const Params& params = e.args.params;
    const Setting setting = Q::template of<T>(params);
    const auto blocks = static_cast<std::uint32_t>(blocks_of(e.args.n, params));
    auto* const state = reinterpret_cast<ChainState*>(e.scratch);
    if (blocks != 1) begin_chain(state, e.encoded, blocks, launch);
    if (blocks == 0) return;
    SparseEncodeArgs a{};
    a.x = static_cast<const std::byte*>(e.args.x);
    a.residual = static_cast<std::byte*>(e.args.residual);
    a.wire = e.args.wire;
    a.encoded = e.encoded;
    a.state = state;
    a.n = e.args.n;
    a.block = static_cast<std::uint32_t>(setting.block);
    a.blocks = blocks;
    a.feedback = e.args.feedback;
    a.search = setting.search;
    a.separate = setting.separate;
    a.format = setting.format;
    a.pool_bytes = static_cast<std::uint32_t>((setting.pool_bytes + 15) / 16 * 16);
    a.value = setting.value;
    const std::size_t lengths[2]{setting.block, a.n % setting.block};
    for (int i = 0; i < 2; ++i) {
      a.k[i] = static_cast<std::uint32_t>(Q::share(lengths[i], params));
      a.most[i] = static_cast<std::uint32_t>(Q::most(lengths[i], params));
    }
    const std::uint32_t far = 3 * word_bytes(setting.block) + a.pool_bytes;
    const std::uint32_t near = far + 32 * padded_words(setting.block) * static_cast<std::uint32_t>(sizeof(T));
    // Many thread blocks fill the GPU best if they are small and keep only what they select.
    const bool small = Q::kKeeps && blocks >= 4 * e.shape.multiprocessors;
    const bool fits = near + kSparseFixedShared <= e.shape.shared_bytes && !(small && kManyAreFar);
    const std::uint32_t threads =
        threads_of(setting.block / (small ? kManyWords : 1), Q::kKeeps && !fits ? kFarThreads : Q::kThreads);
    if (Q::kKeeps && !fits) keep(a, far, e.shape);
    const std::uint32_t shared =
        fits ? near : std::max(far, a.kept_at + a.kept * static_cast<std::uint32_t>(sizeof(T)));
    launch(Q::kEncode[setting.kernel][kType][fits], blocks, threads, shared, a);
  }

  // Reserves room for up to an eighth of the values after the first `far` bytes, of a third of a
  // multiprocessor's memory at most.
  static void keep(SparseEncodeArgs& a, std::uint32_t far, const DeviceShape& shape) noexcept {
    const std::size_t share = shape.shared_bytes / 3;
    const std::size_t room = share - std::min<std::size_t>(share, far + 8 + kSparseFixedShared);
    a.kept = static_cast<std::uint32_t>(std::min<std::size_t>(a.block / 8, room / sizeof(T)));
    a.kept_at = (far + 7) / 8 * 8;
  }

  static void decode(const DeviceDecode& d, const Launcher& launch) noexcept {
    const Params& params = d.args.params;
    const std::size_t block = Q::template of<T>(params).block;
    auto a = decode_args<SparseDecodeArgs>(d, block);
    a.most[0] = static_cast<std::uint32_t>(Q::most(block, params));
    a.most[1] = static_cast<std::uint32_t>(Q::most(d.args.n % block, params));
    launch_decode(Q::kWalk[kType], Q::kDecode[kType], a, a.blocks, threads_of(block, kDecodeThreads),
                  3 * word_bytes(block), d.scratch, launch);
  }

  static constexpr DeviceOps kOps{&scratch_bytes, &encode, &decode};
};

template <class T>
struct Measure {
  static std::size_t scratch_bytes(std::size_t, const Params&) noexcept { return sizeof(MeasureState); }
  static void measure(const void* x, std::size_t n, const Params& params, Facts* facts, std::byte* scratch,
                      const DeviceShape& shape, const Launcher& launch) noexcept {
    constexpr bool kDouble = sizeof(T) == 8;
    MeasureArgs a{
        static_cast<const std::byte*>(x), n, 0, reinterpret_cast<MeasureState*>(scratch), facts->data(), 0};
    a.k = ThresholdParams::rank(params, n);
    constexpr std::size_t kEach = std::size_t{512} * 16;  // least number of elements per thread block
    const std::size_t grid = std::clamp<std::size_t>((n + kEach - 1) / kEach, 1,
                                                     std::size_t{4} * std::max(shape.multiprocessors, 1u));
    launch("threshold_begin", 1, 512, 0, a);
    for (a.level = 0; a.level < 2; ++a.level) {
      launch(kDouble ? "threshold_count_f64" : "threshold_count_f32", grid, 512, 4 * kMeasureBins, a);
      launch(kDouble ? "threshold_take_f64" : "threshold_take_f32", 1, 512, 0, a);
    }
  }
  static constexpr DeviceMeasureOps kOps{&scratch_bytes, &measure};
};

template <class Q>
constexpr std::array<DeviceOps, 2> kTypes{SparseRow<float, Q>::kOps, SparseRow<double, Q>::kOps};

}  // namespace
}  // namespace cuda

constinit const DeviceRow threshold_device_row{cuda::kTypes<cuda::ThresholdSetting>,
                                               {cuda::Measure<float>::kOps, cuda::Measure<double>::kOps}};
constinit const DeviceRow adaptive_device_row{cuda::kTypes<cuda::AdaptiveSetting>};
constinit const DeviceRow topk_device_row{cuda::kTypes<cuda::TopKSetting>};
constinit const DeviceRow zerorun_device_row{cuda::kTypes<cuda::ZeroRunSetting>};

}  // namespace mq::kernels
