// Result files: written, read back, continued, damaged, and of other programs.
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/config_difference.hpp"
#include "bench/hdf5.hpp"
#include "bench/lock_file.hpp"
#include "bench/metadata.hpp"
#include "bench/report.hpp"

namespace mq::bench {
namespace {

class ResultFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "mpiq_bench_test_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    path_ = (directory_ / "run.h5").string();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static RunInfo run_info() {
    RunInfo run;
    run.command_line = "mpiq-bench allreduce";
    run.config_json = R"({"a":1})";
    run.mpi_library = "some MPI";
    run.git_commit = "0123456";
    run.seed = 42;
    run.env = {{"MPIR_CVAR_X", "1"}};
    run.nodes.resize(2);
    run.nodes[1].host = "node1";
    run.ranks.resize(3);
    return run;
  }
  static Measurement measurement(const std::string& key, const char* status, std::size_t n) {
    Measurement m;
    m.row.key = key;
    m.row.status = status;
    m.row.bytes = 4096;
    m.row.t_median_s = 0.25;
    for (std::size_t k = 0; k < n; ++k) {
      m.t_max.push_back(0.001 * static_cast<double>(k));
      m.t_span.push_back(kUnknown);
      m.skew_in.push_back(1e-6);
      m.valid.push_back(k == 3 ? 0 : 1);
      m.order.push_back(static_cast<std::uint32_t>(100 + k));
    }
    return m;
  }
  // One input, one good, one invalid row.
  void write_example() const {
    auto report = Report::open(path_, Resume::on, run_info());
    ASSERT_TRUE(report.ok()) << report.status().text();
    InputRow input;
    input.distribution = "normal";
    input.rho = 0;
    ASSERT_EQ(*report->add_input(input), 0);
    ASSERT_EQ(*report->add_input(input), 0) << "an equal input is the same row";
    std::vector<Measurement> rows{measurement("good", "ok", 20), measurement("bad", "invalid", 45)};
    ASSERT_TRUE(report->add(rows).ok());
    const Status saved = report->save(FileState::running);
    ASSERT_TRUE(saved.ok()) << saved.text();
  }
  std::vector<char> bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void overwrite(const std::vector<char>& bytes) const {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::string refusal(Resume resume = Resume::on) const {
    const auto report = Report::open(path_, resume, run_info());
    EXPECT_FALSE(report.ok());
    EXPECT_NE(report.status().text().find(path_), std::string::npos) << "names the file";
    return report.status().text();
  }

  std::filesystem::path directory_;
  std::string path_;
};

TEST_F(ResultFile, reads_back_what_was_written) {
  write_example();
  const h5::Handle file(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "open");
  EXPECT_EQ(h5::read_text_attribute(file, "schema_name"), kSchemaName);
  EXPECT_EQ(h5::read_int_attribute(file, "schema_version"), kSchemaVersion);
  EXPECT_EQ(h5::read_text_attribute(file, "status"), "running");
  const auto points = h5::read<PointRow>(file, "/points");
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].point_id, 0);
  EXPECT_EQ(points[1].key.str(), "bad");
  EXPECT_EQ(points[1].t_median_s, 0.25);
  EXPECT_TRUE(std::isnan(points[1].speedup)) << "unknown is NaN";
  EXPECT_EQ(points[1].wire_bytes_max, -1) << "unknown is -1";
  const auto nodes = h5::read<NodeRow>(file, "/run/nodes");
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[1].host.str(), "node1");
  EXPECT_EQ(h5::read<RankRow>(file, "/run/ranks").size(), 3U);
  EXPECT_EQ(h5::read<EnvRow>(file, "/run/env").at(0).value.str(), "1");
}

TEST_F(ResultFile, samples_grow_with_the_longest_point_and_the_rest_is_nan) {
  write_example();
  const h5::Handle file(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "open");
  const h5::Handle samples(H5Dopen2(file, "/samples/t_max_s", H5P_DEFAULT), H5Dclose, "samples");
  std::array<hsize_t, 2> shape{};
  const h5::Handle space(H5Dget_space(samples), H5Sclose, "space");
  ASSERT_EQ(H5Sget_simple_extent_dims(space, shape.data(), nullptr), 2);
  ASSERT_EQ(shape, (std::array<hsize_t, 2>{2, 45}));
  std::vector<double> t(shape[0] * shape[1]);
  ASSERT_GE(H5Dread(samples, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, t.data()), 0);
  EXPECT_EQ(t[19], 0.019);
  EXPECT_TRUE(std::isnan(t[20]));
  EXPECT_EQ(t[45 + 44], 0.044);
  EXPECT_EQ(h5::length(file, "/samples/point"), 2U);
  EXPECT_EQ(h5::length(file, "/samples/rep"), 45U);
}

