// Residual files, which MPIQ_Residual_restore reads: those that say anything of ranks, counts, keys and
// types, and sound ones of which bytes were changed. What the reader accepts can be read to its end.
#include <hdf5.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "mpi_quant/hdf5/file.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace mq::h5 {
namespace {

using fuzz::Bytes;
using fuzz::require;

// A number that is right, or another.
std::uint64_t about(Bytes& bytes, std::uint64_t right) {
  const auto way = bytes.take<std::uint8_t>();
  return way < 128 ? right : way < 250 ? way - 128 : bytes.take<std::uint64_t>();
}
std::string text(Bytes& bytes, const std::string& right) {
  if (bytes.take<std::uint8_t>() < 128) return right;
  const std::vector<std::byte> other = bytes.take(bytes.below(100));
  return other.empty() ? "?" : std::string(reinterpret_cast<const char*>(other.data()), other.size());
}

std::vector<std::byte> image_of(hid_t file) {
  check(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush");
  std::vector<std::byte> image(static_cast<std::size_t>(H5Fget_file_image(file, nullptr, 0)));
  require(H5Fget_file_image(file, image.data(), image.size()) > 0, "HDF5 gives the image of a file");
  return image;
}

void add_residual(Bytes& bytes, hid_t file, std::size_t index) {
  const Handle group(H5Gcreate2(file, std::to_string(index).c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                     H5Gclose, "");
  const bool wide = bytes.take<std::uint8_t>() % 2 != 0;
  const std::uint64_t ranks = 1 + bytes.below(3), count = 1 + bytes.below(40);
  write_attribute(group, "key", text(bytes, "gradient" + std::to_string(index)));
  write_attribute(group, "element", text(bytes, wide ? "f64" : "f32"));
  write_attribute(group, "count", about(bytes, count));
  if (bytes.take<std::uint8_t>() < 250) write_attribute(group, "settled", bytes.take<double>());
  const hsize_t shape[] = {ranks, count, 1};
  const int axes = bytes.take<std::uint8_t>() < 250 ? 2 : 1 + bytes.take<std::uint8_t>() % 3;
  const Handle space(H5Screate_simple(axes, shape, nullptr), H5Sclose, "");
  const Handle dataset(H5Dcreate2(group, "residual", wide ? H5T_IEEE_F64LE : H5T_IEEE_F32LE, space,
                                  H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                       H5Dclose, "");
  if (bytes.take<std::uint8_t>() > 250) return;  // values that were never written
  const std::vector<double> values(ranks * count, bytes.take<double>());
  check(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "");
}

std::vector<std::byte> made_file(Bytes& bytes) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "");
  check(H5Pset_fapl_core(access, 4096, false), "");
  const Handle file(H5Fcreate("fuzz-in-memory", H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose, "");
  const std::size_t residuals = bytes.below(4);
  write_attribute(file, "format", text(bytes, "mpi_quant residuals"));
  write_attribute(file, "version", static_cast<std::int32_t>(about(bytes, 1)));
  write_attribute(file, "ranks", static_cast<std::int32_t>(about(bytes, 2)));
  write_attribute(file, "residuals", about(bytes, residuals));
  for (std::size_t i = 0; i < residuals; ++i) add_residual(bytes, file, i);
  return image_of(file);
}

// As MPIQ_Residual_save writes it.
std::vector<std::byte> sound_file() {
  const auto path = std::filesystem::temp_directory_path() / ("mpiq-fuzz-" + std::to_string(getpid()));
  std::vector<MPIQ_Residual> residuals(2);
  std::strcpy(residuals[0].key, "a");
  std::strcpy(residuals[0].element, "f32");
  std::strcpy(residuals[1].key, "b");
  std::strcpy(residuals[1].element, "f64");
  residuals[0].count = 5;
  residuals[1].count = 3;
  residuals[0].arrays = 1;
  residuals[1].arrays = 2;
  const std::vector<double> values(8, 0.25);
  Writer writer(path.string(), 2, residuals);
  for (std::size_t i = 0; i < residuals.size(); ++i)
    for (int array = 0; array < residuals[i].arrays; ++array)
      for (int rank = 0; rank < 2; ++rank) writer.write(i, array, rank, 0, residuals[i].count, values.data());
  writer.commit();
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(path);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void read_all(const std::string& path) {
  Reader reader(path);
  require(reader.ranks() > 0, "a file is of some ranks");
  for (std::size_t i = 0; i < reader.residuals().size(); ++i) {
    const MPIQ_Residual& r = reader.residuals()[i];
    require(r.count > 0 && r.key[0] != '\0' && r.key[MPIQ_MAX_KEY] == '\0',
            "a residual has elements and a key");
    fuzz::Guarded values(static_cast<std::size_t>(piece_of(r.count)) * value_bytes(r));
    for (int array = 0; array < r.arrays; ++array)
      for (int rank = 0; rank < reader.ranks(); ++rank)
        for_each_piece(r.count, [&](MPI_Count first, MPI_Count n) {
          reader.read(i, array, rank, first, n, values.data());
          require(values.intact(), "a piece is no longer than was said");
        });
  }
}

}  // namespace
}  // namespace mq::h5

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mq;
  fuzz::Bytes bytes(data, size);
  static const herr_t never_ended =
      H5dont_atexit();  // HDF5 1.10 does not survive its end after a damaged file
  fuzz::require(never_ended >= 0, "HDF5 is left as it is at the end");
  const h5::Quiet quiet;
  static const std::vector<std::byte> sound = h5::sound_file();
  const bool change = bytes.take<std::uint8_t>() % 2 != 0;
  std::vector<std::byte> image = change ? sound : h5::made_file(bytes);
  if (change) damage(bytes, image);
  const fuzz::MemoryFile file(image);
  try {
    h5::read_all(file.path());
  } catch (const h5::Error& e) {
    fuzz::require(*e.what() != '\0', "a file that is refused is refused with a reason");
  }
  return 0;
}
