// Residual files under real MPI: a restored run goes on bit for bit, on another number of ranks nothing is
// lost, and a disk that is no good is an error on every rank that changes nothing.

#include <gtest/gtest.h>
#include <hdf5.h>
#include <mpi.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <string>
#include <vector>

#include "tests/hdf5/residual_file.hpp"

namespace mq::test {
namespace {

int lock_error = 0;  // of flock(); 0: it works

}  // namespace
}  // namespace mq::test

// Takes the place of the C library's flock() in this program, so that it can fail as on NFS and Lustre.
extern "C" [[gnu::visibility("default")]] int flock(int file, int operation) noexcept {
  if (mq::test::lock_error == 0) return static_cast<int>(syscall(SYS_flock, file, operation));
  errno = mq::test::lock_error;
  return -1;
}

namespace mq::test {
namespace {

// A communicator that frees itself.
class Sub {
 public:
  Sub(MPI_Comm comm, int ranks, int rank) {
    MPI_Comm_split(comm, rank < ranks ? 0 : MPI_UNDEFINED, rank, &comm_);
    if (comm_ != MPI_COMM_NULL) MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~Sub() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  Sub(const Sub&) = delete;
  Sub& operator=(const Sub&) = delete;
  operator MPI_Comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

TEST_F(ResidualFile, a_restored_run_goes_on_bit_for_bit) {
  const std::vector<float> x = input<float>(300001);  // three pieces
  const std::vector<double> d = input<double>(1000);
  const std::string keys[]{"layer/1", "/", "..", "\xc3\xa4\xe6\xbc\xa2\n\x01\xff",
                           std::string(MPIQ_MAX_KEY, 'k')};
  for (int call = 0; call < 2; ++call) {
    reduce(comm, "big", x);
    for (const std::string& key : keys) reduce(comm, key, d);
  }
  ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  const Sub restarted(comm, size, rank);
  ASSERT_EQ(MPIQ_Residual_restore(restarted, path.c_str()), MPI_SUCCESS);
  EXPECT_EQ(held(restarted), held(comm));
  EXPECT_EQ(held(comm).size(), size > 1 ? 6u : 0u);
  for (int call = 0; call < 2; ++call) {
    EXPECT_TRUE(same_bits(reduce(restarted, "big", x), reduce(comm, "big", x)));
    for (const std::string& key : keys)
      EXPECT_TRUE(same_bits(reduce(restarted, key, d), reduce(comm, key, d)));
  }
}

TEST_F(ResidualFile, a_restored_run_with_more_arrays_goes_on_bit_for_bit_and_on_fewer_ranks_adds_them) {
  if (size == 1) return;
  const std::string method = "topk memory=momentum(clip=50)";
  const std::vector<float> x = input<float>(140000);  // two pieces
  for (int call = 0; call < 3; ++call) reduce(comm, "w", x, method);
  ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  const Sub restarted(comm, size, rank);
  ASSERT_EQ(MPIQ_Residual_restore(restarted, path.c_str()), MPI_SUCCESS);
  EXPECT_EQ(held(restarted), held(comm));
  std::vector<float> mine(2 * x.size()), sum(mine.size());
  ASSERT_EQ(MPIQ_Residual_get(comm, "w", 0, static_cast<MPI_Count>(mine.size()), mine.data()), MPI_SUCCESS);
  MPI_Allreduce(mine.data(), sum.data(), static_cast<int>(sum.size()), MPI_FLOAT, MPI_SUM, comm);
  for (int call = 0; call < 2; ++call)
    EXPECT_TRUE(same_bits(reduce(restarted, "w", x, method), reduce(comm, "w", x, method)));
  const Sub one(comm, 1, rank);
  if (rank > 0) return;
  ASSERT_EQ(MPIQ_Residual_restore(one, path.c_str()), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Residual_get(one, "w", 0, static_cast<MPI_Count>(mine.size()), mine.data()), MPI_SUCCESS);
  EXPECT_LE(norm(mine, sum), 1e-6 * norm(sum, std::vector<float>(sum.size())));
}

// The sum of estimates goes to every rank, whatever their number; estimates of ranks that are no more are
// added to others.
TEST_F(ResidualFile, estimates_go_on_bit_for_bit_and_on_fewer_ranks_with_the_same_sum) {
  if (size == 1) return;
  const std::string method = "topk memory=3pc(resync=4)";
  const std::vector<float> x = input<float>(140000), other = input<float>(140000, Input::laplace);
  for (int call = 0; call < 3; ++call) reduce(comm, "w", call == 0 ? x : other, method);
  ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  const Sub restarted(comm, size, rank);
  ASSERT_EQ(MPIQ_Residual_restore(restarted, path.c_str()), MPI_SUCCESS);
  EXPECT_EQ(held(restarted), held(comm));
  std::vector<float> mine(3 * x.size()), theirs(mine.size());
  ASSERT_EQ(MPIQ_Residual_get(comm, "w", 0, static_cast<MPI_Count>(mine.size()), mine.data()), MPI_SUCCESS);
  for (int call = 0; call < 4; ++call)  // one of them is exact
    EXPECT_TRUE(same_bits(reduce(restarted, "w", x, method), reduce(comm, "w", x, method))) << call;
  const Sub fewer(comm, size - 1, rank);
  if (rank == size - 1) return;
  ASSERT_EQ(MPIQ_Residual_restore(fewer, path.c_str()), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Residual_get(fewer, "w", 0, static_cast<MPI_Count>(mine.size()), theirs.data()),
            MPI_SUCCESS);
  const auto n = static_cast<std::ptrdiff_t>(x.size());
  EXPECT_TRUE(std::equal(mine.begin() + n, mine.begin() + 2 * n, theirs.begin() + n))
      << "the sum of estimates";
  std::vector<float> sum(x.size());
  MPI_Allreduce(theirs.data(), sum.data(), static_cast<int>(sum.size()), MPI_FLOAT, MPI_SUM, fewer);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(-sum[i], theirs[x.size() + i], 1e-4) << i;
}

TEST_F(ResidualFile, lowrank_goes_on_bit_for_bit_and_on_fewer_ranks_with_the_same_residuals) {
  if (size == 1) return;
  const std::vector<float> x = input<float>(6000);
  const auto call = [&](MPI_Comm on) {
    std::vector<float> y(x.size());
    EXPECT_EQ(MPIQ_Allreduce(
                  x.data(), y.data(), 6000, MPI_FLOAT, MPI_SUM, on,
                  Info{{"mpiq_method", "lowrank(rank=3)"}, {"mpiq_key", "w"}, {"mpiq_matrix", "100x60"}}),
              MPI_SUCCESS);
    return y;
  };
  for (int i = 0; i < 3; ++i) call(comm);
  ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  std::vector<float> waiting(x.size()), delivered(x.size());
  const Sub restarted(comm, size, rank);
  ASSERT_EQ(MPIQ_Residual_restore(restarted, path.c_str()), MPI_SUCCESS);
  EXPECT_EQ(held(restarted), held(comm));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(call(restarted), call(comm)));
  ASSERT_EQ(MPIQ_Residual_restore(comm, path.c_str()), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Residual_flush(waiting.data(), 6000, MPI_FLOAT, comm, "w"), MPI_SUCCESS);
  const Sub fewer(comm, size - 1, rank);
  if (rank == size - 1) return;
  ASSERT_EQ(MPIQ_Residual_restore(fewer, path.c_str()), MPI_SUCCESS);
  if (size > 2) call(fewer);  // the basis of some ranks is now another multiple, or none
  ASSERT_EQ(MPIQ_Residual_restore(fewer, path.c_str()), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Residual_flush(delivered.data(), 6000, MPI_FLOAT, fewer, "w"), MPI_SUCCESS);
  EXPECT_LE(norm(delivered, waiting), 1e-6 * norm(waiting, std::vector<float>(waiting.size())));
}

TEST_F(ResidualFile, saved_or_restored_while_a_rank_reduces_is_an_error_on_all_ranks_that_names_both) {
  if (size == 1) return;
  reduce(comm, "w", input<float>(100));
  ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  std::vector<float> x(100), y(100);
  for (const bool saves : {true, false}) {
    int code = MPI_SUCCESS;
    if (rank == 0)
      code =
          MPIQ_Allreduce(x.data(), y.data(), 100, MPI_FLOAT, MPI_SUM, comm, Info{{"mpiq_method", "onebit"}});
    else
      code = saves ? MPIQ_Residual_save(comm, path.c_str()) : MPIQ_Residual_restore(comm, path.c_str());
    expect_error_everywhere(code, saves ? "MPIQ_Residual_save" : "MPIQ_Residual_restore");
    expect_error_everywhere(code, "MPIQ_Allreduce: count 100");
  }
}

TEST_F(ResidualFile, many_keys_and_values_come_back) {
  std::vector<float> hard{0.0F, -0.0F, 1e-45F, -1e-40F, 3.4e38F, -3.4e38F};
  for (int k = 0; k < 100; ++k) {
    hard.push_back(static_cast<float>(rank));
    put(comm, "key " + std::to_string(k), hard);
  }
  put(comm, "doubles", input<double>(5, Input::subnormal));
  const Held before = held(comm);
  ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Residual_reset(comm, nullptr), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Residual_restore(comm, path.c_str()), MPI_SUCCESS);
  EXPECT_EQ(held(comm), before);
}

TEST_F(ResidualFile, keys_of_the_file_are_replaced_and_others_stay) {
  const std::vector<float> one(10, 1.0F), two(20, 2.0F);
  put(comm, "a", one);
  put(comm, "b", one);
  const Held in_file = held(comm);
  ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  put(comm, "b", two);
  put(comm, "c", two);
  Held expected = held(comm);
  expected["a"] = in_file.at("a");
  expected["b"] = in_file.at("b");
  ASSERT_EQ(MPIQ_Residual_restore(comm, path.c_str()), MPI_SUCCESS);
  EXPECT_EQ(held(comm), expected);
}

TEST_F(ResidualFile, without_residuals_is_a_file_as_well) {
  ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  ASSERT_EQ(MPIQ_Residual_restore(comm, path.c_str()), MPI_SUCCESS);
  EXPECT_TRUE(held(comm).empty());
}

TEST_F(ResidualFile, on_another_number_of_ranks_residuals_are_added_in_order) {
  const auto check = [&]<class T>(T, const std::string& key, int from, int to) {
    const std::size_t n = 140000;  // two pieces
    const auto of = [&](int r) {
      return make_input<T>(Input::mixed_scales, n, seed() + static_cast<std::uint64_t>(r));
    };
    const Sub old(comm, from, rank), fresh(comm, to, rank);
    if (rank < from) {
      put(old, key, of(rank));
      ASSERT_EQ(MPIQ_Residual_save(old, path.c_str()), MPI_SUCCESS);
    }
    MPI_Barrier(comm);
    if (rank < to) {
      ASSERT_EQ(MPIQ_Residual_restore(fresh, path.c_str()), MPI_SUCCESS);
      std::vector<double> sum(n);
      for (int r = rank; r < from; r += to) {
        const std::vector<T> values = of(r);
        for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(values[i]);
      }
      std::vector<T> got(n);
      ASSERT_EQ(MPIQ_Residual_get(fresh, key.c_str(), 0, static_cast<MPI_Count>(n), got.data()), MPI_SUCCESS);
      EXPECT_TRUE(same_bits(got, std::vector<T>(sum.begin(), sum.end()))) << from << " to " << to;
    }
    MPI_Barrier(comm);
  };
  for (int ranks = 1; ranks <= size; ++ranks) {
    check(float{}, "f", size, ranks);
    check(double{}, "d", ranks, size);
  }
}

TEST_F(ResidualFile, a_flush_after_a_restart_on_fewer_ranks_delivers_all) {
  const std::vector<float> x = input<float>(1000);
  reduce(comm, "w", x);
  ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  std::vector<float> expected(1000), got(1000);
  ASSERT_EQ(MPIQ_Residual_flush(expected.data(), 1000, MPI_FLOAT, comm, "w"), MPI_SUCCESS);
  for (int ranks = 1; ranks <= size; ++ranks) {
    const Sub fewer(comm, ranks, rank);
    if (rank >= ranks) continue;
    ASSERT_EQ(MPIQ_Residual_restore(fewer, path.c_str()), MPI_SUCCESS);
    ASSERT_EQ(MPIQ_Residual_flush(got.data(), 1000, MPI_FLOAT, fewer, "w"), MPI_SUCCESS);
    EXPECT_LE(norm(got, expected), 1e-5 * size * std::sqrt(1000.0));
  }
}

TEST_F(ResidualFile, needs_no_locks_of_the_file_system) {
  put(comm, "a", std::vector<float>(10, 1.0F));
  for (const int error : {ENOLCK, EOPNOTSUPP, EIO, ENOSYS}) {
    lock_error = error;
    const int saved = MPIQ_Residual_save(comm, path.c_str());
    const int restored = MPIQ_Residual_restore(comm, path.c_str());
    lock_error = 0;
    EXPECT_EQ(saved, MPI_SUCCESS) << error;
    EXPECT_EQ(restored, MPI_SUCCESS) << error;
  }
}

TEST_F(ResidualFile, that_is_not_there_or_named_differently_is_an_error) {
  expect_error_everywhere(MPIQ_Residual_restore(comm, path.c_str()), "No such file");
  expect_error_everywhere(MPIQ_Residual_restore(comm, folder.c_str()), "cannot open");
  expect_error_everywhere(MPIQ_Residual_restore(comm, nullptr), "path");
  expect_error_everywhere(MPIQ_Residual_save(comm, ""), "path");
  if (size == 1) return;
  const bool odd = rank == size - 1;
  expect_error_everywhere(MPIQ_Residual_restore(comm, odd ? "b" : path.c_str()), "No such file");
  expect_error_everywhere(MPIQ_Residual_save(comm, odd ? "b" : path.c_str()), ": path b");
  expect_error_everywhere(MPIQ_Residual_save(comm, odd ? nullptr : path.c_str()), "path is NULL");
}

TEST_F(ResidualFile, is_not_written_if_the_ranks_hold_different_residuals) {
  put(comm, "a", std::vector<float>(10, 1.0F));
  put(comm, "b", std::vector<float>(10, 1.0F));
  if (size == 1) return;
  ASSERT_EQ(MPIQ_Residual_reset(comm, rank == size - 1 ? "b" : "c"), MPI_SUCCESS);
  expect_error_everywhere(MPIQ_Residual_save(comm, path.c_str()), "rank 0: key \"b\", 10 f32, settled 0.125");
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST_F(ResidualFile, stays_as_it_was_if_the_new_one_cannot_be_written) {
  put(comm, "w", input<float>(300000));
  ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  const Bytes old = read(path);
  put(comm, "w", std::vector<float>(300000, 1.0F));
  expect_error_everywhere(MPIQ_Residual_save(comm, (path + "/x").c_str()), "Not a directory");
  expect_error_everywhere(MPIQ_Residual_save(comm, (folder + "/no/x").c_str()), "No such file");
  expect_error_everywhere(MPIQ_Residual_save(comm, folder.c_str()), "directory");  // cannot be replaced
  // A disk that is full after so many bytes.
  rlimit unlimited;
  getrlimit(RLIMIT_FSIZE, &unlimited);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t bytes : {0, 1000, 500000, 1200000}) {
    const rlimit limit{bytes, unlimited.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    const int code = MPIQ_Residual_save(comm, path.c_str());
    setrlimit(RLIMIT_FSIZE, &unlimited);
    expect_error_everywhere(code, "File too large");
  }
  signal(SIGXFSZ, handler);
  EXPECT_EQ(read(path), old);
  MPI_Barrier(comm);
  EXPECT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  EXPECT_NE(read(path), old);
}

herr_t my_printer(hid_t, void*) { return 0; }

TEST_F(ResidualFile, leaves_the_printing_of_hdf5_errors_as_it_was) {
  int mine = 0;
  ASSERT_GE(H5Eset_auto2(H5E_DEFAULT, my_printer, &mine), 0);
  expect_error_everywhere(MPIQ_Residual_restore(comm, folder.c_str()), "cannot open");
  ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  H5E_auto2_t printer = nullptr;
  void* data = nullptr;
  ASSERT_GE(H5Eget_auto2(H5E_DEFAULT, &printer, &data), 0);
  EXPECT_EQ(printer, my_printer);
  EXPECT_EQ(data, &mine);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

}  // namespace
}  // namespace mq::test
