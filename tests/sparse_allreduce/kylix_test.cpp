// Sparse allreduce by a nested butterfly, without faults: results, bits, bytes.
#include "tests/sparse_allreduce/kylix_scene.hpp"

namespace mq::test {
namespace {

using kernels::Element;
using sparse::Header;

std::string describe(const KylixScene& scene, const std::string& more) {
  return std::to_string(scene.ranks) + " ranks, " + text(scene.degrees) + ", " +
         std::string(kernels::name(scene.element)) + ", op " + std::to_string(static_cast<int>(scene.op)) +
         ", stride " + std::to_string(scene.stride) + ", " + more;
}

// Fused, and by routes twice, and by routes that were made alone: all results by rank, all equal.
std::vector<std::vector<std::byte>> play(const KylixScene& scene, std::uint64_t delay_seed,
                                         const std::string& what) {
  std::vector<std::vector<std::byte>> results(static_cast<std::size_t>(scene.ranks));
  Loopback net(scene.ranks, delay_seed);
  net.run_in_turn([&](Loopback::Rank& comm) {
    Player player(scene, comm);
    auto& result = results[static_cast<std::size_t>(comm.rank())];
    const Status fused = player.fused();
    EXPECT_TRUE(fused.ok()) << what << ": " << fused.text();
    if (!fused.ok()) return;
    result = player.result();
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(player.reduce().ok()) << what;
      EXPECT_EQ(player.result(), result) << what;
    }
    Player other(scene, comm);
    EXPECT_TRUE(other.configure().ok()) << what;
    EXPECT_TRUE(other.reduce().ok()) << what;
    EXPECT_EQ(other.result(), result) << what;
  });
  EXPECT_EQ(net.leaked(), 0u) << what;
  return results;
}

void check(const KylixScene& scene, const std::string& more, std::uint64_t delay_seed = 0) {
  const std::string what = describe(scene, more);
  const auto results = play(scene, delay_seed, what);
  for (int rank = 0; rank < scene.ranks; ++rank) {
    const auto want = as_bytes(scene, expected(scene, rank));
    ASSERT_EQ(results[static_cast<std::size_t>(rank)], want) << what << ", rank " << rank;
  }
}

TEST(Kylix, equals_the_dense_reduction_for_all_degrees_and_spreads) {
  std::uint64_t seed = 1;
  for (int ranks = 1; ranks <= 17; ++ranks)
    for (const std::vector<int>& degrees : degree_vectors(ranks)) {
      if (ranks > 9 && ++seed % 5 != 0) continue;  // a sample of the many
      KylixScene scene{.ranks = ranks, .degrees = degrees};
      const auto spread = kSpreads[seed % 6], wanted = kSpreads[seed / 6 % 6];
      scene.element = seed % 2 != 0 ? Element::f64 : Element::f32;
      scene.op = std::array{Op::sum, Op::min, Op::max}[seed % 3];
      scene.stride = seed % 4 == 0 ? 3 : 1;
      const std::uint64_t sizes[] = {20, 300, 100000}, counts[] = {7, 60, 200};
      fill(scene, spread, wanted, sizes[seed % 3], counts[seed / 2 % 3], counts[seed / 3 % 3], seed);
      check(scene, name(spread) + " to " + name(wanted), seed % 2 * seed);
      if (HasFatalFailure()) return;
      ++seed;
    }
}

TEST(Kylix, equals_the_dense_reduction_for_all_types_operations_and_strides) {
  for (const Spread spread : kSpreads)
    for (const Element element : {Element::f32, Element::f64})
      for (const Op op : {Op::sum, Op::min, Op::max})
        for (const std::size_t stride : {1u, 3u}) {
          KylixScene scene{.ranks = 6, .degrees = {3, 2}, .element = element, .op = op, .stride = stride};
          fill(scene, spread, Spread::uniform, 500, 100, 100, 5);
          check(scene, name(spread), 3);
          if (HasFatalFailure()) return;
        }
}

TEST(Kylix, serves_many_ranks) {
  for (const std::vector<int>& degrees : {std::vector{32}, {4, 4, 2}, {2, 2, 2, 2, 2}, {8, 3}, {5, 5}}) {
    KylixScene scene{.ranks = 32, .degrees = degrees};
    fill(scene, Spread::power_law, Spread::power_law, 3000, 300, 300, 9);
    check(scene, "power law");
  }
}

TEST(Kylix, chooses_degrees_by_itself) {
  for (const int ranks : {1, 2, 3, 7, 12}) {
    KylixScene scene{.ranks = ranks};
    fill(scene, Spread::power_law, Spread::uniform, 3000, 300, 300, 9);
    check(scene, "power law");
  }
}

TEST(Kylix, serves_empty_lists) {
  for (const bool out : {false, true})
    for (const bool in : {false, true}) {
      KylixScene scene{.ranks = 5, .degrees = {2, 2}};
      fill(scene, Spread::uniform, Spread::uniform, 100, out ? 20 : 0, in ? 20 : 0, 3);
      check(scene, "empty");
      fill(scene, Spread::uniform, Spread::uniform, 100, 20, 20, 3);
      for (std::size_t r = 0; r < 5; r += 2) {
        if (out) scene.shares[r].out.clear(), scene.shares[r].values.clear();
        if (in) scene.shares[r].in.clear();
      }
      check(scene, "some empty");
    }
}

TEST(Kylix, gives_nothing_for_indices_that_nobody_has) {
  for (const Op op : {Op::sum, Op::min, Op::max}) {
    KylixScene scene{.ranks = 4, .degrees = {2, 2}, .op = op};
    for (int r = 0; r < 4; ++r) scene.shares.push_back({{r}, {0, 3, 4, 1000}, {-1.0}});
    check(scene, "absent");
  }
}

TEST(Kylix, keeps_negative_zero_and_nan) {
  for (const Op op : {Op::sum, Op::min, Op::max}) {
    KylixScene scene{.ranks = 3, .degrees = {3}, .op = op};
    const double nan = std::nan("");
    for (int r = 0; r < 3; ++r) scene.shares.push_back({{1, 2}, {1, 2}, {-0.0, r == 1 ? nan : 1.0}});
    const auto results = play(scene, 0, "specials");
    for (const auto& result : results) {
      float got[2];
      std::memcpy(got, result.data(), sizeof got);
      EXPECT_TRUE(std::signbit(got[0]) && got[0] == 0);
      EXPECT_TRUE(std::isnan(got[1]));
    }
  }
}

TEST(Kylix, serves_unsorted_lists_with_duplicates) {
  std::mt19937_64 random(4);
  for (const std::vector<int>& degrees : {std::vector{6}, {3, 2}, {2, 2}, {5}}) {
    KylixScene scene{.ranks = 6, .degrees = degrees, .stride = 2};
    for (int r = 0; r < 6; ++r) {
      Share share;
      for (int i = 0; i < 150; ++i) share.out.push_back(static_cast<std::int64_t>(random() % 90));
      for (int i = 0; i < 150; ++i) share.in.push_back(static_cast<std::int64_t>(random() % 100));
      share.values = sparse_values<double>(ValueKind::integers, 300, 1, r);
      scene.shares.push_back(share);
    }
    check(scene, "duplicates");
  }
}

TEST(Kylix, combines_duplicates_in_the_order_they_stand_in) {
  KylixScene scene{.ranks = 1, .degrees = {1}};
  scene.shares.push_back({{5, 5, 2, 5}, {5, 2}, {1e8, 1.0, 7.0, -1e8}});
  const auto results = play(scene, 0, "order");
  float got[2];
  std::memcpy(got, results[0].data(), sizeof got);
  EXPECT_EQ(got[0], (1e8f + 1.0f) - 1e8f);
  EXPECT_EQ(got[1], 7.0f);
}

TEST(Kylix, serves_the_largest_indices) {
  constexpr std::int64_t top = std::numeric_limits<std::int64_t>::max();
  for (const std::vector<int>& degrees : {std::vector{4}, {2, 2}, {3}}) {
    KylixScene scene{.ranks = 4, .degrees = degrees};
    for (int r = 0; r < 4; ++r)
      scene.shares.push_back({{0, r + 1, top - 5 + r, top}, {0, top - 4, top - 1, top}, {1, 2, 3, 4}});
    check(scene, "near 2^63");
  }
}

TEST(Kylix, gives_the_same_bits_whatever_the_delays_and_on_all_ranks) {
  for (const std::vector<int>& degrees : {std::vector{7}, {2, 3}, {3, 2}, {2, 2}}) {
    KylixScene scene{.ranks = 7, .degrees = degrees};
    fill(scene, Spread::power_law, Spread::identical, 400, 150, 120, 2, ValueKind::reals);
    const auto results = play(scene, 0, "delays");
    for (const auto& result : results) EXPECT_EQ(result, results[0]);
    for (std::uint64_t seed = 1; seed < 6; ++seed) EXPECT_EQ(play(scene, seed, "delays"), results);
  }
}

TEST(Kylix, reduces_changing_values_by_the_same_routes) {
  KylixScene scene{.ranks = 6, .degrees = {3, 2}};
  fill(scene, Spread::correlated, Spread::uniform, 400, 150, 120, 2);
  std::vector<KylixScene> scenes;
  for (std::uint64_t run = 0; run < 8; ++run) {
    KylixScene next = scene;
    for (int r = 0; r < 6; ++r) {
      Share& share = next.shares[static_cast<std::size_t>(r)];
      share.values = sparse_values<double>(ValueKind::integers, share.out.size(), run + 50, r);
    }
    scenes.push_back(next);
  }
  Loopback net(6, 17);
  net.run([&](Loopback::Rank& comm) {
    Player player(scene, comm);
    EXPECT_TRUE(player.configure().ok());
    for (const KylixScene& now : scenes) {
      player.set_values(now.shares[static_cast<std::size_t>(comm.rank())].values);
      EXPECT_TRUE(player.reduce().ok());
      EXPECT_EQ(player.result(), as_bytes(now, expected(now, comm.rank())));
    }
  });
  EXPECT_EQ(net.leaked(), 0u);
}

TEST(Kylix, sends_exactly_the_values_that_the_layers_hold) {
  for (const std::vector<int>& degrees : {std::vector{8}, {4, 2}, {2, 2, 2}, {5}, {3, 2}}) {
    KylixScene scene{.ranks = 8, .degrees = degrees, .element = Element::f64, .stride = 3};
    fill(scene, Spread::power_law, Spread::uniform, 2000, 300, 300, 6);
    // By sets: what each rank holds after each layer, from the bounds of its parts alone.
    Loopback net(8);
    net.run([&](Loopback::Rank& comm) {
      Player player(scene, comm);
      ASSERT_TRUE(player.configure().ok());
      ASSERT_TRUE(player.reduce().ok());
      std::uint64_t entries = 0, messages = 0, received = 0;
      for (const sparse::Layer& layer : player.kylix.layers)
        for (std::size_t j = 0; j < layer.parts.size(); ++j) {
          if (j == layer.me) continue;
          entries += layer.parts[j].out_count + layer.sources[j].in.size();
          received += layer.parts[j].in_count + layer.sources[j].out.size();
          messages += layer.parts[j].out_count > 0 ? 1u : 0u;
          messages += layer.sources[j].in.empty() ? 0u : 1u;
        }
      const Traffic& traffic = player.reduction.traffic();
      EXPECT_EQ(traffic.messages_sent, messages);
      EXPECT_EQ(traffic.sent_bytes, entries * 24 + messages * sizeof(Header));
      EXPECT_GE(traffic.received_bytes, received * 24);
      std::uint64_t down = 0, up = 0;
      for (const sparse::LayerTraffic& t : traffic_of(player.kylix))
        down += t.down_entries, up += t.up_entries;
      EXPECT_EQ(down + up, entries);
      // Layer 0: all of the list but the own part.
      const sparse::Layer& first = player.kylix.layers[0];
      std::uint64_t all = 0;
      for (const sparse::Part& part : first.parts) all += part.out_count;
      EXPECT_EQ(all, scene.shares[static_cast<std::size_t>(comm.rank())].out.size());
    });
  }
}

// Identical lists of n: (d - 1) / d of n at the first layer, of n / d_0 at the second ..., down and up.
TEST(Kylix, sends_the_bytes_of_the_formula_for_identical_lists) {
  for (const std::vector<int>& degrees : {std::vector{8}, {4, 2}, {2, 2, 2}, {2, 4}}) {
    KylixScene scene{.ranks = 8, .degrees = degrees};
    const std::size_t n = 8 * 512;
    for (int r = 0; r < 8; ++r) {
      Share share;
      for (std::size_t i = 0; i < n; ++i) share.out.push_back(static_cast<std::int64_t>(i));
      share.in = share.out;
      share.values.assign(n, 1.0);
      scene.shares.push_back(share);
    }
    std::uint64_t entries = 0, held = n, messages = 0;
    for (const int d : degrees) {
      const auto degree = static_cast<std::uint64_t>(d);
      entries += held * (degree - 1) / degree;
      held /= degree;
      messages += degree - 1;
    }
    std::vector<std::uint64_t> sent(8);
    Loopback net(8);
    net.run([&](Loopback::Rank& comm) {
      Player player(scene, comm);
      ASSERT_TRUE(player.configure().ok());
      ASSERT_TRUE(player.reduce().ok());
      sent[static_cast<std::size_t>(comm.rank())] = player.reduction.traffic().sent_bytes;
    });
    std::uint64_t all = 0;
    for (const std::uint64_t bytes : sent) {
      // Ranges are equal to a few samples.
      EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(2 * (entries * 4 + messages * 48)),
                  0.03 * static_cast<double>(2 * entries * 4));
      all += bytes;
    }
    EXPECT_NEAR(static_cast<double>(all), static_cast<double>(8 * 2 * (entries * 4 + messages * 48)),
                0.01 * static_cast<double>(8 * 2 * entries * 4));
  }
}

