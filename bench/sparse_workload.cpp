#include "bench/sparse_workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "bench/buffers.hpp"
#include "bench/call.hpp"
#include "bench/sparse_call.hpp"
#include "bench/sparse_check.hpp"

namespace mq::bench {
namespace {

SparseInputs inputs_of(const Options& o, const Point& p) {
  const SparseShape shape{p.count / p.stride, p.stride, p.element};
  return {shape, SupportGenerator(p.support, shape.size), Generator(o.data)};
}

// What a rank sends in one turn.
struct SparseList {
  std::vector<std::int64_t> indices, wanted;
  std::vector<std::byte> values;
  std::vector<std::byte> vector;  // the same as a dense vector; empty if no method needs it
  std::uint64_t hash() const {
    return hash_bytes(indices.data(), indices.size() * sizeof(std::int64_t)) ^
           hash_bytes(values.data(), values.size()) ^ (hash_bytes(vector.data(), vector.size()) << 1) ^
           (hash_bytes(wanted.data(), wanted.size() * sizeof(std::int64_t)) << 2);
  }
};

class SparseWorkload final : public Workload {
 public:
  SparseWorkload(const Options& o, const Point& p, MPI_Comm comm);
  std::unique_ptr<Variant> variant(const MethodWord& method) override;
  void prepare(std::size_t turn, std::size_t) override { list_ = turn % lists_.size(); }
  bool guards_intact() const override {
    return vector_->guards_intact() && wanted_->guards_intact() && union_indices_->guards_intact() &&
           union_values_->guards_intact();
  }
  void arm_guards() override {
    for (Pool* pool : {&*vector_, &*wanted_, &*union_indices_, &*union_values_}) pool->arm_guards();
  }
  bool input_intact() const override { return lists_[0].hash() == hashes_[0]; }
  void restore_input() override { lists_[0] = make_list(0); }
  bool all_inputs_intact() const override {
    for (std::size_t i = 0; i < lists_.size(); ++i)
      if (lists_[i].hash() != hashes_[i]) return false;
    return true;
  }

  const void* sent_vector() const { return lists_[list_].vector.data(); }
  void* vector() const { return vector_->slot(0); }
  SparseBuffers buffers() const;
  const SparseChecker& checker() const { return *checker_; }
  const SparseShape& shape() const { return inputs_.shape; }
  bool fresh() const { return options_.sparse->fresh; }

 private:
  SparseList make_list(std::uint64_t number) const;

  const Options& options_;
  const Point& point_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  SparseInputs inputs_;
  bool dense_methods_;
  std::vector<std::vector<std::int64_t>> unions_;  // of all ranks, for each list
  std::vector<SparseList> lists_;
  std::vector<std::uint64_t> hashes_;
  std::size_t list_ = 0, union_room_ = 0;
  std::optional<Pool> vector_, wanted_, union_indices_, union_values_;  // results
  std::optional<SparseChecker> checker_;
};

SparseWorkload::SparseWorkload(const Options& o, const Point& p, MPI_Comm comm)
    : options_(o), point_(p), comm_(comm), inputs_(inputs_of(o, p)) {
  PMPI_Comm_rank(comm, &rank_);
  PMPI_Comm_size(comm, &size_);
  dense_methods_ =
      std::any_of(p.methods.begin(), p.methods.end(), [](const MethodWord& m) { return !m.sparse; });
  std::size_t most_wanted = 0;
  for (std::uint64_t number = 0; number < (o.sparse->fresh ? 2 : 1); ++number) {
    SparseSum sum = sum_of_lists(inputs_, number, size_);
    unions_.push_back(sum.indices);
    union_room_ = std::max(union_room_, sum.indices.size());
    lists_.push_back(make_list(number));
    hashes_.push_back(lists_.back().hash());
    most_wanted = std::max(most_wanted, lists_.back().wanted.size());
    if (number == 0) checker_.emplace(std::move(sum), inputs_.shape, comm);
  }
  const std::size_t width = inputs_.shape.width();
  const bool has_vector = std::any_of(p.methods.begin(), p.methods.end(), [](const MethodWord& m) {
    return !m.sparse || form_of(*m.sparse) == ResultForm::vector;
  });
  vector_ = slot_for(has_vector ? p.bytes() : 0);
  wanted_ = slot_for(most_wanted * width);
  union_indices_ = slot_for(union_room_ * sizeof(std::int64_t));
  union_values_ = slot_for(union_room_ * width);
}

SparseList SparseWorkload::make_list(std::uint64_t number) const {
  SparseList list;
  list.indices = inputs_.support.indices(rank_, number);
  list.wanted = options_.sparse->want_union ? unions_[number] : list.indices;
  list.values = inputs_.list_values(rank_, number, list.indices);
  if (dense_methods_) {
    list.vector.resize(point_.bytes());
    scatter(list.indices, list.values.data(), inputs_.shape, list.vector.data());
  }
  return list;
}

SparseBuffers SparseWorkload::buffers() const {
  const SparseList& list = lists_[list_];
  SparseBuffers b;
  b.out_indices = list.indices;
  b.in_indices = list.wanted;
  b.out_values = list.values.data();
  b.in_values = wanted_->slot(0);
  b.vector = vector_->slot(0);
  b.union_indices = {reinterpret_cast<std::int64_t*>(union_indices_->slot(0)), union_room_};
  b.union_values = union_values_->slot(0);
  return b;
}

class ListVariant final : public Variant {  // a method that is given lists
 public:
  ListVariant(const SparseWorkload& workload, const SparseMethod& method, MPI_Comm comm)
      : workload_(workload), call_(method, workload.shape(), workload.fresh(), comm) {}
  int call() override { return call_(workload_.buffers()); }
  ResultErrors compare(bool exact) const override {
    const SparseBuffers b = workload_.buffers();
    switch (form_of(call_.method())) {
      case ResultForm::vector: return workload_.checker().compare_vector(b.vector, exact);
      case ResultForm::list:
        return workload_.checker().compare_list(
            b.union_indices.first(std::min(call_.union_count(), b.union_indices.size())), b.union_values);
      case ResultForm::wanted: break;
    }
    return workload_.checker().compare_wanted(b.in_indices, b.in_values);
  }
  MPIQ_Stats stats() const override { return call_.stats(); }
  bool exact() const override { return true; }
  bool carries() const override { return false; }
  bool ours() const override { return call_.method().kind != SparseMethod::Kind::densify; }

