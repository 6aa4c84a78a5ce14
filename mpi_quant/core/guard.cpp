#include "mpi_quant/core/guard.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/engine/mean.hpp"

namespace mq {
namespace {

// Calls f with both vectors as arrays of their element type.
template <class F>
auto with_elements(kernels::Element element, std::byte* a, const std::byte* b, const F& f) {
  if (element == kernels::Element::f64)
    return f(reinterpret_cast<double*>(a), reinterpret_cast<const double*>(b));
  return f(reinterpret_cast<float*>(a), reinterpret_cast<const float*>(b));
}

struct Difference {
  double relative = 0;  // |delivered - exact| / |exact|; see GuardResult::error
  double greatest = 0;  // of an element whose exact sum is finite
};

template <class T>
double greatest_magnitude(const T* x, std::size_t n) {
  double greatest = 0;
  for (std::size_t i = 0; i < n; ++i)
    if (std::isfinite(x[i])) greatest = std::max(greatest, static_cast<double>(std::abs(x[i])));
  return greatest;
}

// Squares are scaled by the greatest magnitude, so that squares of very small or great doubles are not lost.
template <class T>
Difference difference(const T* exact, const T* delivered, std::size_t n) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const double most = std::max(greatest_magnitude(exact, n), greatest_magnitude(delivered, n));
  const double scale = most > 0 && std::isfinite(1 / most) ? 1 / most : 1;
  double error = 0, energy = 0, greatest = 0;
  bool all_finite = true;
  for (std::size_t i = 0; i < n; ++i) {
    const double x = exact[i], y = delivered[i];
    if (std::isfinite(x)) {
      const double apart = std::isfinite(y) ? std::abs(y - x) : kInfinite;
      greatest = std::max(greatest, apart);
      error += apart * scale * (apart * scale);
      energy += x * scale * (x * scale);
    } else if (std::isfinite(y)) {
      return {kInfinite, kInfinite};
    } else {
      all_finite = false;
    }
  }
  if (!all_finite) return {-1, greatest};
  if (error == 0) return {};
  return {energy > 0 && std::isfinite(error) ? std::sqrt(error / energy) : kInfinite, greatest};
}

// What MPI's sum and the library's sum of `ranks` elements up to `greatest` may differ by beside the promise.
// Each rounds ranks - 1 times, by half a unit in the last place of at most ranks * greatest. A program may
// treat subnormal numbers as 0, and both sums then lose up to the least normal number in each addition. If
// sums may overflow, the order of additions decides whether they do, so any difference is possible.
template <class T>
double rounding_of_sums(int ranks, double greatest) {
  using Limits = std::numeric_limits<T>;
  const double most = ranks * greatest;
  if (!(most <= static_cast<double>(Limits::max()))) return std::numeric_limits<double>::infinity();
  return 2.0 * ranks *
         (static_cast<double>(Limits::epsilon()) / 2 * most + static_cast<double>(Limits::min()));
}

Difference difference(kernels::Element element, std::byte* exact, const void* delivered, std::size_t n) {
  return with_elements(element, exact, static_cast<const std::byte*>(delivered),
                       [&](const auto* wanted, const auto* got) { return difference(wanted, got, n); });
}

// The inputs of several vectors one after the other, as they are added up, and their sums in their places.
Status copy_input(const Call& call, std::byte* to, std::size_t bytes, std::size_t width) {
  if (call.group == nullptr) return copy_now(to, call.input(), bytes);
  for (const GroupCall::Vector& vector : call.group->vectors) {
    if (vector.n > 0) MQ_TRY(copy_now(to, vector.input(), vector.n * width));
    to += vector.n * width;
  }
  return {};
}
Status copy_result(const Call& call, const std::byte* from, std::size_t bytes, std::size_t width) {
  if (call.group == nullptr) return copy_now(call.recvbuf, from, bytes);
  for (const GroupCall::Vector& vector : call.group->vectors) {
    if (vector.n > 0) MQ_TRY(copy_now(vector.recvbuf, from, vector.n * width));
    from += vector.n * width;
  }
  return {};
}

// By vector, so that the error of a short one does not hide beside long ones. The worst counts.
Difference difference_of_group(const Call& call, kernels::Element element, std::byte* exact,
                               std::size_t shortest) {
  Difference worst{-1, 0};
  for (const GroupCall::Vector& vector : call.group->vectors) {
    Difference one = difference(element, exact, vector.recvbuf, vector.n);
    if (vector.n < shortest) one.relative = -1;
    worst = {std::max(worst.relative, one.relative), std::max(worst.greatest, one.greatest)};
    exact += vector.n * kernels::element_bytes(element);
  }
  return worst;
}

// Only a device can fail to copy. Ranks may differ in where their vectors are, so they have to compare.
Status agree_on_copies(Status copied, MPI_Comm comm) {
  const int failed = copied.ok() ? 0 : 1;
  int any_failed = 0;
  MQ_TRY(mpi_status(real_mpi().allreduce(&failed, &any_failed, 1, MPI_INT, MPI_MAX, comm), "MPI_Allreduce"));
  MQ_TRY(std::move(copied));
  if (any_failed != 0) return {Code::peer_failed, "a rank's GPU failed to take the exact sum from the guard"};
  return {};
}

// Where recvbuf gets this rank's own elements of a call that adds nothing.
Result<std::size_t> place_of_input(const Call& call) {
  const std::vector<std::size_t>& places = call.parted->places;
  if (places.empty()) return std::size_t{0};
  int rank = 0;
  MQ_TRY(mpi_status(PMPI_Comm_rank(call.comm, &rank), "MPI_Comm_rank"));
  return places[static_cast<std::size_t>(rank)];
}

}  // namespace

