// MPIQ_Neighbor_mix: a round of compressed push-sum (Toghani and Uribe, "On arbitrary compression for
// decentralized consensus and stochastic optimization over directed networks", 2022). On symmetric graphs it
// is CHOCO-Gossip (Koloskova, Stich, Jaggi, ICML 2019) with weights. Rank j has d_j out-neighbours, and gives
// them and itself equal shares: a_ij = 1 / (d_j + 1). x^_j is what the others know of x_j.
//
//   q_i = C(x_i - x^_i), sent to the out-neighbours;  x^_i += q_i on every rank that has it
//   x_i += gamma (sum over j of a_ij x^_j - x^_i)
//   y_i += gamma (sum over j of a_ij y_j - y_i)
//
// The shares of a rank add up to 1, so the sums of all x and of all y stay. A rank keeps x^_i, and x^_j of
// each in-neighbour. A rank that kept the sum of a_ij x^_j alone would need two arrays. But it could only add
// news to that sum, and the rounding of these additions would stay in it for ever: each later round would add
// it to x again. Every message begins with a header, so that its length is known.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "mpi_quant.h"
#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/base/env.hpp"
#include "mpi_quant/base/float_mode.hpp"
#include "mpi_quant/core/collective_check.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/decide.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/info.hpp"
#include "mpi_quant/core/meeting.hpp"
#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/engine/reduction.hpp"
#include "mpi_quant/schemes/mirrors.hpp"

namespace mq {
namespace {

const ExtensionKind kind_of_mirrors([](CommState&) -> std::unique_ptr<Extension> {
  return std::make_unique<MirrorTable>();
});

constexpr std::size_t kUnit = 64;  // bytes: messages are padded to units, so that MPI can count long ones

struct Mix {
  void* x;
  double* weight;
  MPI_Count count;
  MPI_Datatype datatype;
  double gamma;
  MPI_Comm comm;
};

struct Header {
  double share;         // a_ij of the sender j, for its out-neighbours
  double weight;        // the sender's y
  std::uint64_t bytes;  // of the message that follows; 0: the sender has no news
};

struct Graph {
  std::vector<int> sources, destinations;
};

Status check(const Mix& m) {
  if (m.count < 0) return bad_argument("count " + std::to_string(m.count) + " is negative");
  if (m.datatype != MPI_FLOAT && m.datatype != MPI_DOUBLE)
    return bad_argument("datatype must be MPI_FLOAT or MPI_DOUBLE");
  if (m.weight == nullptr) return bad_argument("weight is NULL");
  if (!(std::isfinite(*m.weight) && *m.weight > 0)) return bad_argument("*weight is not a positive number");
  if (!(m.gamma > 0 && m.gamma <= 1)) return bad_argument("gamma is not above 0 and at most 1");
  if (m.count == 0) return {};
  if (m.x == nullptr) return bad_argument("x is NULL");
  const Result<bool> on_device = is_on_device(m.x);
  if (!on_device.ok()) return on_device.status();
  return *on_device ? bad_argument("x is not in host memory") : Status{};
}

Status find_graph(MPI_Comm comm, Graph& graph) {
  int topology = MPI_UNDEFINED, in = 0, out = 0, weighted = 0;
  MQ_TRY(mpi_status(PMPI_Topo_test(comm, &topology), "MPI_Topo_test"));
  if (topology != MPI_DIST_GRAPH)
    return bad_argument("comm has no distributed graph (MPI_Dist_graph_create)");
  MQ_TRY(mpi_status(PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted),
                    "MPI_Dist_graph_neighbors_count"));
  // MPI wants room for the weights of a graph that has some. They are not used.
  std::vector<int> of_sources(static_cast<std::size_t>(in) + 1),
      of_destinations(static_cast<std::size_t>(out) + 1);
  graph.sources.resize(static_cast<std::size_t>(in) + 1);
  graph.destinations.resize(static_cast<std::size_t>(out) + 1);
  MQ_TRY(mpi_status(PMPI_Dist_graph_neighbors(comm, in, graph.sources.data(), of_sources.data(), out,
                                              graph.destinations.data(), of_destinations.data()),
                    "MPI_Dist_graph_neighbors"));
  graph.sources.resize(static_cast<std::size_t>(in));
  graph.destinations.resize(static_cast<std::size_t>(out));
  return {};
}

template <class T>
class Round {
 public:
  Round(const Mix& mix, CommState& state)
      : mix_(mix), state_(state), n_(static_cast<std::size_t>(mix.count)) {}
  ~Round() {
    if (unit_ != MPI_DATATYPE_NULL) (void)PMPI_Type_free(&unit_);
  }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;
  // Gets all that can be missing on one rank alone, and what the ranks have to agree on.
  Status prepare(const CallOptions& options, int rank, int size);
  const std::string& facts() const { return facts_; }
  // The ranks have not agreed. If this was the first round of the key, the key is not bound to its count and
  // type.
  void give_up();
  // The messages, and what follows from them, once the ranks have agreed. After an error the key is forgotten
  // here, so that the next call is an error on all ranks.
  Status run();

