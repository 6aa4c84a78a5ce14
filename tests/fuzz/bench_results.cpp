// Result files that mpiq-bench is to continue: sound ones of which bytes were changed. The file is refused
// with a reason, or taken up, and then it can be added to.
#include <hdf5.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "bench/report.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace mq::bench {
namespace {

using fuzz::require;

Measurement measurement(const char* key) {
  Measurement m;
  m.row.key = key;
  m.row.status = "ok";
  m.t_max = m.t_span = m.skew_in = {1e-3, 2e-3};
  m.valid = {1, 1};
  m.order = {0, 1};
  return m;
}

std::vector<std::byte> sound_file() {
  const auto path =
      std::filesystem::temp_directory_path() / ("mpiq-fuzz-" + std::to_string(getpid()) + ".h5");
  auto report = Report::open(path.string(), Resume::off, {});
  require(report.ok(), "a report can be begun");
  Measurement m[] = {measurement("first"), measurement("second")};
  require(report->add_input({}).ok() && report->add(m).ok(), "a report takes points");
  require(report->save(FileState::partial).ok(), "a report can be saved");
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(path);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace
}  // namespace mq::bench

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mq::bench;
  using mq::fuzz::require;
  static const herr_t never_ended =
      H5dont_atexit();  // HDF5 1.10 does not survive its end after a damaged file
  require(never_ended >= 0, "HDF5 is left as it is at the end");
  static const std::vector<std::byte> sound = sound_file();
  std::vector<std::byte> image = sound;
  mq::fuzz::Bytes bytes(data, size);
  damage(bytes, image);
  const mq::fuzz::MemoryFile file(image);
  auto report = Report::open(file.path(), Resume::force, {});
  if (!report.ok()) {
    require(!report.status().text().empty(), "a file that is refused is refused with a reason");
    return 0;
  }
  if (const PointRow* const row = report->find("first"))
    require(row->key.str() == "first", "keys find their rows");
  Measurement m[] = {measurement("third")};
  if (report->add(m).ok()) require(report->done("third"), "a point that was added is there");
  return 0;
}
