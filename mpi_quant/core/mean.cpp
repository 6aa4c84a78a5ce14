#include "mpi_quant/core/mean.hpp"

#include <algorithm>
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
Status divide_on_host(std::byte* x, std::size_t n, kernels::Element element, int divisor) {
  const kernels::ConvertOps* const convert = kernels::convert(element, kernels::Isa::scalar);
  if (convert == nullptr) {
    divide(x, n, element, divisor);
    return {};
  }
  Buffer widened;
  if (!widened.reserve(n * sizeof(float))) return {Code::no_memory, "out of memory"};
  convert->widen(x, widened.data(), n);
  divide_to_half(*convert, widened.data(), x, nullptr, n, divisor);
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
  const std::size_t n = call.output_range().n;
  const std::optional<kernels::Element> element = element_of(call.datatype);
  if (call.divisor == 1 || n == 0 || !element) return {};
  return guarded_status([&]() -> Status {
    auto* const result = static_cast<std::byte*>(call.recvbuf);
    const Result<bool> on_device = is_on_device(result);
    if (!on_device.ok()) return on_device.status();
    const std::size_t width = kernels::element_bytes(*element);
    const std::size_t most = std::min(n, (std::size_t{8} << 20) / width);  // elements at a time
    Buffer staged;
    if (*on_device && !staged.reserve(most * width))
      return {Code::no_memory, "no memory to divide a sum on a GPU"};
    for (std::size_t first = 0; first < n; first += most) {
      const std::size_t m = std::min(most, n - first);
      std::byte* const part = result + first * width;
      if (!*on_device) {
        MQ_TRY(divide_on_host(part, m, *element, call.divisor));
        continue;
      }
      MQ_TRY(copy_now(staged.data(), part, m * width));
      MQ_TRY(divide_on_host(staged.data(), m, *element, call.divisor));
      MQ_TRY(copy_now(part, staged.data(), m * width));
    }
    return {};
  });
}

}  // namespace mq