TEST_F(ResultFile, keeps_the_time_of_every_rank_and_which_repetitions_count) {
  auto report = Report::open(path_, Resume::on, run_info());
  ASSERT_TRUE(report.ok());
  std::vector<Measurement> rows{measurement("none", "ok", 20), measurement("two", "ok", 20),
                                measurement("three", "ok", 30), measurement("failed", "failed", 0)};
  for (std::size_t i = 0; i < 40; ++i) rows[1].t_rank.push_back(static_cast<double>(i));
  for (std::size_t i = 0; i < 90; ++i) rows[2].t_rank.push_back(static_cast<double>(i));
  ASSERT_TRUE(report->add(rows).ok());
  ASSERT_TRUE(report->save(FileState::complete).ok());
  const h5::Handle file(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "open");
  const h5::Handle ranks(H5Dopen2(file, "/samples/t_rank_s", H5P_DEFAULT), H5Dclose, "ranks");
  std::array<hsize_t, 3> shape{};
  const h5::Handle space(H5Dget_space(ranks), H5Sclose, "space");
  ASSERT_EQ(H5Sget_simple_extent_dims(space, shape.data(), nullptr), 3);
  ASSERT_EQ(shape, (std::array<hsize_t, 3>{4, 30, 3}));
  std::vector<double> t(4 * 30 * 3);
  ASSERT_GE(H5Dread(ranks, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, t.data()), 0);
  EXPECT_TRUE(std::isnan(t[0])) << "a row without them";
  EXPECT_EQ(t[90 + 3 * 19 + 1], 39.0);
  EXPECT_TRUE(std::isnan(t[90 + 3 * 19 + 2])) << "a rank that the point has not";
  EXPECT_EQ(t[180 + 89], 89.0);
  EXPECT_TRUE(std::isnan(t[270]));
  const h5::Handle valid(H5Dopen2(file, "/samples/valid", H5P_DEFAULT), H5Dclose, "valid");
  std::vector<std::uint8_t> flags(4 * 30);
  ASSERT_GE(H5Dread(valid, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, flags.data()), 0);
  EXPECT_EQ(std::count(flags.begin(), flags.begin() + 30, 1), 19);
  EXPECT_EQ(flags[3], 0);
}

TEST_F(ResultFile, is_continued_and_only_good_rows_count_as_done) {
  write_example();
  auto report = Report::open(path_, Resume::on, run_info());
  ASSERT_TRUE(report.ok()) << report.status().text();
  EXPECT_TRUE(report->done("good"));
  EXPECT_FALSE(report->done("bad"));
  EXPECT_FALSE(report->done("never seen"));
  std::vector<Measurement> again{measurement("bad", "ok", 30)};
  ASSERT_TRUE(report->add(again).ok());
  EXPECT_EQ(again[0].row.point_id, 2) << "old rows stay";
  EXPECT_TRUE(report->done("bad")) << "the last row of a key counts";
  ASSERT_TRUE(report->save(FileState::complete).ok());
  auto third = Report::open(path_, Resume::on, run_info());
  ASSERT_TRUE(third.ok()) << third.status().text();
  EXPECT_TRUE(third->done("bad"));
}

TEST_F(ResultFile, is_continued_in_a_folder_that_holds_the_program) {
  write_example();
  std::ofstream(directory_ / "mpiq-bench") << "not an image";
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory_);
  const auto report = Report::open(path_, Resume::on, run_info());
  std::filesystem::current_path(before);
  EXPECT_TRUE(report.ok()) << report.status().text();
}

TEST_F(ResultFile, of_another_run_is_refused_unless_forced) {
  write_example();
  RunInfo other = run_info();
  other.config_json = R"({"a":2})";
  const auto refused = Report::open(path_, Resume::on, other);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().text().find("options"), std::string::npos) << refused.status().text();
  EXPECT_TRUE(Report::open(path_, Resume::force, other).ok());
  other = run_info();
  other.git_commit = "fedcba9";
  EXPECT_NE(Report::open(path_, Resume::on, other).status().text().find("fedcba9"), std::string::npos);
  EXPECT_NE(refusal(Resume::off).find("exists"), std::string::npos);
}

