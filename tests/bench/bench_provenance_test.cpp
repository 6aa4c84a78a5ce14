// What a result file says of the machine, read from made-up files of the system.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "bench/provenance.hpp"

namespace mq::bench {
namespace {

namespace fs = std::filesystem;

class Provenance : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* variable :
         {"APPTAINER_NAME", "SINGULARITY_NAME", "ENROOT_ROOTFS", "SHIFTER_RUNTIME", "container"})
      unsetenv(variable);
    std::string name = testing::TempDir() + "provenance-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  void file(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << '\n';
  }
  NodeRow read() const {
    NodeRow node;
    read_provenance(node, root_);
    return node;
  }
  std::string root_;
};

TEST_F(Provenance, what_no_file_says_is_unknown) {
  const NodeRow node = read();
  EXPECT_EQ(node.turbo, -1);
  EXPECT_TRUE(std::isnan(node.power_limit_W));
  EXPECT_TRUE(std::isnan(node.cpu_quota));
  EXPECT_EQ(node.firmware.str(), "");
  EXPECT_EQ(node.microcode.str(), "");
  EXPECT_EQ(node.container.str(), "") << "a container may leave no sign";
}

TEST_F(Provenance, turbo_is_read_as_each_driver_says_it) {
  file("/sys/devices/system/cpu/cpufreq/boost", "0");
  EXPECT_EQ(read().turbo, 0);
  file("/sys/devices/system/cpu/cpufreq/boost", "1");
  EXPECT_EQ(read().turbo, 1);
  file("/sys/devices/system/cpu/intel_pstate/no_turbo", "1");
  EXPECT_EQ(read().turbo, 0) << "intel_pstate has the opposite meaning, and goes first";
  file("/sys/devices/system/cpu/intel_pstate/no_turbo", "perhaps");
  EXPECT_EQ(read().turbo, 1);
}

TEST_F(Provenance, long_term_limits_of_all_packages_are_added_up) {
  const auto zone = [&](const std::string& name, const std::string& label, const std::string& microwatt) {
    const std::string folder = "/sys/class/powercap/" + name + "/";
    file(folder + "name", label);
    file(folder + "constraint_0_name", "short_term");
    file(folder + "constraint_0_power_limit_uw", "999000000");
    file(folder + "constraint_1_name", "long_term");
    file(folder + "constraint_1_power_limit_uw", microwatt);
  };
  zone("intel-rapl:0", "package-0", "205000000");
  zone("intel-rapl:1", "package-1", "205500000");
  zone("intel-rapl:2", "psys", "500000000");
  zone("intel-rapl:0:0", "dram", "70000000");
  zone("intel-rapl-mmio:0", "package-0", "205000000");
  EXPECT_DOUBLE_EQ(read().power_limit_W, 410.5);
  zone("intel-rapl:0", "package-0", "no number");
  EXPECT_DOUBLE_EQ(read().power_limit_W, 205.5);
}

TEST_F(Provenance, firmware_and_microcode_are_named) {
  file("/sys/class/dmi/id/bios_vendor", "Vendor");
  file("/sys/class/dmi/id/bios_date", "04/01/2026");
  EXPECT_EQ(read().firmware.str(), "Vendor 04/01/2026");
  file("/sys/class/dmi/id/bios_version", "2.1");
  file("/proc/cpuinfo", "processor\t: 0\nmicrocode\t: 0xd0003a5\nprocessor\t: 1\nmicrocode\t: 0x1");
  EXPECT_EQ(read().firmware.str(), "Vendor 2.1 04/01/2026");
  EXPECT_EQ(read().microcode.str(), "0xd0003a5");
}

TEST_F(Provenance, a_container_is_named) {
  file("/run/systemd/container", "lxc");
  EXPECT_EQ(read().container.str(), "lxc");
  file("/.singularity.d/env", "");
  EXPECT_EQ(read().container.str(), "apptainer");
  file("/run/.containerenv", "");
  EXPECT_EQ(read().container.str(), "podman");
  file("/.dockerenv", "");
  EXPECT_EQ(read().container.str(), "docker");
  setenv("container", "/home/me/image.sif", 1);
  EXPECT_EQ(read().container.str(), "docker")
      << "a variable of the user's own is no sign, and a path is not stored";
  setenv("container", "systemd-nspawn", 1);
  EXPECT_EQ(read().container.str(), "systemd-nspawn");
  unsetenv("container");
  setenv("ENROOT_ROOTFS", "/x", 1);
  EXPECT_EQ(read().container.str(), "enroot");
  unsetenv("ENROOT_ROOTFS");
}

TEST_F(Provenance, a_control_group_names_a_container) {
  file("/proc/self/cgroup", "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-abc.scope");
  EXPECT_EQ(read().container.str(), "kubepods");
  file("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-1.scope");
  EXPECT_EQ(read().container.str(), "");
}

TEST_F(Provenance, the_least_quota_of_a_group_and_those_above_it_counts) {
  file("/proc/self/cgroup", "0::/slurm/job_1/step_0");
  file("/sys/fs/cgroup/slurm/job_1/step_0/cpu.max", "max 100000");
  EXPECT_TRUE(std::isnan(read().cpu_quota));
  file("/sys/fs/cgroup/slurm/job_1/cpu.max", "150000 100000");
  EXPECT_DOUBLE_EQ(read().cpu_quota, 1.5);
  file("/sys/fs/cgroup/slurm/cpu.max", "400000 100000");
  EXPECT_DOUBLE_EQ(read().cpu_quota, 1.5);
  file("/sys/fs/cgroup/cpu.max", "50000 100000");  // of a container, which sees its own group as the root
  EXPECT_DOUBLE_EQ(read().cpu_quota, 0.5);
}

TEST_F(Provenance, the_first_version_of_control_groups_has_quotas_too) {
  file("/proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\nnonsense");
  file("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1");
  file("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000");
  EXPECT_TRUE(std::isnan(read().cpu_quota));
  file("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "250000");
  EXPECT_DOUBLE_EQ(read().cpu_quota, 2.5);
}

TEST(NumaPolicy, is_a_word_of_the_table_or_unknown) {
  const std::string text = numa_policy(), word = text.substr(0, text.find(' '));
  for (const char* known : {"", "default", "local", "bind", "interleave", "preferred", "weighted"})
    if (word == known) return;
  FAIL() << text;
}

}  // namespace
}  // namespace mq::bench
