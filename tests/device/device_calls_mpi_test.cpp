// Vectors in the memory of GPUs through the public interface, under real MPI: the bits of the same calls on
// the host, whatever memory each rank's vectors are in. With any driver: the tests' own, whose GPU is this
// process, and a machine's (scripts/gpu_check).

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/memory.hpp"
#include "mpi_quant/base/device.hpp"
#include "mpi_quant/plan/plan.hpp"
#include "mpi_quant/policy/policy.hpp"
#include "tests/core/parted_requests.hpp"
#include "tests/device/device_calls.hpp"

namespace mq::test {
namespace {

using fake::Array;

// By work in the default stream of the current GPU, which is not done when this returns. The result goes when
// that work has been waited for.
Busy clear_later(const Array<float>& x, bool is_fake) {
  Busy busy(nullptr, is_fake);
  EXPECT_EQ(fake::cuMemsetD8Async(reinterpret_cast<fake::CuAddress>(x.data()), 0, x.size() * sizeof(float),
                                  nullptr),
            fake::kSuccess);
  return busy;
}

TEST_F(DeviceCalls, bits_are_those_of_the_host_in_every_memory) {
  if (size == 1) return;
  std::vector<std::size_t> counts{1, 3000};
  if (!is_fake()) counts.push_back(100003);  // many blocks of threads
  int turn = 0;
  std::vector<std::string> words{"int4(code=entropy)"};  // a row that does not serve all parameters
  for (const kernels::Codec& codec : kernels::codecs()) words.emplace_back(codec.name);
  for (std::size_t w = 0; w < words.size(); ++w)
    for (std::size_t p = 0; p < plans().size(); ++p, ++turn) {
      if (!is_swept(w, p)) continue;
      const std::string method = words[w] + "/" + std::string(plans()[p].name);
      const Method parsed = *parse_method(method);
      const kernels::Codec& codec = *parsed.codec;
      for (const std::size_t n : counts) {
        const auto x = input<float>(n);
        const Info info{{"mpiq_method", method}, {"mpiq_key", "k"}};
        const auto calls = [&](auto in, auto out) {
          std::vector<std::vector<float>> results;
          for (int call = 0; call < 3; ++call) results.push_back(sum(x, in(call), out(call), info));
          results.push_back(residual("k", n));
          reset();
          return results;
        };
        const auto host = [](int) { return false; };
        const auto expected = calls(host, host);
        const double before_s = host_codecs_s();
        const auto all = calls([](int) { return true; }, [](int) { return true; });
        const bool has_row = kernels::device_ops(codec, kernels::Element::f32, parsed.params) != nullptr;
        EXPECT_EQ(host_codecs_s() == before_s, runs_kernels() && has_row)
            << method << ": on the GPU, and staged only if it has no row there";
        const auto mixed = calls([&](int call) { return on_device(call + turn / 2); },
                                 [&](int call) { return on_device(call / 2 + turn); });
        for (std::size_t i = 0; i < expected.size() && repeats(codec); ++i) {
          ASSERT_TRUE(same_bits(expected[i], all[i])) << method << " n=" << n << " " << i;
          ASSERT_TRUE(same_bits(expected[i], mixed[i])) << method << " n=" << n << " " << i;
        }
      }
    }
  if (runs_kernels()) {
    EXPECT_STREQ(staging_reason(), nullptr);
  }
}

// Rules run on the GPU too, and the processor codes nothing.
TEST_F(DeviceCalls, memory_rules_give_the_bits_of_the_host_in_every_memory) {
  if (size == 1) return;
  const std::size_t n = 3000;
  const auto x = input<float>(n);
  std::vector<std::string> methods;
  for (const kernels::MemoryRule& rule : kernels::memory_rules()) {
    const std::string name(rule.name);
    if (name != "3pc")
      methods.push_back("topk memory=" + name + (name == "momentum" ? "(clip=5)" : ""));
    else
      for (const char* v : {"2", "3", "4", "5"})
        methods.push_back((*v == '2' ? "natural memory=3pc(v=" : "topk memory=3pc(v=") + std::string(v) +
                          ",p=0.3)");
  }
  // A rank whose vector stands still sends nothing, and in time none does.
  methods.emplace_back("raw memory=lazy(max=2,resync=5)");
  for (const std::string& method : methods) {
    const auto arrays = static_cast<std::size_t>(parse_method(method)->memory_rule().arrays);
    const Info info{{"mpiq_method", method}, {"mpiq_key", "k"}};
    const auto calls = [&](auto there) {
      std::vector<std::vector<float>> results;
      for (int call = 0; call < 6; ++call) results.push_back(sum(x, there(call), there(call + 1), info));
      if (arrays > 0) results.push_back(residual("k", n * arrays));
      reset();
      return results;
    };
    const auto expected = calls([](int) { return false; });
    const double before_s = host_codecs_s();
    const auto all = calls([](int) { return true; });
    EXPECT_EQ(host_codecs_s() == before_s, runs_kernels()) << method;
    const auto mixed = calls([](int call) { return call / 2 % 2 == 0; });
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE(same_bits(expected[i], all[i])) << method << " " << i;
      ASSERT_TRUE(same_bits(expected[i], mixed[i])) << method << " " << i;
    }
  }
}

TEST_F(DeviceCalls, doubles_and_half_types) {
  if (size == 1) return;
  const auto x = input<double>(2000);
  for (const char* const method : {"onebit", "bf16", "raw", "threshold"}) {
    const Info info{{"mpiq_method", method}};
    ASSERT_TRUE(same_bits(sum(x, false, false, info), sum(x, true, true, info))) << method;
    if (std::string(method) == "raw") continue;  // would send half types as floats
    for (const bool bfloat : {false, true}) {
      MPI_Datatype half = MPI_DATATYPE_NULL;
      ASSERT_EQ(bfloat ? MPIQ_Type_bfloat16(&half) : MPIQ_Type_float16(&half), MPI_SUCCESS);
      std::vector<std::uint16_t> h(2000), on_host(2000);
      for (std::size_t i = 0; i < h.size(); ++i)
        h[i] = static_cast<std::uint16_t>(0x3c00 + (i * 7 + static_cast<std::size_t>(rank)) % 64 +
                                          (i % 3 == 0) * 0x8000);
      ASSERT_EQ(MPIQ_Allreduce(h.data(), on_host.data(), 2000, half, MPI_SUM, comm, info), MPI_SUCCESS);
      Array<std::uint16_t> send(h), receive(h.size());
      ASSERT_EQ(MPIQ_Allreduce(send.data(), receive.data(), 2000, half, MPI_SUM, comm, info), MPI_SUCCESS);
      EXPECT_EQ(receive.get(), on_host) << method;
    }
  }
}

TEST_F(DeviceCalls, a_half_sum_of_one_rank_is_copied) {
  if (size != 1) return;
  MPI_Datatype half = MPI_DATATYPE_NULL;
  ASSERT_EQ(MPIQ_Type_bfloat16(&half), MPI_SUCCESS);
  const std::vector<std::uint16_t> h(100, 0x3f80);
  Array<std::uint16_t> send(h), receive(h.size());
  ASSERT_EQ(MPIQ_Allreduce(send.data(), receive.data(), 100, half, MPI_SUM, comm, MPI_INFO_NULL),
            MPI_SUCCESS);
  EXPECT_EQ(receive.get(), h);
}

TEST_F(DeviceCalls, in_place_nonblocking_and_persistent) {
  if (size == 1) return;
  const std::size_t n = 5000;
  const auto x = input<float>(n);
  const Info info{{"mpiq_method", "onebit"}};
  const auto expected = sum(x, false, false, info);
  Vector<float> in_place(x, on_device(0));
  ASSERT_EQ(MPIQ_Allreduce(MPI_IN_PLACE, in_place.data(), n, MPI_FLOAT, MPI_SUM, comm, info), MPI_SUCCESS);
  EXPECT_TRUE(same_bits(in_place.get(), expected));

  std::vector<MPIQ_Request> requests(3);
  std::vector<std::unique_ptr<Vector<float>>> in, out;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    in.push_back(std::make_unique<Vector<float>>(x, i != 1 || on_device(1)));
    out.push_back(std::make_unique<Vector<float>>(std::vector<float>(n), i != 2 || on_device(0)));
    ASSERT_EQ(MPIQ_Iallreduce(in[i]->data(), out[i]->data(), n, MPI_FLOAT, MPI_SUM, comm, info, &requests[i]),
              MPI_SUCCESS);
  }
  for (std::size_t i = requests.size(); i-- > 0;) {
    ASSERT_EQ(MPIQ_Wait(&requests[i]), MPI_SUCCESS);
    EXPECT_TRUE(same_bits(out[i]->get(), expected)) << i;
  }

