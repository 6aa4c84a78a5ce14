// The file of what auto has learnt: read and written, damaged, and asked.

#include "mpi_quant/automatic/knowledge.hpp"

#include <gtest/gtest.h>

#include <string>

#include "bench/research/automatic/world.hpp"

namespace mq {
namespace {

const std::string kLine =
    "1048576 f32 @2 auto(error=0.02): int8/direct seconds=0.000213 mpi=0.00079 margin=1.25 calls=400";

std::vector<KnownClass> parsed(const std::string& text) {
  Result<std::vector<KnownClass>> all = parse_knowledge(text);
  EXPECT_TRUE(all.ok()) << all.status().text();
  return all.ok() ? *all : std::vector<KnownClass>{};
}

TEST(Knowledge, a_line_is_written_as_it_is_read) {
  for (const std::string& line :
       {kLine, std::string("65536 f64 @1024 auto: mpi seconds=0.1 mpi=0.1 margin=1 calls=0"),
        std::string(
            "9 bf16 @3 auto(error=abs:1e-06): bound(abs=1e-06)/direct seconds=0 mpi=1 margin=5 calls=1"),
        std::string("4194304 f32 @2 auto(error=feedback): onebit/direct seconds=1 mpi=2 margin=1.25 calls=9"),
        std::string(
            "reduce_scatter 4096 f32 @2 auto(error=feedback): onebit seconds=1 mpi=2 margin=1 calls=9"),
        std::string("allgather 4096 f32 @8 auto(error=0.02): int8 seconds=1 mpi=2 margin=1.25 calls=9"),
        std::string("bcast 9 f64 @3 auto(error=abs:0.01): bound(abs=0.03) seconds=1 mpi=2 margin=1 calls=9"),
        std::string("reduce 4096 f32 @2 auto: mpi seconds=1 mpi=1 margin=1 calls=9")}) {
    const std::vector<KnownClass> all = parsed("# comment\n\n  " + line + "  # more\n");
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(to_string(all[0]), line);
  }
  EXPECT_TRUE(parsed("").empty());
}

TEST(Knowledge, every_damaged_line_is_an_error_that_names_it) {
  for (std::size_t cut = 1; cut < kLine.size(); ++cut) {
    const Result<std::vector<KnownClass>> all = parse_knowledge("\n" + kLine.substr(0, cut));
    // A number that lost its last digits is still a number.
    EXPECT_EQ(all.ok(), cut > kLine.find("calls=") + 6) << cut;
    EXPECT_TRUE(all.ok() || all.status().text().find("line 2") != std::string::npos);
  }
  for (const char* const bad : {"0 f32 @2 auto: mpi seconds=1 mpi=1 margin=1 calls=1",
                                "9 f33 @2 auto: mpi seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 @1 auto: mpi seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 2 auto: mpi seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 @2 mpi: mpi seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 @2 auto: auto seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 @2 auto: mpi seconds=-1 mpi=1 margin=1 calls=1",
                                "9 f32 @2 auto: mpi seconds=1 mpi=nan margin=1 calls=1",
                                "9 f32 @2 auto: mpi seconds=1 mpi=inf margin=1 calls=1",
                                "9 f32 @2 auto: mpi seconds=1 mpi=1 margin=0 calls=1",
                                "9 f32 @2 auto: mpi seconds=1 mpi=1 margin=1 calls=-1",
                                "scatter 9 f32 @2 auto: mpi seconds=1 mpi=1 margin=1 calls=1",
                                "bcast 9 f32 @4 nodes=2 auto: mpi seconds=1 mpi=1 margin=1 calls=1",
                                "reduce 9 f32 @2 auto: zerorun/direct seconds=1 mpi=1 margin=1 calls=1",
                                "bcast 9 f32 @2 auto(error=feedback): mpi seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 @2 auto: mpi seconds=1e999 mpi=1 margin=1 calls=1",
                                "9 f32 @2 auto: mpi seconds=0x1 mpi=1 margin=1 calls=1",
                                "9 f32 @2 auto: mpi seconds=1 mpi=1 margin=inf calls=1",
                                "9 f32 @2 auto: mpi seconds=1 mpi=1 margin=1 calls=99999999999999999999",
                                "99999999999999999999 f32 @2 auto: mpi seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 @99999999999 auto: mpi seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 @2 auto(error=nan): mpi seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 @2 auto: mpi/nowhere seconds=1 mpi=1 margin=1 calls=1",
                                "9 f32 @2 auto: mpi seconds=1 mpi=1 margin=1 calls=1 and=more",
                                "9",
                                "\xff\xfe"})
    EXPECT_FALSE(parse_knowledge(bad).ok()) << bad;
  const auto complaint = [](const std::string& text) {
    const Result<std::vector<KnownClass>> all = parse_knowledge(text);
    return all.ok() ? std::string() : all.status().text();
  };
  EXPECT_NE(complaint("9 f32 @2 auto").find("a word is missing"), std::string::npos);
  // What is shown of a file that is no text is text, and short.
  EXPECT_NE(complaint("\x1b[2J\x01").find("bad word \"?[2J?\""), std::string::npos);
  EXPECT_LT(complaint(std::string(1 << 20, 'x')).size(), 256u);
  EXPECT_FALSE(complaint(kLine + std::string(1, '\0')).empty());
}

// Another method than the line names would be a surprise. So would an exact sum.
TEST(Knowledge, a_method_that_cannot_keep_the_limit_is_an_error_that_names_it) {
  const auto complaint = [](const std::string& element, const std::string& limit, const std::string& method) {
    const Result<std::vector<KnownClass>> all = parse_knowledge("1048576 " + element + " @2 " + limit + ": " +
                                                                method + " seconds=1 mpi=1 margin=1 calls=1");
    return all.ok() ? std::string() : all.status().text();
  };
  for (const auto& [limit, method] : {std::pair{"auto", "int8/direct"},
                                      {"auto(error=abs:1e-04)", "bound(abs=0.1)/direct"},
                                      {"auto(error=0.02)", "topk/direct memory=momentum"}}) {
    const std::string text = complaint("f32", limit, method);
    EXPECT_NE(text.find("line 1: auto cannot keep this limit with \"" + std::string(method)),
              std::string::npos)
        << text;
  }
  EXPECT_EQ(complaint("f32", "auto(error=0.02)", "int8"), "");
  EXPECT_EQ(complaint("f32", "auto", "mpi"), "");
  EXPECT_EQ(complaint("bf16", "auto", "int8/direct"), "") << "auto does not choose for half types";
}

// A method that promises more than the limit asks for keeps the limit, too. Its calls need no sample.
TEST(Knowledge, a_method_that_promises_more_than_the_limit_may_be_named) {
  const auto reduced_by = [](const std::string& limit, const std::string& method, int ranks) {
    const std::string text = "1048576 f32 @" + std::to_string(ranks) + " " + limit + ": " + method +
                             " seconds=0.0001 mpi=0.001 margin=1.25 calls=9";
    const Result<std::vector<KnownClass>> all = parse_knowledge(text);
    if (!all.ok()) return std::string("refused");
    World world(all->at(0).calls, kNetworks[0], 1);
    world.error = [](const AutoCandidate&) { return 0.9; };  // no sample is asked for
    world.chooser.freeze(&all->at(0));
    const std::size_t by = world.call().reduced_by;
    EXPECT_EQ(world.chooser.totals().judgements, 0u) << text;
    return to_string(world.chooser.candidate(by).method);
  };
  for (const int ranks : {2, 3, 16, 1000}) {
    EXPECT_EQ(reduced_by("auto(error=abs:0.01)", "bound(abs=0.005)/direct", ranks),
              "bound(abs=0.005)/direct");
    EXPECT_EQ(reduced_by("auto(error=abs:0.01)", "bound(abs=0.01)/direct", ranks), "bound(abs=0.01)/direct");
    // The step is a power of two, so that up to twice the limit may be written.
    EXPECT_EQ(reduced_by("auto(error=abs:0.01)", "bound(abs=0.025)/direct", ranks), "refused");
  }
  // What errors of ranks that do not cancel out come to with growth=sqrt is more than abs.
  EXPECT_EQ(reduced_by("auto(error=abs:0.01)", "bound(abs=0.005,growth=sqrt)/direct", 2),
            "bound(abs=0.005,growth=sqrt)/direct");
  EXPECT_EQ(reduced_by("auto(error=abs:0.01)", "bound(abs=0.01,growth=sqrt)/direct", 64), "refused");
  EXPECT_EQ(reduced_by("auto(error=abs:0.01)", "bound(rel=1e-06)/direct", 2), "refused");  // of which vector?
  EXPECT_EQ(reduced_by("auto", "bound(abs=1e-09)/direct", 2), "refused");
  EXPECT_EQ(reduced_by("auto(error=abs:0.01)", "int8/direct", 2), "refused");
}

// The candidates depend on the nodes, so a line says how many there are.
TEST(Knowledge, lines_of_other_nodes_are_told_apart) {
  const Automatic limit{Automatic::Kind::relative, 0};
  const std::string by_nodes = "1000 f32 @16 nodes=4 auto: raw/hierarchical seconds=1 mpi=2 margin=1 calls=1";
  const std::vector<KnownClass> one = parsed(by_nodes);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].calls.per_node, 4);
  EXPECT_EQ(to_string(one[0]), by_nodes);
  for (const auto& [nodes, per_node] : {std::pair{1, 1}, {2, 8}, {8, 2}, {16, 1}}) {
    const std::vector<KnownClass> all =
        parsed("1000 f32 @16 nodes=" + std::to_string(nodes) + " auto: raw seconds=1 mpi=2 margin=1 calls=1");
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].calls.per_node, per_node);
    EXPECT_EQ(to_string(all[0]).find("nodes=") != std::string::npos, per_node > 1);
    EXPECT_TRUE(parsed(to_string(all[0])).at(0).calls == all[0].calls);
  }
  for (const char* const word :
       {"nodes=0", "nodes=-4", "nodes=3", "nodes=32", "nodes=", "nodes=x", "nodes=4x"}) {
    const Result<std::vector<KnownClass>> all =
        parse_knowledge("1000 f32 @16 " + std::string(word) + " auto: raw seconds=1 mpi=2 margin=1 calls=1");
    ASSERT_FALSE(all.ok()) << word;
    EXPECT_NE(all.status().text().find("\"" + std::string(word) + "\""), std::string::npos)
        << all.status().text();
  }
  // The line of the same nodes counts, if there is one within a factor of four. Else one that names no nodes,
  // as files of earlier versions have. A line of other nodes never does.
  const std::vector<KnownClass> all =
      parsed(by_nodes + "\n2000 f32 @16 auto: mpi seconds=1 mpi=1 margin=1 calls=1");
  const auto bytes_for = [&](std::size_t bytes, int per_node) {
    const KnownClass* const known = find_known(all, {bytes, kernels::Element::f32, 16, limit, per_node});
    return known == nullptr ? 0 : known->calls.bytes;
  };
  EXPECT_EQ(bytes_for(2000, 4), 1000u);
  EXPECT_EQ(bytes_for(4001, 4), 2000u);
  EXPECT_EQ(bytes_for(2000, 8), 2000u);
  EXPECT_EQ(bytes_for(1000, 1), 2000u);
  EXPECT_EQ(bytes_for(400, 1), 0u);
}

