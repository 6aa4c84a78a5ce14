// Calls with vectors in the memory of a GPU, as mpiq-bench makes them: the bits of the same calls with
// vectors of the host, whoever has which. Runs on whatever libcuda.so.1 there is: the tests' own under CTest,
// a real one in scripts/gpu_check.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstring>
#include <functional>
#include <vector>

#include "bench/call.hpp"
#include "bench/data.hpp"
#include "bench/elements.hpp"
#include "bench/gpu.hpp"
#include "bench/metadata.hpp"

namespace mq::bench {
namespace {

constexpr int kCalls = 3;  // with what the ones before left in the residual

using OnGpu = std::function<bool(int rank)>;
using Bytes = std::vector<std::byte>;

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

class CudaCalls : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto gpu = Gpu::open(local_rank(MPI_COMM_WORLD));
    ASSERT_TRUE(gpu.ok()) << gpu.status().text();
    gpu_ = std::move(*gpu);
  }
  static void TearDownTestSuite() { gpu_.reset(); }

  // The results of kCalls calls; input and result are kGuard bytes apart from what must not change.
  template <class T>
  static std::vector<Bytes> results(const MethodWord& method, kernels::Element element, std::size_t count,
                                    bool in_place, const OnGpu& on_gpu) {
    const bool mine = on_gpu(world_rank());
    const Call call(method, element, static_cast<MPI_Count>(count), true, MPI_COMM_WORLD,
                    mine ? gpu_ : nullptr);
    const Generator generator{DataSpec{}};
    std::vector<Bytes> all;
    std::vector<T> x(count), sum(count);
    const std::size_t bytes = count * sizeof(T);
    const GpuMemory send(mine ? gpu_ : nullptr, GpuMemory::Kind::device, bytes);
    const GpuMemory receive(mine ? gpu_ : nullptr, GpuMemory::Kind::device, bytes);
    for (int i = 0; i < kCalls; ++i) {
      generator.fill(std::span(x), world_rank(), static_cast<std::uint64_t>(i) * count);
      if (in_place) sum = x;
      const void* from = in_place ? MPI_IN_PLACE : x.data();
      void* to = sum.data();
      if (mine) {
        gpu_->to_device(send.data(), x.data(), bytes);
        gpu_->to_device(receive.data(), sum.data(), bytes);
        from = in_place ? MPI_IN_PLACE : send.data();
        to = receive.data();
      }
      EXPECT_EQ(call(from, to), MPI_SUCCESS) << method.text << " " << count;
      if (mine) gpu_->to_host(sum.data(), receive.data(), bytes);
      const auto* first = reinterpret_cast<const std::byte*>(sum.data());
      all.emplace_back(first, first + bytes);
    }
    return all;
  }

  // All ranks agree on what they compare, so that no rank stops alone.
  template <class T>
  static void compare(const std::string& word, kernels::Element element, std::size_t count) {
    const auto methods = parse_methods(word);
    ASSERT_TRUE(methods.ok()) << methods.status().text();
    for (const bool in_place : {false, true}) {
      const auto with = [&](const OnGpu& on_gpu) {
        return results<T>(methods->front(), element, count, in_place, on_gpu);
      };
      const auto host = with([](int) { return false; });
      EXPECT_TRUE(with([](int) { return true; }) == host) << word << " of " << count << ", all on GPUs";
      EXPECT_TRUE(with([](int rank) { return rank % 2 == 0; }) == host)
          << word << " of " << count << ", mixed";
    }
  }

  // The tests' driver runs kernels one thread after the other.
  static std::size_t many() { return gpu_->info().name.str().starts_with("Fake") ? 9001 : 3000001; }

  static std::shared_ptr<const Gpu> gpu_;
};

std::shared_ptr<const Gpu> CudaCalls::gpu_;

TEST_F(CudaCalls, HaveTheBitsOfTheHostForEveryCodec) {
  for (const kernels::Codec& codec : kernels::codecs())
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, many()})
      compare<float>(std::string(codec.name), kernels::Element::f32, count);
}

TEST_F(CudaCalls, HaveThemForDoublesAndHalfTypes) {
  for (const kernels::Codec& codec : kernels::codecs()) {
    compare<double>(std::string(codec.name), kernels::Element::f64, 3001);
    if (codec.name == "bf16" || codec.name == "onebit")
      compare<Bfloat16>(std::string(codec.name), kernels::Element::bf16, 3001);
  }
}

TEST_F(CudaCalls, HaveThemWhateverThePlan) {
  for (const char* word : {"onebit/direct", "bf16/allgather", "onebit/recursive_doubling", "topk/allgather"})
    compare<float>(word, kernels::Element::f32, 5000);
}

TEST_F(CudaCalls, StagedSumIsMpiSum) {
  const auto methods = parse_methods("mpi");
  const auto host =
      results<float>(methods->front(), kernels::Element::f32, 5000, true, [](int) { return false; });
  const auto gpu =
      results<float>(methods->front(), kernels::Element::f32, 5000, true, [](int) { return true; });
  EXPECT_TRUE(host == gpu);
}

}  // namespace
}  // namespace mq::bench