  Array<float> send(x), receive(n);
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  ASSERT_EQ(MPIQ_Allreduce_init(send.data(), receive.data(), n, MPI_FLOAT, MPI_SUM, comm, info, &request),
            MPI_SUCCESS);
  for (int call = 0; call < 3; ++call) {
    receive.set(std::vector<float>(n));
    ASSERT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
    EXPECT_TRUE(same_bits(receive.get(), expected)) << call;
  }
  ASSERT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
}

TEST_F(DeviceCalls, parts_have_the_bits_of_the_host_in_every_memory_and_form) {
  if (size == 1) return;
  constexpr MPI_Count kPart = 3000;
  const auto x = input<float>(static_cast<std::size_t>(kPart * size));
  const std::vector<float> mine(x.begin(), x.begin() + kPart);
  for (const bool gathers : {false, true})
    for (const char* const method : {"onebit", "int8", "topk"}) {
      const Info info{{"mpiq_method", method}, {"mpiq_key", "k"}};
      // Three calls of the key.
      const auto results = [&](Form form, bool in, bool out) {
        Vector<float> send(gathers ? mine : x, in), receive(gathers ? x : mine, out);
        MPIQ_Request request = MPIQ_REQUEST_NULL;
        const auto call = [&](auto gather, auto scatter, auto... last) {
          EXPECT_EQ(
              gathers ? gather(send.data(), kPart, MPI_FLOAT, receive.data(), kPart, MPI_FLOAT, comm, info,
                               last...)
                      : scatter(send.data(), receive.data(), kPart, MPI_FLOAT, MPI_SUM, comm, info, last...),
              MPI_SUCCESS);
        };
        if (form == Form::persistent) call(MPIQ_Allgather_init, MPIQ_Reduce_scatter_block_init, &request);
        std::vector<std::vector<float>> all;
        for (int turn = 0; turn < 3; ++turn) {
          if (form == Form::blocking) call(MPIQ_Allgather, MPIQ_Reduce_scatter_block);
          if (form == Form::once) call(MPIQ_Iallgather, MPIQ_Ireduce_scatter_block, &request);
          if (form == Form::persistent) {
            EXPECT_EQ(MPIQ_Start(&request), MPI_SUCCESS);
          }
          EXPECT_EQ(MPIQ_Wait(&request), MPI_SUCCESS);
          all.push_back(receive.get());
        }
        if (form == Form::persistent) {
          EXPECT_EQ(MPIQ_Request_free(&request), MPI_SUCCESS);
        }
        reset();
        return all;
      };
      const auto expected = results(Form::blocking, false, false);
      for (const Form form : {Form::blocking, Form::once, Form::persistent})
        for (int turn = 0; turn < 4; ++turn)
          EXPECT_EQ(results(form, on_device(turn), on_device(turn / 2)), expected) << method << " " << turn;
    }
}

