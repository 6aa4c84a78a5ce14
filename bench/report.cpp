#include "bench/report.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "bench/config_difference.hpp"
#include "bench/file_layout.hpp"
#include "bench/hdf5.hpp"

namespace mq::bench {

using namespace layout;

namespace {

Status bad_file(const std::string& path, std::string_view what) {
  return {Code::bad_argument, fmt::format("{}: {}", path, what)};
}

// Runs a function that uses HDF5. What it throws becomes a Status that names the file.
template <class Work>
Status guarded(const std::string& path, std::string_view what, const Work& work) try {
  work();
  return {};
} catch (const h5::Error& e) {
  return bad_file(path.empty() ? "result file in memory" : path, fmt::format("{} ({})", what, e.what()));
}

Result<std::vector<std::byte>> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) return bad_file(path, "cannot be read");
  static constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  if (text.empty()) return bad_file(path, "is empty, not a result file; remove it to begin anew");
  if (!std::string_view(text.data(), text.size()).starts_with(kSignature))
    return bad_file(path, "is not an HDF5 file");
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return std::vector<std::byte>(bytes, bytes + text.size());
}

}  // namespace

struct Report::State {
  std::string path;
  h5::Handle file;
  std::map<std::string, PointRow> last;
  std::vector<InputRow> inputs;
  std::size_t points = 0;
};

Report::Report(std::unique_ptr<State> state) : state_(std::move(state)) {}
Report::Report(Report&&) noexcept = default;
Report& Report::operator=(Report&&) noexcept = default;
Report::~Report() = default;

namespace {

// Two long texts, each from the word on in which they first differ.
std::string excerpt(const std::string& text, const std::string& other) {
  constexpr std::size_t kLongest = 60;
  const auto differ = std::mismatch(text.begin(), text.end(), other.begin(), other.end()).first;
  const auto at = static_cast<std::size_t>(differ - text.begin());
  const std::size_t word = text.find_last_of(",{ ", at == 0 ? 0 : at - 1);
  const std::size_t begin = text.size() <= kLongest || word == std::string::npos ? 0 : word + 1;
  return text.substr(begin, kLongest);
}

// Names the first thing in which the file and this run differ; "" if there is none.
std::string difference(hid_t file, const RunInfo& run) {
  const h5::Handle group = h5::group(file, "/run");
  const auto compare = [](const char* what, const std::string& there, const std::string& here) {
    if (there == here) return std::string();
    return fmt::format("it has {} '{}', this run '{}'", what, excerpt(there, here), excerpt(here, there));
  };
  std::string text = compare("git commit", h5::read_text_attribute(file, "git_commit"), run.git_commit);
  if (text.empty())
    text = compare("MPI library", h5::read_text_attribute(group, "mpi_library"), run.mpi_library);
  const std::string options = h5::read_text_attribute(group, "config_json");
  if (text.empty() && options != run.config_json)
    text = "its options differ from this run's: " + config_difference(options, run.config_json);
  return text;
}

Status check_schema(const std::string& path, hid_t file) {
  if (h5::check(H5Aexists(file, "schema_name"), "schema_name") == 0 ||
      h5::check(H5Aexists(file, "schema_version"), "schema_version") == 0)
    return bad_file(path, "is an HDF5 file, but not one of mpiq-bench (no schema_name)");
  const std::string name = h5::read_text_attribute(file, "schema_name");
  const std::int32_t version = h5::read_int_attribute(file, "schema_version");
  if (name != kSchemaName || version != kSchemaVersion)
    return bad_file(path, fmt::format("has schema {} {}, this program writes {} {}", name, version,
                                      kSchemaName, kSchemaVersion));
  return {};
}

}  // namespace

Result<Report> Report::open(const std::string& path, Resume resume, const RunInfo& run) {
  h5::check(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr),
            "HDF5 error printing");  // the messages contain the reasons
  std::unique_ptr<State> state;
  if (path.empty() || !std::filesystem::exists(path)) {
    const Status created = guarded(path, "cannot be begun", [&] {
      state.reset(new State{path, h5::create_in_memory(), {}, {}, 0});
      write_head(state->file, run);
      write_skeleton(state->file);
    });
    if (!created.ok()) return created;
    return Report(std::move(state));
  }
  if (resume == Resume::off) return bad_file(path, "exists, and --resume=off was given");
  auto bytes = read_bytes(path);
  if (!bytes.ok()) return bytes.status();
  const std::string_view damaged = "is truncated or damaged; move it away to begin anew";
  Status schema;
  std::string differs;
  const Status read = guarded(path, damaged, [&] {
    state.reset(new State{path, h5::open_image(std::move(*bytes)), {}, {}, 0});
    schema = check_schema(path, state->file);
    if (!schema.ok()) return;
    h5::check_data(state->file);
    differs = difference(state->file, run);
    for (const PointRow& row : h5::read<PointRow>(state->file, "/points"))
      state->last.insert_or_assign(row.key.str(), row);
    state->inputs = h5::read<InputRow>(state->file, "/inputs");
    state->points = h5::length(state->file, "/points");
  });
  if (!read.ok()) return read;
  if (!schema.ok()) return schema;
  if (!differs.empty() && resume != Resume::force)
    return bad_file(path, differs + "; choose another file or give --resume=force");
  Report report(std::move(state));
  MQ_TRY(
      report.add_event("info", -1, fmt::format("resumed{}", differs.empty() ? "" : " by force: " + differs)));
  return report;
}

