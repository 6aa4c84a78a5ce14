// Training without MPI: the files, the derivative, the optimizers, the pieces.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "bench/research/train/idx.hpp"
#include "bench/research/train/network.hpp"
#include "bench/research/train/optimizer.hpp"
#include "bench/research/train/options.hpp"
#include "bench/research/train/reducer.hpp"

namespace mq::bench {
namespace {

const std::string kMnist = MQ_TEST_DATA "/mnist";

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "mpiq_train_test_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
  }

 private:
  std::string path_;
};

std::string idx(const std::vector<std::uint32_t>& sizes, std::size_t bytes, char fill = 1) {
  std::string text{0, 0, 8, static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(size >> shift & 0xff);
  return text + std::string(bytes, fill);
}

TEST(Idx, the_sample_is_what_it_says) {
  const auto images = read_images(kMnist, "train");
  ASSERT_TRUE(images.ok()) << images.status().text();
  EXPECT_EQ(images->count, 512u);
  EXPECT_EQ(images->size(), 784u);
  EXPECT_EQ(images->pixels.size(), 512u * 784);
  EXPECT_EQ(images->labels[0], 5);  // the first of MNIST
  EXPECT_EQ(images->labels[1], 0);
  EXPECT_EQ(*std::max_element(images->pixels.begin(), images->pixels.end()), 1.0F);
  const auto few = read_images(kMnist, "t10k", 7);
  ASSERT_TRUE(few.ok());
  EXPECT_EQ(few->labels.size(), 7u);
}

TEST(Idx, plain_files_are_read_and_bad_ones_refused) {
  const Folder folder;
  const auto status = [&] { return read_images(folder.path(), "x").status(); };
  const std::string pictures = "x-images-idx3-ubyte", labels = "x-labels-idx1-ubyte";
  EXPECT_FALSE(status().ok()) << "no files";
  folder.write(pictures, idx({3, 2, 2}, 12));
  EXPECT_FALSE(status().ok()) << "no labels";
  folder.write(labels, idx({3}, 3));
  EXPECT_TRUE(status().ok()) << status().text();
  const struct {
    std::string pictures, labels;
    const char* what;
  } bad[] = {{idx({3, 2, 2}, 11), idx({3}, 3), "an image cut short"},
             {idx({3, 2, 2}, 12), idx({3}, 2), "a label missing"},
             {idx({3, 2, 2}, 12), idx({4}, 4), "as many labels as images"},
             {idx({3, 2, 2}, 12), idx({3}, 3, 10), "a label of 10"},
             {idx({3, 4}, 12), idx({3}, 3), "two dimensions"},
             {idx({0, 2, 2}, 0), idx({0}, 0), "no images"},
             {idx({3, 0, 2}, 0), idx({3}, 3), "images without rows"},
             {idx({0xffffffff, 4096, 4096}, 12), idx({0xffffffff}, 3), "a header that lies"},
             {"", idx({3}, 3), "an empty file"},
             {idx({3, 2, 2}, 12).substr(0, 9), idx({3}, 3), "half a header"}};
  for (const auto& b : bad) {
    folder.write(pictures, b.pictures);
    folder.write(labels, b.labels);
    EXPECT_EQ(status().code(), Code::bad_argument) << b.what;
  }
}

TEST(Network, words_make_networks_or_errors) {
  for (const char* good : {"mlp", "mlp:1", "mlp:512x512", "cnn:8x16"})
    EXPECT_TRUE(parse_network(good).ok()) << good;
  for (const char* bad :
       {"", "rnn:3", "mlp:0", "mlp:x", "mlp:3x", "mlp:3,4", "cnn:8", "cnn", "mlp:99999999999", "logistic"})
    EXPECT_FALSE(parse_network(bad).ok()) << bad;
}

// Derivatives by differences, of every tensor along its gradient, where the loss grows the most, and along
// random directions: single parameters may sit where a maximum changes its mind.
void expect_derivative(Network& problem) {
  const std::size_t n = problem.examples(), count = problem.parameters().size();
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> gradient(count), other(count);
  std::vector<std::uint32_t> all(n);
  std::iota(all.begin(), all.end(), 0U);
  const float scale = 1.0F / static_cast<float>(n);
  problem.gradient(all, scale, gradient.data());
  const std::vector<float> kept(problem.parameters().begin(), problem.parameters().end());
  for (const Span& tensor : problem.tensors())
    for (int way = 0; way < 4; ++way) {
      std::vector<double> direction(tensor.count);
      double length = 0, expected = 0;
      for (std::size_t i = 0; i < tensor.count; ++i) {
        direction[i] = way == 0 ? gradient[tensor.begin + i] : normal(random);
        length += direction[i] * direction[i];
      }
      for (std::size_t i = 0; i < tensor.count; ++i) {
        direction[i] /= std::sqrt(length);
        expected += direction[i] * gradient[tensor.begin + i];
      }
      const double step = 2e-3;
      const auto loss = [&](double delta) {
        std::copy(kept.begin(), kept.end(), problem.parameters().begin());
        for (std::size_t i = 0; i < tensor.count; ++i)
          problem.parameters()[tensor.begin + i] += static_cast<float>(delta * direction[i]);
        return problem.gradient(all, scale, other.data());
      };
      const double slope = scale * (loss(step) - loss(-step)) / (2 * step);
      EXPECT_NEAR(expected, slope, 6e-3 + 0.02 * std::abs(slope)) << tensor.name << " way " << way;
    }
}
void expect_derivative(const std::string& text, std::size_t side) {
  SCOPED_TRACE(text);
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  Images images{16, side, side, std::vector<float>(16 * side * side), std::vector<std::uint8_t>(16)};
  for (float& v : images.pixels) v = std::abs(normal(random));
  for (std::uint8_t& label : images.labels) label = static_cast<std::uint8_t>(random() % 10);
  Network network(*parse_network(text), images, images, 3);
  expect_derivative(network);
}
TEST(Network, gradients_are_derivatives) {
  expect_derivative("mlp", 6);
  expect_derivative("mlp:20x15", 6);
  expect_derivative("cnn:3x4", 18);
  expect_derivative("cnn:2x3", 17);  // a row and a column too many for the pooling
}

TEST(Network, weights_are_matrices_with_a_row_for_each_output) {
  const Images images{0, 18, 18, {}, {}};
  Network mlp(*parse_network("mlp:20"), images, images, 1), cnn(*parse_network("cnn:3x4"), images, images, 1);
  const auto shapes = [](const Network& network) {
    std::string text;
    for (const Span& t : network.tensors())
      text +=
          t.name + " " + (t.row ? std::to_string(t.count / t.row) + "x" + std::to_string(t.row) : "-") + " ";
    return text;
  };
  EXPECT_EQ(shapes(mlp), "fc1.weight 20x324 fc1.bias - out.weight 10x20 out.bias - ");
  EXPECT_EQ(shapes(cnn),
            "conv1.weight 3x25 conv1.bias - conv2.weight 4x75 conv2.bias - out.weight 10x4 out.bias - ");
}

TEST(Network, the_same_seed_gives_the_same_and_another_another) {
  const auto spec = parse_network("mlp:30");
  const Images images{0, 28, 28, {}, {}};
  Network a(*spec, images, images, 1), b(*spec, images, images, 1), c(*spec, images, images, 2);
  EXPECT_TRUE(std::equal(a.parameters().begin(), a.parameters().end(), b.parameters().begin()));
  EXPECT_FALSE(std::equal(a.parameters().begin(), a.parameters().end(), c.parameters().begin()));
  double squares = 0;
  for (std::size_t i = 0; i < a.tensors()[0].count; ++i) squares += std::pow(a.parameters()[i], 2);
  EXPECT_NEAR(squares / static_cast<double>(a.tensors()[0].count), 2.0 / 784, 0.1 / 784) << "He et al. 2015";
}

TEST(Optimizer, rules_are_those_of_their_papers) {
  std::vector<float> p{1};
  Optimizer sgd(Rule::sgd, 0, 1), momentum(Rule::momentum, 0.5, 1), adagrad(Rule::adagrad, 0, 1);
  sgd.update(std::vector<float>{2}, 0.1F, p);
  EXPECT_FLOAT_EQ(p[0], 0.8F);
  p = {1};
  momentum.update(std::vector<float>{2}, 0.1F, p);  // v = 2
  momentum.update(std::vector<float>{1}, 0.1F, p);  // v = 2
  EXPECT_FLOAT_EQ(p[0], 0.6F);
  p = {1};
  Optimizer nesterov(Rule::nesterov, 0.5, 1);
  nesterov.update(std::vector<float>{2}, 0.1F, p);  // v = 2, step 2 + 1
  EXPECT_FLOAT_EQ(p[0], 0.7F);
  nesterov.update(std::vector<float>{1}, 0.1F, p);  // v = 2, step 1 + 1
  EXPECT_FLOAT_EQ(p[0], 0.5F);
  p = {1};
  adagrad.update(std::vector<float>{3}, 0.1F, p);  // 3 / 3
  adagrad.update(std::vector<float>{4}, 0.1F, p);  // 4 / 5
  EXPECT_FLOAT_EQ(p[0], 0.82F);
  Optimizer before(Rule::adagrad, 0, 2);
  std::vector<float> g{3, 0};
  before.adapt(g);
  g = {4, 0};
  before.adapt(g);
  EXPECT_FLOAT_EQ(g[0], 0.8F);
  EXPECT_EQ(g[1], 0.0F) << "what was always 0 stays 0";
  Optimizer velocity(Rule::momentum, 0.5, 1);
  std::vector<float> v{2};
  velocity.adapt(v);
  v = {1};
  velocity.adapt(v);
  EXPECT_FLOAT_EQ(v[0], 2.0F);
}

// Loshchilov and Hutter 2019, algorithm 2, with the rate in front of the decay.
TEST(Optimizer, adamw_corrects_its_averages_and_decays_apart_from_the_gradient) {
  std::vector<float> p{1, -3};
  Optimizer adamw(Rule::adamw, 0.5, 2, 0.75, 0.2);
  adamw.update(std::vector<float>{2, 0}, 0.1F, p);  // m = 1 / 0.5, v = 1 / 0.25
  EXPECT_FLOAT_EQ(p[0], static_cast<float>(1 - 0.1 * (1 + 0.2 * 1)));
  EXPECT_FLOAT_EQ(p[1], static_cast<float>(-3 - 0.1 * (0 - 0.2 * 3))) << "without a gradient the decay alone";
  const double before = p[0], mean = (0.5 * 1 + 0.5 * 4) / 0.75, square = (0.75 * 1 + 0.25 * 16) / 0.4375;
  adamw.update(std::vector<float>{4, 0}, 0.1F, p);
  EXPECT_NEAR(p[0], before - 0.1 * (mean / std::sqrt(square) + 0.2 * before), 1e-6);
  std::vector<float> large{1}, small{1};  // the size of a gradient does not matter
  Optimizer of_large(Rule::adamw, 0.9, 1, 0.999), of_small(Rule::adamw, 0.9, 1, 0.999);
  for (const float gradient : {1.0F, -2.0F, 3.0F}) {
    of_large.update(std::vector<float>{1000 * gradient}, 0.1F, large);
    of_small.update(std::vector<float>{gradient}, 0.1F, small);
  }
  EXPECT_NEAR(large[0], small[0], 1e-5);
}

TEST(Reducer, buckets_cover_every_tensor_once_in_order) {
  const std::vector<Span> tensors{{"a", 0, 100}, {"b", 100, 10}, {"c", 110, 1000}, {"d", 1110, 1}};
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{44}, std::size_t{440}, std::size_t{4444}, std::size_t{1} << 30}) {
    const std::vector<Span> buckets = make_buckets(tensors, bytes);
    std::size_t at = 0;
    for (const Span& bucket : buckets) {
      EXPECT_EQ(bucket.begin, at);
      at += bucket.count;
      const bool alone = bucket.name.find('+') == std::string::npos;
      EXPECT_TRUE(alone || bucket.count * 4 <= bytes) << bucket.name;
    }
    EXPECT_EQ(at, 1111u);
  }
  const std::vector<Span> matrices{{"a", 0, 100, 20}, {"b", 100, 10, 5}};
  EXPECT_EQ(make_buckets(matrices, 0)[1].row, 5u);
  EXPECT_EQ(make_buckets(matrices, 1 << 20)[0].row, 0u) << "two matrices in a bucket are none";
  EXPECT_EQ(make_buckets(tensors, 0).size(), 4u);
  EXPECT_EQ(make_buckets(tensors, 440).size(), 3u);
  EXPECT_EQ(make_buckets(tensors, 1 << 30).size(), 1u);
}

