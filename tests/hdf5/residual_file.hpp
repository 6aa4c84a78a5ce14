// The fixture of tests of residual files: a folder that all ranks share, and what a rank holds, to compare.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/api.hpp"

namespace mq::test {

using Bytes = std::vector<char>;

class ResidualFile : public Api {
 protected:
  void SetUp() override {
    Api::SetUp();
    // One folder for all ranks.
    std::string name = testing::TempDir() + "mpiq_residual_XXXXXX";
    const bool made = rank != 0 || mkdtemp(name.data()) != nullptr;
    ASSERT_TRUE(made) << name;
    MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, comm);
    folder = name;
    path = folder + "/residuals.h5";
  }
  void TearDown() override {
    MPI_Barrier(comm);
    if (rank == 0) {
      (void)std::remove(path.c_str());
      EXPECT_EQ(rmdir(folder.c_str()), 0) << "something was left in " << folder;
    }
    Api::TearDown();
  }

  // One call of a key on a communicator; its result.
  template <class T>
  static std::vector<T> reduce(MPI_Comm on, const std::string& key, const std::vector<T>& x,
                               const std::string& method = "onebit") {
    std::vector<T> y(x.size());
    EXPECT_EQ(MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(x.size()), mpi_type<T>(), MPI_SUM, on,
                             Info{{"mpiq_method", method}, {"mpiq_key", key}}),
              MPI_SUCCESS);
    return y;
  }
  // Keys with residuals also on one rank, where no call leaves any.
  template <class T>
  static void put(MPI_Comm on, const std::string& key, const std::vector<T>& values) {
    MPIQ_Residual r = MPIQ_RESIDUAL_INIT;
    key.copy(r.key, MPIQ_MAX_KEY);
    std::string(sizeof(T) == 4 ? "f32" : "f64").copy(r.element, 3);
    r.count = static_cast<MPI_Count>(values.size());
    r.settled = 0.125;
    const void* const buffer = values.data();
    ASSERT_EQ(MPIQ_Residual_put(on, 1, &r, &buffer), MPI_SUCCESS);
  }
  using Held = std::map<std::string, std::pair<std::string, Bytes>>;
  // All that a rank holds: by key, what it is and its bytes.
  static Held held(MPI_Comm on) {
    int n = 0;
    EXPECT_EQ(MPIQ_Residual_list(on, 0, nullptr, &n), MPI_SUCCESS);
    std::vector<MPIQ_Residual> all(static_cast<std::size_t>(n), MPIQ_RESIDUAL_INIT);
    EXPECT_EQ(MPIQ_Residual_list(on, n, all.data(), &n), MPI_SUCCESS);
    Held map;
    for (const MPIQ_Residual& r : all) {
      const MPI_Count elements = r.count * r.arrays;
      Bytes bytes(static_cast<std::size_t>(elements) * (r.datatype == MPI_DOUBLE ? 8 : 4));
      EXPECT_EQ(MPIQ_Residual_get(on, r.key, 0, elements, bytes.data()), MPI_SUCCESS);
      map[r.key] = {std::string(r.element) + " " + std::to_string(r.count) + " " + std::to_string(r.settled),
                    bytes};
    }
    return map;
  }
  // Rank 0 does it while the others wait.
  void on_rank_0(const std::function<void()>& f) const {
    MPI_Barrier(comm);
    if (rank == 0) f();
    MPI_Barrier(comm);
  }
  static Bytes read(const std::string& from) {
    std::ifstream file(from, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const std::string& to, const Bytes& bytes) {
    std::ofstream(to, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  std::string folder, path;
};

}  // namespace mq::test
