// Launches of several segments that become one (mpi_quant/device/batch.hpp): a launch for each gives the same
// bits, for every device row. In the emulator, or on a GPU.

#include "mpi_quant/device/batch.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "mpi_quant/plan/layout.hpp"
#include "tests/device/device_rows.hpp"
#include "tests/kernels/inputs.hpp"

namespace mq::test {
namespace {

int launches = 0, runs = 0, copies = 0;

void count_and_launch(void*, const kernels::Launch& launch) noexcept {
  ++launches;
  runs += static_cast<int>(launch.runs);
  const kernels::Launcher launcher = simt::launcher(kSmallDevice.shared_bytes);
  launcher.launch(launcher.context, launch);
}

// A table with what a batch needs.
const DeviceApi& table() {
  static const DeviceApi api = [] {
    DeviceApi a{};
    a.launcher = [](DeviceStream*) noexcept { return kernels::Launcher{nullptr, &count_and_launch}; };
    a.launch_error = [](DeviceStream*) noexcept { return Status{}; };
    a.copy = [](DeviceStream*, void* to, const void* from, std::size_t bytes) noexcept {
      ++copies;
      std::memcpy(to, from, bytes);
      return Status{};
    };
    return a;
  }();
  return api;
}

class Batch : public LaunchBatch {
 public:
  Batch() {
    prepare(table(), nullptr);
    launches = runs = copies = 0;
  }
  void expect_flushed() {
    const Status status = flush();
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_STREQ(simt::error(), "");
    simt::clear_error();
  }
};

// A segment with its vectors, and what the host makes of them.
template <class T>
struct Segment {
  std::vector<T> x, residual, host_residual, decoded;
  std::vector<std::byte> wire, host_wire;
  Scratch scratch;
  // Not on the stack: a GPU reads and writes them.
  std::unique_ptr<kernels::DeviceEncoded> encoded = std::make_unique<kernels::DeviceEncoded>();
  std::unique_ptr<std::uint32_t> malformed = std::make_unique<std::uint32_t>(0);

