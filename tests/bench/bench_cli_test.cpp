// long on purpose: the command line of mpiq-bench, with the table of all usage errors
// From the command line to the list of points, and the buffers they are measured in.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/buffers.hpp"
#include "bench/models.hpp"
#include "bench/mpi_algorithm.hpp"
#include "bench/option_table.hpp"
#include "bench/options.hpp"
#include "bench/parse_lists.hpp"
#include "bench/points.hpp"

namespace mq::bench {
namespace {

TEST(Points, of_a_model_cover_every_layer_once) {
  Options o;
  for (const Model& model : models()) {
    o.model = model.name;
    const auto points = make_points(o, 2);
    ASSERT_TRUE(points.ok());
    std::uint64_t total = 0;
    for (const Point& p : *points) total += p.count * static_cast<std::uint64_t>(p.layers_alike);
    EXPECT_EQ(total, model.published_total) << model.name;
  }
}

TEST(Points, are_the_same_set_shuffled_and_not) {
  Options o;
  o.elements = {kernels::Element::f32, kernels::Element::f64};
  o.ranks = {2, 4};
  const auto summary = [&](bool shuffle) {
    o.shuffle = shuffle;
    std::vector<std::tuple<int, std::uint64_t, int>> all;
    const auto points = make_points(o, 4);
    for (const Point& p : *points) all.emplace_back(static_cast<int>(p.element), p.count, p.ranks);
    return all;
  };
  auto plain = summary(false), shuffled = summary(true);
  EXPECT_EQ(plain.size(), 44U) << "11 sizes from 64K to 64M, two types, two numbers of ranks";
  EXPECT_NE(plain, shuffled);
  EXPECT_EQ(shuffled, summary(true)) << "all ranks shuffle alike";
  std::sort(plain.begin(), plain.end());
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(plain, shuffled);
}

TEST(Points, that_cannot_be_run_are_refused) {
  Options o;
  o.sizes = {12};
  o.elements = {kernels::Element::f64};
  EXPECT_NE(make_points(o, 2).status().text().find("12"), std::string::npos);
  o.elements = {kernels::Element::f32};
  EXPECT_TRUE(make_points(o, 2).ok());
  o.ranks = {3};
  EXPECT_FALSE(make_points(o, 2).ok());
}

TEST(Points, have_keys_that_change_with_every_variable) {
  Options o;
  Point p{kernels::Element::f32, 4, 1024, "", 1};
  MethodWord m{"mpi", {}, ""};
  std::set<std::string> keys;
  const auto add = [&] {
    EXPECT_TRUE(keys.insert(hash128(variables_json(o, p, m, {2, 2}))).second) << keys.size();
  };
  add();
  p.count = 1025, add();
  p.element = kernels::Element::f64, add();
  p.ranks = 3, add();
  p.layer = "fc1", add();
  m.text = "bf16", add();
  m.text = "mpi/ring", add();
  o.feedback = false, add();
  o.data.seed = 2, add();
  o.data.rho = 0.5, add();
  o.data.distribution = Distribution::laplace, add();
  o.in_place = true, add();
  o.buffers = Buffers::warm, add();
  o.buffers = Buffers::cold, add();
  o.sync = Sync::round, add();
  o.sync = Sync::none, add();
  m.text = "mpi/ring#2", add();
  o.data = *parse_data("file:a"), add();
  o.data.path = "b", add();
  o.link = "1gbit", add();
  o.launch = 1, add();
  o.model = "lenet", add();
  o.bucket_bytes = 1 << 20, add();
  o.bucket_bytes = 1 << 21, add();
  o.layers_file = "dir/own.csv", add();
  o.methods = *parse_methods("mpi,bf16"), add();
  o.isolated = true;
  EXPECT_FALSE(keys.insert(hash128(variables_json(o, p, m, {2, 2}))).second)
      << "alone, as when there was no other";
  for (const std::string& key : keys) EXPECT_EQ(key.size(), 32U);
}

TEST(Points, of_matrices_have_the_square_of_the_side_and_methods_for_it) {
  Options o;
  o.sides = {64, 1024};
  o.shuffle = false;
  o.methods = *parse_methods("mpi,onebit(block={side}),onebit(block=64)");
  const auto points = make_points(o, 2);
  ASSERT_TRUE(points.ok()) << points.status().text();
  ASSERT_EQ(points->size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const Point& p = (*points)[i];
    EXPECT_EQ(p.side, o.sides[i]);
    EXPECT_EQ(p.count, o.sides[i] * o.sides[i]);
    ASSERT_EQ(p.methods.size(), 3U);
    EXPECT_EQ(p.methods[1].text, "onebit(block={side})") << "one series over all sides";
    EXPECT_EQ(params_to_string(p.methods[1].method).substr(0, 6 + std::to_string(p.side).size()),
              "block=" + std::to_string(p.side));
    EXPECT_TRUE(p.methods[0].method.exact());
  }
}

TEST(Points, that_a_method_cannot_serve_are_named_before_anything_runs) {
  Options o;
  o.sides = {64, 8192};
  o.methods = *parse_methods("onebit(block={side})");
  EXPECT_NE(make_points(o, 2).status().text().find("side 8192"), std::string::npos)
      << make_points(o, 2).status().text();
  o.sides.clear();
  o.sizes = {65536};
  EXPECT_NE(make_points(o, 2).status().text().find("--matrix"), std::string::npos);
  o.elements = {kernels::Element::f16};
  o.methods = *parse_methods("onebit,mpi");
  EXPECT_NE(make_points(o, 2).status().text().find("no sum of f16"), std::string::npos);
  o.methods = *parse_methods("onebit");
  ASSERT_TRUE(make_points(o, 2).ok());
  EXPECT_EQ(make_points(o, 2)->front().bytes(), 65536U) << "two bytes an element";
}

// ---- command line

TEST(Lists, the_algorithms_of_an_mpich_variable_are_the_words_before_the_dashes) {
  const std::vector<std::string> names{"auto", "nb", "recursive_doubling"};
  EXPECT_EQ(
      algorithm_names("Variable to select allreduce algorithm\nauto - Internal algorithm selection (can be "
                      "overridden with X)\nnb                 - Force nonblocking algorithm\n"
                      "recursive_doubling - Force recursive doubling algorithm"),
      names);
  EXPECT_EQ(
      algorithm_names("Variable to select allreduce algorithmauto - Internal algorithm selection (can be "
                      "overridden with X)nb                 - Force nonblocking algorithm"
                      "recursive_doubling - Force recursive doubling algorithm"),
      names)
      << "MPICH 4.0 loses the line breaks";
  EXPECT_TRUE(algorithm_names("no list").empty());
}

TEST(Lists, mpi_with_an_algorithm_is_an_exact_method_of_its_own_name) {
  const auto& known = mpi_algorithms();
  const auto all = parse_methods("mpi,mpi/*,bf16");
  ASSERT_TRUE(all.ok()) << all.status().text();
  EXPECT_EQ(all->size(), known.empty() ? 2U : known.size() + 1) << "all but auto";
  EXPECT_NE(parse_methods("mpi/nosuch").status().text().find("mpi/nosuch"), std::string::npos);
  if (known.empty()) GTEST_SKIP() << "this MPI library offers no choice";
  const auto one = parse_methods("mpi/" + known.back());
  ASSERT_TRUE(one.ok());
  EXPECT_TRUE(one->front().method.exact());
  EXPECT_EQ(one->front().algorithm, known.back());
  EXPECT_EQ(one->front().text, "mpi/" + known.back());
  EXPECT_FALSE(parse_methods("mpi/*,mpi/" + known.back()).ok()) << "listed twice";
}

TEST(Lists, a_method_with_a_number_is_the_same_method_under_another_name) {
  const auto methods = parse_methods("mpi,mpi#2, onebit(block=512)/direct#3,mpi#12");
  ASSERT_TRUE(methods.ok()) << methods.status().text();
  EXPECT_EQ((*methods)[1].text, "mpi#2");
  EXPECT_EQ((*methods)[1].plain_text(), "mpi");
  EXPECT_TRUE((*methods)[1].method.exact());
  EXPECT_EQ((*methods)[2].text, parse_methods("onebit(block=512)/direct")->front().text + "#3");
  EXPECT_EQ(mq::to_string((*methods)[2].method), (*methods)[2].plain_text());
  const auto side = parse_methods("onebit(block={side})#2");
  ASSERT_TRUE(side.ok()) << side.status().text();
  const auto at = at_side(side->front(), 64);
  ASSERT_TRUE(at.ok()) << at.status().text();
  EXPECT_EQ(at->text, "onebit(block={side})#2");
  EXPECT_EQ(params_to_string(at->method).substr(0, 8), "block=64");
  EXPECT_EQ(parse_methods("kylix#2,kylix", MethodsFor::lists)->front().plain_text(), "kylix");
}

TEST(Lists, a_method_number_that_is_none_is_refused) {
  for (const char* text : {"mpi#", "mpi#1", "mpi#0", "mpi#-2", "mpi#02", "mpi#2x", "mpi#x", "#2", "mpi#2#3",
                           "mpi#2,mpi#2", "mpi#99999999999", "mpi/*#2"})
    EXPECT_FALSE(parse_methods(text).ok()) << text;
  EXPECT_NE(parse_methods("mpi,mpi").status().text().find("mpi#2"), std::string::npos) << "says how to do it";
}

TEST(Lists, commas_inside_parentheses_belong_to_the_method) {
  const auto words = split_list("mpi, onebit(block=512,x=1)/direct ,bf16");
  ASSERT_TRUE(words.ok());
  EXPECT_EQ(*words, (std::vector<std::string>{"mpi", "onebit(block=512,x=1)/direct", "bf16"}));
}

TEST(Lists, broken_ones_are_refused) {
  for (const char* text : {"", ",", "a,", ",a", "a,,b", "a(b", "a)b", "a(b,c", "a),(b"})
    EXPECT_FALSE(split_list(text).ok()) << "'" << text << "'";
}

TEST(Lists, sizes_take_suffixes_and_are_never_zero) {
  const auto sizes = parse_sizes("4,64K, 3M,1G");
  ASSERT_TRUE(sizes.ok()) << sizes.status().text();
  EXPECT_EQ(*sizes, (std::vector<std::uint64_t>{4, 65536, 3U << 20, 1U << 30}));
  for (const char* text : {"0", "4,0", "K", "4X", "-4", "4 K"}) EXPECT_FALSE(parse_sizes(text).ok()) << text;
}

TEST(Lists, ranks_are_sorted_and_unique) {
  EXPECT_EQ(*parse_ranks("8,2,4,2"), (std::vector<int>{2, 4, 8}));
  for (const char* text : {"0", "-1", "two", "2.5", "99999999999"})
    EXPECT_FALSE(parse_ranks(text).ok()) << text;
}

TEST(Lists, ranges_of_sizes_include_both_ends_and_never_overflow) {
  EXPECT_EQ(size_range(64, 256, 2), (std::vector<std::uint64_t>{64, 128, 256}));
  EXPECT_EQ(size_range(64, 255, 2), (std::vector<std::uint64_t>{64, 128}));
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(size_range(std::uint64_t{1} << 62, kMost, 2).size(), 2U);
}

TEST(Lists, sizes_are_printed_short) {
  EXPECT_EQ(human_size(4), "4");
  EXPECT_EQ(human_size(65536), "64K");
  EXPECT_EQ(human_size(96U << 20), "96M");
  EXPECT_EQ(human_size(1'066'440), "1.017M");
}

CommandLine parse(std::vector<const char*> words) {
  words.insert(words.begin(), "mpiq-bench");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

TEST(CommandLine, defaults_compare_mpi_bf16_and_onebit_with_feedback) {
  const CommandLine line = parse({"allreduce"});
  ASSERT_TRUE(line.run) << line.err;
  ASSERT_EQ(line.options.methods.size(), 3U);
  EXPECT_EQ(line.options.methods[0].text, "mpi");
  EXPECT_TRUE(line.options.feedback);
  EXPECT_EQ(line.options.data.distribution, Distribution::normal);
}

TEST(CommandLine, usage_errors_exit_with_two_and_name_the_word) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases{
      {{"allreduce", "--methods", "mpi,nosuch"}, "nosuch"},
      {{"allreduce", "--sizes", "12Q"}, "12Q"},
      {{"allreduce", "--data", "nosuch"}, "nosuch"},
      {{"allreduce", "--dtype", "f8"}, "f8"},
      {{"allreduce", "--model", "nosuch"}, "nosuch"},
      {{"allreduce", "--nosuch"}, "nosuch"},
      {{"allreduce", "--buffers", "nosuch"}, "nosuch"},
      {{"allreduce", "--sync", "nosuch"}, "round"},
      {{"allreduce", "--mode", "both"}, "both"},
      {{"allreduce", "--mode", "isolated", "--min-speedup", "1"}, "--min-speedup"},
      {{"allreduce", "--bucket-bytes", "1M"}, "--model"},
      {{"allreduce", "--model", "mlp", "--bucket-bytes", "0"}, "--bucket-bytes"},
      {{"allreduce", "--model", "mlp", "--layers", "x.csv"}, "--layers"},
      {{"allreduce", "--sizes", "4", "--layers", "x.csv"}, "--layers"},
      {{"allreduce", "--data", "file:"}, "PATH"},
      {{"allreduce", "--data", "file:x", "--rho", "0.5"}, "correlation"},
      {{"sparse", "--data", "file:x"}, "--data"},
      {{"allreduce", "--methods", "mpi,mpi#1"}, "mpi#1"},
      {{"allreduce", "--ranks", "x"}, "x"},
      {{"allreduce", "-m", "64K"}, "MIN:MAX"},
      {{"allreduce", "-b", "2M", "-e", "1M"}, "--min-bytes"},
      {{"allreduce", "--deadline", "soon"}, "soon"},
      {{"allreduce", "--resume=maybe"}, "maybe"},
      {{"allreduce", "--sizes", "4", "--model", "mlp"}, "--model"},
      {{"allreduce", "--sizes", "4", "--matrix", "64"}, "--matrix"},
      {{"allreduce", "--model", "mlp", "--matrix", "64"}, "--matrix"},
      {{"allreduce", "--matrix", "1G"}, "--matrix"},
      {{"allreduce", "--data", "uniform:0"}, "uniform:0"},
      {{"allreduce", "--methods", "mpi/nosuch"}, "mpi/nosuch"},
      {{"allreduce", "--baseline", "mpi/*,mpi"}, "--baseline"},
      {{"allreduce", "--methods", "bf16,int8", "--baseline", "best-dense"}, "--baseline"},
      {{"allreduce", "--seed", "-1"}, "less than 0"},
      {{"allreduce", "--seed", "0x10"}, "0x10"},
      {{"allreduce", "--rel-ci", "inf"}, "inf"},
      {{"allreduce", "--point-time", "nan"}, "nan"},
      {{"allreduce", "--iters", "1.5"}, "1.5"},
      {{"--explain-kylix", "--latency", "inf"}, "inf"},
      {{"nosuch"}, "'nosuch' is not expected; see"},
      {{"alreduce"}, "'alreduce' is not expected, but allreduce is; see"},
      {{"allreduce", "--method", "mpi,bf16"},
       "mpiq-bench allreduce: --method is no option, but --methods is; see"},
      {{"allreduce", "--sise=4", "x"}, "--sise is no option, but --sizes is"},
      {{"--nosuch", "allreduce"}, "mpiq-bench: --nosuch is no option; see"},
      {{"--methods", "mpi", "allreduce"}, "--methods is an option of allreduce, behind which it must stand"},
      {{}, "'mpiq-bench allgather'"}};
  for (const auto& [words, named] : cases) {
    const CommandLine line = parse(words);
    EXPECT_FALSE(line.run) << named;
    EXPECT_EQ(line.exit_code, kUsage) << named;
    EXPECT_NE((line.out + line.err).find(named), std::string::npos) << named << ": " << line.out << line.err;
  }
}

TEST(CommandLine, a_file_of_options_may_have_a_number_sign_in_quotes_and_comments_behind_values) {
  std::string path = (std::filesystem::temp_directory_path() / "mpiq_options_XXXXXX").string();
  close(mkstemp(path.data()));
  std::ofstream(path)
      << "# a sweep\n[allreduce]\nmethods = \"mpi,mpi#2\"  # against itself\nsizes = '4K' # \"small\"\n"
      << "keep-ranks = true  #\n";
  const CommandLine line = parse({"--config", path.c_str(), "allreduce"});
  std::filesystem::remove(path);
  ASSERT_TRUE(line.run) << line.err << line.out;
  ASSERT_EQ(line.options.methods.size(), 2U);
  EXPECT_EQ(line.options.methods[1].text, "mpi#2");
  EXPECT_EQ(line.options.sizes, std::vector<std::uint64_t>{4096});
  EXPECT_TRUE(line.options.keep_ranks);
}

TEST(CommandLine, list_names_every_codec_and_plan) {
  for (const char* flag : {"--list", "-l"}) {
    const CommandLine line = parse({flag});
    EXPECT_EQ(line.exit_code, kDone);
    for (const kernels::Codec& codec : kernels::codecs())
      EXPECT_NE(line.out.find(codec.name), std::string::npos);
    for (const PlanRow& plan : plans()) EXPECT_NE(line.out.find(plan.name), std::string::npos);
  }
}

TEST(CommandLine, every_option_that_a_result_depends_on_is_stored_with_it) {
  const std::string plain = config_json(parse({"sparse"}).options);
  std::size_t keys = 0;
  for (const OptionRow& row : option_table()) {
    if (*row.key == '\0') continue;
    ++keys;
    EXPECT_EQ(plain.find("\"" + std::string(row.key) + "\":") != std::string::npos, !row.later) << row.flags;
  }
  EXPECT_GT(keys, 30U);
  const std::string cuda = config_json(parse({"allreduce", "--memory", "cuda"}).options);
  EXPECT_NE(cuda.find(R"("memory":"cuda")"), std::string::npos) << "left out only where it is preset";
}

TEST(CommandLine, result_relevant_options_change_the_configuration_and_others_do_not) {
  const std::string plain = config_json(parse({"allreduce"}).options);
  EXPECT_EQ(
      plain,
      config_json(parse({"allreduce", "-O", "x.h5", "--deadline", "5", "--resume=force", "--format", "csv"})
                      .options));
  EXPECT_NE(plain, config_json(parse({"allreduce", "--seed", "2"}).options));
  EXPECT_NE(plain, config_json(parse({"allreduce", "-e", "1M"}).options));
  EXPECT_NE(plain, config_json(parse({"allreduce", "--matrix", "64"}).options));
  for (const auto& words : std::vector<std::vector<const char*>>{{"--sync", "round"},
                                                                 {"--mode", "isolated"},
                                                                 {"--keep-ranks"},
                                                                 {"--buffers", "cold"},
                                                                 {"--data", "file:x"}}) {
    std::vector<const char*> line{"allreduce"};
    line.insert(line.end(), words.begin(), words.end());
    EXPECT_NE(plain, config_json(parse(line).options)) << words.back();
  }
  Options one, other;
  one.layers = {{"a", 1}};
  other.layers = {{"a", 2}};
  EXPECT_NE(config_json(one), config_json(other)) << "layers of a file that has changed";
}

// ---- buffers

TEST(Pool, guards_notice_a_byte_on_either_side_of_a_slot) {
  Pool pool(10'000);
  pool.cut(100);
  ASSERT_GT(pool.slots(), 10U);
  pool.arm_guards();
  EXPECT_TRUE(pool.guards_intact());
  std::fill_n(pool.slot(3), 100, std::byte{1});
  EXPECT_TRUE(pool.guards_intact());
  pool.slot(3)[100] = std::byte{1};
  EXPECT_FALSE(pool.guards_intact());
  pool.arm_guards();
  pool.slot(0)[-1] = std::byte{1};
  EXPECT_FALSE(pool.guards_intact());
}

TEST(Pool, slots_are_aligned_whatever_the_size) {
  Pool pool(100'000);
  for (const std::uint64_t bytes : {1U, 63U, 64U, 65U, 4096U}) {
    pool.cut(bytes);
    for (std::size_t i = 0; i < pool.slots(); ++i)
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(pool.slot(i)) % kAlignment, 0U) << bytes;
    EXPECT_LE(pool.slot(pool.slots() - 1) + bytes, pool.all().data() + pool.all().size());
  }
}

TEST(HashBytes, sees_every_bit_and_the_length) {
  std::array<unsigned char, 21> bytes{};
  const std::uint64_t before = hash_bytes(bytes.data(), bytes.size());
  EXPECT_NE(before, hash_bytes(bytes.data(), bytes.size() - 1));
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
    EXPECT_NE(before, hash_bytes(bytes.data(), bytes.size())) << bit;
    bytes[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
  }
}

}  // namespace
}  // namespace mq::bench