std::unique_ptr<GuardWindow> GuardWindow::open(std::string_view key, std::size_t count,
                                               kernels::Element element) {
  std::unique_ptr<GuardWindow> window(new GuardWindow(key, count, element));
  const std::size_t bytes = count * kernels::element_bytes(element);
  if (!window->inputs_.allocate_zeroed(bytes) || !window->results_.allocate_zeroed(bytes)) return nullptr;
  return window;
}

Status GuardWindow::add_input(std::uint64_t number, const void* input) {
  ++calls_;
  last_number_ = number;
  numbers_.add(number);
  return add(inputs_.data(), input, count_);
}

Status GuardWindow::add_result(const void* result, std::size_t n) { return add(results_.data(), result, n); }

Status GuardWindow::add(std::byte* sum, const void* vector, std::size_t n) {
  const auto* terms = static_cast<const std::byte*>(vector);
  const Result<bool> there = is_on_device(vector);
  if (!there.ok()) return there.status();
  if (*there) {
    const std::size_t bytes = n * kernels::element_bytes(element_);
    if (!staged_.reserve(bytes)) return {Code::no_memory, "no memory to guard calls of vectors on a GPU"};
    MQ_TRY(copy_now(staged_.data(), vector, bytes));
    terms = staged_.data();
  }
  with_elements(element_, sum, terms, [&](auto* to, const auto* from) {
    for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
  });
  return {};
}

Status GuardedCall::prepare(const Call& call, kernels::Element element, const Residuals::Entry* residual,
                            GuardWindow* window) {
  MQ_TRY(keep_input(call, element, window));
  if (!waiting_.allocate_zeroed(bytes_)) return lacks_memory();
  // If the residual is gone with the context of a GPU, nothing waits any more.
  const bool waits = residual != nullptr && residual->still_there().ok();
  return waits ? residual->fetch(waiting_.data(), 0, bytes_) : Status{};
}

Status GuardedCall::prepare_alone(const Call& call, kernels::Element element, std::size_t shortest) {
  shortest_ = shortest;
  return keep_input(call, element, nullptr);
}

Status GuardedCall::lacks_memory() const {
  return {Code::no_memory, "no memory to guard a call of " + std::to_string(bytes_) + " bytes"};
}

Status GuardedCall::keep_input(const Call& call, kernels::Element element, GuardWindow* window) {
  window_ = window;
  element_ = element;
  const std::size_t width = kernels::element_bytes(element);
  const bool is_sum = adds(call.collective);
  bytes_ = (is_sum ? static_cast<std::size_t>(call.count) : call.input_range().n) * width;
  const Result<std::size_t> begin = is_sum ? call.output_range().begin : place_of_input(call);
  if (!begin.ok()) return begin.status();
  result_begin_ = *begin * width;
  result_bytes_ = is_sum ? call.output_range().n * width : bytes_;
  const Result<bool> there = call.group != nullptr ? Result<bool>(false) : is_on_device(call.recvbuf);
  if (!there.ok()) return there.status();
  if (!exact_.reserve(bytes_) || (*there && !delivered_.reserve(bytes_))) return lacks_memory();
  keeps_result_ = *there;
  MQ_TRY(copy_input(call, exact_.data(), bytes_, width));
  if (window == nullptr)
    greatest_ = with_elements(element, exact_.data(), exact_.data(),
                              [&](auto*, const auto* x) { return greatest_magnitude(x, bytes_ / width); });
  return {};
}

// The exact sum of this call alone, or its mean, without other calls of its window. In place on all ranks, as
// MPI demands it, although some may have given their vectors in place and others not.
Status GuardedCall::sum_alone(const Call& call) {
  if (call.group == nullptr) {
    MQ_TRY(exact_sum(MPI_IN_PLACE, exact_.data(), call));
  } else {
    // The reals of all vectors, which may be more than MPI 3 can sum at once.
    constexpr std::int64_t kAtOnce = std::int64_t{1} << 30;
    Call part = call;
    part.given = {};
    const auto all = static_cast<std::int64_t>(call.count);
    for (std::int64_t begin = 0; begin < all; begin += kAtOnce) {
      part.count = std::min(kAtOnce, all - begin);
      const std::size_t at = static_cast<std::size_t>(begin) * kernels::element_bytes(element_);
      MQ_TRY(exact_sum(MPI_IN_PLACE, exact_.data() + at, part));
    }
  }
  if (call.divisor != 1) divide(exact_.data(), static_cast<std::size_t>(call.count), element_, call.divisor);
  return {};
}

