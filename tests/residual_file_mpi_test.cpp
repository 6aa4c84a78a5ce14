// Residual files under real MPI: a restored run goes on bit for bit, on another number of ranks nothing is
// lost, and a file or a disk that is no good is an error on every rank that changes nothing.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "mpi_quant/hdf5/h5.hpp"
#include "tests/api.hpp"

namespace mq::test {
namespace {

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
  static std::vector<T> reduce(MPI_Comm on, const std::string& key, const std::vector<T>& x) {
    std::vector<T> y(x.size());
    EXPECT_EQ(MPIQ_Allreduce(x.data(), y.data(), static_cast<MPI_Count>(x.size()), mpi_type<T>(), MPI_SUM, on,
                             Info{{"mpiq_method", "onebit"}, {"mpiq_key", key}}),
              MPI_SUCCESS);
    return y;
  }
  // Keys with residuals also on one rank, where no call leaves any.
  template <class T>
  static void put(MPI_Comm on, const std::string& key, const std::vector<T>& values) {
    MPIQ_Residual r{};
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
    std::vector<MPIQ_Residual> all(static_cast<std::size_t>(n));
    EXPECT_EQ(MPIQ_Residual_list(on, n, all.data(), &n), MPI_SUCCESS);
    Held map;
    for (const MPIQ_Residual& r : all) {
      Bytes bytes(static_cast<std::size_t>(r.count) * (r.datatype == MPI_DOUBLE ? 8 : 4));
      EXPECT_EQ(MPIQ_Residual_get(on, r.key, 0, r.count, bytes.data()), MPI_SUCCESS);
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

TEST_F(ResidualFile, that_was_cut_off_or_damaged_is_an_error_and_changes_nothing) {
  put(comm, "w", input<float>(200));
  const Held saved = held(comm);
  ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  const Bytes whole = read(path);
  put(comm, "w", std::vector<float>(7, 1.0F));
  put(comm, "v", std::vector<float>(7, 2.0F));
  const Held before = held(comm);
  const auto fails = [&](const Bytes& bytes, const std::string& what) {
    on_rank_0([&] { write(path, bytes); });
    EXPECT_NE(MPIQ_Residual_restore(comm, path.c_str()), MPI_SUCCESS) << what;
    EXPECT_EQ(held(comm), before) << what;
  };
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{1}, std::size_t{48}, whole.size() / 2, whole.size() - 1})
    fails(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)),
          "length " + std::to_string(length));
  // Rank 0's values, wherever HDF5 put them.
  Bytes values = saved.at("w").second;
  MPI_Bcast(values.data(), static_cast<int>(values.size()), MPI_CHAR, 0, comm);
  const auto at = std::search(whole.begin(), whole.end(), values.begin(), values.end()) - whole.begin();
  ASSERT_LT(static_cast<std::size_t>(at), whole.size());
  for (const std::ptrdiff_t offset : {0, 1, 399, 799}) {
    Bytes damaged = whole;
    damaged[static_cast<std::size_t>(at + offset)] ^= 1;
    fails(damaged, "value byte " + std::to_string(offset));
  }
}

TEST_F(ResidualFile, a_flipped_byte_anywhere_is_an_error_or_has_no_effect) {
  put(comm, "w", input<float>(20));
  const Held saved = held(comm);
  ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  const Bytes whole = read(path);
  const std::size_t step = size == 1 ? 1 : whole.size() / 20;
  std::size_t tried = 0, refused = 0;
  for (std::size_t at = 0; at < whole.size(); at += step) {
    Bytes damaged = whole;
    damaged[at] ^= 0x41;
    on_rank_0([&] { write(path, damaged); });
    ASSERT_EQ(MPIQ_Residual_reset(comm, nullptr), MPI_SUCCESS);
    const bool restored = MPIQ_Residual_restore(comm, path.c_str()) == MPI_SUCCESS;
    EXPECT_EQ(held(comm), restored ? saved : Held{}) << "byte " << at;
    ++tried;
    refused += !restored;
  }
  // At least those of the values, and of what describes them.
  EXPECT_GT(refused, size == 1 ? 200u : 0u) << "of " << tried;
}

