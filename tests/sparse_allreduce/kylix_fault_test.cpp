// Sparse allreduce by a nested butterfly when messages are lost, late, doubled or damaged, and ranks die.
#include <atomic>

#include "tests/sparse_allreduce/kylix_scene.hpp"

// After a time-out the memory of messages is given up for ever, on purpose: AddressSanitizer is told so.
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:mq::Buffer::allocate_zeroed"; }

namespace mq::test {
namespace {

using sparse::Header;
using sparse::KylixTag;

KylixScene scene_of(int ranks, std::vector<int> degrees, int replicas = 1) {
  KylixScene scene{.ranks = ranks, .degrees = std::move(degrees)};
  scene.replicas = replicas;
  fill(scene, Spread::power_law, Spread::uniform, 500, 120, 120, 8, ValueKind::reals);
  return scene;
}

using Results = std::vector<std::vector<std::byte>>;

// What a sound network gives, by rank.
Results sound(const KylixScene& scene) {
  KylixScene single = scene;
  single.ranks /= scene.replicas;
  single.replicas = 1;
  Results results(static_cast<std::size_t>(scene.ranks));
  Loopback net(single.ranks);
  net.run_in_turn([&](Loopback::Rank& comm) {
    Player player(single, comm);
    ASSERT_TRUE(player.fused().ok());
    for (int copy = 0; copy < scene.replicas; ++copy)
      results[static_cast<std::size_t>(comm.rank() + copy * single.ranks)] = player.result();
  });
  return results;
}

int status_tag() { return 100 + static_cast<int>(KylixTag::status); }
int down_tag() { return 100 + static_cast<int>(KylixTag::down); }

// Only messages of reductions, after the routes are made, suffer.
Loopback::Fault in_reductions(Loopback::Fault fault) {
  return [fault = std::move(fault)](int from, int to, int tag, int number) {
    return tag >= down_tag() ? fault(from, to, tag, number) : Loopback::Fate{};
  };
}

TEST(KylixFaults, duplicates_and_reordering_never_change_a_bit) {
  for (const std::vector<int>& degrees : {std::vector{6}, {3, 2}, {2, 2}, {5}})
    for (std::uint64_t seed = 1; seed < 4; ++seed) {
      const KylixScene scene = scene_of(6, degrees);
      const Results want = sound(scene);
      Loopback net(6, seed % 3, {}, Loopback::jumbled(seed, 40, true));
      net.run_in_turn([&](Loopback::Rank& comm) {
        Player player(scene, comm);
        for (int i = 0; i < 6; ++i) {
          const Status status = i == 0 ? player.fused() : player.reduce();
          EXPECT_TRUE(status.ok()) << status.text();
          EXPECT_EQ(player.result(), want[static_cast<std::size_t>(comm.rank())]);
        }
      });
    }
}

TEST(KylixFaults, a_dead_peer_is_an_error_within_the_time_out_on_every_rank_that_depends_on_it) {
  for (int dead = 0; dead < 6; ++dead)
    for (const int from : {0, 14}) {
      KylixScene scene = scene_of(6, {3, 2});
      scene.timeout_s = 0.15;
      const Results want = sound(scene);
      std::atomic<int> failed = 0;
      Loopback net(6, 0, {}, Loopback::dead(dead, from));
      net.run([&](Loopback::Rank& comm) {
        Player player(scene, comm);
        const double start = now_s();
        Status status = player.configure();
        for (int i = 0; i < 3 && status.ok(); ++i) {
          status = player.reduce();
          if (status.ok()) {
            EXPECT_EQ(player.result(), want[static_cast<std::size_t>(comm.rank())]);
          }
        }
        if (status.ok()) return;
        ++failed;
        EXPECT_TRUE(status.code() == Code::timed_out || status.code() == Code::peer_failed) << status.text();
        EXPECT_LT(now_s() - start, 3.0);
      });
      EXPECT_GE(failed, 5) << "rank " << dead << " dead from message " << from;
    }
}

TEST(KylixFaults, a_lost_message_is_an_error_and_never_a_partial_sum) {
  KylixScene scene = scene_of(5, {2, 2});
  scene.timeout_s = 0.3;
  const Results want = sound(scene);
  for (int lost = 0; lost < 12; lost += 2) {
    std::atomic<int> failed = 0, sent = 0;
    Loopback net(5, 0, {}, in_reductions([&](int, int, int, int) {
                   return Loopback::Fate{sent++ == lost ? 0 : 1, 0};
                 }));
    net.run([&](Loopback::Rank& comm) {
      Player player(scene, comm);
      ASSERT_TRUE(player.configure().ok());
      const Status status = player.reduce();
      failed += !status.ok();
      if (status.ok())
        EXPECT_EQ(player.result(), want[static_cast<std::size_t>(comm.rank())]);
      else
        EXPECT_EQ(status.code(), Code::timed_out);
    });
    EXPECT_GE(failed, 1);
  }
}

TEST(KylixFaults, damaged_headers_are_errors_and_nobody_waits) {
  for (int victim = 0; victim < 60; ++victim) {
    KylixScene scene = scene_of(5, {2, 2});
    scene.timeout_s = 2;
    const Results want = sound(scene);
    std::atomic<int> sent = 0, failed = 0;
    std::mt19937_64 random(static_cast<std::uint64_t>(victim));
    Loopback net(5, 0, [&](int, int, int tag, Loopback::Message& message) {
      // If a rank does not get the common status, the others cannot know it: they believe that all is well.
      if (tag == status_tag() || sent++ != victim * 2) return;
      if (tag == 100 || tag == 103) {  // list statistics and lists: cut short
        message.resize(message.size() / 2);
      } else if (victim % 3 == 0) {
        message.resize(message.size() - 1);
      } else if (victim % 3 == 1) {
        message.resize(message.size() + 1);
      } else {
        for (std::size_t i = 0; i < sizeof(Header) && i < message.size(); ++i)
          message[i] = static_cast<std::byte>(random());
      }
    });
    net.run([&](Loopback::Rank& comm) {
      Player player(scene, comm);
      Status status = player.configure();
      if (status.ok()) status = player.reduce();
      failed += !status.ok();
      if (status.ok()) {
        EXPECT_EQ(player.result(), want[static_cast<std::size_t>(comm.rank())]);
      }
      EXPECT_NE(status.code(), Code::timed_out) << victim << ": " << status.text();
    });
    EXPECT_GE(failed, victim * 2 < sent ? 1 : 0) << victim;
  }
}

TEST(KylixFaults, random_bytes_in_any_message_crash_nothing) {
  for (int victim = 0; victim < 150; victim += 2) {
    KylixScene scene = scene_of(5, {2, 2});
    scene.timeout_s = 0.1;  // a message may pass for one of an earlier run, and is missing then
    std::atomic<int> sent = 0;
    std::mt19937_64 random(static_cast<std::uint64_t>(victim));
    Loopback net(5, 0, [&](int, int, int, Loopback::Message& message) {
      if (sent++ != victim || message.empty()) return;
      for (int i = 0; i < 4; ++i) message[random() % message.size()] = static_cast<std::byte>(random());
    });
    net.run([&](Loopback::Rank& comm) {
      Player player(scene, comm);
      if (player.configure().ok()) (void)player.reduce();
    });
  }
}

TEST(KylixFaults, routes_are_made_by_all_ranks_or_by_none) {
  for (int victim = 0; victim < 100; ++victim) {
    const KylixScene scene = scene_of(5, victim % 2 ? std::vector{2, 2} : std::vector<int>{});
    std::atomic<int> sent = 0, failed = 0;
    Loopback net(5, 0, [&](int, int, int tag, Loopback::Message& message) {
      if (tag == status_tag() || sent++ != victim) return;
      message.resize(message.size() / 3);
    });
    net.run([&](Loopback::Rank& comm) {
      Player player(scene, comm);
      failed += !player.configure().ok();
    });
    EXPECT_EQ(failed, victim < sent ? 5 : 0) << victim;
  }
}

// All runs of one rank: how many succeeded with the bits that are due.
int runs_of(const KylixScene& scene, Loopback::Rank& comm, const Results& want, int runs) {
  Player player(scene, comm);
  const Status status = player.configure();
  EXPECT_TRUE(status.ok()) << status.text();
  int good = 0;
  for (int i = 0; i < runs; ++i) {
    if (const Status s = player.reduce(); !s.ok()) {
      player.reduction.leak();
      return good;
    }
    EXPECT_EQ(player.result(), want[static_cast<std::size_t>(comm.rank())]);
    ++good;
  }
  player.settle(0.005);  // a dead rank sends nothing
  return good;
}

TEST(KylixReplicas, leave_nothing_under_way_when_all_is_well) {
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    const KylixScene scene = scene_of(8, {2, 2}, 2);
    const Results want = sound(scene);
    Loopback net(8, seed);
    net.run([&](Loopback::Rank& comm) {
      Player player(scene, comm);
      ASSERT_TRUE(player.configure().ok());
      for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(player.reduce().ok());
        EXPECT_EQ(player.result(), want[static_cast<std::size_t>(comm.rank())]);
      }
      player.settle(10);
      EXPECT_TRUE(player.reduction.quiet());
    });
    EXPECT_EQ(net.leaked(), 0u);
  }
}

