// The agreement that opens a call, on 1 to 33 ranks (threads): equal calls pass, any difference is the same
// error everywhere, foreign messages are errors.

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <string>
#include <vector>

#include "mpi_quant/engine/agree.hpp"
#include "tests/engine/loopback.hpp"

namespace mq::test {
namespace {

std::vector<Status> agree_all(const std::vector<Signature>& signatures, const Loopback::Tamper& tamper = {}) {
  Loopback net(static_cast<int>(signatures.size()), 0, tamper);
  std::vector<Status> status(signatures.size());
  net.run([&](Loopback::Rank& comm) {
    std::uint64_t messages = 0;
    Agreement<Loopback::Rank> agreement;
    const auto r = static_cast<std::size_t>(comm.rank());
    EXPECT_TRUE(
        agreement
            .start(comm, signatures[r],
                   {.measured = {static_cast<double>(r), 0, 0, 100.0 - r}, .calls = 100 - r, .seed = r % 3},
                   5)
            .ok());
    for (bool moved = false; !agreement.done(); comm.idle())
      EXPECT_TRUE(agreement.advance(comm, messages, moved).ok());
    status[r] = agreed_status(agreement.summary());
    if (status[r].ok()) {
      const Maxima& maxima = agreement.summary().maxima;
      EXPECT_EQ(maxima.measured, (kernels::Measured{static_cast<double>(comm.size() - 1), 0, 0, 100}));
      EXPECT_EQ(maxima.calls, 100u);
      EXPECT_EQ(maxima.seed, static_cast<std::uint64_t>(std::min(comm.size() - 1, 2)));
    }
  });
  EXPECT_EQ(net.leaked(), 0u);
  return status;
}

TEST(Agree, equal_calls_pass_on_any_number_of_ranks) {
  for (int p = 1; p <= 33; ++p)
    for (const Status& s : agree_all(std::vector<Signature>(static_cast<std::size_t>(p))))
      EXPECT_TRUE(s.ok()) << s.text();
}

TEST(Agree, a_difference_in_any_field_on_any_rank_is_the_same_error_everywhere) {
  for (const std::size_t p : {2, 3, 5, 8})
    for (std::size_t odd = 0; odd < p; ++odd)
      for (int field = 0; field < 9; ++field) {
        Signature base{1000, 5, 3, 3, 1, 2, 0, 0, 0, 0};
        std::vector<Signature> all(p, base);
        Signature& s = all[odd];
        if (field == 0) s.count = 1001;
        if (field == 1) s.params_hash = 6;
        if (field == 2) s.sequence = 4;
        if (field == 3) s.codec = 2;
        if (field == 4) s.plan = 2;
        if (field == 5) s.element = 1;
        if (field == 6) s.key = 1;
        if (field == 7) s.error_code = static_cast<std::uint16_t>(Code::no_memory);
        if (field == 8) s.memory = 3;
        const std::vector<Status> status = agree_all(all);
        for (const Status& got : status) {
          EXPECT_EQ(got.code(), field == 7 ? Code::peer_failed : Code::mismatch) << got.text();
          EXPECT_EQ(got.text(), status[0].text());
          EXPECT_NE(got.text().find("rank " + std::to_string(odd == 0 ? 1 : odd)), std::string::npos)
              << got.text();
          EXPECT_NE(got.text().find("rank 0"), std::string::npos) << got.text();
        }
      }
}

TEST(Agree, a_foreign_message_is_an_error_on_all_ranks) {
  for (const std::size_t p : {2, 3, 5, 8})
    for (const bool truncate : {false, true}) {
      std::atomic<int> messages = 0;
      const auto status = agree_all(std::vector<Signature>(p), [&](int, int, int, Loopback::Message& m) {
        if (messages++ != 0) return;
        if (truncate)
          m.resize(10);
        else
          m[0] ^= std::byte{0xff};
      });
      int failed = 0;
      for (const Status& s : status) failed += !s.ok();
      // The first round reaches everyone; a message of the last round is seen by its receiver alone.
      EXPECT_GE(failed, 1) << p;
    }
}

TEST(Agree, an_error_is_never_without_a_text) {
  for (int code = 1; code < kCodes; ++code) {
    EXPECT_FALSE(Status(static_cast<Code>(code), {}).text().empty()) << code;
    const Status no_memory =
        status_of(static_cast<Code>(code), []() -> std::string { throw std::bad_alloc(); });
    EXPECT_EQ(no_memory.text(), "out of memory") << code;
  }
  EXPECT_TRUE(Status().text().empty());
}

TEST(Agree, ranks_that_yield_split_over_how_to_reduce_and_over_nothing_else) {
  Signature compressed{1000, 5, 3, 3, 1, 2, 0, 1, 0, 0}, exact{1000, 0, 3, 0, 0, 0, 0, 1, 0, 0};
  const auto summary = [](const Signature& a, const Signature& b) {
    Hello low, high;
    low.first = a;
    high.first_rank = 1;
    high.first = b;
    return merge(low, high);
  };
  EXPECT_TRUE(splits(summary(compressed, exact)));
  EXPECT_TRUE(splits(summary(exact, compressed)));
  EXPECT_FALSE(splits(summary(compressed, compressed)));
  Signature other_params = compressed;
  other_params.params_hash = 6;
  EXPECT_TRUE(splits(summary(compressed, other_params)));
  for (int field = 0; field < 6; ++field) {
    Signature s = exact;
    if (field == 0) s.count = 1001;
    if (field == 1) s.sequence = 4;
    if (field == 2) s.element = 1;
    if (field == 3) s.kind = kBlocking;
    if (field == 4) s.key = 1;
    if (field == 5) s.error_code = static_cast<std::uint16_t>(Code::no_memory);
    EXPECT_FALSE(splits(summary(compressed, s))) << field;
    EXPECT_FALSE(splits(summary(s, compressed))) << field;
    EXPECT_FALSE(agreed_status(summary(s, compressed)).ok()) << field;
  }
}

// Calls by auto: two that split, and a third with another limit, in any order.
TEST(Agree, a_third_rank_whose_call_is_another_one_is_not_hidden_by_two_that_split) {
  Signature runs{1000, with_limit(5, 1), 3, 3, 1, 2, 0, kChosen, 0, 0}, leaves{1000, with_limit(0, 1), 3};
  leaves.kind = kChosen;
  Signature other = runs;
  other.params_hash = with_limit(5, 2);
  std::vector<Signature> calls{runs, leaves, other};
  std::vector<std::size_t> order{0, 1, 2};
  do {
    std::array<Hello, 3> one;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      one[rank].first_rank = static_cast<int>(rank);
      one[rank].first = calls[order[rank]];
    }
    for (const auto& [a, b, c] : {std::array<std::size_t, 3>{0, 1, 2}, {1, 2, 0}, {0, 2, 1}})
      for (const Hello& all : {merge(merge(one[a], one[b]), one[c]), merge(one[c], merge(one[b], one[a]))}) {
        EXPECT_FALSE(splits(all));
        EXPECT_FALSE(agreed_status(all).ok());
        EXPECT_EQ(all.first_rank, 0);
      }
  } while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace
}  // namespace mq::test
