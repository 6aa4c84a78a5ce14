// mpiq-bench reduce_scatter, allgather, bcast and reduce without MPI: the command line, points and keys, and
// the shares of ranks.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/options.hpp"
#include "bench/parts.hpp"
#include "bench/points.hpp"

namespace mq::bench {
namespace {

CommandLine parse(std::vector<const char*> words) {
  words.insert(words.begin(), "mpiq-bench");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

TEST(Halves, each_collective_has_a_subcommand_and_is_told_from_the_others) {
  std::set<std::string> names, configurations, keys;
  for (const mq::Collective collective : kMeasured) {
    const std::string word(name(collective));
    const CommandLine line = parse({word.c_str(), "--sizes", "1M", "--methods", "mpi,int8"});
    ASSERT_TRUE(line.run) << line.err;
    EXPECT_EQ(line.options.collective, collective);
    names.emplace(collective_name(line.options));
    configurations.insert(config_json(line.options));
    const auto points = make_points(line.options, 2);
    ASSERT_TRUE(points.ok());
    keys.insert(hash128(variables_json(line.options, points->front(), points->front().methods[0], {1, 2})));
  }
  EXPECT_EQ(names, (std::set<std::string>{"allreduce", "reduce_scatter", "allgather", "bcast", "reduce"}));
  EXPECT_EQ(configurations.size(), 5U)
      << "files are never mixed, though feedback is the only other difference";
  EXPECT_EQ(keys.size(), 5U);
  EXPECT_EQ(config_json(parse({"allreduce"}).options).find("collective"), std::string::npos)
      << "files from before can be continued";
}

TEST(Halves, an_allgather_keeps_residuals_only_if_told) {
  EXPECT_TRUE(parse({"reduce_scatter"}).options.feedback);
  EXPECT_FALSE(parse({"allgather"}).options.feedback);
  EXPECT_TRUE(parse({"allgather", "--feedback"}).options.feedback);
  EXPECT_FALSE(parse({"reduce_scatter", "--no-feedback"}).options.feedback);
}

TEST(Rooted, a_broadcast_is_in_place_and_keeps_residuals_only_if_told) {
  EXPECT_TRUE(parse({"bcast"}).options.in_place);
  EXPECT_FALSE(parse({"bcast"}).options.feedback);
  EXPECT_TRUE(parse({"bcast", "--feedback"}).options.feedback);
  EXPECT_FALSE(parse({"reduce"}).options.in_place);
  EXPECT_TRUE(parse({"reduce"}).options.feedback);
}

TEST(Rooted, the_root_has_the_whole_vector_and_the_busiest_rank_moves_it_once) {
  for (const int ranks : {2, 3, 8})
    for (int r = 0; r < ranks; ++r) {
      const std::uint64_t of_root = r == kRoot ? 100 : 0;
      EXPECT_EQ(input_of(mq::Collective::bcast, 100, ranks, r).count, of_root);
      EXPECT_EQ(output_of(mq::Collective::bcast, 100, ranks, r).count, 100U);
      EXPECT_EQ(input_of(mq::Collective::reduce, 100, ranks, r).count, 100U);
      EXPECT_EQ(output_of(mq::Collective::reduce, 100, ranks, r).count, of_root);
    }
  EXPECT_EQ(busiest_share(mq::Collective::bcast, 4), 1);
  EXPECT_EQ(busiest_share(mq::Collective::reduce, 1), 0) << "alone";
  EXPECT_EQ(busiest_share(mq::Collective::allreduce, 4), 1.5);
  EXPECT_EQ(busiest_share(mq::Collective::allgather, 4), 0.75);
}

TEST(Halves, half_types_can_be_gathered_by_mpi_but_not_added) {
  EXPECT_TRUE(make_points(parse({"allgather", "--dtype", "f16", "--sizes", "64"}).options, 2).ok());
  for (const char* const sums : {"reduce_scatter", "reduce"}) {
    const CommandLine line = parse({sums, "--dtype", "f16", "--sizes", "64"});
    EXPECT_NE(make_points(line.options, 2).status().text().find("no sum of f16"), std::string::npos);
  }
  EXPECT_TRUE(make_points(parse({"bcast", "--dtype", "f16", "--sizes", "64"}).options, 2).ok());
}

TEST(Halves, what_is_for_allreduce_is_refused_in_words) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases{
      {{"reduce_scatter", "--methods", "mpi,onebit/direct"}, "has a plan of its own"},
      {{"allgather", "--methods", "auto(error=feedback)"}, "serves sums"},
      {{"bcast", "--methods", "mpi,onebit/direct"}, "has a plan of its own"},
      {{"reduce", "--methods", "int8 memory=momentum"}, "memory=momentum"},
      {{"reduce_scatter", "--methods", "int8 memory=momentum"}, "memory=momentum"},
      {{"reduce_scatter", "--matrix", "64"}, "--matrix"},
      {{"allgather", "--methods", "nccl", "--memory", "cuda"}, "nccl is for allreduce"},
      {{"allgather", "--sizes", "4", "--model", "mlp"}, "--model"}};
  for (const auto& [words, named] : cases) {
    const CommandLine line = parse(words);
    EXPECT_EQ(line.exit_code, kUsage) << named;
    EXPECT_NE((line.out + line.err).find(named), std::string::npos) << named << ": " << line.out << line.err;
  }
}

TEST(Halves, parts_cover_the_vector_and_differ_by_one_element_at_most) {
  for (const std::uint64_t count : {0U, 1U, 7U, 1000U})
    for (const int ranks : {1, 2, 3, 8}) {
      std::uint64_t end = 0;
      for (int r = 0; r < ranks; ++r) {
        const Part part = part_of(count, ranks, r);
        EXPECT_EQ(part.begin, end);
        end = part.end();
        EXPECT_LE(part.count - count / static_cast<unsigned>(ranks), 1U);
        EXPECT_EQ(output_of(mq::Collective::reduce_scatter, count, ranks, r).begin, part.begin);
        EXPECT_EQ(input_of(mq::Collective::allgather, count, ranks, r).count, part.count);
        EXPECT_EQ(input_of(mq::Collective::reduce_scatter, count, ranks, r).count, count);
        EXPECT_EQ(output_of(mq::Collective::allgather, count, ranks, r).count, count);
      }
      EXPECT_EQ(end, count);
    }
}

}  // namespace
}  // namespace mq::bench