TEST(Kylix, balances_ranges_of_skewed_lists) {
  KylixScene scene{.ranks = 16, .degrees = {4, 4}};
  fill(scene, Spread::power_law, Spread::power_law, 1u << 20, 4000, 4000, 6);
  std::vector<double> received(16);
  Loopback net(16);
  net.run([&](Loopback::Rank& comm) {
    Player player(scene, comm);
    ASSERT_TRUE(player.configure().ok());
    ASSERT_TRUE(player.reduce().ok());
    const auto& t = player.reduction.traffic();
    received[static_cast<std::size_t>(comm.rank())] = static_cast<double>(t.received_bytes + t.sent_bytes);
  });
  double sum = 0;
  for (const double r : received) sum += r;
  for (const double r : received) EXPECT_LT(r, 1.3 * sum / 16);
}

TEST(Kylix, knows_its_lists_again) {
  KylixScene scene{.ranks = 2, .degrees = {2}};
  scene.shares = {{{3, 1, 3}, {1, 2}, {1, 2, 3}}, {{5, 6}, {1}, {1, 2}}};
  Loopback net(2);
  net.run([&](Loopback::Rank& comm) {
    Player player(scene, comm);
    ASSERT_TRUE(player.configure().ok());
    Share share = scene.shares[static_cast<std::size_t>(comm.rank())];
    EXPECT_TRUE(same_lists(player.kylix, share.out, share.in));
    share.out[0]++;
    EXPECT_FALSE(same_lists(player.kylix, share.out, share.in));
    share.out[0]--;
    share.in.push_back(7);
    EXPECT_FALSE(same_lists(player.kylix, share.out, share.in));
    share.in.pop_back();
    std::swap(share.out[0], share.out[1]);
    EXPECT_FALSE(same_lists(player.kylix, share.out, share.in));
  });
}

TEST(Butterfly, says_why_degrees_cannot_be_used) {
  const auto reason = [](std::vector<int> degrees, int ranks) {
    return sparse::check_degrees(degrees, ranks).text();
  };
  EXPECT_EQ(reason({8}, 8), "");
  EXPECT_EQ(reason({2, 3}, 8), "");
  EXPECT_EQ(reason({1}, 1), "");
  EXPECT_NE(reason({}, 8).find("no degrees"), std::string::npos);
  EXPECT_NE(reason({2, 2}, 8).find("more than half"), std::string::npos);
  EXPECT_NE(reason({1}, 2).find("more than half"), std::string::npos);
  EXPECT_NE(reason({3, 3}, 8).find("more than the number"), std::string::npos);
  EXPECT_NE(reason({4, 1, 2}, 8).find("less than 2"), std::string::npos);
  EXPECT_NE(reason({-4, -2}, 8).find("less than 2"), std::string::npos);
  EXPECT_NE(reason({65536, 65536, 65536, 65536}, 8).find("more than the number"), std::string::npos);
}

}  // namespace
}  // namespace mq::test
