// What can be chosen about a measurement: layers and buckets, isolated methods, recorded input, the line
// through clock readings, and what is made of repetitions that do not count.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "bench/clock.hpp"
#include "bench/data.hpp"
#include "bench/layers.hpp"
#include "bench/models.hpp"
#include "bench/parse_lists.hpp"
#include "bench/points.hpp"
#include "bench/recording.hpp"
#include "bench/tabulate.hpp"

namespace mq::bench {
namespace {

// ---- layers

TEST(Layers, of_a_file_are_its_lines) {
  const auto layers =
      parse_layers("name,count\r\n# the last one is small\n\n conv1 , 1024\nblock,2,7\nfc,10");
  ASSERT_TRUE(layers.ok()) << layers.status().text();
  ASSERT_EQ(layers->size(), 3U);
  EXPECT_EQ((*layers)[0].name, "conv1");
  EXPECT_EQ((*layers)[1].name, "block,2") << "the last comma divides";
  EXPECT_EQ((*layers)[2].count, 10U);
}

TEST(Layers, of_a_file_that_is_none_are_refused_with_the_line) {
  for (const char* line : {"fc", "fc,", ",5", "fc,0", "fc,-1", "fc,1e6", "fc,3x", "fc,99999999999999999999",
                           "fc,5,", "a name that is longer than the column of the file has room for,5"}) {
    const auto layers = parse_layers("conv,4\n" + std::string(line) + "\n");
    ASSERT_FALSE(layers.ok()) << line;
    EXPECT_NE(layers.status().text().find("line 2"), std::string::npos) << layers.status().text();
  }
  for (const char* text : {"", "\n\n", "# nothing\n", "name,count\n"})
    EXPECT_FALSE(parse_layers(text).ok()) << text;
}

std::vector<std::string> words(const std::vector<Layer>& layers) {
  std::vector<std::string> text;
  for (const Layer& layer : layers) text.push_back(layer.name + "=" + std::to_string(layer.count));
  return text;
}

TEST(Buckets, begin_with_the_last_layer_and_hold_neighbours_up_to_their_size) {
  const std::vector<Layer> layers{{"a", 5}, {"b", 4}, {"c", 100}, {"d", 3}, {"e", 2}, {"f", 1}};
  EXPECT_EQ(words(fuse_layers(layers, 6)), (std::vector<std::string>{"f+2=6", "c=100", "b=4", "a=5"}));
  EXPECT_EQ(words(fuse_layers(layers, 9)), (std::vector<std::string>{"f+2=6", "c=100", "b+1=9"}));
  EXPECT_EQ(words(fuse_layers(layers, 1000)), (std::vector<std::string>{"f+5=115"}));
  EXPECT_EQ(words(fuse_layers(layers, 1)),
            (std::vector<std::string>{"f=1", "e=2", "d=3", "c=100", "b=4", "a=5"}));
}

// ---- points

// What rows of committed files have: a sweep must find them done.
TEST(Points, have_the_keys_that_they_always_had) {
  Options o;
  o.methods = *parse_methods("mpi,bf16");
  const Point p{kernels::Element::f32, 2, 1024, "", 1};
  EXPECT_EQ(
      variables_json(o, p, o.methods[0], {1, 2}),
      R"({"buffers":"rotate","collective":"allreduce","count":1024,"data":"normal","dtype":"f32",)"
      R"("feedback":true,"launch":0,"layer":"","link":"","memory":"host","method":"mpi","mode":"interleaved",)"
      R"("model":"","nodes":1,"op":"sum","place":"out","ranks":2,"ranks_per_node":2,"rho":0,"seed":1,)"
      R"("sync":"barrier"})");
}

TEST(Points, of_isolated_methods_have_one_each_and_cover_all) {
  Options o;
  o.sizes = {4096, 8192};
  o.methods = *parse_methods("mpi,mpi#2,onebit");
  o.isolated = true;
  std::multiset<std::string> found;
  const auto points = make_points(o, 2);
  ASSERT_TRUE(points.ok());
  for (const Point& p : *points) {
    ASSERT_EQ(p.methods.size(), 1U);
    found.insert(p.methods.front().text + " " + std::to_string(p.bytes()));
  }
  EXPECT_EQ(found, (std::multiset<std::string>{"mpi 4096", "mpi 8192", "mpi#2 4096", "mpi#2 8192",
                                               "onebit 4096", "onebit 8192"}));
  EXPECT_STREQ(mode(o), "isolated");
}

TEST(Points, of_buckets_cover_every_layer_once_whatever_their_size) {
  Options o;
  for (const Model& model : models())
    for (const std::uint64_t bytes :
         {std::uint64_t{4}, std::uint64_t{1} << 20, std::uint64_t{25} << 20, std::uint64_t{1} << 40}) {
      o.model = model.name;
      o.bucket_bytes = bytes;
      std::uint64_t total = 0;
      const auto points = make_points(o, 2);
      ASSERT_TRUE(points.ok());
      for (const Point& p : *points) total += p.count * static_cast<std::uint64_t>(p.layers_alike);
      EXPECT_EQ(total, model.published_total) << model.name << " " << bytes;
      EXPECT_EQ(points->size() == 1, bytes > 4 * model.published_total) << model.name << " " << bytes;
    }
  EXPECT_EQ(model_label(o).find(o.model + "/"), 0U) << "is another model than without buckets";
}

// ---- recordings

class Recorded : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "mpiq_recorded_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  template <class T>
  std::string write(const std::string& name, const std::vector<T>& x) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(x.data()), static_cast<std::streamsize>(x.size() * sizeof(T)));
    return path;
  }
  static auto open(const std::string& path, int ranks = 2, int mine = 0,
                   std::vector<kernels::Element> types = {kernels::Element::f32}) {
    return Recording::open(path, ranks, mine, types, 7);
  }
  static std::string refusal(const std::string& path, int ranks = 2, int mine = 0,
                             std::vector<kernels::Element> types = {kernels::Element::f32}) {
    const auto recording = open(path, ranks, mine, std::move(types));
    return recording.ok() ? "" : recording.status().text();
  }
  std::filesystem::path folder_;
};