TEST(KylixReplicas, any_single_death_changes_no_bit_on_the_survivors) {
  for (const std::vector<int>& degrees : {std::vector{2, 2}, {4}, {3}}) {
    KylixScene scene = scene_of(8, degrees, 2);
    scene.timeout_s = 10;
    const Results want = sound(scene);
    for (int dead = 0; dead < 8; ++dead)
      for (const int after : {0, 1, 4, 9}) {
        std::atomic<int> sent = 0;
        Loopback net(8, 0, {}, in_reductions([&, dead, after](int from, int, int, int) {
                       return Loopback::Fate{from == dead && sent++ >= after ? 0 : 1, 0};
                     }));
        net.run([&](Loopback::Rank& comm) {
          const int good = runs_of(scene, comm, want, 5);
          if (comm.rank() != dead) {
            EXPECT_EQ(good, 5) << comm.rank();
          }
        });
      }
  }
}

TEST(KylixReplicas, a_death_with_three_replicas_and_more_deaths_change_no_bit) {
  KylixScene scene = scene_of(12, {2, 2}, 3);
  scene.timeout_s = 10;
  const Results want = sound(scene);
  Loopback net(12, 5, {}, in_reductions([](int from, int, int, int) {
                 return Loopback::Fate{from == 1 || from == 9 || from == 2 ? 0 : 1, 0};  // 1, 5 and 9 are one
               }));
  net.run([&](Loopback::Rank& comm) { EXPECT_EQ(runs_of(scene, comm, want, 5), 5); });
}

