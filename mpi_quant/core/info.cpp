#include "mpi_quant/core/info.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <new>

#include "mpi_quant/base/env.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/registry.hpp"

namespace mq {
namespace {

Status bad_info(const std::string& text) { return {Code::bad_info, "info " + text}; }

Status read_method(std::string_view value, CallOptions& options) {
  const Result<Method> method = parse_method(value);
  if (!method.ok()) return bad_info("mpiq_method: " + method.status().text());
  options.method = *method;
  return {};
}

Status read_residual_key(std::string_view value, CallOptions& options) {
  if (value.empty() || value.size() > Key::kMax)
    return bad_info("mpiq_key: \"" + std::string(value) + "\" is not 1 to 63 characters");
  options.key = Key(value);
  return {};
}

// "ROWSxCOLS" or "ROWSxCOLS:LD".
Status read_matrix(std::string_view value, MPI_Count count, CallOptions& options) {
  std::array<long long, 3> number{};  // rows, columns, leading dimension
  const char* at = value.data();
  const char* const end = at + value.size();
  std::size_t read = 0;
  for (; read < 3; ++read) {
    const auto [next, error] = std::from_chars(at, end, number[read]);
    if (error != std::errc{} || number[read] <= 0 || number[read] > (1LL << 31)) break;
    at = next;
    if (at == end) break;
    if (*at++ != (read == 0 ? 'x' : ':')) break;
  }
  if (read == 1) number[2] = number[0];
  const auto [rows, columns, ld] = number;
  const auto words = [&] { return "mpiq_matrix: \"" + std::string(value) + "\""; };
  if (at != end || read < 1 || read > 2 || ld < rows)
    return bad_info(words() + " is not ROWSxCOLS or ROWSxCOLS:LD");
  if (count > columns * ld || count < (columns - 1) * ld + rows)
    return bad_info(words() + " is not a matrix of " + std::to_string(count) + " elements");
  options.matrix = {rows, columns, ld};
  return {};
}

// A cudaStream_t as a number.
Status read_stream(std::string_view value, CallOptions& options) {
  const bool hexadecimal = value.substr(0, 2) == "0x" || value.substr(0, 2) == "0X";
  const std::string_view digits = value.substr(hexadecimal ? 2 : 0);
  std::uintptr_t number = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, hexadecimal ? 16 : 10);
  if (error != std::errc{} || end != digits.data() + digits.size())
    return bad_info("mpiq_stream: \"" + std::string(value) +
                    "\" is not a stream as a number, like 0x7f00beef");
  options.stream = reinterpret_cast<void*>(number);
  return {};
}

Status read_switch(const char* key, std::string_view value, bool& on) {
  if (value != "true" && value != "false")
    return bad_info(std::string(key) + ": \"" + std::string(value) + "\" is neither true nor false");
  on = value == "true";
  return {};
}

Status read_operation(std::string_view value, CallOptions& options) {
  if (value != "sum" && value != "avg")
    return bad_info("mpiq_op: \"" + std::string(value) + "\" is neither sum nor avg");
  options.is_mean = value == "avg";
  return {};
}

Status read_seed(std::string_view value, CallOptions& options) {
  if (parse_seed(value, options.seed.emplace())) return {};
  return bad_info("mpiq_seed: \"" + std::string(value) + "\" is not a whole number from 0 to 2^64 - 1");
}

Status read_key(const char* key, std::string_view value, MPI_Count count, CallOptions& options) {
  if (std::strcmp(key, "mpiq_method") == 0) return read_method(value, options);
  if (std::strcmp(key, "mpiq_key") == 0) return read_residual_key(value, options);
  if (std::strcmp(key, "mpiq_matrix") == 0) return read_matrix(value, count, options);
  if (std::strcmp(key, "mpiq_stream") == 0) return read_stream(value, options);
  if (std::strcmp(key, "mpiq_stream_ordered") == 0) return read_switch(key, value, options.stream_ordered);
  if (std::strcmp(key, "mpiq_skip") == 0) return read_switch(key, value, options.skip);
  if (std::strcmp(key, "mpiq_seed") == 0) return read_seed(value, options);
  if (std::strcmp(key, "mpiq_op") == 0) return read_operation(value, options);
  return {Code::bad_info,
          std::string("info: unknown key \"") + key +
              "\" (known: mpiq_method, mpiq_op, mpiq_key, mpiq_matrix, mpiq_stream, mpiq_stream_ordered, "
              "mpiq_seed, mpiq_skip)"};
}

}  // namespace

CallOptions read_options(MPI_Info info, MPI_Count count) noexcept {
  CallOptions options;
  try {
    options.local_error = for_each_key(
        info, [&](const char* key, const char* value) { return read_key(key, value, count, options); });
  } catch (const std::bad_alloc&) {
    options.local_error = {Code::no_memory, "out of memory"};
  }
  return options;
}

Status keep_rules(MPI_Comm comm, MPI_Info info) {
  return for_each_key(info, [&](const char* key, const char* value) -> Status {
    if (std::strcmp(key, "mpiq_policy") == 0) return mq::keep_rules(comm, value);
    return {Code::bad_info,
            std::string("info of a communicator: unknown key \"") + key + "\" (known: mpiq_policy)"};
  });
}

}  // namespace mq