 private:
  const SparseWorkload& workload_;
  SparseCall call_;
};

class VectorVariant final : public Variant {  // a method that is given the dense vector
 public:
  VectorVariant(const SparseWorkload& workload, const MethodWord& method, const Point& point, MPI_Comm comm)
      : workload_(workload), call_(method, point.element, static_cast<MPI_Count>(point.count), false, comm) {}
  int call() override { return call_(workload_.sent_vector(), workload_.vector()); }
  ResultErrors compare(bool exact) const override {
    return workload_.checker().compare_vector(workload_.vector(), exact);
  }
  MPIQ_Stats stats() const override { return call_.stats(); }
  bool exact() const override { return call_.exact(); }
  bool carries() const override { return call_.carries(); }
  bool ours() const override { return call_.compresses(); }

 private:
  const SparseWorkload& workload_;
  Call call_;
};

std::unique_ptr<Variant> SparseWorkload::variant(const MethodWord& method) {
  if (method.sparse) return std::make_unique<ListVariant>(*this, *method.sparse, comm_);
  return std::make_unique<VectorVariant>(*this, method, point_, comm_);
}

class SparseCollective final : public Collective {
 public:
  explicit SparseCollective(const Options& o) : options_(o) {}
  std::unique_ptr<Workload> at(const Point& point, MPI_Comm comm) override {
    std::unique_ptr<Workload> workload;
    try {
      workload = std::make_unique<SparseWorkload>(options_, point, comm);
    } catch (const std::bad_alloc&) {
    }
    if (!all_agree(workload != nullptr, comm)) workload.reset();
    return workload;
  }
  // Describes rank 0's list.
  InputRow input(const Point& point) const override {
    const SparseInputs inputs = inputs_of(options_, point);
    const auto indices = inputs.support.indices(0, 0);
    std::vector<std::byte> values = inputs.list_values(0, 0, indices);
    const DataSummary data =
        point.element == kernels::Element::f64
            ? summary_of(std::span<const double>(reinterpret_cast<double*>(values.data()), values.size() / 8))
            : summary_of(std::span<const float>(reinterpret_cast<float*>(values.data()), values.size() / 4));
    InputRow row;
    row.distribution = to_string(point.support);
    row.params = fmt::format("dtype={},density={},stride={},values={}", name(point.element),
                             point.support.density, point.stride, to_string(options_.data));
    row.seed = options_.data.seed;
    row.rho = point.support.support == Support::correlated ? point.support.parameter : 0;
    row.entropy_bits = data.entropy_bits;
    row.zero_frac = 1 - static_cast<double>(indices.size()) / static_cast<double>(inputs.shape.size);
    row.exp_min = static_cast<std::int16_t>(data.exp_min);
    row.exp_max = static_cast<std::int16_t>(data.exp_max);
    return row;
  }

 private:
  const Options& options_;
};

}  // namespace

std::unique_ptr<Collective> make_sparse_collective(const Options& options) {
  return std::make_unique<SparseCollective>(options);
}

}  // namespace mq::bench
