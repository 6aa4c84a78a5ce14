#include "tests/kernels/rows.hpp"

#include <array>
#include <cstdlib>
#include <sstream>

namespace mq::test {

template <class T>
std::string Row<T>::params_text() const {
  std::ostringstream text;
  for (std::size_t i = 0; i < codec->specs.size(); ++i) {
    const kernels::ParamSpec& spec = codec->specs[i];
    text << "," << spec.name << "=";
    if (spec.kind == kernels::ParamKind::word)
      text << spec.words[static_cast<std::size_t>(params.value[i])];
    else
      text << params.value[i];
  }
  return text.str();
}

template <class T>
std::string Row<T>::describe(std::size_t n, std::string_view what) const {
  const std::string text = std::string(codec->name) + " " + std::string(name(kElement)) + " " +
                           std::string(name(isa)) + params_text();
  return text + " n=" + std::to_string(n) + " " + std::string(what) + " ";
}

template <class T>
std::vector<std::size_t> Row<T>::lengths() const {
  const std::size_t b = block();
  if (b > 16384 || kSanitized) return {0, 1, 33, b - 1, b + 33};
  return {0, 1, 7, 8, 31, 32, 33, 63, b - 1, b, b + 1, 2 * b + 33};
}

template <class T>
Coded<T> Row<T>::run(const std::vector<T>& x, const std::vector<T>& residual, kernels::Feedback feedback,
                     std::size_t shift, const kernels::NoiseIndex& noise) const {
  const std::size_t n = x.size();
  Guarded<T> in(n * sizeof(T), shift), error(residual.size() * sizeof(T), shift);
  Guarded<std::byte> wire(bound(n), shift);
  in.set(x);
  error.set(residual);
  const kernels::Encoded encoded =
      ops().encode({in.data(), residual.empty() && n > 0 ? nullptr : error.data(), feedback, n, params,
                    wire.data(), noise});
  EXPECT_TRUE(in.intact() && error.intact() && wire.intact()) << describe(n, "encode wrote outside");
  EXPECT_TRUE(same_bits(in.get(n), x)) << describe(n, "encode changed its input");
  EXPECT_LE(encoded.bytes, bound(n)) << describe(n, "bound");
  Coded<T> coded{
      wire.get(encoded.bytes), error.get(residual.size()), {}, encoded.nonfinite, encoded.overflows};
  Guarded<T> out(n * sizeof(T), shift);
  EXPECT_EQ(ops().decode({wire.data(), encoded.bytes, n, params, nullptr, out.data(), false, noise}),
            kernels::Decoded::ok)
      << describe(n, "own wire");
  EXPECT_TRUE(out.intact()) << describe(n, "decode wrote outside");
  coded.decoded = out.get(n);
  return coded;
}

template <class T>
kernels::Decoded Row<T>::decode_guarded(const std::vector<std::byte>& wire, std::size_t n) const {
  Guarded<T> out(n * sizeof(T), 0);
  out.set(std::vector<T>(n));
  const std::vector<std::byte> exact(wire);
  const auto added = ops().decode({exact.data(), exact.size(), n, params, out.data(), out.data()});
  const auto plain = ops().decode({exact.data(), exact.size(), n, params, nullptr, out.data()});
  EXPECT_TRUE(out.intact()) << describe(n, "hostile wire wrote outside");
  EXPECT_EQ(added, plain) << describe(n, "hostile wire");
  return plain;
}

template struct Row<float>;
template struct Row<double>;

std::size_t position(const kernels::Codec& codec, std::string_view param) {
  std::size_t i = 0;
  while (i < codec.specs.size() && codec.specs[i].name != param) ++i;
  return i;
}

// Matrices for codecs that have columns: contiguous and padded, of rows below, at and above a group of 32
// lanes and the pieces in which long blocks are summed.
static void add_matrices(const kernels::Codec& codec, std::vector<kernels::Params>& sets) {
  const std::size_t rows = position(codec, "rows"), ld = position(codec, "ld");
  if (rows == codec.specs.size()) return;
  const auto set = [&](kernels::Params& params, std::string_view name, double value) {
    if (const std::size_t at = position(codec, name); at < codec.specs.size()) params.value[at] = value;
  };
  kernels::Params matrix = kernels::preset_params(codec);
  set(matrix, "means", 1);
  set(matrix, "lines", 3);  // of several columns
  sets.push_back(matrix);   // columns of unknown length
  const std::array<std::array<double, 3>, 10> shapes{{{1, 0, 0},
                                                      {1, 4, 1},
                                                      {31, 31, 1},
                                                      {31, 34, 0},
                                                      {33, 0, 0},
                                                      {33, 36, 1},
                                                      {2048, 0, 1},
                                                      {2048, 2051, 0},
                                                      {5000, 0, 0},
                                                      {5000, 5003, 1}}};
  for (const auto& shape : shapes) {
    matrix.value[rows] = shape[0];
    matrix.value[ld] = shape[1];
    set(matrix, "split", shape[2]);
    sets.push_back(matrix);
  }
  kernels::Params tensor = kernels::preset_params(codec);
  set(tensor, "means", 2);
  set(tensor, "split", 0);
  sets.push_back(tensor);
}

std::vector<kernels::Params> param_sets(const kernels::Codec& codec) {
  const kernels::Params preset = kernels::preset_params(codec);
  std::vector<kernels::Params> sets{preset};
  kernels::Params usual = preset;
  if (codec.block(preset) > 4096) usual.value[position(codec, "block")] = 1024;
  for (std::size_t i = 0; i < codec.specs.size(); ++i) {
    const kernels::ParamSpec& spec = codec.specs[i];
    if (spec.name == "rows" || spec.name == "ld") continue;
    std::vector<double> values{spec.min, spec.max};
    if (spec.kind == kernels::ParamKind::word)
      for (double word = spec.min + 1; word < spec.max; ++word) values.push_back(word);
    for (const double value : values) {
      sets.push_back(usual);
      sets.back().value[i] = value;
    }
  }
  add_matrices(codec, sets);
  return sets;
}

std::vector<AnyRow> all_rows() {
  const char* const only = std::getenv("MPIQ_TEST_CODEC");
  EXPECT_TRUE(only == nullptr || kernels::find_codec(only) != nullptr) << only;
  std::vector<AnyRow> rows;
  for (const kernels::Codec& codec : kernels::codecs()) {
    if (only != nullptr && codec.name != only) continue;
    for (const kernels::Params& params : param_sets(codec))
      for (const kernels::Isa isa : kernels::kIsas)
        if (isa <= kernels::best_isa()) rows.push_back({&codec, params, isa});
  }
  return rows;
}

std::vector<AnyRow> rows_of(std::string_view codec) {
  std::vector<AnyRow> rows = all_rows();
  std::erase_if(rows, [&](const AnyRow& row) { return row.codec->name != codec; });
  EXPECT_FALSE(rows.empty()) << codec;
  return rows;
}

kernels::Params with_values(const kernels::Codec& codec, const NamedValues& values) {
  kernels::Params params = kernels::preset_params(codec);
  for (const auto& [name, value] : values) {
    std::size_t at = codec.specs.size();
    for (std::size_t i = 0; i < codec.specs.size(); ++i)
      if (codec.specs[i].name == name) at = i;
    EXPECT_LT(at, codec.specs.size()) << name;
    params.value[at] = value;
  }
  return params;
}

}  // namespace mq::test
