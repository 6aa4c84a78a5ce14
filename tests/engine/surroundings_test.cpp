// What the library reads of the machine and of the environment: memory, ranks of a node, mistyped variables.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/memory_limit.hpp"
#include "mpi_quant/base/variables.hpp"

namespace {

class Surroundings : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/surroundingsXXXXXX";
    folder = mkdtemp(name.data());
    for (const char* variable : kVariables) unsetenv(variable);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder);
    for (const char* variable : kVariables) unsetenv(variable);
  }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(folder + "/" + path).parent_path());
    std::ofstream(folder + "/" + path) << text;
  }
  std::uint64_t limit(const std::string& groups) const {
    write("groups", groups);
    return mq::limit_of_groups(folder + "/groups", folder + "/mount");
  }
  std::string folder;
  static constexpr const char* kVariables[] = {"MPI_LOCALNRANKS",
                                               "OMPI_COMM_WORLD_LOCAL_SIZE",
                                               "MV2_COMM_WORLD_LOCAL_SIZE",
                                               "PALS_LOCAL_SIZE",
                                               "SLURM_STEP_TASKS_PER_NODE",
                                               "SLURM_TASKS_PER_NODE",
                                               "MPIQ_POLCY",
                                               "MPIQ_REPORTS",
                                               "MPIQ_SITE",
                                               "MPIQ_NOTHING_LIKE_IT"};
};

TEST_F(Surroundings, TheLeastLimitOfAGroupAndThoseAboveItCounts) {
  write("mount/job/memory.max", "1000000\n");
  write("mount/job/step/memory.max", "max\n");
  write("mount/job/step/task/memory.max", "3000000\n");
  EXPECT_EQ(limit("0::/job/step/task\n"), 1000000U);
  EXPECT_EQ(limit("0::/\n"), UINT64_MAX);
  EXPECT_EQ(limit("0::/nowhere/at/all\n"), UINT64_MAX);
  write("mount/memory.max", "500\n");  // as in a container, which sees its own group as the root
  EXPECT_EQ(limit("0::/\n"), 500U);
}

TEST_F(Surroundings, GroupsOfTheFirstVersionHaveAFolderForMemory) {
  write("mount/memory/slurm/job_7/memory.limit_in_bytes", "4096\n");
  write("mount/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit("12:cpuset:/other\n4:cpu,memory:/slurm/job_7/step_0\n1:name=systemd:/\n"), 4096U);
  EXPECT_EQ(limit("12:cpuset:/slurm/job_7\n"), UINT64_MAX);
}

TEST_F(Surroundings, ThisProcessMayUseSomething) {
  EXPECT_GT(mq::memory_limit(), 1U << 20);
  EXPECT_LT(mq::memory_limit(), UINT64_MAX);
}

TEST_F(Surroundings, RanksOfTheNodeAreThoseOfTheLauncher) {
  EXPECT_EQ(mq::ranks_on_node(), 1);
  setenv("SLURM_TASKS_PER_NODE", "64", 1);  // of the job, not of this step
  EXPECT_EQ(mq::ranks_on_node(), 1);
  for (const auto& [text, ranks] : {std::pair{"4", 4}, {"2(x3),1", 2}, {"1,16(x2)", 16}, {"", 1}, {"x", 1}}) {
    setenv("SLURM_STEP_TASKS_PER_NODE", text, 1);
    EXPECT_EQ(mq::ranks_on_node(), ranks) << text;
  }
  setenv("SLURM_STEP_TASKS_PER_NODE", "9", 1);  // mpiexec in a job step: its own count
  for (const char* variable :
       {"PALS_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    setenv(variable, "3", 1);
    EXPECT_EQ(mq::ranks_on_node(), 3) << variable;
    unsetenv(variable);
  }
}

TEST_F(Surroundings, MistypedVariablesAreNamed) {
  EXPECT_TRUE(mq::mistyped_variables().empty());
  setenv("MPIQ_POLICY", "", 1);
  setenv("MPIQ_SITE", "x", 1);
  setenv("MPIQ_NOTHING_LIKE_IT", "x", 1);
  EXPECT_TRUE(mq::mistyped_variables().empty());
  setenv("MPIQ_POLCY", ": onebit", 1);
  setenv("MPIQ_REPORTS", "-", 1);
  std::vector<std::string> said;
  for (const mq::Mistyped& mistyped : mq::mistyped_variables()) said.push_back(mq::words(mistyped));
  std::sort(said.begin(), said.end());
  EXPECT_EQ(said,
            (std::vector<std::string>{"MPIQ_POLCY is no variable of this library: is MPIQ_POLICY meant?",
                                      "MPIQ_REPORTS is no variable of this library: is MPIQ_REPORT meant?"}));
}

}  // namespace
