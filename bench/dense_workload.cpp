#include "bench/dense_workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "bench/buffers.hpp"
#include "bench/call.hpp"
#include "bench/check.hpp"
#include "bench/elements.hpp"
#include "bench/parts.hpp"
#include "bench/work.hpp"

namespace mq::bench {
namespace {

// of the input; its entropy and range are computed from them
constexpr std::size_t kSummaryElements = std::size_t{1} << 20;

// A write that no compiler removes.
void touch(std::byte& b) {
  auto& byte = reinterpret_cast<volatile unsigned char&>(b);
  byte = static_cast<unsigned char>(byte + 1U);
}

class DenseCollective final : public Collective {
 public:
  DenseCollective(const Options& o, std::uint64_t pool_bytes, int sender,
                  std::shared_ptr<const Recording> file, std::shared_ptr<const Gpu> device)
      : options(o),
        rank(sender),
        generator(o.data, file),
        recording(std::move(file)),
        gpu(std::move(device)),
        in(pool_bytes, gpu),
        out(pool_bytes, gpu),
        sweeper(o.buffers == Buffers::cold ? pool_bytes : 0),
        gpu_sweeper(sweeper.empty() ? nullptr : gpu, GpuMemory::Kind::device, sweeper.size()) {
    if (!o.overlap.empty()) work.emplace();
  }
  std::unique_ptr<Workload> at(const Point& point, MPI_Comm comm) override;
  InputRow input(const Point& point) const override;

  const Options& options;
  const int rank;
  const Generator generator;
  const std::shared_ptr<const Recording> recording;
  const std::shared_ptr<const Gpu> gpu;
  Pool in, out;
  std::vector<std::byte> sweeper;  // at least twice the caches; empty unless the buffers are cold
  GpuMemory gpu_sweeper;           // the same for the caches of a GPU
  std::uint64_t in_hash = 0;       // of the whole pool
  std::optional<Work> work;        // with --overlap: the same for all methods

  std::size_t steps() const { return recording ? recording->steps() : 1; }
  // The index of the generator's element with which the vector of a step begins.
  std::uint64_t first(const Point& point, std::size_t step) const {
    return recording ? recording->first(point.layer_word(), step) : 0;
  }
  // What this rank brings and gets.
  Part input_part(const Point& point) const {
    return input_of(options.collective, point.count, point.ranks, rank);
  }
  Part output_part(const Point& point) const {
    return output_of(options.collective, point.count, point.ranks, rank);
  }

 private:
  void fill(const Point& point);
  std::optional<kernels::Element> filled_;
};

class DenseWorkload final : public Workload {
 public:
  DenseWorkload(DenseCollective& all, const Point& point, MPI_Comm comm)
      : all_(all),
        point_(point),
        comm_(comm),
        input_at_(all.input_part(point).begin * kernels::element_bytes(point.element)),
        input_bytes_(all.input_part(point).count * kernels::element_bytes(point.element)) {
    // In place, what a rank brings lies in the memory of the result, which is then a whole vector.
    all_.out.cut(all_.options.in_place
                     ? point.bytes()
                     : all_.output_part(point).count * kernels::element_bytes(point.element),
                 static_cast<std::size_t>(all_.options.window));
    hash_ = hash_bytes(all_.in.slot(0), input_bytes_);
    if (all_.options.check)
      checker_.emplace(all_.generator, point.element, all_.first(point, 0), point.count, comm,
                       all_.options.collective);
  }
  std::unique_ptr<Variant> variant(const MethodWord& method) override;
  void prepare(std::size_t turn, std::size_t repetition) override {
    if (all_.options.buffers == Buffers::warm) turn = 0;
    slot_ = turn * static_cast<std::size_t>(all_.options.window) % all_.out.slots();
    send_ = all_.in.place((turn * all_.steps() + repetition % all_.steps()) % all_.in.slots());
    receive_ = all_.out.place(slot_);
    if (all_.options.in_place) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(all_.options.window); ++i) {
        std::byte* const at = static_cast<std::byte*>(receive(i)) + input_at_;
        if (all_.gpu)
          all_.gpu->within(at, send_, input_bytes_);
        else
          std::memcpy(at, send_, input_bytes_);
      }
      send_ = MPI_IN_PLACE;
    }
    // Writes to every line of a memory larger than the caches, so that nothing else stays in them.
    for (std::size_t i = 0; i < all_.sweeper.size(); i += kAlignment) touch(all_.sweeper[i]);
    if (all_.gpu && !all_.sweeper.empty()) all_.gpu->zero(all_.gpu_sweeper.data(), all_.sweeper.size());
  }
  bool guards_intact() const override { return all_.out.guards_intact(); }
  void arm_guards() override { all_.out.arm_guards(); }
  bool input_intact() const override {
    all_.in.pull_slot(0);
    return hash_bytes(all_.in.slot(0), input_bytes_) == hash_;
  }
  void restore_input() override {
    with_type(point_.element, [&]<class T>(T) {
      auto* slot = reinterpret_cast<T*>(all_.in.slot(0));
      all_.generator.fill(std::span(slot, all_.input_part(point_).count), all_.rank, all_.first(point_, 0));
    });
    all_.in.push_slot(0);
  }
  bool all_inputs_intact() const override {
    all_.in.pull();
    const auto pool = all_.in.all();
    return hash_bytes(pool.data(), pool.size()) == all_.in_hash;
  }

