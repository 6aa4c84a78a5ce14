// lowrank: PowerSGD (Vogels, Karimireddy, Jaggi: "PowerSGD: practical low-rank gradient compression for
// distributed optimization", NeurIPS 2019, algorithms 1 and 2) as a reduction. A rank's matrix M is m x n,
// stored column by column, and its residual is E. A layer's gradient that is stored row by row, as
// [output][input], has m inputs and n outputs here: the paper's matrix is the transpose of M.
//
//   A = M + E                  on each rank
//   P = sum of A^T Q           first part: n r elements. Q, m x r, comes from the key's last call
//   P = orthonormal basis of P
//   Q = sum of A P             second part: m r elements
//   result = Q P^T,  E = A - (A P) P^T
//
// So the directions of a layer's inputs are kept from call to call, as in PowerSGD, and errors are
// PowerSGD's. If the directions of the outputs are kept, errors differ by some per cent, in both ways
// (results/2026-11-28-torch/README.md).
//
// The sums are made by codec raw, so P and Q have the same bits on all ranks, and the rest is done by every
// rank in the same order. E is what the projection leaves of the rank's own A. So no rank's residual grows by
// what others bring, and results and residuals add up to the inputs. The paper leaves Q as it is; here its
// columns are made orthonormal before they are used. This changes no span, and products then stay within the
// range of the type.
//
// If P is not finite, or a rank's part of Q is not finite or so large that a product could overflow, a last
// part sums the input itself. All ranks have the same P, and the agreement on the second part tells them the
// greatest part of Q. So they decide alike, also where a part has failed. NaN and Inf are then where MPI
// would put them. E and Q stay.
//
// The parts are started and advanced by core/scheme_run.hpp, for calls of all forms.

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "kernels/narrow_products.hpp"
#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/scheme.hpp"
#include "mpi_quant/schemes/low_rank.hpp"

namespace mq {
namespace {

Status cannot(std::string text) { return bad_argument("lowrank: " + std::move(text)); }

// basis_key() of a key that is not too long for one, without allocating.
bool has_basis(const Key& key) { return kBasisKey.size() + key.view().size() <= Key::kMax; }
Key basis_of(const Key& key) {
  std::array<char, Key::kMax> text{};
  const std::size_t n = kBasisKey.copy(text.data(), text.size());
  return Key({text.data(), n + key.view().copy(text.data() + n, text.size() - n)});
}

class LowRank final : public SchemeSteps {
 public:
  explicit LowRank(CommState& state) : state_(state) {}
  ~LowRank() override { state_.scratch.host_bytes -= held_bytes_; }
  LowRank(const LowRank&) = delete;
  LowRank& operator=(const LowRank&) = delete;

  Status prepare(const Call& call, const MatrixShape& matrix, const Decision& decision) override;
  std::uint64_t calls() const override { return residual_->calls; }
  std::span<const Call> parts() const override { return parts_; }
  SchemePart begin(std::uint64_t calls) noexcept override;
  SchemePart next(bool has_failed, double greatest) noexcept override {
    if (stage_ == Stage::input) return {};
    return element_ == kernels::Element::f64 ? next_of<double>(has_failed, greatest)
                                             : next_of<float>(has_failed, greatest);
  }
  void release(const Key& key, bool has_failed) noexcept override;

 private:
  enum class Stage { p, q, input };  // what the part in flight sums
  // Where the matrices are: P and Q of this rank, the sums of all ranks, and room for orthonormalize().
  template <class T>
  struct Factors {
    double* work;
    T *p_own, *p, *q, *q_own, *q_sum;
  };
  template <class T>
  Factors<T> factors() const {
    Factors<T> f{};
    f.work = reinterpret_cast<double*>(memory_.data());
    f.p_own = reinterpret_cast<T*>(f.work + std::max(m_, n_) * r_);
    f.p = f.p_own + n_ * r_;
    f.q = f.p + n_ * r_;
    f.q_own = f.q + m_ * r_;
    f.q_sum = f.q_own + m_ * r_;
    return f;
  }
  kernels::CarriedMatrix matrix() const {
    const void* const input = call_.sendbuf == MPI_IN_PLACE ? call_.recvbuf : call_.sendbuf;
    return {input, residual_->data(), m_, n_};
  }
  const kernels::NarrowProducts& products() const { return kernels::narrow_products(element_, env()->isa); }
  Status acquire(std::string_view key, std::size_t count, Residuals::Entry*& entry);
  Status find_memory();
  template <class T>
  void set_parts();
  template <class T>
  void project();
  template <class T>
  SchemePart next_of(bool has_failed, double greatest);
  SchemePart sum_input() {
    stage_ = Stage::input;
    return {&call_};
  }

