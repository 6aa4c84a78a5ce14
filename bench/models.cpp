#include "bench/models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mq::bench {
namespace {

using Count = std::uint64_t;

Layer dense(std::string name, Count in, Count out) { return {std::move(name), in * out + out}; }

Layer convolution(std::string name, Count in, Count out, Count side) {
  return {std::move(name), in * out * side * side + out};
}

// A convolution without bias, with the two vectors of its batch normalisation.
Layer normalised_convolution(std::string name, Count in, Count out, Count side) {
  return {std::move(name), in * out * side * side + 2 * out};
}

std::vector<Layer> mlp() { return {dense("fc1", 784, 300), dense("fc2", 300, 100), dense("fc3", 100, 10)}; }

std::vector<Layer> lenet() {
  return {convolution("conv1", 1, 20, 5), convolution("conv2", 20, 50, 5), dense("ip1", 800, 500),
          dense("ip2", 500, 10)};
}

std::vector<Layer> alexnet() {
  return {convolution("conv1", 3, 64, 11),   convolution("conv2", 64, 192, 5),
          convolution("conv3", 192, 384, 3), convolution("conv4", 384, 256, 3),
          convolution("conv5", 256, 256, 3), dense("fc6", 9216, 4096),
          dense("fc7", 4096, 4096),          dense("fc8", 4096, 1000)};
}

std::vector<Layer> vgg16() {
  std::vector<Layer> layers;
  Count in = 3;
  int stage = 1;
  for (const auto& [convolutions, out] :
       std::array<std::pair<int, Count>, 5>{{{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}}) {
    for (int i = 1; i <= convolutions; ++i, in = out)
      layers.push_back(convolution(fmt::format("conv{}_{}", stage, i), in, out, 3));
    ++stage;
  }
  layers.push_back(dense("fc6", 512 * 7 * 7, 4096));
  layers.push_back(dense("fc7", 4096, 4096));
  layers.push_back(dense("fc8", 4096, 1000));
  return layers;
}

std::vector<Layer> resnet50() {
  std::vector<Layer> layers{normalised_convolution("conv1", 3, 64, 7)};
  Count in = 64;
  int stage = 1;
  for (const auto& [blocks, width] :
       std::array<std::pair<int, Count>, 4>{{{3, 64}, {4, 128}, {6, 256}, {3, 512}}}) {
    for (int b = 0; b < blocks; ++b, in = 4 * width) {
      const std::string block = fmt::format("layer{}.{}.", stage, b);
      layers.push_back(normalised_convolution(block + "conv1", in, width, 1));
      layers.push_back(normalised_convolution(block + "conv2", width, width, 3));
      layers.push_back(normalised_convolution(block + "conv3", width, 4 * width, 1));
      if (b == 0) layers.push_back(normalised_convolution(block + "downsample", in, 4 * width, 1));
    }
    ++stage;
  }
  layers.push_back(dense("fc", 2048, 1000));
  return layers;
}

constexpr Count kWidth = 768;  // of BERT base and GPT-2
constexpr int kBlocks = 12;
constexpr Count kNorm = 2 * kWidth;

std::vector<Layer> bert_base() {
  std::vector<Layer> layers{{"embeddings.word", 30522 * kWidth},
                            {"embeddings.position", 512 * kWidth},
                            {"embeddings.type", 2 * kWidth},
                            {"embeddings.norm", kNorm}};
  for (int b = 0; b < kBlocks; ++b) {
    const std::string block = fmt::format("layer.{}.", b);
    for (const char* part : {"query", "key", "value", "output"})
      layers.push_back(dense(block + part, kWidth, kWidth));
    layers.push_back({block + "attention.norm", kNorm});
    layers.push_back(dense(block + "intermediate", kWidth, 4 * kWidth));
    layers.push_back(dense(block + "feed_forward", 4 * kWidth, kWidth));
    layers.push_back({block + "norm", kNorm});
  }
  layers.push_back(dense("pooler", kWidth, kWidth));
  return layers;
}

std::vector<Layer> gpt2() {
  std::vector<Layer> layers{{"wte", 50257 * kWidth}, {"wpe", 1024 * kWidth}};
  for (int b = 0; b < kBlocks; ++b) {
    const std::string block = fmt::format("h.{}.", b);
    layers.push_back({block + "ln_1", kNorm});
    layers.push_back(dense(block + "attn.c_attn", kWidth, 3 * kWidth));
    layers.push_back(dense(block + "attn.c_proj", kWidth, kWidth));
    layers.push_back({block + "ln_2", kNorm});
    layers.push_back(dense(block + "mlp.c_fc", kWidth, 4 * kWidth));
    layers.push_back(dense(block + "mlp.c_proj", 4 * kWidth, kWidth));
  }
  layers.push_back({"ln_f", kNorm});
  return layers;
}

std::vector<Layer> lstm() {
  constexpr Count words = 10000, hidden = 1500;
  return {{"embedding", words * hidden},
          dense("lstm1", 2 * hidden, 4 * hidden),
          dense("lstm2", 2 * hidden, 4 * hidden),
          dense("softmax", hidden, words)};
}

constexpr std::array kModels{
    Model{"mlp", "LeNet-300-100 on MNIST: LeCun et al. 1998; 267K in Han et al. 2015 (arXiv:1506.02626)",
          266'610, mlp},
    Model{"lenet", "LeNet-5 of Caffe (examples/mnist); 431K in Han et al. 2015 (arXiv:1506.02626)", 431'080,
          lenet},
    Model{"alexnet", "torchvision alexnet; Krizhevsky 2014 (arXiv:1404.5997)", 61'100'840, alexnet},
    Model{"vgg16", "torchvision vgg16; Simonyan and Zisserman 2014 (arXiv:1409.1556)", 138'357'544, vgg16},
    Model{"resnet50", "torchvision resnet50; He et al. 2015 (arXiv:1512.03385)", 25'557'032, resnet50},
    Model{"bert-base", "bert-base-uncased with pooler; Devlin et al. 2018 (arXiv:1810.04805)", 109'482'240,
          bert_base},
    Model{"gpt2", "GPT-2 small, tied output embedding; Radford et al. 2019", 124'439'808, gpt2},
    Model{"lstm", "large Penn Treebank LSTM, 66M; Zaremba et al. 2014 (arXiv:1409.2329)", 66'022'000, lstm},
};

}  // namespace

std::span<const Model> models() { return kModels; }

const Model* find_model(std::string_view name) {
  const auto found =
      std::find_if(kModels.begin(), kModels.end(), [&](const Model& m) { return m.name == name; });
  return found == kModels.end() ? nullptr : &*found;
}

}  // namespace mq::bench