const PointRow* Report::find(const std::string& key) const {
  const auto found = state_->last.find(key);
  return found == state_->last.end() ? nullptr : &found->second;
}

bool Report::done(const std::string& key) const {
  const PointRow* row = find(key);
  if (row == nullptr) return false;
  const std::string status = row->status.str();
  return status == "ok" || status == "skipped" || status == "simulated";
}

Result<std::int32_t> Report::add_input(InputRow input) {
  for (const InputRow& known : state_->inputs)
    if (known.distribution.str() == input.distribution.str() && known.params.str() == input.params.str() &&
        known.path.str() == input.path.str() && known.seed == input.seed && known.rho == input.rho)
      return known.input_id;
  input.input_id = static_cast<std::int32_t>(state_->inputs.size());
  const Status s = guarded(state_->path, "cannot take an input", [&] {
    h5::append<InputRow>(state_->file, "/inputs", {&input, 1});
    state_->inputs.push_back(input);
  });
  if (!s.ok()) return s;
  return input.input_id;
}

Status Report::add(std::span<Measurement> measurements) {
  return guarded(state_->path, "cannot take a point", [&] {
    for (Measurement& m : measurements) {
      const hid_t file = state_->file;
      const std::size_t row = state_->points, n = m.t_max.size();
      if (!h5::exists(file, kTMax)) create_matrices(file, n);
      h5::write_matrix_row(file, kTMax, row, H5T_NATIVE_DOUBLE, m.t_max.data(), n);
      h5::write_matrix_row(file, kTSpan, row, H5T_NATIVE_DOUBLE, m.t_span.data(), n);
      h5::write_matrix_row(file, kSkew, row, H5T_NATIVE_DOUBLE, m.skew_in.data(), n);
      h5::write_matrix_row(file, kOrder, row, H5T_NATIVE_UINT32, m.order.data(), n);
      h5::write_matrix_row(file, kValid, row, H5T_NATIVE_UINT8, m.valid.data(), n);
      write_ranks(file, row, m.t_rank, n);
      h5::write_matrix_row(file, kExposed, row, H5T_NATIVE_DOUBLE, m.exposed_s.data(), kPhases);
      h5::write_matrix_row(file, kBusy, row, H5T_NATIVE_DOUBLE, m.busy_s.data(), kPhases);
      h5::grow_scale(file, "/samples/point", row + 1);
      h5::grow_scale(file, "/samples/rep", std::max(n, kMinColumns));
      m.row.point_id = static_cast<std::int64_t>(row);
      h5::append<PointRow>(file, "/points", {&m.row, 1});
      for (CounterRow& counter : m.counters) counter.point_id = m.row.point_id;
      write_counters(file, m.counters);
      ++state_->points;
      state_->last.insert_or_assign(m.row.key.str(), m.row);
    }
  });
}

Status Report::add_event(std::string_view level, std::int64_t point_id, std::string_view text) {
  const EventRow event{utc_now(), level, point_id, text};
  return guarded(state_->path, "cannot take an event", [&] {
    h5::append<EventRow>(state_->file, "/events", {&event, 1});
  });
}

Status Report::save(FileState file_state) {
  static constexpr std::array names{"running", "complete", "partial"};
  if (state_->path.empty()) return {};
  std::vector<std::byte> bytes;
  MQ_TRY(guarded(state_->path, "cannot be completed", [&] {
    h5::write_attribute(state_->file, "status", std::string(names[static_cast<std::size_t>(file_state)]));
    h5::write_attribute(state_->file, "updated_utc", utc_now());
    bytes = h5::image(state_->file);
  }));
  return replace_file(state_->path, bytes);
}

std::string new_uuid() {
  std::string uuid;
  std::ifstream("/proc/sys/kernel/random/uuid") >> uuid;
  return uuid;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

Status check_place(const std::string& path) {
  const std::string temporary = path + ".tmp";
  if (std::filesystem::is_directory(path)) return bad_file(path, "is a folder");
  const int fd = open(temporary.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0)
    return {Code::bad_argument, fmt::format("cannot create {}: {}", temporary, std::strerror(errno))};
  close(fd);
  unlink(temporary.c_str());
  return {};
}

Status replace_file(const std::string& path, std::span<const std::byte> bytes) {
  const std::string temporary = path + ".tmp";
  const auto failed = [&](const char* what) {
    return Status{Code::bad_argument, fmt::format("cannot {} {}: {}", what, temporary, std::strerror(errno))};
  };
  const int fd = open(temporary.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) return failed("create");
  Status status;
  for (std::size_t done = 0; done < bytes.size() && status.ok();) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno != EINTR) status = failed("write");
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  if (status.ok() && fsync(fd) != 0) status = failed("sync");
  if (close(fd) != 0 && status.ok()) status = failed("close");
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = failed("rename");
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  // Makes the rename itself durable. If a file system cannot sync directories, nothing more can be done.
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const int directory = open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    (void)fsync(directory);
    close(directory);
  }
  return {};
}

}  // namespace mq::bench
