#include "mpi_quant/hdf5/file.hpp"

#include <array>

#include "mpi_quant/hdf5/seal.hpp"

namespace mq::h5 {
namespace {

constexpr char kFormat[] = "mpi_quant residuals";
constexpr std::int32_t kVersion = 3, kOldest = 1;  // version 1 has no calls, 2 no arrays and estimates
constexpr char kDataset[] = "residual";
constexpr int kMaxArrays = 16;                    // no rule keeps as many
constexpr std::uint64_t kMaxResiduals = 1 << 20;  // a file with more was not written by this library

hid_t file_type(const MPIQ_Residual& r) { return is_double(r) ? H5T_IEEE_F64LE : H5T_IEEE_F32LE; }
hid_t memory_type(const MPIQ_Residual& r) { return is_double(r) ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT; }

// The region of a piece in a dataset, and its shape in memory.
std::pair<Handle, Handle> spaces(hid_t dataset, int row, MPI_Count first, MPI_Count n) {
  const std::array<hsize_t, 2> start{static_cast<hsize_t>(row), static_cast<hsize_t>(first)};
  const std::array<hsize_t, 2> count{1, static_cast<hsize_t>(n)};
  Handle in_file(H5Dget_space(dataset), H5Sclose, kDataset);
  check(H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), kDataset);
  Handle in_memory(H5Screate_simple(2, count.data(), nullptr), H5Sclose, kDataset);
  return {std::move(in_file), std::move(in_memory)};
}

}  // namespace

Quiet::Quiet() {
  check(H5Eauto_is_v2(H5E_DEFAULT, &is_v2_), "error printing");
  check(is_v2_ ? H5Eget_auto2(H5E_DEFAULT, &print2_, &data_) : H5Eget_auto1(&print1_, &data_),
        "error printing");
  check(is_v2_ ? H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) : H5Eset_auto1(nullptr, nullptr),
        "error printing");
}

Quiet::~Quiet() { (void)(is_v2_ ? H5Eset_auto2(H5E_DEFAULT, print2_, data_) : H5Eset_auto1(print1_, data_)); }

Writer::Writer(std::string path, int ranks, const std::vector<MPIQ_Residual>& residuals)
    : ranks_(ranks), residuals_(residuals), output_(std::move(path)), file_(output_.create_hdf5()) {
  write_attribute(*file_, "format", std::string(kFormat));
  write_attribute(*file_, "version", kVersion);
  write_attribute(*file_, "ranks", static_cast<std::int32_t>(ranks_));
  write_attribute(*file_, "residuals", static_cast<std::uint64_t>(residuals_.size()));
}

void Writer::create_residual(std::size_t index) {
  const MPIQ_Residual& r = residuals_[index];
  const Handle group(H5Gcreate2(*file_, std::to_string(index).c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                     H5Gclose, r.key);
  write_attribute(group, "key", std::string(text_in(r.key)));
  write_attribute(group, "element", std::string(text_in(r.element)));
  write_attribute(group, "count", static_cast<std::uint64_t>(r.count));
  write_attribute(group, "settled", r.settled);
  write_attribute(group, "calls", static_cast<std::uint64_t>(r.calls));
  write_attribute(group, "arrays", static_cast<std::int32_t>(arrays_of(r)));
  write_attribute(group, "stamp", r.stamp);
  write_attribute(group, "since", r.since);
  const std::array<hsize_t, 2> shape{static_cast<hsize_t>(arrays_of(r)) * static_cast<hsize_t>(ranks_),
                                     static_cast<hsize_t>(r.count)};
  const std::array<hsize_t, 2> chunk{1, static_cast<hsize_t>(piece_of(r.count))};
  const Handle space(H5Screate_simple(2, shape.data(), nullptr), H5Sclose, r.key);
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, r.key);
  check(H5Pset_chunk(properties, 2, chunk.data()), r.key);
  check(H5Pset_fletcher32(properties), r.key);
  dataset_.emplace(H5Dcreate2(group, kDataset, file_type(r), space, H5P_DEFAULT, properties, H5P_DEFAULT),
                   H5Dclose, r.key);
  current_ = index;
}

void Writer::write(std::size_t residual, int array, int rank, MPI_Count first, MPI_Count n,
                   const void* values) {
  if (!dataset_ || current_ != residual) create_residual(residual);
  const auto [in_file, in_memory] = spaces(*dataset_, array * ranks_ + rank, first, n);
  h5::check(H5Dwrite(*dataset_, memory_type(residuals_[residual]), in_memory, in_file, H5P_DEFAULT, values),
            residuals_[residual].key);
  output_.check();
}

void Writer::commit() {
  dataset_.reset();
  check(H5Fflush(*file_, H5F_SCOPE_GLOBAL), "flush");
  file_.reset();
  output_.commit();
}