TEST_F(DeviceCalls, residuals_move_with_their_vectors_and_can_be_scaled_flushed_and_put) {
  if (size == 1) return;
  const std::size_t n = 3000;
  const auto x = input<float>(n);
  const Info info{{"mpiq_method", "onebit"}, {"mpiq_key", "k"}};
  const auto program = [&](bool moves) {
    std::vector<std::vector<float>> seen;
    for (int call = 0; call < 4; ++call) {
      const bool there = moves && on_device(call);
      seen.push_back(sum(x, there, there, info));
    }
    EXPECT_EQ(MPIQ_Residual_scale(comm, "k", 0.5), MPI_SUCCESS);
    seen.push_back(residual("k", n));
    seen.push_back(sum(x, moves, moves, info));
    const std::vector<float> kept = residual("k", n);
    Vector<float> flushed(std::vector<float>(n, 7.0F), moves && on_device(0));
    EXPECT_EQ(MPIQ_Residual_flush(flushed.data(), static_cast<MPI_Count>(n), MPI_FLOAT, comm, "k"),
              MPI_SUCCESS);
    seen.push_back(flushed.get());
    seen.push_back(residual("k", n));
    MPIQ_Residual description = MPIQ_RESIDUAL_INIT;
    description.key[0] = 'k';
    std::string("f32").copy(description.element, 3);
    description.count = static_cast<MPI_Count>(n);
    description.settled = -1;
    Vector<float> given(kept, moves);
    const void* const buffer = given.data();
    EXPECT_EQ(MPIQ_Residual_put(comm, 1, &description, &buffer), MPI_SUCCESS);
    seen.push_back(sum(x, moves, false, info));
    reset();
    return seen;
  };
  const auto expected = program(false), got = program(true);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(same_bits(expected[i], got[i])) << "step " << i;
}