TEST(Knowledge, a_line_counts_for_its_collective_only) {
  const std::string end = " auto: raw seconds=1 mpi=1 margin=1 calls=1\n";
  const std::vector<KnownClass> all = parsed("bcast 1000 f32 @2" + end + "1000 f32 @2" + end);
  CallClass calls{1000, kernels::Element::f32, 2, {Automatic::Kind::relative, 0}};
  EXPECT_EQ(find_known(all, calls), &all[1]);
  calls.collective = Collective::bcast;
  EXPECT_EQ(find_known(all, calls), &all[0]);
  calls.collective = Collective::reduce;
  EXPECT_EQ(find_known(all, calls), nullptr);
}

// The bytes of a line count all vectors. A call of one vector is another class than one of several.
TEST(Knowledge, lines_of_several_vectors_are_told_apart) {
  const Automatic limit{Automatic::Kind::relative, 0};
  const std::string end = " auto: raw seconds=1 mpi=2 margin=1 calls=1";
  const std::string line = "1000 f32 @16 nodes=4 vectors=32" + end;
  ASSERT_EQ(parsed(line).size(), 1u);
  EXPECT_EQ(parsed(line)[0].calls.vectors, 32);
  EXPECT_EQ(to_string(parsed(line)[0]).substr(0, 31), line.substr(0, 31));
  for (const char* const bad :
       {"9 f32 @2 vectors=0", "9 f32 @2 vectors=-1", "9 f32 @2 vectors=", "9 f32 @2 vectors=x",
        "9 f32 @2 vectors=99999999999", "9 f32 @2 vectors=2 nodes=2", "bcast 9 f32 @2 vectors=2"}) {
    const Result<std::vector<KnownClass>> all = parse_knowledge(bad + end);
    EXPECT_FALSE(all.ok()) << bad;
  }
  const std::vector<KnownClass> all =
      parsed("1000 f32 @2" + end + "\n1000 f32 @2 vectors=8" + end + "\n1000 f32 @2 vectors=32" + end);
  const auto line_for = [&](std::size_t bytes, int vectors) {
    CallClass calls{bytes, kernels::Element::f32, 2, limit};
    calls.vectors = vectors;
    return find_known(all, calls) == nullptr ? -1 : static_cast<int>(find_known(all, calls) - all.data());
  };
  EXPECT_EQ(line_for(1000, 0), 0);
  EXPECT_EQ(line_for(4000, 8), 1);
  EXPECT_EQ(line_for(1000, 2), 1);
  EXPECT_EQ(line_for(1000, 64), 2);
  EXPECT_EQ(line_for(1000, 1), -1);
  EXPECT_EQ(line_for(1000, 256), -1);
  EXPECT_EQ(line_for(5000, 8), -1);
  // What a codec measures before a call is of one vector.
  const std::string measures = " auto(error=0.3): bound(rel=0.1) seconds=1 mpi=1 margin=1 calls=1";
  EXPECT_TRUE(parse_knowledge("9 f32 @2" + measures).ok());
  EXPECT_FALSE(parse_knowledge("9 f32 @2 vectors=2" + measures).ok());
}