TEST(KylixReplicas, a_slow_rank_holds_nobody_up_and_changes_no_bit) {
  KylixScene scene = scene_of(8, {2, 2}, 2);
  scene.timeout_s = 10;
  const Results want = sound(scene);
  for (int slow = 0; slow < 8; slow += 3) {
    std::atomic<bool> others_done = false;
    std::atomic<int> done = 0;
    Loopback net(8);
    net.run([&](Loopback::Rank& comm) {
      Player player(scene, comm);
      ASSERT_TRUE(player.configure().ok());
      if (comm.rank() == slow)
        while (!others_done) std::this_thread::yield();  // begins when the others have made all their runs
      for (int i = 0; i < 6; ++i) {
        const Status status = player.reduce();
        ASSERT_TRUE(status.ok()) << status.text();
        EXPECT_EQ(player.result(), want[static_cast<std::size_t>(comm.rank())]);
      }
      if (++done == 7) others_done = true;
      player.settle(10);
      EXPECT_TRUE(player.reduction.quiet());
    });
    EXPECT_EQ(net.leaked(), 0u);
  }
}

// As with long messages of MPI, which stay with the sender until they are received.
TEST(KylixReplicas, a_rank_that_takes_no_messages_holds_nobody_up) {
  KylixScene scene = scene_of(8, {2, 2}, 2);
  scene.timeout_s = 20;
  const Results want = sound(scene);
  for (int gone = 0; gone < 8; gone += 3) {
    Loopback net(8);
    net.set_rendezvous();
    const double start = now_s();
    net.run([&](Loopback::Rank& comm) {
      if (comm.rank() != gone) {
        EXPECT_EQ(runs_of(scene, comm, want, 12), 12);
        return;
      }
      Player player(scene, comm);
      EXPECT_TRUE(player.configure().ok());
    });
    EXPECT_LT(now_s() - start, 5);
  }
}