namespace {

// Without a lock, which some file systems do not have (NFS without its lock daemon, Lustre without flock).
// None is needed: a file gets its name when it is complete. Older versions of HDF5 know no such property;
// HDF5_USE_FILE_LOCKING=FALSE does it there.
hid_t open_to_read(const std::string& path) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "file access properties");
#if H5_VERSION_GE(1, 12, 1) || (H5_VERS_MAJOR == 1 && H5_VERS_MINOR == 10 && H5_VERS_RELEASE >= 7)
  check(H5Pset_file_locking(access, false, true), "file without a lock");
#endif
  return H5Fopen(path.c_str(), H5F_ACC_RDONLY, access);
}

}  // namespace

Reader::Reader(const std::string& path)
    : file_((check_seal(path), open_to_read(path)), H5Fclose, "cannot open " + path) {
  if (read_text_attribute(file_, "format") != kFormat) throw Error("not a file of residuals");
  version_ = read_int_attribute(file_, "version");
  if (version_ < kOldest || version_ > kVersion)
    throw Error("the file has version " + std::to_string(version_) + ", this library reads " +
                std::to_string(kOldest) + " to " + std::to_string(kVersion));
  ranks_ = read_int_attribute(file_, "ranks");
  const std::uint64_t n = read_uint64_attribute(file_, "residuals");
  if (ranks_ < 1 || n > kMaxResiduals) throw Error("impossible number of ranks or residuals");
  for (std::size_t i = 0; i < n; ++i) residuals_.push_back(read_residual(i));
}

MPIQ_Residual Reader::read_residual(std::size_t index) {
  const std::string name = "/" + std::to_string(index);
  const Handle group(H5Gopen2(file_, name.c_str(), H5P_DEFAULT), H5Gclose, name);
  const std::string key = read_text_attribute(group, "key"), element = read_text_attribute(group, "element");
  const std::uint64_t count = read_uint64_attribute(group, "count");
  MPIQ_Residual r = MPIQ_RESIDUAL_INIT;
  if (key.empty() || key.size() > MPIQ_MAX_KEY) throw Error(name + ": the key is not 1 to 63 characters");
  if (element != "f32" && element != "f64" && element != "f16" && element != "bf16")
    throw Error(name + ": unknown element type \"" + element + "\"");
  key.copy(r.key, MPIQ_MAX_KEY);
  element.copy(r.element, sizeof r.element - 1);
  r.datatype = residual_type(r);
  r.settled = read_double_attribute(group, "settled");
  r.calls = version_ < 2 ? 0 : read_uint64_attribute(group, "calls");
  r.arrays = version_ < 3 ? 1 : read_int_attribute(group, "arrays");
  r.stamp = version_ < 3 ? 0 : read_uint64_attribute(group, "stamp");
  r.since = version_ < 3 ? 0 : read_uint64_attribute(group, "since");
  if (r.arrays < 1 || r.arrays > kMaxArrays) throw Error(name + ": impossible number of arrays");
  const Handle dataset(H5Dopen2(group, kDataset, H5P_DEFAULT), H5Dclose, name);
  const Handle type(H5Dget_type(dataset), H5Tclose, name), space(H5Dget_space(dataset), H5Sclose, name);
  if (check(H5Tequal(type, file_type(r)), name) == 0) throw Error(name + ": the residual has another type");
  std::array<hsize_t, 2> shape{};
  if (H5Sget_simple_extent_ndims(space) != 2) throw Error(name + ": the residual is no matrix");
  check(H5Sget_simple_extent_dims(space, shape.data(), nullptr), name);
  if (shape[0] != static_cast<hsize_t>(r.arrays) * static_cast<hsize_t>(ranks_) || shape[1] != count ||
      count == 0)
    throw Error(name + ": the residual has another shape");
  // Checks that every value is in the file, so that no memory is allocated for values that nobody ever wrote.
  const hsize_t stored = H5Dget_storage_size(dataset);
  if (count > stored / value_bytes(r) / shape[0]) throw Error(name + ": values are missing");
  r.count = static_cast<MPI_Count>(count);
  return r;
}

void Reader::read(std::size_t residual, int array, int rank, MPI_Count first, MPI_Count n, void* values) {
  const MPIQ_Residual& r = residuals_[residual];
  if (!dataset_ || current_ != residual) {
    const std::string name = "/" + std::to_string(residual) + "/" + kDataset;
    dataset_.emplace(H5Dopen2(file_, name.c_str(), H5P_DEFAULT), H5Dclose, name);
    current_ = residual;
  }
  const auto [in_file, in_memory] = spaces(*dataset_, array * ranks_ + rank, first, n);
  check(H5Dread(*dataset_, memory_type(r), in_memory, in_file, H5P_DEFAULT, values), r.key);
}

}  // namespace mq::h5
