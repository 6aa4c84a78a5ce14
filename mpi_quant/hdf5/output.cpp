#include "mpi_quant/hdf5/output.hpp"

#include <fcntl.h>
#include <unistd.h>
#if __has_include(<H5FDdevelop.h>)
#  include <H5FDdevelop.h>  // since HDF5 1.13 a driver needs this header
#endif

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>

#include "mpi_quant/hdf5/seal.hpp"

namespace mq::h5 {
namespace {

constexpr char kName[] = "mpi_quant output";
// Puts a rename on the disk as well. Some file systems cannot do that; the file itself is safe without it.
void sync_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)fsync(descriptor);
  (void)close(descriptor);
}

[[noreturn]] void fail(const std::string& what) {
  throw Error(what + ": " + std::generic_category().message(errno));
}

constexpr haddr_t kMaxAddress = (haddr_t{1} << 62) - 1;

struct File {
  H5FD_t base{};  // HDF5's part, which must be first
  Output* output = nullptr;
  haddr_t allocated = 0;
};

File* file_of(H5FD_t* file) { return reinterpret_cast<File*>(file); }
const File* file_of(const H5FD_t* file) { return reinterpret_cast<const File*>(file); }

H5FD_t* open_file(const char*, unsigned, hid_t access, haddr_t) {
  auto* const file = new (std::nothrow) File;
  if (file == nullptr) return nullptr;
  std::memcpy(&file->output, H5Pget_driver_info(access), sizeof file->output);
  return &file->base;
}

herr_t close_file(H5FD_t* file) {
  delete file_of(file);
  return 0;
}

herr_t read_file(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, std::size_t bytes, void* data) {
  file_of(file)->output->read(at, data, bytes);
  return 0;
}

herr_t write_file(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, std::size_t bytes, const void* data) {
  file_of(file)->output->write(at, data, bytes);
  return 0;
}

herr_t truncate_file(H5FD_t* file, hid_t, hbool_t) {
  file_of(file)->output->resize(file_of(file)->allocated);
  return 0;
}

haddr_t get_eoa(const H5FD_t* file, H5FD_mem_t) { return file_of(file)->allocated; }
haddr_t get_eof(const H5FD_t* file, H5FD_mem_t) { return file_of(file)->output->size(); }
herr_t set_eoa(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  file_of(file)->allocated = address;
  return 0;
}

H5FD_class_t driver() {
  H5FD_class_t d{};
#if H5_VERSION_GE(1, 13, 2)
  d.version = H5FD_CLASS_VERSION;
  d.value = static_cast<H5FD_class_value_t>(500);  // from the range for drivers that HDF5 has not registered
#endif
  d.name = kName;
  d.maxaddr = kMaxAddress;
  d.fc_degree = H5F_CLOSE_STRONG;
  d.fapl_size = sizeof(Output*);
  d.open = open_file;
  d.close = close_file;
  d.get_eoa = get_eoa;
  d.set_eoa = set_eoa;
  d.get_eof = get_eof;
  d.read = read_file;
  d.write = write_file;
  d.truncate = truncate_file;
  return d;
}

}  // namespace

Output::Output(std::string path)
    : path_(std::move(path)),
      partial_(path_ + ".partial"),
      descriptor_(open(partial_.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) fail(partial_);
}

Output::~Output() {
  (void)unlink(partial_.c_str());  // fails after commit(), because the file then has its final name
  (void)close(descriptor_);
}

Handle Output::create_hdf5() {
  static const H5FD_class_t kDriver = driver();
  const Handle id(H5FDregister(&kDriver), H5FDunregister, kName);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "file access properties");
  Output* const self = this;
  h5::check(H5Pset_driver(access, id, &self), "driver");
  // The newest format that HDF5 1.10 writes, because all its metadata have checksums.
  h5::check(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), "format");
  const Handle create(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "file creation properties");
  h5::check(H5Pset_userblock(create, kSealBytes), "room for the seal");
  return {H5Fcreate(partial_.c_str(), H5F_ACC_TRUNC, create, access), H5Fclose, partial_};
}

void Output::check() const {
  if (error_ != 0) throw Error(partial_ + ": " + std::generic_category().message(error_));
}

void Output::commit() {
  check();
  const Seal seal = seal_of(descriptor_);
  write(0, &seal, sizeof seal);
  check();
  if (fsync(descriptor_) != 0) fail(partial_);
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) fail(path_);
  sync_folder_of(path_);
}

void Output::write(std::uint64_t offset, const void* data, std::size_t bytes) noexcept {
  size_ = std::max<std::uint64_t>(size_, offset + bytes);
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0 && error_ == 0) {
    const ssize_t n = pwrite(descriptor_, from, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      error_ = n < 0 ? errno : EIO;
      return;
    }
    from += n;
    bytes -= static_cast<std::size_t>(n);
    offset += static_cast<std::uint64_t>(n);
  }
}

void Output::read(std::uint64_t offset, void* data, std::size_t bytes) const noexcept {
  auto* to = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t n = pread(descriptor_, to, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;  // data whose write was dropped is read as zeros; check() reports the failure
    to += n;
    bytes -= static_cast<std::size_t>(n);
    offset += static_cast<std::uint64_t>(n);
  }
  std::memset(to, 0, bytes);
}

void Output::resize(std::uint64_t bytes) noexcept {
  if (error_ == 0 && ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) error_ = errno;
  size_ = bytes;
}

}  // namespace mq::h5