  const void* send() const { return send_; }
  // Where call i of a window writes its result.
  void* receive(std::size_t i = 0) const { return i == 0 ? receive_ : all_.out.place(slot_ + i); }
  const void* result(std::size_t i = 0) const {  // for the host to read
    all_.out.pull_slot(slot_ + i);
    return all_.out.slot(slot_ + i);
  }
  const std::shared_ptr<const Gpu>& gpu() const { return all_.gpu; }
  const Checker& checker() const { return *checker_; }

 private:
  DenseCollective& all_;
  const Point& point_;
  MPI_Comm comm_;
  std::size_t input_at_, input_bytes_;  // of this rank, in the whole vector
  std::uint64_t hash_;
  std::optional<Checker> checker_;
  const void* send_ = nullptr;
  std::byte* receive_ = nullptr;
  std::size_t slot_ = 0;
};

class DenseVariant : public Variant {
 public:
  DenseVariant(const DenseWorkload& workload, const MethodWord& method, const Point& point,
               const Options& options, MPI_Comm comm)
      : workload_(workload),
        call_(method, point.element, static_cast<MPI_Count>(point.count), options.feedback, comm,
              workload.gpu(), options.collective,
              options.form == Form::persistent ? Form::persistent : Form::nonblocking, options.window) {}
  std::string unavailable() const override { return call_.unavailable(); }
  int call() override { return call_(workload_.send(), workload_.receive()); }
  ResultErrors compare(bool exact) const override {
    return workload_.checker().compare(workload_.result(), exact);
  }
  MPIQ_Stats stats() const override { return call_.stats(); }
  bool exact() const override { return call_.exact(); }
  bool carries() const override { return call_.carries(); }
  bool chooses() const override { return call_.chooses(); }
  bool ours() const override { return call_.compresses(); }

 protected:
  const DenseWorkload& workload_;
  Call call_;
};

// Starts the sum, computes and tests by turns, and waits for it.
class OverlapVariant final : public DenseVariant {
 public:
  OverlapVariant(const DenseWorkload& workload, const MethodWord& method, const Point& point,
                 const Options& options, MPI_Comm comm, Work& work)
      : DenseVariant(workload, method, point, options, comm),
        interval_s_(options.test_interval_us * 1e-6),
        work_(work) {}
  void set_compute(double seconds) override {
    tests_ = interval_s_ > 0 ? std::max(1L, std::lround(seconds / interval_s_)) : 1;
    slice_s_ = seconds / static_cast<double>(tests_);
  }
  int call() override {
    if (const int error = call_.start(workload_.send(), workload_.receive()); error != MPI_SUCCESS)
      return error;
    bool over = interval_s_ == 0;
    for (long i = 0; i < tests_; ++i) {
      work_(slice_s_);
      if (over) continue;
      if (const int error = call_.test(over); error != MPI_SUCCESS) return error;
    }
    return call_.wait();
  }
  void compute() override {
    for (long i = 0; i < tests_; ++i) work_(slice_s_);
  }

 private:
  double interval_s_, slice_s_ = 0;
  long tests_ = 0;
  Work& work_;
};

