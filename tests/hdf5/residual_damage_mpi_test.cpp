// Residual files that are cut off, damaged or impossible, under real MPI: an error on every rank that says
// why and changes nothing.

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "mpi_quant/hdf5/h5.hpp"
#include "tests/hdf5/residual_file.hpp"

namespace mq::test {
namespace {

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
  // At least damage to the values, and to what describes them.
  EXPECT_GT(refused, size == 1 ? 200u : 0u) << "of " << tried;
}

// A good file, of which a test then changes something through HDF5.
class ImpossibleFile : public ResidualFile {
 protected:
  void SetUp() override {
    ResidualFile::SetUp();
    put(comm, "w", std::vector<float>(100, 1.0F));
    ASSERT_EQ(MPIQ_Residual_save(comm, path.c_str()), MPI_SUCCESS);
    whole_ = read(path);
    // Without its seal, as files were written before there were seals.
    whole_.erase(whole_.begin(), whole_.begin() + 512);
    on_rank_0([&] { write(path, whole_); });
    ASSERT_EQ(MPIQ_Residual_restore(comm, path.c_str()), MPI_SUCCESS);
    before_ = held(comm);
  }
  void fails(const std::function<void(hid_t file)>& change, const std::string& why) const {
    on_rank_0([&] {
      write(path, whole_);
      const h5::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose, path);
      change(file);
    });
    expect_error_everywhere(MPIQ_Residual_restore(comm, path.c_str()), why);
    EXPECT_EQ(held(comm), before_) << why;
  }
  template <class Value>
  void fails_with(const char* object, const char* attribute, Value value, const std::string& why) const {
    fails(
        [&](hid_t file) {
          h5::write_attribute(h5::Handle(H5Oopen(file, object, H5P_DEFAULT), H5Oclose, object), attribute,
                              value);
        },
        why);
  }

 private:
  Bytes whole_;
  Held before_;
};

TEST_F(ImpossibleFile, by_its_attributes_is_an_error_that_says_why) {
  fails_with("/", "format", std::string("something"), "not a file of residuals");
  fails_with("/", "version", std::int32_t{4}, "version 4, this library reads 1 to 3");
  fails_with("/", "ranks", std::int32_t{size + 1}, "another shape");
  fails_with("/", "ranks", std::int32_t{-1}, "impossible number");
  fails_with("/", "residuals", std::uint64_t{2}, "/1");
  fails_with("/", "residuals", ~std::uint64_t{0}, "impossible number");
  fails_with("/0", "key", std::string(), "1 to 63");
  fails_with("/0", "key", std::string(64, 'k'), "1 to 63");
  fails_with("/0", "key", 1.0, "key: not a text");
  fails_with("/0", "element", std::string("i32"), "i32");
  fails_with("/0", "element", std::string("f64"), "another type");
  fails_with("/0", "count", std::uint64_t{99}, "another shape");
  fails_with("/0", "settled", std::nan(""), "settled");
  fails_with("/0", "arrays", std::int32_t{2}, "another shape");
  fails_with("/0", "arrays", std::int32_t{0}, "impossible number of arrays");
  fails_with("/0", "arrays", std::int32_t{1 << 30}, "impossible number of arrays");
}

TEST_F(ImpossibleFile, would_be_one_without_calls_but_for_version_1) {
  fails([](hid_t file) { h5::check(H5Adelete_by_name(file, "/0", "calls", H5P_DEFAULT), "delete"); },
        "calls");
  on_rank_0([&] {
    const h5::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose, path);
    h5::write_attribute(h5::Handle(H5Oopen(file, "/", H5P_DEFAULT), H5Oclose, "/"), "version",
                        std::int32_t{1});
  });
  EXPECT_EQ(MPIQ_Residual_restore(comm, path.c_str()), MPI_SUCCESS);
}

TEST_F(ImpossibleFile, by_its_dataset_is_an_error_that_says_why) {
  // In place of the residual: floats of this shape, all NaN or, without values, none in the file.
  const auto replace = [](hid_t file, const std::vector<hsize_t>& shape, bool values) {
    h5::check(H5Ldelete(file, "/0/residual", H5P_DEFAULT), "delete");
    const h5::Handle group(H5Gopen2(file, "/0", H5P_DEFAULT), H5Gclose, "/0");
    h5::write_attribute(group, "count", std::uint64_t{shape.back()});
    const auto axes = static_cast<int>(shape.size());
    const h5::Handle space(H5Screate_simple(axes, shape.data(), nullptr), H5Sclose, "space");
    const h5::Handle create(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "create");
    h5::check(H5Pset_chunk(create, axes, std::vector<hsize_t>(shape.size(), 1).data()), "chunk");
    const h5::Handle set(
        H5Dcreate2(group, "residual", H5T_IEEE_F32LE, space, H5P_DEFAULT, create, H5P_DEFAULT), H5Dclose,
        "set");
    const std::vector<float> nan(values ? shape[0] * shape.back() : 0, std::nanf(""));
    if (values)
      h5::check(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, nan.data()), "write");
  };
  const auto ranks = static_cast<hsize_t>(size);
  fails([&](hid_t f) { replace(f, {ranks, hsize_t{1} << 45}, false); }, "values are missing");
  fails([&](hid_t f) { replace(f, {ranks, 10}, true); }, "NaN");
  fails([&](hid_t f) { replace(f, {ranks + 1, 10}, true); }, "another shape");
  fails([&](hid_t f) { replace(f, {ranks, 1, 10}, true); }, "no matrix");
  fails([&](hid_t f) { h5::check(H5Ldelete(f, "/0/residual", H5P_DEFAULT), "delete"); }, "/0");
}

TEST_F(ImpossibleFile, with_one_key_twice_is_an_error) {
  fails(
      [](hid_t file) {
        h5::write_attribute(file, "residuals", std::uint64_t{2});
        h5::check(H5Lcreate_hard(file, "/0", file, "/1", H5P_DEFAULT, H5P_DEFAULT), "link");
      },
      "\"w\" is in the list twice");
}

}  // namespace
}  // namespace mq::test