TEST(KylixReplicas, a_rank_too_far_behind_gives_up_and_the_others_do_not_notice) {
  KylixScene scene = scene_of(8, {2, 2}, 2);
  scene.timeout_s = 1.5;
  const Results want = sound(scene);
  std::atomic<int> done = 0;
  Loopback net(8);
  net.set_rendezvous();
  net.run([&](Loopback::Rank& comm) {
    Player player(scene, comm);
    ASSERT_TRUE(player.configure().ok());
    if (comm.rank() == 5)
      while (done < 7) std::this_thread::yield();
    Status status;
    int good = 0;
    for (; good < 12 && status.ok(); ++good) {
      status = player.reduce();
      if (status.ok()) {
        EXPECT_EQ(player.result(), want[static_cast<std::size_t>(comm.rank())]);
      }
    }
    if (comm.rank() != 5) {
      EXPECT_TRUE(status.ok()) << status.text();
      ++done;
    } else {
      // It finds messages of later runs, or none if the others make no more runs.
      EXPECT_TRUE(status.code() == Code::bad_frame || status.code() == Code::timed_out) << status.text();
      EXPECT_GE(good, 3);  // that many messages were kept for it
    }
    player.settle(0.05);
  });
}

TEST(KylixReplicas, leave_nothing_under_way_with_long_messages_either) {
  const KylixScene scene = scene_of(8, {2, 2}, 2);
  const Results want = sound(scene);
  Loopback net(8, 3);
  net.set_rendezvous();
  net.run([&](Loopback::Rank& comm) {
    Player player(scene, comm);
    ASSERT_TRUE(player.configure().ok());
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(player.reduce().ok());
      EXPECT_EQ(player.result(), want[static_cast<std::size_t>(comm.rank())]);
    }
    player.settle(10);
    EXPECT_TRUE(player.reduction.quiet());
  });
  EXPECT_EQ(net.leaked(), 0u);
}

TEST(KylixReplicas, duplicates_and_reordering_never_change_a_bit) {
  for (std::uint64_t seed = 1; seed < 8; ++seed) {
    const KylixScene scene = scene_of(8, {2, 2}, 2);
    const Results want = sound(scene);
    Loopback net(8, seed % 2, {}, in_reductions(Loopback::jumbled(seed, 60, true)));
    net.run([&](Loopback::Rank& comm) { EXPECT_EQ(runs_of(scene, comm, want, 6), 6); });
  }
}

TEST(KylixReplicas, other_lists_than_the_replica_has_are_an_error_everywhere) {
  KylixScene scene = scene_of(6, {3}, 2);
  scene.shares[4].in.push_back(100000);
  std::atomic<int> failed = 0;
  Loopback net(6);
  net.run([&](Loopback::Rank& comm) {
    Player player(scene, comm);
    failed += !player.configure().ok();
  });
  EXPECT_EQ(failed, 6);
  EXPECT_EQ(net.leaked(), 0u);
}

TEST(KylixReplicas, both_copies_dead_is_an_error_within_the_time_out) {
  KylixScene scene = scene_of(6, {3}, 2);
  scene.timeout_s = 0.3;
  std::atomic<int> failed = 0;
  Loopback net(6, 0, {}, in_reductions([](int from, int, int, int) {
                 return Loopback::Fate{from % 3 == 1 ? 0 : 1, 0};
               }));
  net.run([&](Loopback::Rank& comm) {
    Player player(scene, comm);
    ASSERT_TRUE(player.configure().ok());
    const Status status = player.reduce();
    failed += status.code() == Code::timed_out;
    player.reduction.leak();
  });
  EXPECT_GE(failed, 4);
}

}  // namespace
}  // namespace mq::test