  CommState& state_;
  Call call_{};  // without the divisor: the whole is divided
  Key key_;
  std::size_t m_ = 0, n_ = 0, r_ = 0;
  kernels::Element element_ = kernels::Element::f32;
  Stage stage_ = Stage::p;
  std::array<Call, 2> parts_{};
  Buffer memory_;
  std::size_t held_bytes_ = 0;  // of memory_, that are counted for the communicator
  Residuals::Entry *residual_ = nullptr, *basis_ = nullptr;
};

// The array of a key on the host, which no other call uses until release().
Status LowRank::acquire(std::string_view key, std::size_t count, Residuals::Entry*& entry) {
  const Result<Residuals::Entry*> found = state_.residuals.acquire(key, count, element_);
  if (!found.ok()) return found.status();
  if ((*found)->users > 0)
    return cannot("mpiq_key \"" + std::string(key) + "\" is in use by a call in flight");
  MQ_TRY((*found)->move_to_host());
  entry = *found;
  ++entry->users;
  return {};
}

Status LowRank::prepare(const Call& call, const MatrixShape& matrix, const Decision& decision) {
  call_ = call;
  call_.divisor = 1;
  key_ = decision.key;
  m_ = static_cast<std::size_t>(matrix.rows);
  n_ = static_cast<std::size_t>(matrix.columns);
  r_ = static_cast<std::size_t>(decision.method.scheme_params.value[0]);
  element_ = *element_of(call.datatype);
  for (const void* const buffer : {call_.sendbuf, static_cast<const void*>(call_.recvbuf)}) {
    if (buffer == MPI_IN_PLACE) continue;
    const Result<bool> on_device = is_on_device(buffer);
    if (!on_device.ok()) return on_device.status();
    if (*on_device) return cannot("the vectors are in the memory of a GPU, which it cannot reduce yet");
  }
  if (!has_basis(key_))
    return cannot("mpiq_key \"" + std::string(key_.view()) + "\" is longer than " +
                  std::to_string(Key::kMax - kBasisKey.size()) + " characters");
  MQ_TRY(acquire(key_.view(), m_ * n_, residual_));
  // The basis of another rank or shape is of no use.
  const Key basis = basis_of(key_);
  if (const Residuals::Entry* const old = state_.residuals.find(basis.view());
      old != nullptr && old->users == 0 && (old->count != m_ * r_ || old->element != element_))
    state_.residuals.drop(basis.view());
  MQ_TRY(acquire(basis.view(), m_ * r_, basis_));
  MQ_TRY(find_memory());
  element_ == kernels::Element::f64 ? set_parts<double>() : set_parts<float>();
  return {};
}

Status LowRank::find_memory() {
  const std::size_t narrow = (3 * m_ + 2 * n_) * r_, work = std::max(m_, n_) * r_;
  const bool found = memory_.reserve(work * sizeof(double) + narrow * kernels::element_bytes(element_));
  state_.scratch.host_bytes += memory_.bytes() - std::exchange(held_bytes_, memory_.bytes());
  return found ? Status{} : Status{Code::no_memory, "no memory for the factors of lowrank"};
}

template <class T>
void LowRank::set_parts() {
  const Factors<T> f = factors<T>();
  const auto sum = [&](const T* from, T* to, std::size_t count) {
    return Call{from, to, static_cast<MPI_Count>(count), call_.datatype, MPI_SUM, call_.comm};
  };
  parts_ = {sum(f.p_own, f.p, n_ * r_), sum(f.q_own, f.q_sum, m_ * r_)};
}

SchemePart LowRank::begin(std::uint64_t calls) noexcept {
  for (Residuals::Entry* const entry : {residual_, basis_}) {
    entry->end_estimates();  // of a call by another memory rule: they are no residual
    entry->used = true;
    entry->calls = calls + 1;
  }
  stage_ = Stage::p;
  element_ == kernels::Element::f64 ? project<double>() : project<float>();
  return {&parts_[0]};
}

// This rank's A^T Q.
template <class T>
void LowRank::project() {
  const Factors<T> f = factors<T>();
  std::copy_n(reinterpret_cast<const T*>(basis_->data()), m_ * r_, f.q);
  fill_zero_columns(f.q, m_, r_, residual_->calls);
  orthonormalize(f.q, m_, r_, f.work);
  products().multiply_transposed(matrix(), f.q, r_, f.p_own);
}

template <class T>
SchemePart LowRank::next_of(bool has_failed, double greatest) {
  const Factors<T> f = factors<T>();
  if (stage_ == Stage::p) {
    stage_ = Stage::q;
    if (has_failed) return {&parts_[1]};  // or the sum of the input: the others go on with one of them
    if (!is_finite(f.p, n_ * r_)) return sum_input();
    orthonormalize(f.p, n_, r_, f.work);
    products().multiply(matrix(), f.p, r_, f.q_own);
    return {&parts_[1], greatest_row(f.q_own, m_, r_)};
  }
  if (!is_tame<T>(greatest, state_.channel.comm().size())) return sum_input();
  if (has_failed) {  // other ranks may have a result, so this rank's part of it is lost
    residual_->restart();
    basis_->restart();
    return {};
  }
  products().deliver(matrix(), {f.p, f.q_sum, f.q_own, r_}, call_.recvbuf, residual_->data());
  std::copy_n(f.q_sum, m_ * r_, reinterpret_cast<T*>(basis_->data()));
  return {};
}

void LowRank::release(const Key& key, bool has_failed) noexcept {
  for (Residuals::Entry** const entry : {&residual_, &basis_})
    if (Residuals::Entry* const held = std::exchange(*entry, nullptr); held != nullptr) --held->users;
  if (!has_failed || key.empty()) return;
  // If the first call of a key fails, the key is not bound to the call's count and type.
  const auto drop_unused = [&](std::string_view name) {
    const Residuals::Entry* const entry = state_.residuals.find(name);
    if (entry != nullptr && entry->users == 0 && !entry->used) state_.residuals.drop(name);
  };
  drop_unused(key.view());
  if (has_basis(key)) drop_unused(basis_of(key).view());
}

// The call has a key and a matrix without gaps, and the factors are fewer elements than the matrix.
bool suits(const Call&, const CallOptions& options, const kernels::Params& params) {
  const MatrixShape& matrix = options.matrix;
  if (options.key.empty() || !matrix.is_given() || matrix.ld != matrix.rows) return false;
  const auto rank = static_cast<std::int64_t>(params.value[0]);
  return rank * (matrix.rows + matrix.columns) < matrix.rows * matrix.columns;
}

const SchemeEntry entry("lowrank", suits, [](CommState& state) -> std::unique_ptr<SchemeSteps> {
  return std::make_unique<LowRank>(state);
});

}  // namespace

}  // namespace mq
