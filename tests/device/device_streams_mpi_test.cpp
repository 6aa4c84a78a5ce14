// Encodes in many streams of one GPU at the same time: thread blocks of different encodes then wait for each
// other's links in turns, and the bits must be the same as on the host every time. With any driver: the
// tests' own, and a machine's (scripts/gpu_check), where there are 10,000 encodes of each codec.

#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/device.hpp"
#include "mpi_quant/base/device.hpp"
#include "tests/device/fake_cuda/array.hpp"
#include "tests/kernels/inputs.hpp"

namespace mq::test {
namespace {

using fake::Array;

class DeviceStreams : public testing::Test {
 protected:
  void SetUp() override {
    fake::use_gpu(0);
    ASSERT_NE(device_api(), nullptr) << device_unusable_reason();
    Array<char> probe(1);
    Where where;
    ASSERT_TRUE(api().where(probe.data(), where).ok());
    device_ = where.device;
    ASSERT_EQ(api().no_kernels(device_), nullptr) << api().no_kernels(device_);
  }
  static const DeviceApi& api() { return *device_api(); }
  bool is_fake() const { return std::string_view(api().name(device_)).starts_with("Fake"); }

  Device* device_ = nullptr;
};

// The encode of one vector, with carry, on the host and in one stream of the GPU.
class Encodes {
 public:
  Encodes(const DeviceApi& api, Device* device, const kernels::Codec& codec, const std::vector<float>& x,
          const std::vector<float>& residual)
      : api_(api),
        codec_(codec),
        params_(kernels::preset_params(codec)),
        x_(x),
        residual_(residual),
        wire_(codec.wire_bound(x.size(), kernels::Element::f32, params_)),
        scratch_(ops().scratch_bytes(x.size(), params_)),
        shape_(*api.shape(device)),
        before_(residual),
        device_(device) {
    EXPECT_TRUE(api.make_stream(device, stream_).ok());
    void* pinned = nullptr;
    EXPECT_TRUE(api.allocate_pinned(device, pinned_bytes(), pinned).ok());
    pinned_ = static_cast<std::byte*>(pinned);
  }
  ~Encodes() {
    api_.free_stream(stream_);
    api_.free_pinned(device_, pinned_);
  }
  Encodes(const Encodes&) = delete;
  Encodes& operator=(const Encodes&) = delete;

  // Launched, with the copies of its results behind it.
  void begin() {
    *encoded() = {};
    EXPECT_TRUE(api_.copy(stream_, residual_.data(), before_.data(), bytes_of_vector()).ok());
    ops().encode({args(x_.data(), residual_.data(), wire_.data()), encoded(), scratch_.data(), shape_},
                 api_.launcher(stream_));
    EXPECT_TRUE(api_.launch_error(stream_).ok());
    EXPECT_TRUE(api_.copy(stream_, got_residual(), residual_.data(), bytes_of_vector()).ok());
    EXPECT_TRUE(api_.copy(stream_, got_wire(), wire_.data(), wire_.size()).ok());
  }
  // Whether wire and residual are the expected ones.
  bool end(const std::vector<std::byte>& wire, const std::vector<float>& residual) {
    EXPECT_TRUE(api_.synchronize(stream_).ok());
    return encoded()->bytes == wire.size() && std::memcmp(got_wire(), wire.data(), wire.size()) == 0 &&
           std::memcmp(got_residual(), residual.data(), bytes_of_vector()) == 0;
  }
  kernels::EncodeArgs args(const float* x, float* residual, std::byte* wire) const {
    return {x, residual, kernels::Feedback::carry, x_.size(), params_, wire, {}};
  }

 private:
  const kernels::DeviceOps& ops() const {
    return *kernels::device_ops(codec_, kernels::Element::f32, params_);
  }
  std::size_t bytes_of_vector() const { return x_.size() * sizeof(float); }
  std::size_t pinned_bytes() const {
    return sizeof(kernels::DeviceEncoded) + bytes_of_vector() + wire_.size();
  }
  kernels::DeviceEncoded* encoded() const { return reinterpret_cast<kernels::DeviceEncoded*>(pinned_); }
  std::byte* got_residual() const { return pinned_ + sizeof(kernels::DeviceEncoded); }
  std::byte* got_wire() const { return got_residual() + bytes_of_vector(); }

  const DeviceApi& api_;
  const kernels::Codec& codec_;
  kernels::Params params_;
  Array<float> x_, residual_;
  Array<std::byte> wire_, scratch_;
  kernels::DeviceShape shape_;
  Array<float> before_;
  Device* device_;
  DeviceStream* stream_ = nullptr;
  std::byte* pinned_ = nullptr;
};

TEST_F(DeviceStreams, sparse_encodes_side_by_side_have_the_bits_of_the_host) {
  constexpr int kStreams = 16;
  const int encodes = is_fake() ? 2 * kStreams : 10000;
  for (const char* const name : {"threshold", "adaptive", "topk", "zerorun"}) {
    const kernels::Codec& codec = *kernels::find_codec(name);
    const std::size_t n = 5 * codec.block(kernels::preset_params(codec)) / 2 + 7;
    const auto x = make_input<float>(Input::laplace, n, 1), residual = make_input<float>(Input::normal, n, 2);
    std::vector<std::unique_ptr<Encodes>> streams;
    for (int i = 0; i < kStreams; ++i)
      streams.push_back(std::make_unique<Encodes>(api(), device_, codec, x, residual));
    std::vector<float> kept = residual;
    std::vector<std::byte> wire(codec.wire_bound(n, kernels::Element::f32, kernels::preset_params(codec)));
    wire.resize(codec.ops(kernels::Element::f32, kernels::best_isa())
                    ->encode(streams[0]->args(x.data(), kept.data(), wire.data()))
                    .bytes);
    int wrong = 0;
    for (int done = 0; done < encodes; done += kStreams) {
      for (auto& stream : streams) stream->begin();
      for (auto& stream : streams) wrong += !stream->end(wire, kept);
    }
    EXPECT_EQ(wrong, 0) << name << ": of " << encodes << " encodes of " << n << " elements";
  }
}

// MPI libraries read messages of another process by process_vm_readv, or have the network card read them.
// Both need pages that the kernel knows. The driver's pinned memory must have such pages.
TEST_F(DeviceStreams, the_kernel_can_read_pinned_memory_for_other_processes) {
  void* pinned = nullptr;
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  ASSERT_TRUE(api().allocate_pinned(device_, kBytes, pinned).ok());
  std::memset(pinned, 0x5a, kBytes);
  std::vector<char> read(kBytes);
  const iovec to{read.data(), kBytes}, from{pinned, kBytes};
  EXPECT_EQ(process_vm_readv(getpid(), &to, 1, &from, 1, 0), static_cast<ssize_t>(kBytes))
      << "messages in pinned memory would fail where MPI uses CMA: " << std::strerror(errno);
  EXPECT_EQ(read.back(), 0x5a);
  api().free_pinned(device_, pinned);
}

}  // namespace
}  // namespace mq::test