TEST_F(Recorded, a_file_of_each_rank_is_its_vector_from_the_beginning) {
  std::vector<float> zero(100), one(50);
  for (std::size_t i = 0; i < zero.size(); ++i) zero[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < one.size(); ++i) one[i] = -static_cast<float>(i);
  write("rank0.f32", zero);
  write("rank1.f32", one);
  const std::string path = (folder_ / "rank{rank}.f32").string();
  const auto recording = open(path);
  ASSERT_TRUE(recording.ok()) << recording.status().text();
  DataSpec spec{.distribution = Distribution::file, .path = path};
  const Generator g(spec, *recording);
  std::vector<float> x(100);
  g.fill(std::span(x), 0, 0);
  EXPECT_EQ(x, zero);
  x.resize(50);
  g.fill(std::span(x), 1, 0);
  EXPECT_EQ(x, one);
  EXPECT_EQ(g.value<double>(1, 49), -49.0) << "in another type the same number";
}

TEST_F(Recorded, a_vector_longer_than_the_file_repeats_all_of_it_from_another_place) {
  std::vector<double> x(97);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  write("0.f64", x);
  write("1.f64", x);
  const auto own = open((folder_ / "{rank}.f64").string());
  const auto shared = open((folder_ / "0.f64").string());
  ASSERT_TRUE(own.ok() && shared.ok());
  for (const auto& recording : {*own, *shared})
    for (const int rank : {0, 1})
      for (std::uint64_t copy = 0; copy < 3; ++copy) {
        std::vector<double> piece(97);
        for (std::uint64_t i = 0; i < 97; ++i) piece[i] = recording->value(rank, 97 * copy + i);
        EXPECT_EQ(std::fmod(piece[0] + 1, 97), piece[1]) << "neighbours stay neighbours";
        std::sort(piece.begin(), piece.end());
        EXPECT_EQ(piece, x) << "every element once";
      }
  EXPECT_EQ((*own)->value(1, 0), 0);
  EXPECT_NE((*own)->value(0, 97), (*own)->value(0, 2 * 97)) << "no period of the file's length";
  EXPECT_NE((*shared)->value(0, 0), (*shared)->value(1, 0)) << "ranks that share a file are not equal";
  EXPECT_EQ((*shared)->value(1, 5), (*open((folder_ / "0.f64").string()))->value(1, 5))
      << "the same every time";
}

