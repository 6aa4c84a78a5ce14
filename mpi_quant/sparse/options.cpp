#include "mpi_quant/sparse/options.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <new>
#include <string>
#include <string_view>

#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/info.hpp"
#include "mpi_quant/engine/frame.hpp"

namespace mq {
namespace {

Status bad(std::string_view key, std::string_view value, std::string_view expected) {
  return {Code::bad_info,
          "info " + std::string(key) + ": \"" + std::string(value) + "\" is not " + std::string(expected)};
}

template <class T>
bool read_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// Reads a text such as "8x4x2".
bool read_degrees(std::string_view text, std::vector<int>& degrees) {
  degrees.clear();
  for (;;) {
    const std::size_t cross = text.find('x');
    int degree = 0;
    if (!read_number(text.substr(0, cross), degree) || degree < 1) return false;
    degrees.push_back(degree);
    if (cross == std::string_view::npos) return true;
    text.remove_prefix(cross + 1);
  }
}

struct AlgorithmWord {
  std::string_view word;
  sparse::Algorithm algorithm;
};
constexpr std::array kAlgorithms{AlgorithmWord{"auto", sparse::Algorithm::automatic},
                                 AlgorithmWord{"allgather", sparse::Algorithm::allgather},
                                 AlgorithmWord{"split", sparse::Algorithm::split},
                                 AlgorithmWord{"recursive_doubling", sparse::Algorithm::recursive_doubling},
                                 AlgorithmWord{"dense", sparse::Algorithm::dense}};

Status read_algorithm(std::string_view value, SparseOptions& options) {
  for (const AlgorithmWord& known : kAlgorithms)
    if (known.word == value) {
      options.algorithm = known.algorithm;
      return {};
    }
  return bad("mpiq_algorithm", value, "auto, allgather, split, recursive_doubling or dense");
}

Status read_key(std::string_view key, std::string_view value, SparseUse use, SparseOptions& options) {
  if (key == "mpiq_indices") {
    if (value != "sorted" && value != "any") return bad(key, value, "sorted or any");
    options.order = value == "sorted" ? sparse::Order::sorted : sparse::Order::any;
    return {};
  }
  if (key == "mpiq_timeout") {
    const bool read = read_number(value, options.timeout_s);
    return read && options.timeout_s >= 0 && std::isfinite(options.timeout_s)
               ? Status{}
               : bad(key, value, "a number of seconds");
  }
  if (key == "mpiq_algorithm" && use == SparseUse::all) return read_algorithm(value, options);
  if (key == "mpiq_degrees" && use != SparseUse::all)
    return read_degrees(value, options.degrees) ? Status{} : bad(key, value, "a list of degrees such as 4x2");
  if (key == "mpiq_replicas" && use == SparseUse::init)
    return read_number(value, options.replicas) && options.replicas >= 1
               ? Status{}
               : bad(key, value, "a positive number");
  if (key == "mpiq_key" && use == SparseUse::reduce) {
    if (value.empty() || value.size() > Key::kMax) return bad(key, value, "1 to 63 characters");
    options.key = Key(value);
    return {};
  }
  constexpr std::array<std::string_view, 3> kKnown{"mpiq_degrees, mpiq_key", "mpiq_degrees, mpiq_replicas",
                                                   "mpiq_algorithm"};
  return {Code::bad_info, "info: unknown key \"" + std::string(key) +
                              "\" (known: mpiq_indices, mpiq_timeout, " +
                              std::string(kKnown[static_cast<std::size_t>(use)]) + ")"};
}

}  // namespace

std::uint64_t SparseOptions::hash() const {
  Hash hash;
  hash.add(order).add(timeout_s).add(replicas).add(algorithm);
  for (const int degree : degrees) hash.add(degree);
  return hash.value();
}

SparseOptions read_sparse_options(MPI_Info info, SparseUse use) noexcept {
  SparseOptions options;
  try {
    options.local_error = for_each_key(
        info, [&](const char* key, const char* value) { return read_key(key, value, use, options); });
  } catch (const std::bad_alloc&) {
    options.local_error = {Code::no_memory, "out of memory"};
  }
  return options;
}

Status check_host_memory(std::initializer_list<const void*> arrays) {
  for (const void* const array : arrays) {
    if (array == nullptr) continue;
    const Result<bool> there = is_on_device(array);
    if (!there.ok()) return there.status();
    if (*there)
      return {Code::bad_argument,
              "an array of a sparse reduction is in GPU memory; only host memory is supported"};
  }
  return {};
}

Status read_type(MPI_Datatype datatype, MPI_Op op, kernels::Element& element, sparse::Op& operation) {
  const std::optional<kernels::Element> known = element_of(datatype);
  if (!known || kernels::element_bytes(*known) < 4)
    return {Code::bad_argument, "datatype of a sparse reduction must be MPI_FLOAT or MPI_DOUBLE"};
  element = *known;
  if (op == MPI_SUM)
    operation = sparse::Op::sum;
  else if (op == MPI_MIN)
    operation = sparse::Op::min;
  else if (op == MPI_MAX)
    operation = sparse::Op::max;
  else
    return {Code::bad_argument, "op of a sparse reduction is not MPI_SUM, MPI_MIN or MPI_MAX"};
  return {};
}

}  // namespace mq