TEST(Knowledge, the_nearest_size_counts_if_it_is_near) {
  const std::vector<KnownClass> all = parsed(
      "1000 f32 @2 auto: raw seconds=1 mpi=1 margin=1 calls=1\n3000 f32 @2 auto: mpi seconds=1 mpi=1 margin=1 calls=1");
  const Automatic limit{Automatic::Kind::relative, 0};
  const auto bytes_for = [&](CallClass calls) {
    const KnownClass* const known = find_known(all, calls);
    return known == nullptr ? 0 : known->calls.bytes;
  };
  EXPECT_EQ(bytes_for({1500, kernels::Element::f32, 2, limit}), 1000u);
  EXPECT_EQ(bytes_for({2000, kernels::Element::f32, 2, limit}), 3000u);
  EXPECT_EQ(bytes_for({250, kernels::Element::f32, 2, limit}), 1000u);
  EXPECT_EQ(bytes_for({249, kernels::Element::f32, 2, limit}), 0u);
  EXPECT_EQ(bytes_for({1000, kernels::Element::f64, 2, limit}), 0u);
  EXPECT_EQ(bytes_for({1000, kernels::Element::f32, 3, limit}), 0u);
  EXPECT_EQ(bytes_for({1000, kernels::Element::f32, 2, {Automatic::Kind::relative, 0.1}}), 0u);
}