TEST(TrainOptions, words_are_taken_or_refused) {
  const auto parse = [](std::vector<const char*> words) {
    words.insert(words.begin(), "mpiq-train");
    return parse_train(static_cast<int>(words.size()), words.data());
  };
  const auto good = parse({"--data", "x", "--methods", "mpi,onebit(block=64),topk(k=0.01,block=64),lowrank",
                           "--seeds", "1,2", "--ramp", "0.25,0.0625", "--optimizer", "adagrad", "--adapt",
                           "before", "--bucket-bytes", "0"});
  ASSERT_TRUE(good.run) << good.err;
  EXPECT_EQ(good.options.methods.size(), 4u);
  EXPECT_EQ(good.options.ramp, (std::vector<double>{0.25, 0.0625}));
  EXPECT_EQ(good.options.seeds, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_TRUE(good.options.adapt_before);
  EXPECT_EQ(good.options.bucket_bytes, 0u);
  for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{
           {"--data", "x", "--methods", "nonsense"},
           {"--data", "x", "--methods", "mpi/smp"},
           {"--data", "x", "--adapt", "before"},
           {"--data", "x", "--ramp", "0.5,0"},
           {"--data", "x", "--ramp", "0.5,1e-9", "--methods", "topk"},
           {"--data", "x", "--network",
            "mlp:"
            "0"},
           {"--data", "x", "--batch", "7", "--half-batches"},
           {"--data", "x", "--record-steps", "0"},
           {"--data", "x", "--optimizer", "nesterov"},
           {"--data", "x", "--optimizer", "adamw", "--second-momentum", "1"},
           {"--data", "x", "--optimizer", "adamw", "--weight-decay", "-0.1"},
           {"--data", "x", "--optimizer", "adamw", "--adapt", "before"},
           {"--data", "x", "--local-steps", "-1"},
           {"--data", "x", "--local-steps", "2", "--batch", "0"},
           {"--data", "x", "--local-steps", "2", "--half-batches"},
           {"--data", "x", "--local-steps", "2", "--outer-rate", "0"},
           {"--data", "x", "--local-steps", "2", "--outer-momentum", "1"},
           {"--data", "x", "--local-steps", "2", "--optimizer", "adagrad", "--adapt", "before"},
           {"--data", "x", "--local-steps", "2", "--record", "y", "--record-steps", "0"},
           {"--data", "x", "--local-steps", "2", "--methods", "topk memory=momentum"},
           {"--data", "x", "--bucket-bytes", "1K,2K"},
           {"--data", "", "--methods", "mpi"},
           {"--unknown"}}) {
    const auto bad = parse(words);
    EXPECT_FALSE(bad.run);
    EXPECT_NE(bad.exit_code, 0);
    EXPECT_FALSE(bad.err.empty());
  }
  EXPECT_EQ(parse({"--help"}).exit_code, 0);
}

}  // namespace
}  // namespace mq::bench