TEST_F(Recorded, files_that_cannot_be_input_are_refused_by_name) {
  const std::string missing = (folder_ / "none.f32").string();
  EXPECT_NE(refusal(missing).find(missing), std::string::npos);
  EXPECT_NE(refusal(write("empty.f32", std::vector<float>{})).find("empty"), std::string::npos);
  EXPECT_NE(refusal(write("odd.f32", std::vector<char>(7))).find("7 bytes"), std::string::npos);
  EXPECT_NE(refusal(write("odd.f64", std::vector<float>(3))).find("12 bytes"), std::string::npos);
  EXPECT_NE(refusal(folder_.string()), "") << "a folder";
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_NE(refusal(write("nan.f32", std::vector<float>{1, nan})).find("element 1"), std::string::npos);
  EXPECT_NE(refusal(write("inf.f32", std::vector<float>{-inf, 1})).find("element 0"), std::string::npos);
  write("0.f32", std::vector<float>{1});
  EXPECT_NE(refusal((folder_ / "{rank}.f32").string()).find("1.f32"), std::string::npos)
      << "one rank has none";
  const std::string large = write("large.f32", std::vector<float>{40000});
  EXPECT_EQ(refusal(large), "");
  EXPECT_NE(refusal(large, 2, 0, {kernels::Element::f32, kernels::Element::f16}).find("f16"),
            std::string::npos);
}

TEST_F(Recorded, steps_are_those_that_exist_in_ascending_order_and_begin_again_after_the_last) {
  const std::vector<std::string> layers{"fc1", "fc2"};
  for (const int step : {100, 9, 20})
    for (const std::string& layer : layers)
      for (const int rank : {0, 1})
        write(fmt::format("step{}-{}-{}.f32", step, layer, rank),
              std::vector<float>{static_cast<float>(step), layer == "fc1" ? 1.0F : 2.0F,
                                 static_cast<float>(rank)});
  write("stepx-fc1-0.f32", std::vector<float>{1});
  const std::string path = (folder_ / "step{step}-{layer}-{rank}.f32").string();
  const std::vector<kernels::Element> types{kernels::Element::f32};
  const auto opened = Recording::open(path, 2, 1, types, 7, layers);
  ASSERT_TRUE(opened.ok()) << opened.status().text();
  const Recording& recording = **opened;
  EXPECT_EQ(recording.steps(), 3U);
  const std::vector<double> steps{9, 20, 100, 9, 20};
  for (std::size_t k = 0; k < steps.size(); ++k)
    for (const std::string& layer : layers)
      for (const int rank : {0, 1}) {
        const std::uint64_t first = recording.first(layer, k);
        EXPECT_EQ(recording.value(rank, first), steps[k]);
        EXPECT_EQ(recording.value(rank, first + 1), layer == "fc1" ? 1 : 2);
        EXPECT_EQ(recording.value(rank, first + 2), rank);
      }
  std::filesystem::remove(folder_ / "step20-fc2-1.f32");
  const auto lacking = Recording::open(path, 2, 0, types, 7, layers);
  EXPECT_NE(lacking.status().text().find("step20-fc2-1.f32"), std::string::npos);
  EXPECT_NE(refusal((folder_ / "none{step}.f32").string()).find("in place of {step}"), std::string::npos);
}

TEST_F(Recorded, a_path_has_the_number_of_the_rank_wherever_it_asks_for_it) {
  EXPECT_EQ(path_of_rank("a/{rank}/b-{rank}.f32", 12), "a/12/b-12.f32");
  EXPECT_EQ(path_of_rank("a/b.f32", 3), "a/b.f32");
}

// ---- clocks

TEST(ClockLine, finds_offset_and_drift_from_noisy_readings) {
  ClockFit fit;
  const auto ahead = [](double t) { return 123.0 + 2e-5 * t; };
  for (int i = 0; i < 50; ++i) {
    const double t = 1e6 + 0.02 * i;
    fit.add(t, ahead(t) + 1e-7 * ((i * 7) % 5 - 2));
  }
  EXPECT_NEAR(fit.drift(), 2e-5, 1e-6);
  EXPECT_NEAR(fit.ahead_s(1e6 + 2), ahead(1e6 + 2), 2e-6);
}

TEST(ClockLine, of_readings_at_one_time_has_no_drift) {
  ClockFit fit;
  EXPECT_EQ(fit.ahead_s(5), 0) << "without a reading the clocks are one";
  fit.add(10, 3);
  EXPECT_EQ(fit.ahead_s(1000), 3);
  fit.add(10, 5);
  fit.add(10.001, 5);
  EXPECT_EQ(fit.drift(), 0);
  EXPECT_GT(fit.ahead_s(10), 3);
}

// ---- rows

struct Table {
  Options o;
  Point p{kernels::Element::f32, 2, 1024, "", 1};
  std::vector<Outcome> outcomes;
  Circumstances c;
  Table() {
    o.methods = *parse_methods("mpi,bf16");
    p.methods = o.methods;
    outcomes.resize(2);
    for (int m = 0; m < 2; ++m)
      for (int k = 0; k < 20; ++k) {
        Outcome& out = outcomes[static_cast<std::size_t>(m)];
        const double t = (m == 0 ? 3.0 : 2.0) + 0.001 * k;
        out.t_max.push_back(t);
        out.t_span.push_back(t);
        out.skew_in.push_back(0);
        out.valid.push_back(1);
        out.order.push_back(static_cast<std::uint32_t>(2 * k + m));
        for (auto& phase : out.phase_s) phase.push_back(t / 4);
      }
  }
  std::vector<Measurement> rows() const { return tabulate(o, p, c, outcomes); }
};