Result<GuardResult> GuardedCall::judge(const Call& call, const Outcome& ran, double budget, bool had_keys) {
  const bool is_sum = adds(call.collective);
  const std::size_t n = result_bytes_ / kernels::element_bytes(element_);
  const std::byte* result = static_cast<const std::byte*>(call.recvbuf) + (is_sum ? 0 : result_begin_);
  Status local_error = ran.status;
  if (window_ != nullptr) {
    MQ_TRY(exact_sum(MPI_IN_PLACE, window_->inputs(), call));
    if (local_error.ok()) local_error = window_->add_result(result, n);
    // Each call may have had another root, which has its result.
    if (has_root(call.collective)) MQ_TRY(exact_sum(MPI_IN_PLACE, window_->results(), call));
    result = window_->results();
  } else {
    if (is_sum) MQ_TRY(sum_alone(call));
    if (keeps_result_ && local_error.ok()) {
      local_error = copy_now(delivered_.data(), result, result_bytes_);
      result = delivered_.data();
    }
  }
  std::byte* const exact =
      (window_ != nullptr ? window_->inputs() : exact_.data()) + (is_sum ? result_begin_ : 0);
  // MPI's sums may differ in their last bits from rank to rank, so the worst error counts.
  enum { kError, kFailed, kApart, kGreatest, kNumbers };
  double mine[kNumbers]{-1, local_error.ok() ? 0.0 : 1.0, 0, greatest_}, worst[kNumbers];
  if (local_error.ok()) {
    const Difference found = call.group != nullptr ? difference_of_group(call, element_, exact, shortest_)
                                                   : difference(element_, exact, result, n);
    mine[kError] = found.relative;
    mine[kApart] = found.greatest;
  }
  MQ_TRY(mpi_status(real_mpi().allreduce(mine, worst, kNumbers, MPI_DOUBLE, MPI_MAX, call.comm),
                    "MPI_Allreduce"));
  // If the GPU of a rank has failed, nothing can be judged. The exact sum is made all the same.
  const bool failed = worst[kFailed] > 0;
  GuardResult judged;
  judged.error = failed ? -1 : worst[kError];
  judged.given_up = budget > 0 && !(judged.error <= budget);
  if (!failed && window_ == nullptr && ran.promised > 0) {
    int ranks = 1;
    MQ_TRY(mpi_status(PMPI_Comm_size(call.comm, &ranks), "MPI_Comm_size"));
    const double rounded = element_ == kernels::Element::f64
                               ? rounding_of_sums<double>(ranks, worst[kGreatest])
                               : rounding_of_sums<float>(ranks, worst[kGreatest]);
    judged.given_up = judged.given_up || !(worst[kApart] <= ran.promised + rounded / call.divisor);
  }
  judged.replaced = failed || judged.given_up;
  if (judged.replaced && window_ != nullptr) MQ_TRY(sum_alone(call));
  if (judged.replaced) judged.delivered = is_sum ? deliver(call, had_keys) : gather_again(call);
  if (!judged.delivered.ok() && !local_error.ok())
    judged.delivered = std::move(local_error);  // the error that came first
  return judged;
}

// By MPI, of the inputs as they were: the call may have written over one that is in place.
Status GuardedCall::gather_again(const Call& call) {
  Status copied;
  if (call.sendbuf == MPI_IN_PLACE && bytes_ > 0)
    copied = copy_now(static_cast<std::byte*>(call.recvbuf) + result_begin_, exact_.data(), bytes_);
  MQ_TRY(agree_on_copies(std::move(copied), call.comm));
  return mpi_status(exact_parted(call), starting_name(call));
}

// Delivers the exact sum together with what waits in the residuals.
Status GuardedCall::deliver(const Call& call, bool had_keys) {
  if (had_keys) {
    MQ_TRY(exact_sum(MPI_IN_PLACE, waiting_.data(), call));
    with_elements(element_, exact_.data(), waiting_.data(), [&](auto* exact, const auto* waiting) {
      const std::remove_reference_t<decltype(*exact)> divisor(
          call.divisor);  // residuals have the unit of sums
      for (std::size_t i = 0; i < static_cast<std::size_t>(call.count); ++i) exact[i] += waiting[i] / divisor;
    });
  }
  const std::size_t width = kernels::element_bytes(element_);
  return agree_on_copies(copy_result(call, exact_.data() + result_begin_, result_bytes_, width), call.comm);
}

}  // namespace mq
