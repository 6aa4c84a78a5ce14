#include "bench/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <new>
#include <span>
#include <vector>

#include "bench/buffers.hpp"
#include "bench/call.hpp"
#include "bench/sync.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/own_comm.hpp"
#include "mpi_quant/core/private_comm.hpp"

namespace mq::bench {
namespace {

constexpr int kTag = 0;
constexpr const char *kSingle = "single", *kBurst = "burst";

int messages_of(const MethodWord& method) { return method.algorithm == kSingle ? 1 : kLinkBurst; }

// The byte at a place of what a rank sends.
std::byte byte_at(int rank, std::size_t i) {
  return static_cast<std::byte>(i * 31 + static_cast<std::size_t>(rank) * 7 + 1);
}

class LinkWorkload final : public Workload {
 public:
  // comm returns errors.
  LinkWorkload(const Point& point, std::shared_ptr<const PrivateComm> comm, Waiting waiting)
      : bytes_(point.bytes()),
        out_(slot_for(kLinkBurst * bytes_)),
        in_(slot_for(kLinkBurst * bytes_)),
        owner_(std::move(comm)),
        comm_(owner_->handle, waiting),
        exchange_(comm_, never_, traffic_) {
    exchange_.make_room(std::size_t{2} * kLinkBurst);
    restore_input();
  }
  std::unique_ptr<Variant> variant(const MethodWord& method) override;
  void prepare(std::size_t, std::size_t) override {}
  bool guards_intact() const override { return in_.guards_intact() && out_.guards_intact(); }
  void arm_guards() override {
    in_.arm_guards();
    out_.arm_guards();
  }
  bool input_intact() const override {
    for (std::size_t i = 0; i < kLinkBurst * bytes_; ++i)
      if (out_.slot(0)[i] != byte_at(comm_.rank(), i)) return false;
    return true;
  }
  void restore_input() override {
    for (std::size_t i = 0; i < kLinkBurst * bytes_; ++i) out_.slot(0)[i] = byte_at(comm_.rank(), i);
  }
  bool all_inputs_intact() const override { return input_intact(); }

  int exchange(int messages) {
    const std::size_t bytes = static_cast<std::size_t>(messages) * bytes_;
    return code_of(exchange_with(exchange_, distance(), kTag, std::span(out_.slot(0), bytes),
                                 std::span(in_.slot(0), bytes), messages));
  }
  ResultErrors compare(int messages) const {
    ErrorSums errors;
    const int partner = (comm_.rank() + distance()) % comm_.size();
    for (std::size_t i = 0; i < static_cast<std::size_t>(messages) * bytes_; ++i) {
      const double found = std::to_integer<int>(in_.slot(0)[i]),
                   sent = std::to_integer<int>(byte_at(partner, i));
      errors.add(found, sent, found == sent);
    }
    return errors.over_ranks(comm_.handle());
  }

 private:
  int distance() const { return comm_.size() / 2; }

  std::size_t bytes_;
  Pool out_, in_;
  std::shared_ptr<const PrivateComm> owner_;
  MpiComm comm_;
  const Deadline never_;
  Traffic traffic_;
  Exchange<MpiComm> exchange_;
};

class LinkVariant final : public Variant {
 public:
  LinkVariant(LinkWorkload& workload, int messages) : workload_(workload), messages_(messages) {}
  int call() override { return workload_.exchange(messages_); }
  ResultErrors compare(bool) const override { return workload_.compare(messages_); }
  MPIQ_Stats stats() const override { return {}; }
  bool exact() const override { return true; }
  bool carries() const override { return false; }
  bool ours() const override { return false; }

 private:
  LinkWorkload& workload_;
  int messages_;
};

std::unique_ptr<Variant> LinkWorkload::variant(const MethodWord& method) {
  return std::make_unique<LinkVariant>(*this, messages_of(method));
}

class LinkCollective final : public Collective {
 public:
  explicit LinkCollective(const Options& options) : options_(options) {}
  std::unique_ptr<Workload> at(const Point& point, MPI_Comm comm) override {
    const Result<Nodes> nodes = nodes_of(comm);
    const Waiting waiting = waiting_of(nodes.ok() ? nodes->ranks : point.ranks);
    const auto own = std::make_shared<PrivateComm>();
    if (!all_agree(split_off(comm, own->handle).ok(), comm)) return nullptr;
    std::unique_ptr<Workload> workload;
    try {
      workload = std::make_unique<LinkWorkload>(point, own, waiting);
    } catch (const std::bad_alloc&) {
    }
    if (!all_agree(workload != nullptr, comm)) workload.reset();
    return workload;
  }
  InputRow input(const Point& point) const override {
    InputRow row;
    row.distribution = "bytes";
    row.params = fmt::format("dtype={}", name(point.element));
    row.seed = options_.data.seed;
    row.rho = 0;
    return row;
  }

 private:
  const Options& options_;
};

}  // namespace

std::vector<MethodWord> link_methods() {
  std::vector<MethodWord> methods;
  for (const char* const word : {kSingle, kBurst}) methods.push_back({fmt::format("mpi/{}", word), {}, word});
  return methods;
}

std::unique_ptr<Collective> make_link_collective(const Options& options) {
  return std::make_unique<LinkCollective>(options);
}

MeasuredLink link_of(std::span<const LinkPoint> singles, std::span<const LinkPoint> bursts) {
  const auto shorter = [](const LinkPoint& a, const LinkPoint& b) { return a.bytes < b.bytes; };
  const auto [short_burst, long_burst] = std::minmax_element(bursts.begin(), bursts.end(), shorter);
  const LinkModel model = fit(singles), parted = split(model, kLinkBurst, short_burst->seconds);
  MeasuredLink link;
  link.latency_s = parted.latency_s;
  link.overhead_s = parted.overhead_s;
  // The first message of a burst also takes what its bytes take alone, so the others tell the rate of the
  // port.
  const double port_s =
      (long_burst->seconds - model.seconds(long_burst->bytes)) / ((kLinkBurst - 1) * long_burst->bytes);
  link.bandwidth_Bps = 1 / std::max(port_s > 0 ? port_s : model.beta_s, 1e-15);
  return link;
}

std::string to_string(const MeasuredLink& link) {
  return fmt::format("{:.4g}us/{:.4g}us/{:.5g}MB", 1e6 * link.latency_s, 1e6 * link.overhead_s,
                     1e-6 * link.bandwidth_Bps);
}

std::string link_text(std::span<const Point> points,
                      const std::function<const PointRow*(const Point&, const MethodWord&)>& find) {
  std::map<int, std::array<std::vector<LinkPoint>, 2>> by_ranks;  // singles, bursts
  for (const Point& point : points)
    for (const MethodWord& method : point.methods) {
      const PointRow* const row = find(point, method);
      if (row != nullptr && row->status.str() == "ok")
        by_ranks[point.ranks][messages_of(method) == 1 ? 0 : 1].push_back(
            {static_cast<double>(point.bytes()), row->t_median_s});
    }
  std::string text;
  for (const auto& [ranks, found] : by_ranks)
    if (found[0].size() > 1 && !found[1].empty())
      text += fmt::format("# the link of {} ranks, for mpiq-simulate --link:\n{}\n", ranks,
                          to_string(link_of(found[0], found[1])));
  return text;
}

}  // namespace mq::bench