TEST(Rows, repetitions_that_do_not_count_are_kept_but_in_no_statistic) {
  Table t;
  const auto before = t.rows();
  for (const std::size_t k : {2U, 7U}) {
    t.outcomes[0].valid[k] = 0;
    t.outcomes[0].t_max[k] = 1000;
  }
  const auto rows = t.rows();
  EXPECT_EQ(rows[0].row.reps, 18);
  EXPECT_EQ(rows[0].row.invalid_reps, 2);
  EXPECT_EQ(rows[0].t_max.size(), 20U);
  EXPECT_EQ(std::count(rows[0].valid.begin(), rows[0].valid.end(), 0), 2);
  EXPECT_LT(rows[0].row.t_mean_s, 4);
  EXPECT_NEAR(rows[1].row.speedup, before[1].row.speedup, 0.01) << "pairs only blocks in which both count";
  t.outcomes[0].valid.assign(20, 0);
  EXPECT_TRUE(std::isnan(t.rows()[1].row.speedup));
  EXPECT_EQ(t.rows()[1].row.base_key.str(), "");
  EXPECT_EQ(t.rows()[0].row.reps, 0);
}

TEST(Rows, are_compared_with_the_fastest_dense_method_of_their_point) {
  Table t;
  t.o.baseline = kBestDense;
  t.o.methods = *parse_methods("mpi,bf16,raw/ring");
  t.p.methods = t.o.methods;
  t.outcomes.push_back(t.outcomes[0]);
  EXPECT_EQ(baseline_at(t.o, t.p, t.outcomes), "mpi") << "the first of two alike";
  for (double& time : t.outcomes[2].t_max) time -= 0.5;  // bf16 is the fastest, but not dense
  EXPECT_EQ(baseline_at(t.o, t.p, t.outcomes), "raw/ring");
  const auto rows = t.rows();
  for (const Measurement& m : rows) EXPECT_EQ(m.row.base_key.str(), rows[2].row.key.str());
  EXPECT_NEAR(rows[1].row.speedup, 2.5 / 2, 0.01);
  EXPECT_LT(rows[0].row.speedup, 1);
  t.outcomes[2].valid.assign(20, 0);
  EXPECT_EQ(baseline_at(t.o, t.p, t.outcomes), "mpi") << "a method without a time is no baseline";
  t.outcomes[0].valid.assign(20, 0);
  EXPECT_EQ(baseline_at(t.o, t.p, t.outcomes), "");
  EXPECT_TRUE(std::isnan(t.rows()[1].row.speedup));
}

TEST(Rows, of_isolated_methods_have_no_speedup) {
  Table t;
  EXPECT_GT(t.rows()[1].row.speedup, 1.4);
  t.o.isolated = true;
  t.p.methods.resize(1);
  t.outcomes.resize(1);
  EXPECT_TRUE(std::isnan(t.rows()[0].row.speedup));
  EXPECT_EQ(t.rows()[0].row.mode.str(), "isolated");
}

TEST(Rows, are_normal_unless_less_was_asked_for_and_smoke_else) {
  Table t;
  EXPECT_EQ(t.rows()[0].row.grade.str(), "normal");
  const auto smoke = [](const auto& change) {
    Table changed;
    change(changed);
    return changed.rows()[0].row.grade.str();
  };
  EXPECT_EQ(smoke([](Table& x) { x.o.iters = 10000; }), "smoke");
  EXPECT_EQ(smoke([](Table& x) { x.o.max_reps = 30; }), "smoke");
  EXPECT_EQ(smoke([](Table& x) { x.o.rel_ci = 0.1; }), "smoke");
  EXPECT_EQ(smoke([](Table& x) { x.o.check = false; }), "smoke");
  EXPECT_EQ(smoke([](Table& x) { x.c.oversubscribed = true; }), "smoke");
  EXPECT_EQ(smoke([](Table& x) { x.o.rel_ci = 0.01; }), "normal") << "more than without the option";
  PointRow row;
  row.grade = "publication";
  EXPECT_EQ(row.grade.str(), "publication") << "fits its column";
}

}  // namespace
}  // namespace mq::bench