// Starts the calls of a window, all of the same vector, and then completes them in the same order. A row has
// the errors of the first result. All results are searched for wrong elements, and are compared between
// ranks.
class WindowVariant final : public DenseVariant {
 public:
  WindowVariant(const DenseWorkload& workload, const MethodWord& method, const Point& point,
                const Options& options, MPI_Comm comm)
      : DenseVariant(workload, method, point, options, comm),
        window_(static_cast<std::size_t>(options.window)) {}
  int calls_each() const override { return static_cast<int>(window_); }
  int call() override {
    int error = MPI_SUCCESS;
    std::size_t started = 0;
    for (; started < window_ && error == MPI_SUCCESS; ++started)
      error = call_.start(workload_.send(), workload_.receive(started), started);
    if (error != MPI_SUCCESS) --started;
    for (std::size_t i = 0; i < started; ++i)
      if (const int failed = call_.wait(i); failed != MPI_SUCCESS) error = failed;
    return error;
  }
  ResultErrors compare(bool exact) const override {
    ResultErrors all = workload_.checker().compare(workload_.result(), exact);
    for (std::size_t i = 1; i < window_; ++i) {
      const ResultErrors one = workload_.checker().compare(workload_.result(i), exact);
      all.n_wrong += one.n_wrong;
      all.replicas_equal = all.replicas_equal && one.replicas_equal;
    }
    return all;
  }

 private:
  std::size_t window_;
};

std::unique_ptr<Variant> DenseWorkload::variant(const MethodWord& method) {
  if (all_.options.form != Form::blocking)
    return std::make_unique<WindowVariant>(*this, method, point_, all_.options, comm_);
  if (method.compute_percent >= 0)
    return std::make_unique<OverlapVariant>(*this, method, point_, all_.options, comm_, *all_.work);
  return std::make_unique<DenseVariant>(*this, method, point_, all_.options, comm_);
}

std::unique_ptr<Workload> DenseCollective::at(const Point& point, MPI_Comm comm) {
  in.cut(input_part(point).count * kernels::element_bytes(point.element), steps());
  fill(point);
  return std::make_unique<DenseWorkload>(*this, point, comm);
}

// If steps or layers have files of their own, slot i holds step i. Otherwise the pool is one long vector.
void DenseCollective::fill(const Point& point) {
  const bool paged = recording && recording->paged();
  if (filled_ == point.element && !paged) return;
  const auto bytes = in.all();
  with_type(point.element, [&]<class T>(T) {
    if (!paged)
      generator.fill(std::span(reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)), rank, 0);
    for (std::size_t i = 0; paged && i < in.slots(); ++i)
      generator.fill(std::span(reinterpret_cast<T*>(in.slot(i)), input_part(point).count), rank,
                     first(point, i));
  });
  in.push();
  in_hash = hash_bytes(bytes.data(), bytes.size());
  filled_ = point.element;
}

InputRow DenseCollective::input(const Point& point) const {
  const auto pool = in.all();
  const DataSummary data = with_type(point.element, [&]<class T>(T) {
    const std::size_t n = std::min(kSummaryElements, pool.size() / sizeof(T));
    return summary_of(std::span<const T>(reinterpret_cast<const T*>(pool.data()), n));
  });
  InputRow row;
  row.distribution = to_string(options.data);
  row.params = fmt::format("dtype={}", name(point.element));
  if (recording) {
    row.distribution = "file:" + std::filesystem::path(options.data.path).filename().string();
    row.params =
        fmt::format("dtype={},file_bytes={}", name(point.element), recording->bytes(rank, first(point, 0)));
    if (has_layer(options.data.path))
      row.params = fmt::format("{},layer={}", row.params.str(), point.layer_word());
    if (has_step(options.data.path)) row.params = fmt::format("{},steps={}", row.params.str(), steps());
    row.path = options.data.path;
  }
  row.seed = options.data.seed;
  row.rho = options.data.rho;
  row.entropy_bits = data.entropy_bits;
  row.zero_frac = data.zero_frac;
  row.exp_min = static_cast<std::int16_t>(data.exp_min);
  row.exp_max = static_cast<std::int16_t>(data.exp_max);
  return row;
}

}  // namespace

std::unique_ptr<Collective> make_dense_collective(const Options& options, std::uint64_t pool_bytes, int rank,
                                                  std::shared_ptr<const Recording> recording,
                                                  std::shared_ptr<const Gpu> gpu) {
  return std::make_unique<DenseCollective>(options, pool_bytes, rank, std::move(recording), std::move(gpu));
}

}  // namespace mq::bench