// What one run has learnt decides the next run from its first call on, whatever its calls take.
TEST(Knowledge, the_next_run_chooses_the_same_each_time) {
  const CallClass calls{1 << 20, kernels::Element::f32, 2, {Automatic::Kind::relative, 0.02}};
  World first(calls, kNetworks[0], 1);
  for (int i = 0; i < 300; ++i) first.call();
  ASSERT_NE(first.chooser.favourite(), 0u);
  const std::vector<KnownClass> all = parsed(to_string(first.chooser.known()));
  for (const Network& network : kNetworks) {
    World next(calls, network, 2);
    next.chooser.freeze(find_known(all, calls));
    std::uint64_t judgements = 0;
    for (int i = 0; i < 200; ++i) EXPECT_EQ(next.call().reduced_by, first.chooser.favourite());
    judgements = next.chooser.totals().judgements;
    EXPECT_GE(judgements, 1u);
    EXPECT_LE(judgements, 10u);
  }
  World unknown(calls, kNetworks[0], 1);
  unknown.chooser.freeze(nullptr);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(unknown.call().reduced_by, 0u);
}

// A sweep measures methods and plans that auto does not try on its own. The sweep's file names them.
TEST(Knowledge, a_file_may_name_methods_that_are_tried_by_no_program) {
  const auto reduced_by = [](const char* method, const Automatic& limit, int ranks, double error) {
    World world({1 << 20, kernels::Element::f32, ranks, limit}, kNetworks[0], 1);
    const std::size_t listed = world.chooser.candidates().size();
    Method asked;
    asked.automatic = limit;
    const std::vector<KnownClass> all =
        parsed("1048576 f32 @" + std::to_string(ranks) + " " + to_string(asked) + ": " + method +
               " seconds=0.0001 mpi=0.001 margin=1.25 calls=9");
    if (all.size() != 1) return std::string("not parsed");
    world.error = [error](const AutoCandidate&) { return error; };
    world.chooser.freeze(&all[0]);
    world.chooser.restart();  // as a rank that has missed a call does: what the file says stays
    EXPECT_LE(world.chooser.candidates().size(), listed + 1) << method;
    std::size_t by = world.call().reduced_by;
    for (int i = 0; i < 50; ++i) EXPECT_EQ(world.call().reduced_by, by) << method;
    return to_string(world.chooser.candidate(by).method);
  };
  const Automatic percent{Automatic::Kind::relative, 0.02}, none{Automatic::Kind::relative, 0},
      absolute{Automatic::Kind::absolute, 1e-4}, feedback{Automatic::Kind::feedback, 4};
  for (const char* const method : {"mxfp8/direct", "int8(block=32)/hierarchical", "int8/ring", "int8/direct"})
    EXPECT_EQ(reduced_by(method, percent, 2, 1e-4), method);
  EXPECT_EQ(reduced_by("mxfp8/ring", percent, 8, 0.009), "mpi");  // 4.5 encodes of a result: over the limit
  EXPECT_EQ(reduced_by("mxfp8/direct", percent, 8, 0.009), "mxfp8/direct");
  EXPECT_EQ(reduced_by("zerorun/ring", none, 4, 0), "zerorun/ring");
  EXPECT_EQ(reduced_by("bound(abs=1e-04)/ring", absolute, 2, 0), "bound(abs=1e-04)/ring");
  EXPECT_EQ(reduced_by("mxfp4/direct", feedback, 2, 0), "mxfp4/direct");
  EXPECT_EQ(reduced_by("mpi", percent, 2, 1e-4), "mpi");
  // No plan: the one that the library takes for this size and these ranks.
  EXPECT_EQ(reduced_by("mxfp8", percent, 2, 1e-4), "mxfp8/allgather");
  EXPECT_EQ(reduced_by("int8", percent, 2, 1e-4), "int8/allgather");
  EXPECT_EQ(reduced_by("int8", percent, 4, 1e-4), "int8/direct");
}

