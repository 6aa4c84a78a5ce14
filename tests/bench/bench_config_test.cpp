// Sweep files, as mpiq-bench --config reads them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/options.hpp"

namespace mq::bench {
namespace {

CommandLine parse(std::vector<const char*> words) {
  words.insert(words.begin(), "mpiq-bench");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

class ConfigFile : public testing::Test {
 protected:
  void SetUp() override { path_ = testing::TempDir() + "config_file_" + std::to_string(getpid()) + ".toml"; }
  void TearDown() override { std::remove(path_.c_str()); }
  CommandLine with(const std::string& text, std::vector<const char*> words = {}) {
    std::ofstream(path_) << text;
    words.insert(words.begin(), {"--config", path_.c_str()});
    return parse(std::move(words));
  }
  std::string path_;
};

TEST_F(ConfigFile, its_section_is_the_subcommand_and_its_keys_are_the_options) {
  const CommandLine line = with(
      "# of nothing\n[allreduce]\nsizes = [\"64K\", \"1M\"]  # two\n"
      "methods = [\n  \"mpi\",  # plain = 0\n  \"onebit(block=512,rows=0)\"\n]\nranks = [2, 3]\n"
      "in-place = true\nfeedback = false\npoint-time = 0.5\n");
  ASSERT_TRUE(line.run) << line.err;
  const CommandLine same =
      parse({"allreduce", "--sizes", "64K,1M", "--methods", "mpi,onebit(block=512,rows=0)", "--ranks", "2,3",
             "--in-place", "--no-feedback", "--point-time", "0.5"});
  ASSERT_TRUE(same.run) << same.err;
  EXPECT_EQ(config_json(line.options), config_json(same.options));
  EXPECT_TRUE(with("[sparse]\ndensity = [0.1, 0.5]\n").options.sparse);
}

TEST_F(ConfigFile, is_overridden_by_the_command_line) {
  const std::string text = "[allreduce]\nsizes = [\"64K\", \"1M\"]\nwarmup = 3\n";
  const CommandLine line = with(text, {"allreduce", "--sizes", "4K"});
  ASSERT_TRUE(line.run) << line.err;
  EXPECT_EQ(line.options.sizes, std::vector<std::uint64_t>{4096});
  EXPECT_EQ(line.options.warmup, 3);
}

TEST_F(ConfigFile, may_say_how_to_launch_which_is_for_others) {
  const std::string text = "[allreduce]\nwarmup = 3\n";
  const std::string launch = "[launch]\nlaunches = 3\nlabs = [\"shm\"]\n[launch.vary]\nmodel = [\"mlp\"]\n";
  for (const std::string& both : {text + launch, launch + text}) {
    const CommandLine line = with(both);
    ASSERT_TRUE(line.run) << line.err;
    EXPECT_EQ(config_json(line.options), config_json(with(text).options));
  }
}

TEST_F(ConfigFile, errors_in_it_are_usage_errors) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"[allreduce]\nnosuch = 1\n", "nosuch"},
      {"[nosuch]\nwarmup = 1\n", "nosuch"},
      {"[allreduce]\nmodel = \"nosuch\"\n", "nosuch"},
      {"[allreduce]\nwarmup = \"often\"\n", "often"},
      {"[allreduce]\nsizes = [\"4K\"]\nmodel = \"mlp\"\n", "--model"},
      {"[allreduce]\nwarmup = 1\n[sparse]\nwarmup = 1\n", "both"},
      {"[allreduce\nwarmup = 1\n", "[allreduce"},
      {"[allreduce]\nsizes = [\"4K\"\nwarmup = 1\n", "sizes"}};
  for (const auto& [text, named] : cases) {
    const CommandLine line = with(text);
    EXPECT_FALSE(line.run) << text;
    EXPECT_EQ(line.exit_code, kUsage) << text;
    EXPECT_NE(line.err.find(named), std::string::npos) << text << line.err;
  }
  EXPECT_EQ(with("[sparse]\nwarmup = 1\n", {"allreduce"}).exit_code, kUsage);
  EXPECT_EQ(parse({"--config", "/nosuch/file.toml", "allreduce"}).exit_code, kUsage);
}

}  // namespace
}  // namespace mq::bench
