#include "bench/research/train/modules.hpp"

#include <cblas.h>

#include <algorithm>
#include <cstdint>

namespace mq::bench {
namespace {

// c = a b, or c += a b. a is m x k and b is k x n; each is transposed if its argument says so.
void product(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, const float* a,
             const float* b, float* c, bool add = false) {
  const auto as = [](std::size_t size) { return static_cast<int>(size); };
  cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
              as(m), as(n), as(k), 1, a, as(transpose_a ? m : k), b, as(transpose_b ? k : n), add ? 1 : 0, c,
              as(n));
}

void add_bias(const float* bias, std::size_t width, float* y, std::size_t rows, bool relu) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < width; ++j) {
      const float v = y[i * width + j] + bias[j];
      y[i * width + j] = relu && v < 0 ? 0 : v;
    }
}
void mask_relu(const float* y, float* dy, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
}
void sum_rows(const float* dy, std::size_t rows, std::size_t width, float* to) {
  std::fill_n(to, width, 0.0F);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < width; ++j) to[j] += dy[i * width + j];
}

class Dense : public Module {
 public:
  Dense(std::string name, std::size_t inputs, std::size_t outputs, bool relu)
      : Module(inputs, outputs), name_(std::move(name)), relu_(relu) {}
  std::vector<Tensor> tensors() const override {
    return {{name_ + ".weight", in * out, in}, {name_ + ".bias", out, 0}};
  }
  void forward(const float* parameters, const float* x, float* y, std::size_t n) override {
    product(false, true, n, out, in, x, parameters, y);
    add_bias(parameters + in * out, out, y, n, relu_);
  }
  void backward(const float* parameters, float* gradients, const float* x, const float* y, float* dy,
                float* dx, std::size_t n) override {
    if (relu_) mask_relu(y, dy, n * out);
    product(true, false, out, in, n, dy, x, gradients);
    sum_rows(dy, n, out, gradients + in * out);
    if (dx != nullptr) product(false, false, n, in, out, dy, parameters, dx);
  }

 private:
  std::string name_;
  bool relu_;
};

// Uses im2col, one picture at a time: columns_ holds, for each place of the filter, the numbers under it. The
// output has places as rows and filters as columns (channels last). The input has the same layout, except in
// the first layer.
class Convolution : public Module {
 public:
  Convolution(std::string name, Picture picture, std::size_t filters, std::size_t side)
      : Module(picture.size(), filters * (picture.rows - side + 1) * (picture.columns - side + 1)),
        name_(std::move(name)),
        picture_(picture),
        filters_(filters),
        side_(side),
        under_(picture.channels * side * side),
        rows_(picture.rows - side + 1),
        columns_(picture.columns - side + 1),
        patches_(rows_ * columns_ * under_),
        d_patches_(patches_.size()) {}
  std::vector<Tensor> tensors() const override {
    return {{name_ + ".weight", under_ * filters_, under_}, {name_ + ".bias", filters_, 0}};
  }
  void forward(const float* parameters, const float* x, float* y, std::size_t n) override {
    for (std::size_t i = 0; i < n; ++i) {
      gather(x + i * in);
      float* const mine = y + i * out;
      product(false, true, places(), filters_, under_, patches_.data(), parameters, mine);
      add_bias(parameters + under_ * filters_, filters_, mine, places(), true);
    }
  }
  void backward(const float* parameters, float* gradients, const float* x, const float* y, float* dy,
                float* dx, std::size_t n) override {
    mask_relu(y, dy, n * out);
    std::fill_n(gradients, under_ * filters_, 0.0F);
    sum_rows(dy, n * places(), filters_, gradients + under_ * filters_);
    for (std::size_t i = 0; i < n; ++i) {
      const float* const mine = dy + i * out;
      gather(x + i * in);
      product(true, false, filters_, under_, places(), mine, patches_.data(), gradients, true);
      if (dx == nullptr) continue;
      product(false, false, places(), under_, filters_, mine, parameters, d_patches_.data());
      scatter(dx + i * in);
    }
  }

 private:
  std::size_t places() const { return rows_ * columns_; }
  // Calls f(place in the patches, place in the picture) for runs of side x channels numbers that lie
  // together.
  template <class F>
  void visit(const F& f) const {
    const std::size_t run = side_ * picture_.channels, row = picture_.columns * picture_.channels;
    for (std::size_t r = 0; r < rows_; ++r)
      for (std::size_t c = 0; c < columns_; ++c)
        for (std::size_t i = 0; i < side_; ++i)
          f((r * columns_ + c) * under_ + i * run, (r + i) * row + c * picture_.channels, run);
  }
  void gather(const float* x) {
    visit([&](std::size_t to, std::size_t from, std::size_t n) { std::copy_n(x + from, n, &patches_[to]); });
  }
  void scatter(float* dx) const {
    std::fill_n(dx, in, 0.0F);
    visit([&](std::size_t from, std::size_t to, std::size_t n) {
      for (std::size_t i = 0; i < n; ++i) dx[to + i] += d_patches_[from + i];
    });
  }

  std::string name_;
  Picture picture_;
  std::size_t filters_, side_, under_, rows_, columns_;
  std::vector<float> patches_, d_patches_;
};

class Pooling : public Module {
 public:
  explicit Pooling(Picture picture)
      : Module(picture.size(), picture.channels * (picture.rows / 2) * (picture.columns / 2)),
        picture_(picture) {}
  void forward(const float*, const float* x, float* y, std::size_t n) override {
    from_.resize(n * out);
    const std::size_t row = picture_.columns * picture_.channels;
    std::size_t to = 0;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t r = 0; r + 1 < picture_.rows; r += 2)
        for (std::size_t c = 0; c + 1 < picture_.columns; c += 2)
          for (std::size_t k = 0; k < picture_.channels; ++k, ++to) {
            const std::size_t first = i * in + r * row + c * picture_.channels + k;
            std::size_t best = first;
            for (const std::size_t other :
                 {first + picture_.channels, first + row, first + row + picture_.channels})
              if (x[other] > x[best]) best = other;
            from_[to] = static_cast<std::uint32_t>(best);
            y[to] = x[best];
          }
  }
  void backward(const float*, float*, const float*, const float*, float* dy, float* dx,
                std::size_t n) override {
    if (dx == nullptr) return;
    std::fill_n(dx, n * in, 0.0F);
    for (std::size_t i = 0; i < n * out; ++i) dx[from_[i]] += dy[i];
  }

 private:
  Picture picture_;
  std::vector<std::uint32_t> from_;  // of each output of the last forward
};

}  // namespace

std::unique_ptr<Module> dense(std::string name, std::size_t in, std::size_t out, bool relu) {
  return std::make_unique<Dense>(std::move(name), in, out, relu);
}
std::unique_ptr<Module> convolution(std::string name, Picture in, std::size_t filters, std::size_t side) {
  return std::make_unique<Convolution>(std::move(name), in, filters, side);
}
std::unique_ptr<Module> pooling(Picture in) { return std::make_unique<Pooling>(in); }

}  // namespace mq::bench