 private:
  static constexpr kernels::Element kElement =
      sizeof(T) == sizeof(float) ? kernels::Element::f32 : kernels::Element::f64;
  Status choose(const CallOptions& options, int size);
  Status find_mirrors();
  Status allocate();
  kernels::NoiseIndex noise(int of_rank) const {
    return {mixed(hash_of_key(key_) ^ mixed(mirrors_->rounds ^ mixed(seed_))),
            static_cast<std::uint64_t>(of_rank), 0, size_};
  }
  void encode();
  Status decode(const std::byte* wire, std::size_t bytes, int of_rank);
  Status exchange();
  void add_traffic();
  double out_neighbours() const { return static_cast<double>(graph_.destinations.size()); }
  MirrorTable& table() const { return static_cast<MirrorTable&>(state_.extension(kind_of_mirrors)); }
  std::byte* wire() const { return mirrors_->wire.data(); }
  T* news() const { return reinterpret_cast<T*>(mirrors_->scratch.data()); }
  T* decoded() const { return news() + n_; }

  const Mix& mix_;
  CommState& state_;
  const std::size_t n_;
  int rank_ = 0, size_ = 1;
  std::uint64_t seed_ = 0, number_ = 0;
  MPI_Datatype unit_ = MPI_DATATYPE_NULL;  // kUnit bytes
  std::string key_, facts_;
  Graph graph_;
  Method method_;
  const kernels::CodecOps* ops_ = nullptr;
  std::shared_ptr<Mirrors> mirrors_;
  std::size_t slot_ =
      0;  // bytes of Mirrors::wire for this rank's message, and as many for each in-neighbour's
  Header own_{};
  std::vector<Header> headers_;
  std::vector<double> given_;  // by the in-neighbours
  std::vector<int> units_, first_;
};

template <class T>
Status Round<T>::choose(const CallOptions& options, int size) {
  const std::scoped_lock lock(state_.mutex);
  CallKey key;
  key.bytes = n_ * sizeof(T);
  key.ranks = size;
  key.element = kElement;
  key.number = number_;
  key.comm = state_.policy.comm_name;
  const Call call{MPI_IN_PLACE, mix_.x, mix_.count, mix_.datatype, MPI_SUM, mix_.comm};
  const Decision decision =
      decide({.call = call, .element = kElement, .state = &state_, .options = &options, .call_key = &key});
  state_.stats.declined_calls += decision.declined;
  method_ = decision.method;
  if (method_.exact()) {
    method_ = {};
    method_.codec = &raw_codec();
  }
  seed_ = decision.seed.value_or(env()->seed);
  ops_ = method_.codec->ops(kElement, env()->isa);
  if (method_.codec->measures(method_.params) != kernels::Measures::nothing)
    return bad_argument(std::string(method_.codec->name) +
                        " with these parameters needs a measure of all ranks' vectors");
  return {};
}

template <class T>
Status Round<T>::find_mirrors() {
  if (key_.empty()) return bad_argument("there is no name of the vector (info mpiq_key)");
  const std::scoped_lock lock(state_.mutex);
  std::shared_ptr<Mirrors>& known = table().of(key_);
  if (known == nullptr) {
    auto made = std::make_shared<Mirrors>();
    made->sources = graph_.sources.size();
    const std::size_t most = std::numeric_limits<std::size_t>::max() / sizeof(T) / (made->sources + 1);
    if (n_ > most ||
        !made->memory.allocate_zeroed(std::max<std::size_t>(1, (made->sources + 1) * n_ * sizeof(T))))
      return {Code::no_memory, "no memory for the mirrors of a vector and of the in-neighbours' vectors"};
    made->count = n_;
    made->element = kElement;
    known = std::move(made);
  }
  if (known->count != n_ || known->element != kElement)
    return bad_argument("mpiq_key \"" + key_ + "\" belongs to " + std::to_string(known->count) + " " +
                        std::string(name(known->element)));
  mirrors_ = known;
  return {};
}

template <class T>
Status Round<T>::allocate() {
  const std::size_t bound = method_.codec->wire_bound(n_, kElement, method_.params);
  slot_ = (bound + kUnit - 1) / kUnit * kUnit;
  const std::size_t sources = graph_.sources.size();
  if (slot_ / kUnit * std::max<std::size_t>(1, sources) >
      static_cast<std::size_t>(std::numeric_limits<int>::max()))
    return bad_argument("the messages of the in-neighbours are longer than MPI can count");
  headers_.resize(sources + 1);
  given_.resize(sources + 1);
  units_.resize(sources + 1);
  first_.resize(sources + 1);
  if (!mirrors_->scratch.reserve(2 * n_ * sizeof(T) + 1) ||
      !mirrors_->wire.reserve(slot_ * (sources + 1) + 1))
    return {Code::no_memory, "no memory for the messages of the in-neighbours"};
  return {};
}

template <class T>
Status Round<T>::prepare(const CallOptions& options, int rank, int size) {
  rank_ = rank;
  size_ = size;
  key_ = options.key.view();
  {
    const std::scoped_lock lock(state_.mutex);
    number_ = state_.policy.calls++;  // always, so that the ranks count alike even after an error
  }
  MQ_TRY(options.local_error);
  if (options.is_mean) return {Code::bad_info, "info mpiq_op=avg: MPIQ_Neighbor_mix makes no sum"};
  MQ_TRY(check(mix_));
  MQ_TRY(find_graph(mix_.comm, graph_));
  MQ_TRY(choose(options, size));
  MQ_TRY(find_mirrors());
  MQ_TRY(allocate());
  MQ_TRY(mpi_status(PMPI_Type_contiguous(kUnit, MPI_BYTE, &unit_), "MPI_Type_contiguous"));
  MQ_TRY(mpi_status(PMPI_Type_commit(&unit_), "MPI_Type_commit"));
  std::array<char, 40> gamma{};
  std::snprintf(gamma.data(), gamma.size(), "%.17g", mix_.gamma);
  facts_ = std::to_string(n_) + " " + std::string(name(kElement)) + ", gamma " + gamma.data() + ", " +
           to_string(method_) + ", seed " + std::to_string(seed_) + ", key \"" + key_ + "\", round " +
           std::to_string(mirrors_->rounds) + '\0';
  return {};
}

template <class T>
void Round<T>::give_up() {
  if (mirrors_ == nullptr || mirrors_->rounds > 0) return;
  const std::scoped_lock lock(state_.mutex);
  table().forget(key_.c_str());
}

// This rank's message: what its neighbours do not know yet. There is none if the codec cannot send it
// finitely, as f16 of a large number: the others then know nothing new.
template <class T>
void Round<T>::encode() {
  T* const own = mirrors_->own<T>();
  own_ = {1 / (out_neighbours() + 1), *mix_.weight, 0};
  find_news(static_cast<const T*>(mix_.x), own, n_, news());
  if (n_ == 0) return;
  kernels::EncodeArgs args;
  args.x = news();
  args.n = n_;
  args.params = method_.params;
  args.wire = wire();
  args.noise = noise(rank_);
  const std::size_t bytes = ops_->encode(args).bytes;
  if (!decode(wire(), bytes, rank_).ok() || !stays_finite(own, decoded(), n_)) return;
  own_.bytes = bytes;
  std::fill(wire() + bytes, wire() + (bytes + kUnit - 1) / kUnit * kUnit, std::byte{0});
  learn(own, decoded(), n_);
}

template <class T>
Status Round<T>::decode(const std::byte* wire, std::size_t bytes, int of_rank) {
  kernels::DecodeArgs args;
  args.wire = wire;
  args.wire_bytes = bytes;
  args.n = n_;
  args.params = method_.params;
  args.x = decoded();
  args.noise = noise(of_rank);
  if (bytes <= slot_ && ops_->decode(args) == kernels::Decoded::ok) return {};
  return {Code::bad_frame, "the message of rank " + std::to_string(of_rank) + " cannot be read"};
}

// Sends the headers, and then the messages, whose lengths all receivers know by then.
template <class T>
Status Round<T>::exchange() {
  MQ_TRY(mpi_status(PMPI_Neighbor_allgather(&own_, sizeof own_, MPI_BYTE, headers_.data(), sizeof own_,
                                            MPI_BYTE, mix_.comm),
                    "MPI_Neighbor_allgather"));
  const auto units = [](std::uint64_t bytes) { return static_cast<int>((bytes + kUnit - 1) / kUnit); };
  for (std::size_t i = 0; i < graph_.sources.size(); ++i) {
    units_[i] = units(std::min<std::uint64_t>(headers_[i].bytes, slot_));
    first_[i] = static_cast<int>(i * (slot_ / kUnit));
  }
  return mpi_status(PMPI_Neighbor_allgatherv(wire(), units(own_.bytes), unit_, wire() + slot_, units_.data(),
                                             first_.data(), unit_, mix_.comm),
                    "MPI_Neighbor_allgatherv");
}

template <class T>
Status Round<T>::run() {
  const DefaultFloats mode;
  encode();
  Status status = exchange();
  double change = -out_neighbours() * (own_.share * own_.weight);
  for (std::size_t i = 0; i < graph_.sources.size() && status.ok(); ++i) {
    const Header& header = headers_[i];
    change += header.share * header.weight;
    given_[i] = header.share;
    if (header.bytes == 0) continue;
    status = decode(wire() + (i + 1) * slot_, header.bytes, graph_.sources[i]);
    if (status.ok()) learn(mirrors_->of<T>(i), decoded(), n_);
  }
  if (status.ok()) {
    step(static_cast<T*>(mix_.x), *mirrors_, given_.data(), own_.share, out_neighbours(), mix_.gamma);
    *mix_.weight += mix_.gamma * change;
  }
  const std::scoped_lock lock(state_.mutex);
  ++mirrors_->rounds;
  if (!status.ok()) table().forget(key_.c_str());
  add_traffic();
  ++state_.stats.scheme_calls;
  state_.stats.failed_calls += !status.ok();
  return status;
}

template <class T>
void Round<T>::add_traffic() {
  MPIQ_Stats& stats = state_.stats;
  stats.wire_bytes_sent += (own_.bytes + sizeof own_) * graph_.destinations.size();
  stats.messages_sent += (own_.bytes > 0 ? 2 : 1) * graph_.destinations.size();
  for (std::size_t i = 0; i < graph_.sources.size(); ++i)
    stats.wire_bytes_received += headers_[i].bytes + sizeof own_;
}

template <class T>
Status mix_round(const Mix& mix, const CallOptions& options, CommState& state, int rank, int size) {
  Round<T> round(mix, state);
  const Status local_error = guarded_status([&] { return round.prepare(options, rank, size); });
  const Status agreed = collective_check(mix.comm, local_error, round.facts());
  if (agreed.ok()) return round.run();
  round.give_up();
  return agreed;
}

Status neighbor_mix(const Mix& mix, MPI_Info info) {
  int inter = 0, rank = 0, size = 0;
  MQ_TRY(mpi_status(PMPI_Comm_test_inter(mix.comm, &inter), "MPI_Comm_test_inter"));
  if (inter) return bad_argument("comm is an intercommunicator");
  MQ_TRY(mpi_status(PMPI_Comm_rank(mix.comm, &rank), "MPI_Comm_rank"));
  MQ_TRY(mpi_status(PMPI_Comm_size(mix.comm, &size), "MPI_Comm_size"));
  const CallOptions options = read_options(info, mix.count);
  if (size == 1) {  // its shares go to itself: nothing changes
    Graph graph;
    MQ_TRY(options.local_error);
    MQ_TRY(check(mix));
    return find_graph(mix.comm, graph);
  }
  Meeting meeting;
  MQ_TRY(meeting.open(mix.comm, "MPIQ_Neighbor_mix", CommState::Initial::environment));
  if (meeting.state() == nullptr) return bad_argument("MPI is not initialised, or being finalized");
  return mix.datatype == MPI_DOUBLE ? mix_round<double>(mix, options, *meeting.state(), rank, size)
                                    : mix_round<float>(mix, options, *meeting.state(), rank, size);
}

}  // namespace
}  // namespace mq

using namespace mq;

int MPIQ_Neighbor_mix(void* x, double* weight, MPI_Count count, MPI_Datatype datatype, double gamma,
                      MPI_Comm comm, MPI_Info info) {
  return raise(comm, guarded_status([&]() -> Status {
                 Status status = neighbor_mix({x, weight, count, datatype, gamma, comm}, info);
                 if (status.ok()) return status;
                 return {status.code(), "MPIQ_Neighbor_mix: " + status.text()};
               }));
}
