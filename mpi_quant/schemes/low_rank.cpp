// lowrank: PowerSGD (Vogels, Karimireddy, Jaggi: "PowerSGD: practical low-rank gradient compression for
// distributed optimization", NeurIPS 2019, algorithms 1 and 2) as a reduction. A rank's matrix M is m x n,
// stored column by column, and its residual is E. A layer's gradient that is stored row by row, as
// [output][input], has m inputs and n outputs here: the paper's matrix is the transpose of M.
//
//   A = M + E                  on each rank
//   P = sum of A^T Q           first part: n r elements. Q, m x r, is that of the key's last call
//   P = orthonormal basis of P
//   Q = sum of A P             second part: m r elements
//   result = Q P^T,  E = A - (A P) P^T
//
// So the directions of a layer's inputs are kept from call to call, as in PowerSGD, and errors are
// PowerSGD's. If those of the outputs are kept, errors differ by some per cent, in both ways
// (results/2026-11-28-torch/README.md).
//
// The sums are made by codec raw, so P and Q have the same bits on all ranks, and the rest is done by every
// rank in the same order. E is what the projection leaves of the rank's own A. So no rank's residual grows by
// what others bring, and results and residuals add up to the inputs. The paper leaves Q as it is; here its
// columns are made orthonormal before they are used. This changes no span, and products then stay within the
// range of the type.
//
// If P or Q is not finite, or a product could overflow, a last part sums the input itself, on all ranks,
// because all have the same P and Q. NaN and Inf are then where MPI would put them. E and Q stay.

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <utility>

#include "kernels/narrow_products.hpp"
#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/base/float_mode.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/running_call.hpp"
#include "mpi_quant/core/scheme.hpp"
#include "mpi_quant/schemes/low_rank.hpp"

namespace mq {
namespace {

Status cannot(std::string text) { return bad_argument("lowrank: " + std::move(text)); }

template <class T>
class LowRank {
 public:
  LowRank(CommState& state, const Call& call, const CallOptions& options, const Method& method)
      : state_(state),
        call_(call),
        key_(options.key.view()),
        m_(static_cast<std::size_t>(options.matrix.rows)),
        n_(static_cast<std::size_t>(options.matrix.columns)),
        r_(static_cast<std::size_t>(method.scheme_params.value[0])),
        part_(method) {
    part_.scheme = nullptr;
  }
  // Gets all that can be missing on one rank alone. The mutex must be held.
  Status prepare();
  // How many calls this rank's residual has served. Valid after prepare().
  std::uint64_t calls() const { return residual_->calls; }
  // The parts, after the ranks have agreed. calls: the greatest of all ranks.
  Outcome run(const Turn& turn, std::uint64_t calls);
  // The end of the call, whatever became of it. The mutex must be held.
  void release(const Outcome& outcome);

 private:
  static constexpr kernels::Element kElement =
      sizeof(T) == sizeof(float) ? kernels::Element::f32 : kernels::Element::f64;
  Status acquire(const std::string& key, std::size_t count, Residuals::Entry*& entry);
  Outcome reduce(const Turn& turn, const T* from, T* to, std::size_t count, Status local_error) {
    const Call call{from, to, static_cast<MPI_Count>(count), call_.datatype, MPI_SUM, call_.comm};
    return run_part(state_, turn, call, part_, std::move(local_error));
  }
  Outcome reduce_input(const Turn& turn) { return run_part(state_, turn, call_, part_, {}); }
  Outcome run_parts(const Turn& turn);