TEST_F(ResultFile, of_another_run_says_which_options_differ) {
  using mq::bench::config_difference;
  const std::string file =
      R"json({"check":true,"data":"a, \"b\"","methods":["mpi","bf16(x=1,y=2)","onebit"],"min_reps":6,"range":[1,2],"sparse":{"density":[0.1],"in":"own"}})json";
  EXPECT_EQ(config_difference(file, file), "");
  const auto change = [&](std::string_view from, std::string_view to) {
    std::string now = file;
    return config_difference(file, now.replace(now.find(from), from.size(), to));
  };
  EXPECT_EQ(change(R"(,"onebit")", ""),
            "methods: mpi,bf16(x=1,y=2),onebit in the file, mpi,bf16(x=1,y=2) now");
  EXPECT_EQ(change(R"("min_reps":6)", R"("min_reps":20)"), "min_reps: 6 in the file, 20 now");
  EXPECT_EQ(change(R"("min_reps":6,)", R"("memory":"cuda",)"),
            "memory: none in the file, cuda now; min_reps: 6 in the file, none now");
  EXPECT_EQ(change("0.1", "0.2"), "sparse: {density:[0.1],in:own} in the file, {density:[0.2],in:own} now");
  EXPECT_EQ(change("[1,2]", "null"), "range: 1,2 in the file, null now");
  // A text that no version of this program has written must not end it.
  for (const std::string_view odd : {"", "{", "}{", "[1,2", R"({"a)", R"({"a":)", R"({"a":"\)", ",,,", ":::"})
    EXPECT_NE(config_difference(odd, file), "") << odd;
}

TEST_F(ResultFile, survives_a_write_that_fails) {
  write_example();
  const auto before = bytes();
  auto report = Report::open(path_, Resume::on, run_info());
  ASSERT_TRUE(report.ok());
  std::vector<Measurement> more{measurement("more", "ok", 20)};
  ASSERT_TRUE(report->add(more).ok());
  std::filesystem::create_directory(path_ + ".tmp");  // in the way, also for root
  const Status failed = report->save(FileState::running);
  EXPECT_FALSE(failed.ok());
  EXPECT_NE(failed.text().find(path_), std::string::npos) << failed.text();
  EXPECT_EQ(bytes(), before);
  std::filesystem::remove(path_ + ".tmp");
  EXPECT_TRUE(report->save(FileState::running).ok()) << "nothing was lost in memory";
  EXPECT_NE(bytes(), before);
}

TEST_F(ResultFile, that_is_empty_or_no_hdf5_is_refused_in_words) {
  overwrite({});
  EXPECT_NE(refusal().find("empty"), std::string::npos);
  overwrite(std::vector<char>(1000, 'x'));
  EXPECT_NE(refusal().find("not an HDF5"), std::string::npos);
}

TEST_F(ResultFile, that_is_truncated_anywhere_is_refused) {
  write_example();
  const auto whole = bytes();
  for (std::size_t n = 8; n < whole.size(); n += whole.size() / 37 + 1) {
    overwrite({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)});
    EXPECT_NE(refusal().find("truncated"), std::string::npos) << n << " of " << whole.size();
  }
}

// Bytes that no reader needs are those that HDF5 has allocated and not used, and the references to scales.
TEST_F(ResultFile, in_which_bits_have_changed_is_refused_and_left_as_it_is_unless_no_reader_needs_them) {
  write_example();
  const auto whole = bytes();
  std::size_t tried = 0, refused = 0;
  for (std::size_t at = 3; at < whole.size(); at += whole.size() / 500 + 1) {
    auto damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 8);
    overwrite(damaged);
    const auto report = Report::open(path_, Resume::on, run_info());
    ++tried;
    if (!report.ok()) {
      ++refused;
      const std::string why = report.status().text();
      EXPECT_TRUE(why.find("is truncated or damaged") != std::string::npos || at < 8) << at << ": " << why;
    } else {
      EXPECT_TRUE(report->done("good")) << at;
    }
    ASSERT_EQ(bytes(), damaged);
  }
  EXPECT_GT(refused, tried * 4 / 5) << "of " << tried;
}

TEST_F(ResultFile, of_an_older_version_without_checksums_inside_is_gone_on_with) {
  std::filesystem::copy_file(MQ_TEST_DATA "/results/lab-1gbit.h5", path_);
  std::ofstream(path_, std::ios::binary | std::ios::app) << "\nmpiq-bench crc32 01234567\n";
  const std::size_t rows = 18;
  for (const std::size_t more : {0U, 1U}) {
    auto report = Report::open(path_, Resume::force, run_info());
    ASSERT_TRUE(report.ok()) << report.status().text();
    std::vector<Measurement> one{measurement("more", "ok", 20)};
    ASSERT_TRUE(report->add(one).ok());
    EXPECT_EQ(one[0].row.point_id, static_cast<std::int64_t>(rows + more));
    ASSERT_TRUE(report->save(FileState::complete).ok());
  }
}

