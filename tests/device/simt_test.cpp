// The emulator itself: that it runs what a GPU would, in any order, and refuses what a GPU need not.

#include "tests/device/simt/emulator.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/cuda/simt.cuh"

namespace mq::kernels::names {
MQ_KERNEL_NAME(test_squares)
MQ_KERNEL_NAME(test_reverse)
MQ_KERNEL_NAME(test_warp)
MQ_KERNEL_NAME(test_chain)
MQ_KERNEL_NAME(test_divergent)
MQ_KERNEL_NAME(test_forever)
MQ_KERNEL_NAME(test_shared)
}  // namespace mq::kernels::names

namespace mq::simt {
namespace {

namespace names = kernels::names;

struct Numbers {
  std::uint32_t* at;
  std::uint32_t n;
};

MQ_KERNEL(test_squares, Numbers, 256) {
  const std::uint32_t i = block() * threads() + thread();
  if (i < args.n) args.at[i] *= args.at[i];
}

// Each block sorts its part backwards through shared memory.
MQ_KERNEL(test_reverse, Numbers, 256) {
  auto& kept = shared<std::uint32_t[256]>();
  std::uint32_t* const part = args.at + std::size_t{block()} * threads();
  kept[thread()] = part[thread()];
  barrier();
  part[thread()] = kept[threads() - 1 - thread()];
}

MQ_KERNEL(test_warp, Numbers, 128) {
  const std::uint32_t v = args.at[thread()];
  std::uint32_t total = 0;
  const std::uint32_t before = warp_before(v, total);
  const std::uint32_t odd = ballot(v % 2 == 1), in_block = barrier_count(v % 2 == 1);
  const bool ok = warp_sum(v) == total && warp_max(before + v) == total && count_ones(odd) == 16 &&
                  in_block == threads() / 2 && shuffle_down(v, 1) == (lane() < 31 ? v + 1 : v);
  args.at[thread()] = ok ? before : ~0u;
}

// A running sum over blocks, each of which waits for the one with the ticket before its own.
struct Chain {
  std::uint32_t *ticket, *upto;  // zeros
  std::uint32_t* order;
};
MQ_KERNEL(test_chain, Chain, 64) {
  auto& mine = shared<std::uint32_t>();
  if (thread() == 0) mine = atomic_add(args.ticket, 1);
  barrier();
  if (thread() != 0) return;
  std::uint32_t before = 0;
  if (mine > 0)
    while ((before = load_acquire(args.upto + mine - 1)) == 0) pause();
  args.order[mine] = block();
  store_release(args.upto + mine, before + 1);
}

MQ_KERNEL(test_divergent, Numbers, 64) {
  if (lane() < 16) args.at[0] = ballot(true);
}
MQ_KERNEL(test_forever, Numbers, 32) {
  while (load_acquire(args.at) == 0) pause();
}

MQ_KERNEL(test_shared, Numbers, 32) {
  auto& kept = shared<std::uint32_t[256]>();  // 1 KiB
  kept[thread()] = args.n;
}

class Simt : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    set_order(GetParam());
    clear_error();
  }
  void TearDown() override { set_order(0); }
};
INSTANTIATE_TEST_SUITE_P(Orders, Simt, ::testing::Values(0, 1, 2, 3, 7));

TEST_P(Simt, BlocksAndBarriers) {
  std::vector<std::uint32_t> v(1000), expected(1000);
  std::iota(v.begin(), v.end(), 0u);
  for (std::uint32_t i = 0; i < 1000; ++i) expected[i] = i * i;
  launcher()(names::test_squares, 4, 256, 0, Numbers{v.data(), 1000});
  EXPECT_EQ(v, expected);
  launcher()(names::test_reverse, 5, 192, 0, Numbers{v.data(), 960});
  for (std::size_t i = 0; i < 960; ++i) EXPECT_EQ(v[i], expected[i / 192 * 192 + 191 - i % 192]);
  EXPECT_STREQ(error(), "");
}

TEST_P(Simt, Warps) {
  std::vector<std::uint32_t> v(128);
  std::iota(v.begin(), v.end(), 0u);
  launcher()(names::test_warp, 1, 128, 0, Numbers{v.data(), 128});
  std::uint32_t before = 0;
  for (std::uint32_t i = 0; i < 128; ++i) {
    if (i % 32 == 0) before = 0;
    EXPECT_EQ(v[i], before);
    before += i;
  }
  EXPECT_STREQ(error(), "");
}

TEST_P(Simt, BlocksWaitForOthers) {
  std::uint32_t ticket = 0;
  std::vector<std::uint32_t> upto(100), order(100);
  launcher()(names::test_chain, 100, 64, 0, Chain{&ticket, upto.data(), order.data()});
  EXPECT_STREQ(error(), "");
  EXPECT_EQ(upto.back(), 100u);
  std::vector<std::uint32_t> blocks(100);
  std::iota(blocks.begin(), blocks.end(), 0u);
  EXPECT_EQ(order == blocks, GetParam() == 0);
}

TEST_P(Simt, SharedMemory) {
  const auto fits = [&](std::uint32_t dynamic, std::uint32_t most) {
    clear_error();
    launcher(most)(names::test_shared, 3, 32, dynamic, Numbers{nullptr, 1});
    return *error() == '\0';
  };
  EXPECT_TRUE(fits(kSharedLeast - 1024, kSharedLeast));
  EXPECT_FALSE(fits(kSharedLeast - 1008, kSharedLeast));
  EXPECT_FALSE(fits(kSharedLeast + 16, kSharedLeast));
  EXPECT_TRUE(fits(kSharedMost - 1024, kSharedMost));
  EXPECT_FALSE(fits(kSharedMost, kSharedMost));
  clear_error();
}

TEST_P(Simt, Refuses) {
  std::uint32_t zero = 0;
  const auto refused = [&](kernels::Kernel kernel, std::uint32_t block) {
    clear_error();
    launcher()(kernel, 1, block, 0, Numbers{&zero, 1});
    return *error() != '\0';
  };
  EXPECT_TRUE(refused(names::test_divergent, 64));
  EXPECT_TRUE(refused(names::test_forever, 32));
  EXPECT_TRUE(refused(names::test_squares, 512));
  EXPECT_TRUE(refused(names::test_squares, 33));
  EXPECT_TRUE(refused(kernels::Kernel{"test_unknown"}, 32));
  EXPECT_FALSE(refused(names::test_squares, 32));  // and what was refused leaves nothing behind
  EXPECT_TRUE(known("test_squares"));
  EXPECT_FALSE(known("test_unknown"));
}

}  // namespace
}  // namespace mq::simt