  CommState& state_;
  const Call& call_;
  const std::string key_;
  const std::size_t m_, n_, r_;
  Method part_;
  Buffer memory_;
  Residuals::Entry *residual_ = nullptr, *basis_ = nullptr;
  bool runs_ = false;
};

// The array of a key on the host, which no other call uses until release().
template <class T>
Status LowRank<T>::acquire(const std::string& key, std::size_t count, Residuals::Entry*& entry) {
  const Result<Residuals::Entry*> found = state_.residuals.acquire(key, count, kElement);
  if (!found.ok()) return found.status();
  if ((*found)->users > 0) return cannot("mpiq_key \"" + key_ + "\" is in use by a call in flight");
  MQ_TRY((*found)->move_to_host());
  entry = *found;
  ++entry->users;
  return {};
}

template <class T>
Status LowRank<T>::prepare() {
  MQ_TRY(check_arguments(call_, kElement, false));
  for (const void* const buffer : {call_.sendbuf, static_cast<const void*>(call_.recvbuf)}) {
    if (buffer == MPI_IN_PLACE) continue;
    const Result<bool> on_device = is_on_device(buffer);
    if (!on_device.ok()) return on_device.status();
    if (*on_device) return cannot("the vectors are in the memory of a GPU, which it cannot reduce yet");
  }
  const std::string basis = basis_key(key_);
  if (basis.size() > Key::kMax)
    return cannot("mpiq_key \"" + key_ + "\" is longer than " + std::to_string(Key::kMax - kBasisKey.size()) +
                  " characters");
  MQ_TRY(acquire(key_, m_ * n_, residual_));
  // The basis of another rank or shape is of no use.
  if (const Residuals::Entry* const old = state_.residuals.find(basis);
      old != nullptr && old->users == 0 && (old->count != m_ * r_ || old->element != kElement))
    state_.residuals.drop(basis);
  MQ_TRY(acquire(basis, m_ * r_, basis_));
  const std::size_t narrow = (3 * m_ + 2 * n_) * r_, work = std::max(m_, n_) * r_;
  if (!memory_.reserve(work * sizeof(double) + narrow * sizeof(T)))
    return {Code::no_memory, "no memory for the factors of lowrank"};
  return {};
}

template <class T>
Outcome LowRank<T>::run(const Turn& turn, std::uint64_t calls) {
  runs_ = true;
  {
    const std::scoped_lock lock(state_.mutex);
    for (Residuals::Entry* const entry : {residual_, basis_}) {
      entry->end_estimates();  // of a call by another memory rule: they are no residual
      entry->used = true;
      entry->calls = calls + 1;
    }
  }
  const DefaultFloats mode;
  return run_parts(turn);
}

template <class T>
Outcome LowRank<T>::run_parts(const Turn& turn) {
  double* const work = reinterpret_cast<double*>(memory_.data());
  T* const p_own = reinterpret_cast<T*>(work + std::max(m_, n_) * r_);
  T *const p = p_own + n_ * r_, *const q = p + n_ * r_, *const q_own = q + m_ * r_,
           *const q_sum = q_own + m_ * r_;
  T* const residual = reinterpret_cast<T*>(residual_->data());
  T* const basis = reinterpret_cast<T*>(basis_->data());
  const void* const input = call_.sendbuf == MPI_IN_PLACE ? call_.recvbuf : call_.sendbuf;
  static const kernels::NarrowProducts& products = kernels::narrow_products(kElement, env()->isa);
  const kernels::CarriedMatrix a{input, residual, m_, n_};

  std::copy_n(basis, m_ * r_, q);
  fill_zero_columns(q, m_, r_, residual_->calls);
  orthonormalize(q, m_, r_, work);
  products.multiply_transposed(a, q, r_, p_own);
  const Outcome first = reduce(turn, p_own, p, n_ * r_, {});
  if (!first.status.ok() && !first.ran) return first;
  if (first.status.ok()) {
    if (!is_finite(p, n_ * r_)) return reduce_input(turn);
    orthonormalize(p, n_, r_, work);
    products.multiply(a, p, r_, q_own);
  }
  Outcome second = reduce(turn, q_own, q_sum, m_ * r_, first.status);
  if (!first.status.ok()) return first;
  if (second.status.ok() && !is_tame(q_sum, m_, r_)) return reduce_input(turn);
  if (second.status.ok()) {
    products.deliver(a, {p, q_sum, q_own, r_}, call_.recvbuf, residual);
    std::copy_n(q_sum, m_ * r_, basis);
  } else if (second.ran) {  // other ranks may have a result, so this rank's part of it is lost
    const std::scoped_lock lock(state_.mutex);
    residual_->restart();
    basis_->restart();
  }
  return second;
}

template <class T>
void LowRank<T>::release(const Outcome& outcome) {
  for (Residuals::Entry* const entry : {residual_, basis_})
    if (entry != nullptr) --entry->users;
  // If the first call of a key fails, the key is not bound to the call's count and type.
  for (const std::string& key : {key_, basis_key(key_)}) {
    const Residuals::Entry* const entry = state_.residuals.find(key);
    if (entry != nullptr && entry->users == 0 && !entry->used) state_.residuals.drop(key);
  }
  if (!runs_) return;
  MPIQ_Stats& stats = state_.stats;
  ++stats.scheme_calls;
  stats.failed_calls += !outcome.status.ok();
  count_compressed(stats, m_ * n_, kElement, outcome.status.ok());
}

Signature signature_of(const Call& call, const CallOptions& options, const Method& method) {
  Signature signature;
  signature.codec = kScheme;
  signature.plan = method.scheme->id;
  signature.count = static_cast<std::uint64_t>(call.count);
  signature.element = static_cast<std::uint8_t>(*element_of(call.datatype));
  if (call.divisor != 1) signature.element |= kMean;
  signature.key = hash_of_key(options.key.view());
  signature.params_hash = Hash{}
                              .add(method.scheme_params.value)
                              .add(method.plan == nullptr ? 0 : static_cast<int>(method.plan->id))
                              .add(options.matrix.rows)
                              .value();
  return signature;
}

template <class T>
Outcome run_low_rank(CommState& state, const Request& request, const Method& method) {
  const Turn turn(state);
  LowRank<T> low_rank(state, request.call, request.options, method);
  Status local_error = request.options.local_error;
  if (local_error.ok() && turn.local_error().ok()) {
    const std::scoped_lock lock(state.mutex);
    local_error = guarded_status([&] { return low_rank.prepare(); });
  }
  std::uint64_t calls = local_error.ok() && turn.local_error().ok() ? low_rank.calls() : 0;
  const Signature signature = signature_of(request.call, request.options, method);
  Outcome outcome = open_scheme(state, turn, request, signature, std::move(local_error), calls);
  if (outcome.delivered) outcome = low_rank.run(turn, calls);
  const std::scoped_lock lock(state.mutex);
  low_rank.release(outcome);
  return outcome;
}

const SchemeEntry entry("lowrank", [](CommState& state, const Request& request, const Decision& decision) {
  return *element_of(request.call.datatype) == kernels::Element::f64
             ? run_low_rank<double>(state, request, decision.method)
             : run_low_rank<float>(state, request, decision.method);
});

}  // namespace

}  // namespace mq