TEST_F(ResidualFile, with_impossible_contents_is_an_error_that_says_why) {
  put(comm, "w", std::vector<float>(100, 1.0F));
  ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
  const Bytes whole = read(path);
  const Held before = held(comm);
  const auto fails = [&](const std::function<void(hid_t file)>& change, const std::string& what) {
    on_rank_0([&] {
      write(path, whole);
      const h5::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose, path);
      change(file);
    });
    expect_error_everywhere(MPIQ_Residual_restore(comm, path.c_str()), what);
    EXPECT_EQ(held(comm), before) << what;
  };
  const auto group = [](hid_t file, const auto& change) {
    const h5::Handle first(H5Gopen2(file, "/0", H5P_DEFAULT), H5Gclose, "/0");
    change(static_cast<hid_t>(first));
  };
  const auto dataset_of = [&](hid_t file, hsize_t ranks, hsize_t count, bool values) {
    group(file, [&](hid_t g) {
      h5::check(H5Ldelete(g, "residual", H5P_DEFAULT), "delete");
      h5::write_attribute(g, "count", static_cast<std::uint64_t>(count));
      const hsize_t shape[]{ranks, count}, chunk[]{1, 100};
      const h5::Handle space(H5Screate_simple(2, shape, nullptr), H5Sclose, "space");
      const h5::Handle create(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "create");
      h5::check(H5Pset_chunk(create, 2, chunk), "chunk");
      const h5::Handle d(H5Dcreate2(g, "residual", H5T_IEEE_F32LE, space, H5P_DEFAULT, create, H5P_DEFAULT),
                         H5Dclose, "d");
      const std::vector<float> nan(ranks * 100, std::nanf(""));
      if (values)
        h5::check(H5Dwrite(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, nan.data()), "write");
    });
  };
  const auto ranks = static_cast<hsize_t>(size);
  fails([&](hid_t f) { h5::write_attribute(f, "format", std::string("something")); },
        "not a file of residuals");
  fails([&](hid_t f) { h5::write_attribute(f, "version", std::int32_t{2}); },
        "version 2, this library reads 1");
  fails([&](hid_t f) { h5::write_attribute(f, "ranks", std::int32_t{size + 1}); }, "another shape");
  fails([&](hid_t f) { h5::write_attribute(f, "ranks", std::int32_t{-1}); }, "impossible number");
  fails([&](hid_t f) { h5::write_attribute(f, "residuals", std::uint64_t{2}); }, "/1");
  fails([&](hid_t f) { h5::write_attribute(f, "residuals", ~std::uint64_t{0}); }, "impossible number");
  fails([&](hid_t f) { group(f, [](hid_t g) { h5::write_attribute(g, "key", std::string()); }); }, "1 to 63");
  fails([&](hid_t f) { group(f, [](hid_t g) { h5::write_attribute(g, "key", std::string(64, 'k')); }); },
        "1 to 63");
  fails([&](hid_t f) { group(f, [](hid_t g) { h5::write_attribute(g, "element", std::string("i32")); }); },
        "i32");
  fails([&](hid_t f) { group(f, [](hid_t g) { h5::write_attribute(g, "element", std::string("f64")); }); },
        "another type");
  fails([&](hid_t f) { group(f, [](hid_t g) { h5::write_attribute(g, "count", std::uint64_t{99}); }); },
        "another shape");
  fails([&](hid_t f) { group(f, [](hid_t g) { h5::write_attribute(g, "settled", std::nan("")); }); },
        "settled");
  fails([&](hid_t f) { h5::check(H5Ldelete(f, "/0/residual", H5P_DEFAULT), "delete"); }, "/0");
  fails([&](hid_t f) { dataset_of(f, ranks, hsize_t{1} << 45, false); }, "values are missing");
  fails([&](hid_t f) { dataset_of(f, ranks, 100, true); }, "NaN");
  fails(
      [&](hid_t f) {
        h5::write_attribute(f, "residuals", std::uint64_t{2});
        h5::check(H5Lcreate_hard(f, "/0", f, "/1", H5P_DEFAULT, H5P_DEFAULT), "link");
      },
      "twice");
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
