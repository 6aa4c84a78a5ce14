#include "mpi_quant/core/mean.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "mpi_quant/base/arena.hpp"
#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/engine/mean.hpp"

namespace mq {
namespace {

std::string why_no_mean(const Call& call) {
  if (!adds(call.collective)) return std::string("serves sums, and this is ").append(name(call.collective));
  if (call.op != MPI_SUM) return "needs the operation MPI_SUM";
  if (call.datatype != MPI_DATATYPE_NULL && !element_of(call.datatype))
    return std::string("needs a datatype that is ") + kAcceptedTypes;
  int inter = 0;
  if (call.comm != MPI_COMM_NULL && PMPI_Comm_test_inter(call.comm, &inter) == MPI_SUCCESS && inter)
    return "does not serve intercommunicators";
  return "";
}

// Half types are divided as floats.
void divide_on_host(std::byte* x, std::size_t n, kernels::Element element, int divisor) noexcept {
  const kernels::ConvertOps* const convert = kernels::convert(element, kernels::Isa::scalar);
  if (convert == nullptr) return divide(x, n, element, divisor);
  std::array<float, 1024> widened{};
  for (std::size_t first = 0; first < n; first += widened.size()) {
    const std::size_t m = std::min(widened.size(), n - first);
    std::byte* const part = x + first * kernels::element_bytes(element);
    convert->widen(part, widened.data(), m);
    divide_to_half(*convert, widened.data(), part, nullptr, m, divisor);
  }
}

// Divides n elements in the memory of a device, piece by piece in host memory. Where there is no memory for
// long pieces, short ones take longer; so a lack of memory is no error of one rank alone.
Status divide_on_device(std::byte* x, std::size_t n, kernels::Element element, int divisor) {
  constexpr std::size_t kLong = std::size_t{8} << 20, kShort = std::size_t{16} << 10;  // bytes
  std::array<std::byte, kShort> few;
  Buffer many;
  const std::size_t width = kernels::element_bytes(element);
  const bool has_many = n * width > kShort && many.reserve(std::min(n * width, kLong));
  std::byte* const staged = has_many ? many.data() : few.data();
  const std::size_t most = (has_many ? kLong : kShort) / width;
  for (std::size_t first = 0; first < n; first += most) {
    const std::size_t m = std::min(most, n - first);
    MQ_TRY(copy_now(staged, x + first * width, m * width));
    divide_on_host(staged, m, element, divisor);
    MQ_TRY(copy_now(x + first * width, staged, m * width));
  }
  return {};
}

}  // namespace

void take_mean(Call& call, CallOptions& options) noexcept {
  if (!options.is_mean) return;
  int ranks = 1;
  if (options.local_error.ok())
    options.local_error = guarded_status([&]() -> Status {
      const std::string why = why_no_mean(call);
      return why.empty() ? Status{} : Status{Code::bad_info, "info mpiq_op=avg " + why};
    });
  if (!options.local_error.ok() || call.comm == MPI_COMM_NULL) return;
  if (PMPI_Comm_size(call.comm, &ranks) == MPI_SUCCESS) call.divisor = ranks;
}

Status divide_result(const Call& call) noexcept {
  if (call.group != nullptr && call.divisor != 1) {
    for (std::size_t i = 0; i < call.group->vectors.size(); ++i) MQ_TRY(divide_result(call_of(call, i)));
    return {};
  }
  const std::size_t n = call.output_range().n;
  const std::optional<kernels::Element> element = element_of(call.datatype);
  if (call.divisor == 1 || n == 0 || !element) return {};
  return guarded_status([&]() -> Status {
    auto* const result = static_cast<std::byte*>(call.recvbuf);
    const Result<bool> on_device = is_on_device(result);
    if (!on_device.ok()) return on_device.status();
    if (*on_device) return divide_on_device(result, n, *element, call.divisor);
    divide_on_host(result, n, *element, call.divisor);
    return {};
  });
}

}  // namespace mq
