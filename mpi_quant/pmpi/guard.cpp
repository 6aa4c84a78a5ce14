#include "mpi_quant/pmpi/guard.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "mpi_quant/base/mpi_comm.hpp"
#include "mpi_quant/base/real_mpi.hpp"

namespace mq {
namespace {

// Calls f with both vectors as what they are.
template <class F>
auto with_elements(kernels::Element element, std::byte* a, const std::byte* b, const F& f) {
  if (element == kernels::Element::f64)
    return f(reinterpret_cast<double*>(a), reinterpret_cast<const double*>(b));
  return f(reinterpret_cast<float*>(a), reinterpret_cast<const float*>(b));
}

// |delivered - exact| / |exact|; see Verdict::error.
template <class T>
double relative_error(const T* exact, const T* delivered, std::size_t n) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  double error = 0, energy = 0;
  bool all_finite = true;
  for (std::size_t i = 0; i < n; ++i) {
    const double x = exact[i], y = delivered[i];
    if (std::isfinite(x)) {
      error += (y - x) * (y - x);
      energy += x * x;
    } else if (std::isfinite(y)) {
      return kInfinite;
    } else {
      all_finite = false;
    }
  }
  if (!all_finite) return -1;
  if (error == 0) return 0;
  return energy > 0 && std::isfinite(error) ? std::sqrt(error / energy) : kInfinite;
}

// On the program's own communicator, as if the program had called: on the private one the program's requests
// may be under way, at other places on other ranks.
Status sum(const void* in, std::byte* out, const Call& call) {
#if MPI_VERSION >= 4
  const int code = real_mpi().allreduce_c(in, out, call.count, call.datatype, MPI_SUM, call.comm);
#else
  const int code =
      call.count > std::numeric_limits<int>::max()
          ? MPI_ERR_COUNT
          : real_mpi().allreduce(in, out, static_cast<int>(call.count), call.datatype, MPI_SUM, call.comm);
#endif
  return mpi_status(code, "MPI_Allreduce");
}

}  // namespace

Status GuardedCall::prepare(const Call& call, kernels::Element element, const std::byte* residual) {
  element_ = element;
  bytes_ = static_cast<std::size_t>(call.count) * kernels::element_bytes(element);
  if (!exact_.reserve(bytes_) || !waiting_.allocate_zeroed(bytes_))
    return {Code::no_memory, "no memory to guard a call of " + std::to_string(bytes_) + " bytes"};
  if (call.sendbuf == MPI_IN_PLACE) std::memcpy(exact_.data(), call.recvbuf, bytes_);
  if (residual != nullptr) std::memcpy(waiting_.data(), residual, bytes_);
  return {};
}

Result<Verdict> GuardedCall::judge(const Call& call, double budget, bool had_keys) {
  const auto n = static_cast<std::size_t>(call.count);
  MQ_TRY(sum(call.sendbuf == MPI_IN_PLACE ? MPI_IN_PLACE : call.sendbuf, exact_.data(), call));
  // MPI's sums may differ in their last bits from rank to rank.
  const double mine = with_elements(
      element_, exact_.data(), static_cast<const std::byte*>(call.recvbuf),
      [&](const auto* exact, const auto* delivered) { return relative_error(exact, delivered, n); });
  Verdict verdict;
  MQ_TRY(mpi_status(real_mpi().allreduce(&mine, &verdict.error, 1, MPI_DOUBLE, MPI_MAX, call.comm),
                    "MPI_Allreduce"));
  verdict.given_up = budget > 0 && !(verdict.error <= budget);
  if (!verdict.given_up) return verdict;
  if (had_keys) {
    MQ_TRY(sum(MPI_IN_PLACE, waiting_.data(), call));
    with_elements(element_, exact_.data(), waiting_.data(), [&](auto* exact, const auto* waiting) {
      for (std::size_t i = 0; i < n; ++i) exact[i] += waiting[i];
    });
  }
  std::memcpy(call.recvbuf, exact_.data(), bytes_);
  return verdict;
}

}  // namespace mq
