// Where the vectors of a call may be beside plain memory of one GPU: managed memory, two GPUs, an address
// that is another memory by the next start, a GPU that was reset. The bits are the same as on the host, and
// the program's current context stays what it is.

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/core/api.hpp"
#include "tests/device/device_places.hpp"

namespace mq::test {
namespace {

enum class How { blocking, nonblocking, persistent };
constexpr std::array kHows{How::blocking, How::nonblocking, How::persistent};

struct Pair {
  Place in, out;
};

template <class T>
using Pointer = std::unique_ptr<Vector<T>>;

class DevicePlaces : public Api {
 protected:
  void SetUp() override {
    setenv("FAKE_CUDA_DEVICES", "2", 1);  // read at the driver's first call
    fake::use_gpu();
    fake_cuda_forget();
    Api::SetUp();
  }
  void TearDown() override {
    fake_cuda_forget();
    Api::TearDown();
    EXPECT_EQ(fake_cuda_living("device bytes"), 0) << "device memory is left";
  }
  // Calls the library, which leaves the current context alone.
  template <class F>
  static int in_context(const F& f) {
    const fake::CuContext before = current_context();
    const int code = f();
    EXPECT_EQ(current_context(), before);
    return code;
  }
  // in null: in place.
  template <class T>
  int call(How how, Vector<T>* in, Vector<T>& out, std::size_t n, MPI_Datatype type, MPI_Info info) const {
    const void* const send = in == nullptr ? MPI_IN_PLACE : in->data();
    const auto count = static_cast<MPI_Count>(n);
    MPIQ_Request request = MPIQ_REQUEST_NULL;
    if (how == How::blocking)
      return in_context([&] { return MPIQ_Allreduce(send, out.data(), count, type, MPI_SUM, comm, info); });
    if (how == How::nonblocking) {
      const int code = in_context(
          [&] { return MPIQ_Iallreduce(send, out.data(), count, type, MPI_SUM, comm, info, &request); });
      return code != MPI_SUCCESS ? code : in_context([&] { return MPIQ_Wait(&request); });
    }
    int code = in_context(
        [&] { return MPIQ_Allreduce_init(send, out.data(), count, type, MPI_SUM, comm, info, &request); });
    if (code != MPI_SUCCESS) return code;
    code = start_and_wait(request);
    EXPECT_EQ(in_context([&] { return MPIQ_Request_free(&request); }), MPI_SUCCESS);
    return code;
  }
  static int start_and_wait(MPIQ_Request& request) {
    const int code = in_context([&] { return MPIQ_Start(&request); });
    return code != MPI_SUCCESS ? code : in_context([&] { return MPIQ_Wait(&request); });
  }
  template <class T>
  std::vector<T> sum(const std::vector<T>& x, Pair at, MPI_Datatype type, MPI_Info info,
                     How how = How::blocking) const {
    Vector<T> in(x, at.in), out(std::vector<T>(x.size()), at.out);
    EXPECT_EQ(call(how, &in, out, x.size(), type, info), MPI_SUCCESS);
    return out.get();
  }
  template <class T>
  std::vector<T> sum_in_place(const std::vector<T>& x, Place at, MPI_Datatype type, MPI_Info info) const {
    Vector<T> both(x, at);
    EXPECT_EQ(call<T>(How::blocking, nullptr, both, x.size(), type, info), MPI_SUCCESS);
    return both.get();
  }
  // Of a key, as floats.
  std::vector<float> residual(std::size_t n) const {
    std::vector<float> values(n);
    if (size > 1) {
      EXPECT_EQ(MPIQ_Residual_get(comm, "k", 0, static_cast<MPI_Count>(n), values.data()), MPI_SUCCESS);
    }
    return values;
  }
  void reset() const { EXPECT_EQ(MPIQ_Residual_reset(comm, nullptr), MPI_SUCCESS); }
  // A different one of the list on each rank, another each turn.
  template <class List>
  auto mine(const List& list, std::size_t turn) const {
    return list[(turn + static_cast<std::size_t>(rank)) % list.size()];
  }
  static Info with_key(const std::string& method) { return {{"mpiq_method", method}, {"mpiq_key", "k"}}; }
};

constexpr std::array kManagedPairs{Pair{kManaged0, kHost},     Pair{kHost, kManaged0},
                                   Pair{kManaged0, kManaged0}, Pair{kManaged0, kGpu0},
                                   Pair{kGpu0, kManaged1},     Pair{kManaged1, kManaged0}};
constexpr std::array kTwoGpus{Pair{kGpu0, kGpu1},     Pair{kGpu1, kGpu0},     Pair{kManaged0, kGpu1},
                              Pair{kManaged1, kGpu0}, Pair{kGpu0, kManaged1}, Pair{kGpu1, kManaged0}};

TEST_F(DevicePlaces, managed_memory_gives_the_bits_of_the_host) {
  const std::size_t n = 3000;
  for (const char* const method : {"onebit", "threshold(quantile=0.9)", "topk(k=0.1)", "bf16", "zerorun"}) {
    const auto x = input<float>(n);
    const auto calls = [&](bool managed) {
      std::vector<std::vector<float>> seen;
      const Info info = with_key(method);
      for (std::size_t turn = 0; turn <= kManagedPairs.size(); ++turn) {
        const Pair at = managed ? mine(kManagedPairs, turn) : Pair{};
        seen.push_back(sum(x, at, MPI_FLOAT, info));
        seen.push_back(sum_in_place(x, managed ? kManaged0 : kHost, MPI_FLOAT, info));
        seen.push_back(residual(n));
      }
      reset();
      return seen;
    };
    const auto expected = calls(false), got = calls(true);
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_TRUE(same_bits(expected[i], got[i])) << method << " " << i;
  }
}

TEST_F(DevicePlaces, half_types_in_managed_memory_and_on_two_gpus) {
  std::vector<std::uint16_t> h(2000);
  for (std::size_t i = 0; i < h.size(); ++i)
    h[i] = static_cast<std::uint16_t>(0x3c00 + (i * 7 + static_cast<std::size_t>(rank)) % 64 +
                                      (i % 3 == 0) * 0x8000);
  for (const bool bfloat : {false, true}) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    ASSERT_EQ(bfloat ? MPIQ_Type_bfloat16(&type) : MPIQ_Type_float16(&type), MPI_SUCCESS);
    const auto calls = [&](bool there) {
      std::vector<std::vector<std::uint16_t>> seen;
      const Info info = with_key("onebit");
      for (std::size_t turn = 0; turn < kManagedPairs.size(); ++turn) {
        seen.push_back(sum(h, there ? mine(kManagedPairs, turn) : Pair{}, type, info));
        seen.push_back(sum_in_place(h, there ? kManaged1 : kHost, type, info));
        seen.push_back(sum(h, there ? mine(kTwoGpus, turn) : Pair{}, type, info));
      }
      EXPECT_TRUE(size == 1 || residual(h.size()) != std::vector<float>(h.size()));
      reset();
      return seen;
    };
    EXPECT_EQ(calls(false), calls(true)) << bfloat;
  }
}

TEST_F(DevicePlaces, work_under_way_on_either_gpu_comes_first) {
  const std::size_t n = 4000;
  const auto x = input<float>(n);
  for (const char* const method : {"onebit", "bf16"}) {
    const Info info{{"mpiq_method", method}};
    const auto expected = sum(x, {}, MPI_FLOAT, info);
    unsigned turn = 0;
    for (const Pair& at : kTwoGpus)
      for (const How how : kHows)
        for (const bool late_in : {false, true})
          for (const bool late_out : {false, true}) {
            Vector<float> source(x, at.in), in(std::vector<float>(n), at.in),
                out(std::vector<float>(n), at.out);
            const Current current(static_cast<int>(turn++ % 3) - 1);  // or none
            if (late_in)
              in.set_later(source);
            else
              in.set(x);
            if (late_out) out.fill_later(0x7f);
            ASSERT_EQ(call(how, &in, out, n, MPI_FLOAT, info), MPI_SUCCESS);
            ASSERT_TRUE(same_bits(out.get(), expected))
                << method << " " << name(at.in) << " to " << name(at.out) << " " << static_cast<int>(how)
                << late_in << late_out;
            ASSERT_TRUE(same_bits(in.get(), x));
          }
  }
}

TEST_F(DevicePlaces, a_key_follows_its_vectors_from_gpu_to_gpu) {
  const std::size_t n = 3000;
  const std::vector<Pair> places{{kGpu0, kGpu0}, {kGpu1, kGpu1},     {kGpu0, kGpu1},     {kGpu1, kGpu0},
                                 {kHost, kGpu1}, {kManaged1, kGpu0}, {kGpu1, kManaged0}, {kHost, kHost}};
  for (const char* const method : {"onebit", "threshold(quantile=0.9)", "topk(k=0.1)"}) {
    const auto calls = [&](bool there) {
      std::vector<std::vector<float>> seen;
      const Info info = with_key(method);
      for (std::size_t turn = 0; turn < 3 * places.size(); ++turn) {
        const auto x =
            make_input<float>(Input::normal, n, seed() + turn * 10 + static_cast<std::size_t>(rank));
        const Current current(static_cast<int>(turn % 3) - 1);
        seen.push_back(sum(x, there ? mine(places, turn) : Pair{}, MPI_FLOAT, info, kHows[turn % 3]));
        seen.push_back(residual(n));
      }
      reset();
      return seen;
    };
    const auto expected = calls(false), got = calls(true);
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_TRUE(same_bits(expected[i], got[i])) << method << " " << i;
  }
}

// A result that is only ordered in a stream is the next call's input, on the other GPU.
TEST_F(DevicePlaces, ordered_results_are_read_on_the_other_gpu) {
  if (size == 1) return;
  const std::size_t n = 4000;
  std::array<fake::CuStream, 2> streams{};
  for (const int gpu : {0, 1}) {
    const Current current(gpu);
    ASSERT_EQ(fake::cuStreamCreate(&streams[static_cast<std::size_t>(gpu)], fake::kStreamNonBlocking),
              fake::kSuccess);
  }
  const auto x = input<float>(n);
  const std::vector<float> zeros(n);
  for (const fake::CuStream stream : streams) {
    char text[32];
    std::snprintf(text, sizeof text, "%p", static_cast<void*>(stream));
    const Info plain = with_key("onebit"), ordered{{"mpiq_method", "onebit"},
                                                   {"mpiq_key", "k"},
                                                   {"mpiq_stream", text},
                                                   {"mpiq_stream_ordered", "true"}};
    std::vector<float> expected = x;
    for (int step = 0; step < 4; ++step) expected = sum(expected, {}, MPI_FLOAT, plain);
    reset();
    std::array<Pointer<float>, 2> at{std::make_unique<Vector<float>>(x, kGpu0),
                                     std::make_unique<Vector<float>>(zeros, kGpu1)};
    for (std::size_t step = 0; step < 4; ++step)
      ASSERT_EQ(call(How::blocking, at[step % 2].get(), *at[1 - step % 2], n, MPI_FLOAT, ordered),
                MPI_SUCCESS);
    ASSERT_EQ(fake::cuStreamSynchronize(stream), fake::kSuccess);
    EXPECT_TRUE(same_bits(at[0]->get(), expected));
    reset();
  }
}

TEST_F(DevicePlaces, every_start_finds_what_its_addresses_are) {
  const std::size_t n = 3000;
  const std::vector<Pair> places{{kGpu0, kGpu0},     {kGpu0, kGpu0}, {kGpu1, kGpu1},         {kGpu0, kGpu1},
                                 {kGpu1, kManaged0}, {kGpu0, kGpu0}, {kManaged0, kManaged1}, {kGpu1, kGpu0}};
  const Info info = with_key("onebit");
  std::vector<std::vector<float>> inputs, expected, residuals;
  for (std::size_t turn = 0; turn < places.size(); ++turn) {
    inputs.push_back(
        make_input<float>(Input::normal, n, seed() + turn * 10 + static_cast<std::size_t>(rank)));
    expected.push_back(sum(inputs.back(), {}, MPI_FLOAT, info));
    residuals.push_back(residual(n));
  }
  reset();
  const std::vector<float> zeros(n);
  auto in = std::make_unique<Vector<float>>(zeros, kGpu0),
       out = std::make_unique<Vector<float>>(zeros, kGpu0);
  float *const send = in->data(), *const receive = out->data();
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  ASSERT_EQ(MPIQ_Allreduce_init(send, receive, n, MPI_FLOAT, MPI_SUM, comm, info, &request), MPI_SUCCESS);
  for (std::size_t turn = 0; turn < places.size(); ++turn) {
    in.reset();
    out.reset();
    in = std::make_unique<Vector<float>>(inputs[turn], mine(places, turn).in, send);
    out = std::make_unique<Vector<float>>(zeros, mine(places, turn).out, receive);
    ASSERT_EQ(in->data(), send);
    ASSERT_EQ(out->data(), receive);
    ASSERT_EQ(start_and_wait(request), MPI_SUCCESS) << turn;
    ASSERT_TRUE(same_bits(out->get(), expected[turn])) << turn;
    ASSERT_TRUE(same_bits(residual(n), residuals[turn])) << turn;
  }
  ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
}

// One rank's memory is freed: an error on all, until it is there again.
TEST_F(DevicePlaces, a_start_without_its_memory_is_an_error) {
  const std::size_t n = 2000;
  const auto x = input<float>(n);
  const std::vector<float> zeros(n);
  const Info info{{"mpiq_method", "onebit"}};
  const auto expected = sum(x, {}, MPI_FLOAT, info);
  for (const bool in_is_lost : {true, false})
    for (const Pair& at : {Pair{kGpu0, kGpu0}, Pair{kGpu0, kGpu1}, Pair{kManaged0, kGpu1}}) {
      auto in = std::make_unique<Vector<float>>(x, at.in),
           out = std::make_unique<Vector<float>>(zeros, at.out);
      MPIQ_Request request = MPIQ_REQUEST_NULL;
      ASSERT_EQ(MPIQ_Allreduce_init(in->data(), out->data(), n, MPI_FLOAT, MPI_SUM, comm, info, &request),
                MPI_SUCCESS);
      Pointer<float>& lost = in_is_lost ? in : out;
      float* const address = lost->data();
      const bool loses = rank == size - 1;
      if (loses) lost.reset();
      EXPECT_NE(start_and_wait(request), MPI_SUCCESS);
      if (loses) lost = std::make_unique<Vector<float>>(in_is_lost ? x : zeros, kGpu1, address);
      ASSERT_EQ(start_and_wait(request), MPI_SUCCESS);
      EXPECT_TRUE(same_bits(out->get(), expected));
      ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
    }
}

// The GPU of one rank, or of all, is reset between two starts, with the vectors, the residual and what the
// library keeps there. A start without vectors is an error; one with new ones says at most once, on all
// ranks, that the residual is gone.
TEST_F(DevicePlaces, a_start_after_a_reset_is_an_error_or_right) {
  const std::size_t n = 2000;
  const auto x = input<float>(n);
  const std::vector<float> zeros(n);
  for (const bool keyed : {false, true})
    for (const int gpu : {0, 1})
      for (const bool on_all : {true, false})
        for (const Pair& at : {Pair{kGpu0, kGpu0}, Pair{kGpu0, kGpu1}, Pair{kGpu1, kGpu0}}) {
          const Info plain{{"mpiq_method", "onebit"}}, key = with_key("onebit");
          const auto expected = sum(x, {}, MPI_FLOAT, plain);
          std::array vectors{std::make_unique<Vector<float>>(x, at.in),
                             std::make_unique<Vector<float>>(zeros, at.out)};
          const std::array addresses{vectors[0]->data(), vectors[1]->data()};
          const std::array places{at.in, at.out};
          MPIQ_Request request = MPIQ_REQUEST_NULL;
          ASSERT_EQ(MPIQ_Allreduce_init(addresses[0], addresses[1], n, MPI_FLOAT, MPI_SUM, comm,
                                        keyed ? key : plain, &request),
                    MPI_SUCCESS);
          ASSERT_EQ(start_and_wait(request), MPI_SUCCESS);
          const bool resets = on_all || rank == size - 1;
          if (resets) {
            ASSERT_EQ(fake::cuDevicePrimaryCtxReset_v2(gpu), fake::kSuccess);
          }
          const bool any_lost = at.in.gpu == gpu || at.out.gpu == gpu;
          const int code = start_and_wait(request);
          EXPECT_EQ(code != MPI_SUCCESS, any_lost) << gpu << on_all << name(at.in) << name(at.out);
          fake::use_gpu(0);
          for (std::size_t i = 0; i < 2; ++i)
            if (resets && places[i].gpu == gpu) {
              vectors[i]->forget();
              vectors[i] = std::make_unique<Vector<float>>(i == 0 ? x : zeros, places[i], addresses[i]);
            }
          const bool first_is_right = start_and_wait(request) == MPI_SUCCESS;
          EXPECT_TRUE(first_is_right || keyed);
          if (!first_is_right) {
            ASSERT_EQ(start_and_wait(request), MPI_SUCCESS);
          }
          EXPECT_TRUE(same_on_all_ranks(vectors[1]->get()) && (keyed || vectors[1]->get() == expected));
          ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
          if (keyed) reset();
        }
}

}  // namespace
}  // namespace mq::test
