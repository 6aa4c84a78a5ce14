#include "bench/hdf5.hpp"

#include <hdf5_hl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <span>

namespace mq::bench::h5 {
namespace {

constexpr std::size_t kGrowth = std::size_t{1} << 20;      // bytes by which the file in memory grows
constexpr hsize_t kTableChunk = 64;                        // rows
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // bytes of some rows; no file has as many
// The name of the file in memory. HDF5 refuses to open an image if a file of that name exists on disk.
constexpr const char* kNowhere = "/dev/null/mpiq-bench";

Handle memory_access() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "file access properties");
  check(H5Pset_fapl_core(access, kGrowth, false), "core driver");
  // The newest format that HDF5 1.10 reads and writes, because all its metadata have checksums.
  check(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), "format");
  return access;
}

// The superblock, with which an HDF5 file begins. From version 2 on it has eleven words of 4 bytes and their
// checksum, if addresses have 8 bytes.
constexpr std::size_t kSuperblockVersionAt = 8, kSuperblockWords = 11;

// HDF5's checksum of metadata, "lookup3" by Bob Jenkins, for a superblock.
std::uint32_t checksum(const std::array<std::uint32_t, kSuperblockWords>& words) {
  std::uint32_t a = 0xdeadbeefU + sizeof words, b = a, c = a;
  const auto mix = [](std::uint32_t& x, std::uint32_t& y, std::uint32_t z, int bits) {
    x = (x - z) ^ std::rotl(z, bits);
    z += y;
    return z;
  };
  const auto last = [](std::uint32_t& x, std::uint32_t y, int bits) { x = (x ^ y) - std::rotl(y, bits); };
  for (std::size_t i = 0; i + 2 < words.size(); i += 3) {
    a += words[i];
    b += words[i + 1];
    c += words[i + 2];
    c = mix(a, b, c, 4);
    a = mix(b, c, a, 6);
    b = mix(c, a, b, 8);
    c = mix(a, b, c, 16);
    a = mix(b, c, a, 19);
    b = mix(c, a, b, 4);
  }
  a += words[9];
  b += words[10];
  last(c, b, 14);
  last(a, c, 11);
  last(b, a, 25);
  last(c, b, 16);
  last(a, c, 4);
  last(b, a, 14);
  last(c, b, 24);
  return c;
}

// H5Fget_file_image takes the mark "open for writing" out of the superblock and leaves its checksum as it
// was.
void repair_superblock(std::span<std::byte> image) {
  std::array<std::uint32_t, kSuperblockWords> words{};
  if (image.size() < sizeof words + sizeof words[0] || image[kSuperblockVersionAt] < std::byte{2}) return;
  std::memcpy(words.data(), image.data(), sizeof words);
  const std::uint32_t sum = checksum(words);
  std::memcpy(image.data() + sizeof words, &sum, sizeof sum);
}

Handle open_dataset(hid_t file, const char* path) {
  return {H5Dopen2(file, path, H5P_DEFAULT), H5Dclose, path};
}

// The chunks of a dataset, each with Fletcher's checksum. HDF5 has no checksum for a dataset in one piece.
Handle chunks(int rank, const hsize_t* shape, bool compressed, const char* path) {
  Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, path);
  check(H5Pset_chunk(properties, rank, shape), path);
  if (compressed) {
    check(H5Pset_shuffle(properties), path);
    check(H5Pset_deflate(properties, 1), path);
  }
  check(H5Pset_fletcher32(properties), path);
  return properties;
}

// Reads all values of a dataset, some rows at a time, so that HDF5 compares them with their checksums.
void read_all(hid_t dataset, const char* name) {
  const Handle space(H5Dget_space(dataset), H5Sclose, name), type(H5Dget_type(dataset), H5Tclose, name);
  const Handle properties(H5Dget_create_plist(dataset), H5Pclose, name);
  std::array<hsize_t, H5S_MAX_RANK> shape{}, chunk{}, start{};
  const int rank = static_cast<int>(check(H5Sget_simple_extent_dims(space, shape.data(), nullptr), name));
  if (rank == 0 || H5Pget_layout(properties) != H5D_CHUNKED) return;  // has no checksums
  check(H5Pget_chunk(properties, rank, chunk.data()), name);
  const hsize_t rows = shape[0];
  std::vector<std::byte> values;
  for (; start[0] < rows; start[0] += shape[0]) {
    shape[0] = std::min(chunk[0], rows - start[0]);
    std::size_t bytes = H5Tget_size(type);
    for (int axis = 0; axis < rank; ++axis) {
      const hsize_t n = shape[static_cast<std::size_t>(axis)];
      if (n > 0 && bytes > kMostAtOnce / n) throw Error(std::string(name) + ": impossible shape");
      bytes *= n;
    }
    values.resize(bytes);
    const Handle memory(H5Screate_simple(rank, shape.data(), nullptr), H5Sclose, name);
    check(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, shape.data(), nullptr), name);
    check(H5Dread(dataset, type, memory, space, H5P_DEFAULT, values.data()), name);
  }
}