// A line may have no times, or only one. The results of its method are judged all the same, and now and then.
TEST(Knowledge, a_line_without_times_is_judged_now_and_then) {
  const CallClass calls{1 << 20, kernels::Element::f32, 2, {Automatic::Kind::relative, 0.02}};
  for (const char* const times :
       {"seconds=0 mpi=0", "seconds=0.0002 mpi=0", "seconds=0 mpi=0.0008", "seconds=0.0002 mpi=0.0008"}) {
    World world(calls, kNetworks[0], 1);
    const std::vector<KnownClass> all =
        parsed("1048576 f32 @2 auto(error=0.02): int8/direct " + std::string(times) + " margin=1.25 calls=4");
    world.chooser.freeze(&all.at(0));
    for (int i = 0; i < 1000; ++i) world.call();
    EXPECT_GE(world.chooser.totals().judgements, 1u) << times;
    EXPECT_LE(world.chooser.totals().judgements, 10u) << times;
  }
}

// Its data lose too much: exact, also where the file says otherwise.
TEST(Knowledge, the_limit_holds_in_the_next_run_too) {
  const CallClass calls{1 << 20, kernels::Element::f32, 2, {Automatic::Kind::relative, 0.02}};
  World world(calls, kNetworks[0], 1);
  const std::vector<KnownClass> all = parsed(kLine);
  world.chooser.freeze(&all[0]);
  world.error = [](const AutoCandidate&) { return 0.5; };
  for (int i = 0; i < 100; ++i) EXPECT_EQ(world.call().reduced_by, 0u);
}

}  // namespace
}  // namespace mq