  Segment(const DeviceRowUnderTest<T>& row, std::size_t n, std::uint64_t number)
      : x(make_input<T>(Input::laplace, n, seed() + number)),
        residual(make_input<T>(Input::normal, n, seed() + 100 + number)),
        host_residual(residual),
        decoded(n),
        wire(row.host.bound(n)),
        host_wire(wire),
        scratch(row.ops->scratch_bytes(n, row.host.params)) {
    host_wire.resize(row.host.ops().encode(args(row, host_residual, host_wire)).bytes);
  }
  kernels::EncodeArgs args(const DeviceRowUnderTest<T>& row, std::vector<T>& kept,
                           std::vector<std::byte>& to) {
    return {x.data(),  kept.data(), kernels::Feedback::carry, x.size(), row.host.params,
            to.data(), kNoiseIndex};
  }
};

TEST(DeviceBatch, SegmentsThatShareLaunches) {
  for_each_device_row([](const auto& row) {
    using T = typename std::decay_t<decltype(row.host)>::Type;
    const std::size_t n = std::min<std::size_t>(3000, 40 * row.host.block());
    std::vector<std::unique_ptr<Segment<T>>> segments;
    for (const std::size_t length : {n, n, n / 2 + 1, n, n})
      segments.push_back(std::make_unique<Segment<T>>(row, length, segments.size()));
    Batch batch;
    for (auto& s : segments) {
      batch.begin_segment();
      row.ops->encode({s->args(row, s->residual, s->wire), s->encoded.get(), s->scratch.data(), row.shape},
                      batch.launcher());
    }
    batch.expect_flushed();
    EXPECT_LT(launches, runs) << row.describe(n, "encode");
    for (auto& s : segments) {
      ASSERT_EQ(s->encoded->bytes, s->host_wire.size()) << row.describe(n, "encode");
      EXPECT_EQ(0, std::memcmp(s->wire.data(), s->host_wire.data(), s->host_wire.size()))
          << row.describe(n, "encode");
      EXPECT_TRUE(same_bits(s->residual, s->host_residual)) << row.describe(n, "encode");
      batch.begin_segment();
      row.ops->decode({{s->wire.data(), s->host_wire.size(), s->x.size(), row.host.params, s->x.data(),
                        s->decoded.data(), false, kNoiseIndex},
                       s->malformed.get(),
                       s->scratch.data(),
                       row.shape},
                      batch.launcher());
    }
    batch.expect_flushed();
    for (auto& s : segments) {
      std::vector<T> expected(s->x.size());
      (void)row.host.ops().decode({s->host_wire.data(), s->host_wire.size(), s->x.size(), row.host.params,
                                   s->x.data(), expected.data(), false, kNoiseIndex});
      EXPECT_EQ(*s->malformed, 0U) << row.describe(n, "decode");
      EXPECT_TRUE(same_bits(s->decoded, expected)) << row.describe(n, "decode");
    }
  });
}

// 40 segments copy, then launch: more than a launch has runs, and more operations than the batch has room
// for.
TEST(DeviceBatch, OperationsOfASegmentStayInOrder) {
  constexpr std::size_t kSegments = 40, kBytes = 100;
  std::vector<std::byte> from(kSegments * kBytes), between(from.size()), to(from.size()), back(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7);
  Batch batch;
  for (std::size_t at = 0; at < from.size(); at += kBytes) {
    batch.begin_segment();
    batch.copy(between.data() + at, from.data() + at, kBytes);
    kernels::device_bring(to.data() + at, between.data() + at, kBytes, kBytes, batch.launcher());
    batch.copy(back.data() + at, to.data() + at, kBytes);
  }
  batch.expect_flushed();
  EXPECT_EQ(back, from);
  EXPECT_EQ(copies, 80);
  EXPECT_EQ(runs, 40);
  EXPECT_LE(launches, 5);
}

// The blocks of a sparse frame are found one after the other (kernels/sparse/walk.cuh). They are few, however
// long the vector is.
TEST(DeviceBatch, SparseFramesHaveFewBlocks) {
  for (const char* const name : {"threshold", "adaptive", "topk", "zerorun"}) {
    const kernels::Codec& codec = *kernels::find_codec(name);
    const std::size_t block = codec.block(kernels::preset_params(codec));
    for (const std::size_t element_bytes : {4, 8})
      for (int chunks = 1; chunks <= 64; chunks *= 2)
        for (std::size_t n = 1; n < std::size_t{1} << 40; n = n * 5 / 2 + 1)
          ASSERT_LE((Layout(n, chunks, block, element_bytes).max_chunk() + block - 1) / block, 8U)
              << name << " n=" << n << " chunks=" << chunks;
  }
}

TEST(DeviceBatch, PayloadsAreBroughtFromAndToAnyAddress) {
  for (const std::size_t bytes : {0, 1, 15, 16, 17, 4097, 70000})
    for (const std::size_t shift : {0, 1, 8})
      for (const std::size_t other : {0, 3}) {
        std::vector<std::byte> from(bytes + 16), to(bytes + 32, std::byte{0xcc});
        for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 13 + 1);
        const std::size_t at = shift + other;
        kernels::device_bring(to.data() + at, from.data() + shift, bytes, 70000,
                              simt::launcher(kSmallDevice.shared_bytes));
        EXPECT_STREQ(simt::error(), "");
        EXPECT_EQ(0, std::memcmp(to.data() + at, from.data() + shift, bytes)) << bytes;
        EXPECT_TRUE(std::all_of(to.begin() + static_cast<std::ptrdiff_t>(at + bytes), to.end(),
                                [](std::byte b) { return b == std::byte{0xcc}; }));
      }
}

}  // namespace
}  // namespace mq::test