template <std::size_t Rank>
std::array<hsize_t, Rank> shape_of(hid_t dataset, const char* path) {
  const Handle space(H5Dget_space(dataset), H5Sclose, path);
  std::array<hsize_t, Rank> shape{};
  if (H5Sget_simple_extent_ndims(space) != static_cast<int>(Rank))
    throw Error(std::string(path) + ": wrong rank");
  check(H5Sget_simple_extent_dims(space, shape.data(), nullptr), path);
  return shape;
}

struct Types {
  hid_t memory, file;
};
Types types_of(ColumnType type) {
  switch (type) {
    case ColumnType::i8: return {H5T_NATIVE_INT8, H5T_STD_I8LE};
    case ColumnType::i16: return {H5T_NATIVE_INT16, H5T_STD_I16LE};
    case ColumnType::i32: return {H5T_NATIVE_INT32, H5T_STD_I32LE};
    case ColumnType::i64: return {H5T_NATIVE_INT64, H5T_STD_I64LE};
    case ColumnType::u64: return {H5T_NATIVE_UINT64, H5T_STD_U64LE};
    case ColumnType::f64: return {H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE};
    case ColumnType::text: break;
  }
  return {-1, -1};
}

// The compound as it lies in memory, or with fixed types and no gaps as it lies in the file.
Handle compound(std::span<const Column> columns, std::size_t row_bytes, bool in_file) {
  std::size_t size = row_bytes;
  if (in_file)
    size = std::accumulate(columns.begin(), columns.end(), std::size_t{0},
                           [](std::size_t sum, const Column& c) { return sum + c.bytes; });
  Handle type(H5Tcreate(H5T_COMPOUND, size), H5Tclose, "compound type");
  std::size_t packed = 0;
  for (const Column& c : columns) {
    const std::size_t offset = in_file ? packed : c.offset;
    packed += c.bytes;
    if (c.type == ColumnType::text) {
      check(H5Tinsert(type, c.name, offset, text_type(c.bytes)), c.name);
    } else {
      const Types types = types_of(c.type);
      check(H5Tinsert(type, c.name, offset, in_file ? types.file : types.memory), c.name);
    }
  }
  return type;
}

}  // namespace

Handle create_in_memory() {
  const Handle access = memory_access();
  return {H5Fcreate(kNowhere, H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose, "create"};
}

Handle open_image(std::vector<std::byte> bytes) {
  const Handle access = memory_access();
  check(H5Pset_file_image(access, bytes.data(), bytes.size()), "file image");
  return {H5Fopen(kNowhere, H5F_ACC_RDWR, access), H5Fclose, "open"};
}

std::vector<std::byte> image(hid_t file) {
  check(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush");
  const auto size = check(H5Fget_file_image(file, nullptr, 0), "size of the file image");
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  check(H5Fget_file_image(file, bytes.data(), bytes.size()), "file image");
  repair_superblock(bytes);
  return bytes;
}

void check_data(hid_t group, int levels) {
  H5G_info_t info;
  check(H5Gget_info(group, &info), "group");
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    std::array<char, 256> name{};
    check(
        H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(), name.size(), H5P_DEFAULT),
        "name");
    H5L_info_t link;
    check(H5Lget_info(group, name.data(), &link, H5P_DEFAULT), name.data());
    if (link.type != H5L_TYPE_HARD) throw Error(std::string(name.data()) + ": a link to elsewhere");
    const Handle object(H5Oopen(group, name.data(), H5P_DEFAULT), H5Oclose, name.data());
    if (H5Iget_type(object) == H5I_DATASET) read_all(object, name.data());
    if (H5Iget_type(object) == H5I_GROUP) {
      if (levels == 0) throw Error(std::string(name.data()) + ": a group too deep");
      check_data(object, levels - 1);
    }
  }
}

bool exists(hid_t file, const char* path) { return H5Lexists(file, path, H5P_DEFAULT) > 0; }

