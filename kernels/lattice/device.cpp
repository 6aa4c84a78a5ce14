// The launches of bound (device.cuh).

#include "kernels/lattice/device.hpp"

#include <algorithm>
#include <array>

#include "kernels/cuda/names.hpp"
#include "kernels/cuda/rows.hpp"

namespace mq::kernels {
namespace cuda {
namespace {

constexpr NamesByType kEncode = MQ_NAMES_BY_TYPE(lattice, _encode), kGreatest = MQ_NAMES_BY_TYPE(greatest, );
constexpr DecodeNames kDecode{{}, MQ_NAMES_BY_TYPE(lattice, _walk), {}, MQ_NAMES_BY_TYPE(lattice, _decode)};

template <class T>
struct LatticeRow {
  static constexpr std::size_t kBlock = LatticeWire<T>::kBlock;

  static std::size_t blocks_of(std::size_t n) { return (n + kBlock - 1) / kBlock; }
  static std::size_t parts_of(std::size_t n) { return (blocks_of(n) + kLatticeWarps - 1) / kLatticeWarps; }

  static std::size_t scratch_bytes(std::size_t n, const Params&) noexcept {
    return std::max(ChainState::bytes_of(parts_of(n)), blocks_of(n) * sizeof(std::uint64_t));
  }

  static void encode(const DeviceEncode& e, const Launcher& launch) noexcept {
    const auto parts = static_cast<std::uint32_t>(parts_of(e.args.n));
    LatticeEncodeArgs a{};
    a.wire = e.args.wire;
    a.encoded = e.encoded;
    a.state = reinterpret_cast<ChainState*>(e.scratch);
    a.blocks = parts;
    a.x = static_cast<const std::byte*>(e.args.x);
    a.residual = static_cast<std::byte*>(e.args.residual);
    a.n = e.args.n;
    a.feedback = e.args.feedback;
    a.step = static_cast<double>(bound_step<T>(e.args.params, e.args.noise.ranks));
    if (parts != 1) begin_chain(a.state, a.encoded, parts, launch);
    if (parts > 0) launch(name_for<T>(kEncode), parts, kLatticeThreads, kLatticeWarps * kLatticeShared<T>, a);
  }

  static void decode(const DeviceDecode& d, const Launcher& launch) noexcept {
    auto a = decode_args<LatticeDecodeArgs>(d, kBlock);
    a.step = static_cast<double>(bound_step<T>(d.args.params, d.args.noise.ranks));
    launch_decode<T>(kDecode, a, parts_of(a.n), kLatticeThreads, kLatticeWarps * kLatticeShared<T>, d.scratch,
                     launch);
  }

  static std::size_t measure_scratch_bytes(std::size_t, const Params&) noexcept {
    return sizeof(GreatestState);
  }
  static void measure(const void* x, std::size_t n, const Params&, Measured* measured, std::byte* scratch,
                      const DeviceShape& shape, const Launcher& launch) noexcept {
    constexpr std::size_t kEach =
        std::size_t{kLatticeThreads} * 16;  // least number of elements per thread block
    const GreatestArgs a{static_cast<const std::byte*>(x), n, reinterpret_cast<GreatestState*>(scratch),
                         measured->data()};
    launch(names::greatest_begin, 1, 32, 0, a);
    const std::size_t grid = std::clamp<std::size_t>((n + kEach - 1) / kEach, 1,
                                                     std::size_t{4} * std::max(shape.multiprocessors, 1u));
    launch(name_for<T>(kGreatest), grid, kLatticeThreads, 0, a);
  }
};

template <class T>
constexpr DeviceOps kOps{&LatticeRow<T>::scratch_bytes, &LatticeRow<T>::encode, &LatticeRow<T>::decode};
template <class T>
constexpr DeviceMeasureOps kMeasure{&LatticeRow<T>::measure_scratch_bytes, &LatticeRow<T>::measure};

}  // namespace
}  // namespace cuda

constinit const DeviceRow bound_device_row{{cuda::kOps<float>, cuda::kOps<double>},
                                           {cuda::kMeasure<float>, cuda::kMeasure<double>}};

}  // namespace mq::kernels