TEST_F(DeviceCalls, streams_of_the_program_order_a_call) {
  if (size == 1) return;
  const std::size_t n = 4000;
  fake::CuStream stream = nullptr;
  ASSERT_EQ(fake::cuStreamCreate(&stream, fake::kStreamNonBlocking), fake::kSuccess);
  const std::vector<float> ones(n, 1.0F), zeros(n);
  for (const bool ordered : {false, true}) {
    Array<float> source(ones), send(zeros), receive(zeros);
    // Under way when the call is made, in a stream that no default waits for.
    const Busy busy(stream, is_fake());
    ASSERT_EQ(fake::cuMemcpyAsync(address(send), address(source), n * sizeof(float), stream), fake::kSuccess);
    const Info info{{"mpiq_method", "onebit"},
                    {"mpiq_stream", hex(stream)},
                    {"mpiq_stream_ordered", ordered ? "true" : "false"}};
    ASSERT_EQ(MPIQ_Allreduce(send.data(), receive.data(), n, MPI_FLOAT, MPI_SUM, comm, info), MPI_SUCCESS);
    if (ordered) {
      ASSERT_EQ(fake::cuStreamSynchronize(stream), fake::kSuccess);
    }
    EXPECT_EQ(receive.get(), std::vector<float>(n, static_cast<float>(size)));
  }
  // Without the stream's name the legacy stream counts, where a memset has not run yet.
  Array<float> send(ones), receive(zeros);
  const Busy busy = clear_later(send, is_fake());
  const Info info{{"mpiq_method", "onebit"}};
  ASSERT_EQ(MPIQ_Allreduce(send.data(), receive.data(), n, MPI_FLOAT, MPI_SUM, comm, info), MPI_SUCCESS);
  EXPECT_EQ(receive.get(), zeros);
  const Info bad{{"mpiq_method", "onebit"}, {"mpiq_stream", "seven"}};
  expect_error_everywhere(MPIQ_Allreduce(send.data(), receive.data(), n, MPI_FLOAT, MPI_SUM, comm, bad),
                          "mpiq_stream");
}

TEST_F(DeviceCalls, the_default_stream_of_the_inputs_own_gpu_counts) {
  if (gpus() < 2) GTEST_SKIP() << "there is one GPU only";
  if (size == 1) return;
  const Info info{{"mpiq_method", "onebit"}};
  fake::use_gpu(1);
  auto send = std::make_unique<Array<float>>(std::vector<float>(4000, 1.0F));
  auto busy = std::make_unique<Busy>(clear_later(*send, is_fake()));
  fake::use_gpu(0);
  {
    Array<float> receive(std::vector<float>(4000, 7.0F));
    ASSERT_EQ(MPIQ_Allreduce(send->data(), receive.data(), 4000, MPI_FLOAT, MPI_SUM, comm, info),
              MPI_SUCCESS);
    EXPECT_EQ(receive.get(), std::vector<float>(4000));
  }
  fake::use_gpu(1);  // frees what is there
  send.reset();
  busy.reset();
  fake::use_gpu(0);
}

TEST_F(DeviceCalls, a_capturing_thread_gets_an_error) {
  if (size == 1) return;
  fake::CuStream stream = nullptr;
  ASSERT_EQ(fake::cuStreamCreate(&stream, fake::kStreamNonBlocking), fake::kSuccess);
  Array<float> send(std::vector<float>(1000, 1.0F)), receive(1000);
  if (rank == 0) {
    ASSERT_EQ(fake::cuStreamBeginCapture_v2(stream, 0), fake::kSuccess);
  }
  const Info info{{"mpiq_method", "onebit"}, {"mpiq_stream", hex(stream)}};
  const int code = MPIQ_Allreduce(send.data(), receive.data(), 1000, MPI_FLOAT, MPI_SUM, comm, info);
  EXPECT_NE(code, MPI_SUCCESS);
  if (rank == 0) {
    EXPECT_NE(text_of(code).find("capturing"), std::string::npos) << text_of(code);
    void* graph = nullptr;
    (void)fake::cuStreamEndCapture(stream, &graph);
  }
}

// What the GPU held is gone.
TEST_F(DeviceCalls, a_device_that_was_reset_serves_new_calls) {
  if (size == 1) return;
  const std::size_t n = 2000;
  const auto x = input<float>(n);
  const Info info{{"mpiq_method", "onebit"}}, with_key{{"mpiq_method", "onebit"}, {"mpiq_key", "k"}};
  const auto expected = sum(x, true, true, info);
  (void)sum(x, true, true, with_key);
  ASSERT_EQ(fake::cuDevicePrimaryCtxReset_v2(0), fake::kSuccess);
  fake::use_gpu();
  EXPECT_TRUE(same_bits(sum(x, true, true, info), expected));
  // The residual was on the device; it is gone, and says so once, unless calls are staged.
  Array<float> send(x), receive(n);
  const int code = MPIQ_Allreduce(send.data(), receive.data(), n, MPI_FLOAT, MPI_SUM, comm, with_key);
  EXPECT_EQ(code == MPI_SUCCESS, !runs_kernels());
  if (!runs_kernels()) return;
  EXPECT_EQ(residual("k", n), std::vector<float>(n));
  EXPECT_TRUE(same_bits(sum(x, true, true, with_key), expected));
}

TEST_F(DeviceCalls, sparse_calls_refuse_device_memory) {
  const std::int64_t index = 3;
  Array<float> value(std::vector<float>{1.0F});
  float in = 0;
  expect_error_everywhere(MPIQ_Sparse_allreduce(1, &index, value.data(), 1, &index, &in, 1, MPI_FLOAT,
                                                MPI_SUM, comm, MPI_INFO_NULL),
                          "GPU");
}

}  // namespace
}  // namespace mq::test
