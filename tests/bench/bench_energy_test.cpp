// mpiq-bench --energy: which counters are added up, and what is unknown.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "bench/energy.hpp"
#include "bench/metadata.hpp"
#include "bench/option_table.hpp"
#include "bench/options.hpp"

namespace mq::bench {
namespace {

namespace fs = std::filesystem;

class Zones : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "powercap-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text << '\n';
  }
  void zone(const std::string& name, const std::string& label, const std::string& microjoules) const {
    write(name + "/name", label);
    write(name + "/max_energy_range_uj", "1000000000");
    write(name + "/energy_uj", microjoules);
  }
  std::string root_;
};

TEST_F(Zones, packages_and_memory_are_added_up_and_nothing_is_counted_twice) {
  zone("intel-rapl:0", "package-0", "1000000");
  zone("intel-rapl:1", "package-1", "5000000");
  zone("intel-rapl:0:0", "core", "1000");
  zone("intel-rapl:0:1", "dram", "100");
  zone("intel-rapl:2", "psys", "1000");
  zone("intel-rapl-mmio:0", "package-0", "1000000");
  Powercap meter(root_);
  ASSERT_TRUE(meter.counts());
  meter.start();
  EXPECT_EQ(meter.joules(), 0);
  zone("intel-rapl:0", "package-0", "3000000");
  zone("intel-rapl:1", "package-1", "5500000");
  zone("intel-rapl:0:0", "core", "900000000");
  zone("intel-rapl:0:1", "dram", "250100");
  zone("intel-rapl:2", "psys", "900000000");
  zone("intel-rapl-mmio:0", "package-0", "3000000");
  EXPECT_DOUBLE_EQ(meter.joules(), 2 + 0.5 + 0.25);
}

TEST_F(Zones, a_counter_may_begin_again) {
  zone("intel-rapl:0", "package-0", "999000000");
  Powercap meter(root_);
  meter.start();
  zone("intel-rapl:0", "package-0", "1000000");
  EXPECT_DOUBLE_EQ(meter.joules(), 2);
}

TEST_F(Zones, a_part_that_cannot_be_read_makes_all_of_it_unknown) {
  EXPECT_FALSE(Powercap(root_ + "/nowhere").counts());
  EXPECT_FALSE(Powercap(root_).counts());
  zone("intel-rapl:0", "package-0", "1");
  zone("intel-rapl:1", "package-1", "not a number");
  EXPECT_FALSE(Powercap(root_).counts());
  zone("intel-rapl:1", "package-1", "1");
  Powercap meter(root_);
  meter.start();
  fs::remove(root_ + "/intel-rapl:1/energy_uj");
  EXPECT_TRUE(std::isnan(meter.joules()));
}

TEST_F(Zones, a_rank_that_reads_nothing_adds_nothing) {
  setenv("MPIQ_POWERCAP", (root_ + "/nowhere").c_str(), 1);
  EnergyMeter first(true, ""), other(false, "");
  for (EnergyMeter* meter : {&first, &other}) meter->start();
  EXPECT_TRUE(std::isnan(first.joules()));
  EXPECT_EQ(other.joules(), 0);
  unsetenv("MPIQ_POWERCAP");
}

TEST(GpuEnergy, is_what_the_driver_counts) {
  EXPECT_EQ(GpuEnergy::open("GPU-unknown"), nullptr);
  const auto gpu = GpuEnergy::open("GPU-fake");  // fake_nvml.c
  ASSERT_NE(gpu, nullptr);
  gpu->start();
  EXPECT_DOUBLE_EQ(gpu->joules(), 1.5);
  EnergyMeter meter(false, "GPU-fake"), unknown(false, "GPU-unknown");
  meter.start();
  EXPECT_DOUBLE_EQ(meter.joules(), 1.5);
  unknown.start();
  EXPECT_TRUE(std::isnan(unknown.joules()));
}

TEST(Energy, one_rank_reads_each_machine_and_each_gpu) {
  Topology t;
  t.machine = {7, 7, 9, 9, 7};
  t.ranks.resize(5);
  for (const int r : {1, 2, 3}) t.ranks[static_cast<std::size_t>(r)].gpu_uuid = r == 3 ? "GPU-b" : "GPU-a";
  for (int r = 0; r < 5; ++r) {
    EXPECT_EQ(t.is_first_of_machine(r), r == 0 || r == 2) << r;
    EXPECT_EQ(t.is_first_of_gpu(r), r == 1 || r == 3) << r;
  }
}

TEST(Energy, is_a_condition_of_the_measurement) {
  const char* words[] = {"mpiq-bench", "allreduce", "--energy", "0.5"};
  EXPECT_NE(config_json(parse_command_line(4, words).options).find(R"("energy_s":0.5)"), std::string::npos);
  EXPECT_EQ(config_json(parse_command_line(2, words).options).find("energy"), std::string::npos);
  for (const auto& [other, value] : {std::pair{"--overlap", "50"}, {"--arrival", "one:5"}}) {
    const char* both[] = {"mpiq-bench", "allreduce", "--energy", "1", other, value};
    const CommandLine line = parse_command_line(6, both);
    EXPECT_EQ(line.exit_code, kUsage) << other;
    EXPECT_NE(line.err.find("--energy"), std::string::npos) << line.err;
  }
}

}  // namespace
}  // namespace mq::bench