Handle group(hid_t file, const char* path) {
  if (exists(file, path)) return {H5Gopen2(file, path, H5P_DEFAULT), H5Gclose, path};
  return {H5Gcreate2(file, path, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, path};
}

void create_table(hid_t file, const char* path, std::span<const Column> columns) {
  const hsize_t none = 0, unlimited = H5S_UNLIMITED;
  const Handle type = compound(columns, 0, true);
  const Handle space(H5Screate_simple(1, &none, &unlimited), H5Sclose, path);
  const Handle properties = chunks(1, &kTableChunk, false, path);
  const Handle dataset(H5Dcreate2(file, path, type, space, H5P_DEFAULT, properties, H5P_DEFAULT), H5Dclose,
                       path);
}

std::size_t length(hid_t file, const char* path) {
  const Handle dataset = open_dataset(file, path);
  const Handle space(H5Dget_space(dataset), H5Sclose, path);
  std::array<hsize_t, H5S_MAX_RANK> shape{};
  check(H5Sget_simple_extent_dims(space, shape.data(), nullptr), path);
  const Handle type(H5Dget_type(dataset), H5Tclose, path);
  // So that no memory is allocated for rows that nobody ever wrote.
  if (shape[0] > H5Dget_storage_size(dataset) / H5Tget_size(type))
    throw Error(std::string(path) + ": rows are missing");
  return shape[0];
}

void append_rows(hid_t file, const char* path, std::span<const Column> columns, const void* rows,
                 std::size_t row_bytes, std::size_t n) {
  if (n == 0) return;
  const Handle dataset = open_dataset(file, path);
  const hsize_t start = shape_of<1>(dataset, path)[0], count = n, end = start + n;
  check(H5Dset_extent(dataset, &end), path);
  const Handle space(H5Dget_space(dataset), H5Sclose, path);
  const Handle memory(H5Screate_simple(1, &count, nullptr), H5Sclose, path);
  check(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, nullptr, &count, nullptr), path);
  check(H5Dwrite(dataset, compound(columns, row_bytes, false), memory, space, H5P_DEFAULT, rows), path);
}

void read_rows(hid_t file, const char* path, std::span<const Column> columns, void* rows,
               std::size_t row_bytes, std::size_t n) {
  const Handle dataset = open_dataset(file, path);
  if (shape_of<1>(dataset, path)[0] != n) throw Error(std::string(path) + ": changed while it was read");
  if (n == 0) return;
  check(H5Dread(dataset, compound(columns, row_bytes, false), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows), path);
}

void create_matrix(hid_t file, const char* path, hid_t file_type, std::size_t columns, const void* fill,
                   hid_t fill_type, std::size_t depth) {
  const std::array<hsize_t, 3> shape{0, columns, depth}, chunk{1, columns, depth};
  const std::array<hsize_t, 3> limit{H5S_UNLIMITED, H5S_UNLIMITED, H5S_UNLIMITED};
  const int rank = depth > 0 ? 3 : 2;
  const Handle space(H5Screate_simple(rank, shape.data(), limit.data()), H5Sclose, path);
  // Most chunks contain mostly the fill value, because a row takes as much room as the longest row of its
  // time. So they are compressed.
  const Handle properties = chunks(rank, chunk.data(), true, path);
  check(H5Pset_fill_value(properties, fill_type, fill), path);
  const Handle dataset(H5Dcreate2(file, path, file_type, space, H5P_DEFAULT, properties, H5P_DEFAULT),
                       H5Dclose, path);
}

void write_matrix_row(hid_t file, const char* path, std::size_t row, hid_t memory_type, const void* values,
                      std::size_t n, std::size_t depth) {
  const Handle dataset = open_dataset(file, path);
  std::array<hsize_t, 3> shape{};
  if (depth > 0)
    shape = shape_of<3>(dataset, path);
  else
    std::copy_n(shape_of<2>(dataset, path).begin(), 2, shape.begin());
  shape[0] = std::max<hsize_t>(shape[0], row + 1);
  shape[1] = std::max<hsize_t>(shape[1], n);
  shape[2] = std::max<hsize_t>(shape[2], depth);
  check(H5Dset_extent(dataset, shape.data()), path);
  if (n == 0) return;
  const std::array<hsize_t, 3> start{row, 0, 0}, count{1, n, depth};
  const Handle space(H5Dget_space(dataset), H5Sclose, path);
  const Handle memory(H5Screate_simple(depth > 0 ? 3 : 2, count.data(), nullptr), H5Sclose, path);
  check(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), path);
  check(H5Dwrite(dataset, memory_type, memory, space, H5P_DEFAULT, values), path);
}

void create_scale(hid_t file, const char* path) {
  const hsize_t none = 0, unlimited = H5S_UNLIMITED, chunk = 1024;
  const Handle space(H5Screate_simple(1, &none, &unlimited), H5Sclose, path);
  const Handle properties = chunks(1, &chunk, false, path);
  const Handle dataset(H5Dcreate2(file, path, H5T_STD_I64LE, space, H5P_DEFAULT, properties, H5P_DEFAULT),
                       H5Dclose, path);
  check(H5DSset_scale(dataset, std::strrchr(path, '/') + 1), path);
}

void grow_scale(hid_t file, const char* path, std::size_t n) {
  const Handle dataset = open_dataset(file, path);
  const hsize_t old = shape_of<1>(dataset, path)[0], size = n;
  if (old >= size) return;
  check(H5Dset_extent(dataset, &size), path);
  std::vector<std::int64_t> values(n);
  std::iota(values.begin(), values.end(), 0);
  check(H5Dwrite(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), path);
}

void attach_scale(hid_t file, const char* matrix, const char* scale, unsigned axis) {
  const Handle dataset = open_dataset(file, matrix), axis_scale = open_dataset(file, scale);
  check(H5DSattach_scale(dataset, axis_scale, axis), matrix);
}

}  // namespace mq::bench::h5