TEST_F(ResultFile, of_another_kind_or_schema_is_refused) {
  {
    const h5::Handle file(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose,
                          "create");
  }
  EXPECT_NE(refusal().find("schema_name"), std::string::npos);
  for (const bool vary_name : {true, false}) {
    const h5::Handle file(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose,
                          "create");
    h5::write_attribute(file, "schema_name", std::string(vary_name ? "another" : kSchemaName));
    h5::write_attribute(file, "schema_version", vary_name ? kSchemaVersion : kSchemaVersion + 1);
    H5Fflush(file, H5F_SCOPE_GLOBAL);
    EXPECT_NE(refusal().find("schema"), std::string::npos);
  }
}

TEST_F(ResultFile, is_locked_by_one_writer_at_a_time) {
  const std::string lock = path_ + ".lock";
  {
    const auto first = LockFile::acquire(lock, false);
    ASSERT_TRUE(first.ok()) << first.status().text();
    const auto second = LockFile::acquire(lock, false);
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.status().text().find(std::to_string(getpid())), std::string::npos)
        << second.status().text();
  }
  EXPECT_FALSE(std::filesystem::exists(lock)) << "released at the end";
  std::ofstream(lock) << "otherhost/12345678 1 -\n";
  const auto foreign = LockFile::acquire(lock, false);
  ASSERT_FALSE(foreign.ok());
  EXPECT_NE(foreign.status().text().find("otherhost"), std::string::npos);
  EXPECT_TRUE(LockFile::acquire(lock, true).ok());
}

TEST_F(ResultFile, the_lock_of_a_process_that_has_ended_is_taken_over) {
  const std::string lock = path_ + ".lock";
  std::string mine;
  {
    const auto held = LockFile::acquire(lock, false);
    std::getline(std::ifstream(lock), mine);
  }
  const pid_t zombie = fork();
  if (zombie == 0) _exit(0);
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT);  // ended, and stays as it is
  const std::string host = mine.substr(0, mine.find(' ')), own = std::to_string(getpid());
  for (const std::string& owner : {std::to_string(zombie) + " - 0", own + " - 1"}) {  // a number given again
    std::ofstream(lock) << host << " " << owner << "\n";
    const auto taken = LockFile::acquire(lock, false);
    EXPECT_TRUE(taken.ok()) << taken.status().text();
  }
  waitpid(zombie, nullptr, 0);
  std::ofstream(lock) << host << " " << own << " -\n";  // as older versions wrote it
  EXPECT_FALSE(LockFile::acquire(lock, false).ok());
}

TEST_F(ResultFile, columns_cover_the_whole_row_without_overlap) {
  std::vector<Column> columns(columns_of<PointRow>().begin(), columns_of<PointRow>().end());
  std::sort(columns.begin(), columns.end(),
            [](const Column& a, const Column& b) { return a.offset < b.offset; });
  for (std::size_t i = 0; i + 1 < columns.size(); ++i) {
    const std::size_t end = columns[i].offset + columns[i].bytes;
    EXPECT_LE(end, columns[i + 1].offset) << columns[i].name;
    EXPECT_LT(columns[i + 1].offset - end, 8U) << "a member after " << columns[i].name << " has no column";
  }
}

TEST(Metadata, names_files_without_their_folders) {
  EXPECT_EQ(without_folders("/home/me/bin/mpiq-bench allreduce -O /tmp/run.h5 --methods onebit/direct"),
            "mpiq-bench allreduce -O run.h5 --methods onebit/direct");
  EXPECT_EQ(without_folders("--data=file:/data/grad-{rank}.f32 bench/sweeps/a.toml"),
            "--data=file:grad-{rank}.f32 bench/sweeps/a.toml");
  EXPECT_EQ(without_folders("/opt/ucx/lib:/usr/lib"), "lib:lib");
  EXPECT_EQ(without_folders("1/2 /"), "1/2 ");
  EXPECT_EQ(without_folders("LD=/a/b=/c \"/x/y\" d=e"), "LD=c \"y\" d=e");
  const char* const words[]{"/x/mpiq-bench", "link"};
  EXPECT_EQ(command_line_text(2, words), "mpiq-bench link");
}

}  // namespace
}  // namespace mq::bench
