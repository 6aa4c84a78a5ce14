#include "mpi_quant/sparse/reduce.hpp"

#include <bit>
#include <span>

#include "mpi_quant/sparse/blocking.hpp"

namespace mq {

// The lists of a call that may come again, and the routes made from them.
struct SparseLists {
  sparse::Entry entry;
  std::vector<int> degrees;      // as requested
  std::uint32_t configured = 0;  // how often routes were made
  double timeout_s = 0;
  int first_tag = 0;
  sparse::KylixRoutes kylix;
  sparse::KylixReduction<ProgressComm> reduction;
};

namespace {

Status check_arguments(const SparseArguments& a) {
  const auto bad = [](const char* what) { return Status{Code::bad_argument, what}; };
  if (a.out_count < 0) return bad("out_count is negative");
  if (a.in_count < 0) return bad("in_count is negative");
  if (a.stride < 1) return bad("stride is less than 1");
  if (a.stride > kMostStride) return bad("stride is more than 2^28");
  if (a.out_count > 0 && a.out_indices == nullptr) return bad("out_indices is NULL");
  if (a.out_count > 0 && a.out_values == nullptr) return bad("out_values is NULL");
  if (a.in_count > 0 && a.in_indices == nullptr) return bad("in_indices is NULL");
  if (a.in_count > 0 && a.in_values == nullptr) return bad("in_values is NULL");
  return {};
}

struct Prepared {
  sparse::Entry entry;
  std::span<const std::int64_t> out_given, in_given;
  sparse::IndexSet out, in;
};

Status check_degrees(const SparseOptions& options, int ranks) {
  if (ranks % options.replicas != 0)
    return {Code::bad_info, "info mpiq_replicas: " + std::to_string(options.replicas) + " does not divide " +
                                std::to_string(ranks) + " ranks"};
  if (options.degrees.empty()) return {};
  const Status status = sparse::check_degrees(options.degrees, ranks / options.replicas);
  return status.ok() ? status : Status{Code::bad_info, "info mpiq_degrees: " + status.text()};
}

// Collects every error that this rank can find alone; it becomes the local error.
Status prepare(const SparseArguments& a, const SparseOptions& options, BlockingSparse& call, Prepared& made) {
  try {
    if (options.degrees.empty()) call.make_room();
    MQ_TRY(options.local_error);
    MQ_TRY(check_arguments(a));
    MQ_TRY(check_host_memory({a.out_indices, a.out_values, a.in_indices, a.in_values}));
    MQ_TRY(check_degrees(options, call.comm().size()));
    MQ_TRY(read_type(a.datatype, a.op, made.entry.element, made.entry.op));
    made.entry.stride = static_cast<std::size_t>(a.stride);
    made.out_given = {a.out_indices, static_cast<std::size_t>(a.out_count)};
    made.in_given = {a.in_indices, static_cast<std::size_t>(a.in_count)};
    MQ_TRY(
        sparse::make_index_set(made.out_given, options.order, sparse::kIndexLimit, call.memory(), made.out));
    return sparse::make_index_set(made.in_given, options.order, sparse::kIndexLimit, call.memory(), made.in);
  } catch (const std::bad_alloc&) {
    return {Code::no_memory, "out of memory"};
  }
}

Signature sign(const SparseArguments& a, const SparseOptions& options, const Prepared& made,
               std::uint16_t function) {
  Signature signature;
  signature.codec = function;
  signature.element = static_cast<std::uint8_t>(made.entry.element);
  signature.key = hash_of_key(options.key.view());
  signature.params_hash =
      Hash{}.add(options.hash()).add(made.entry.op).add(static_cast<std::int64_t>(a.stride)).value();
  return signature;
}

// Reserves the tags of one set of routes, above the tags of calls in flight. All ranks count in the same way.
Status take_tags(BlockingSparse& call, int& first_tag) {
  if (call.state() == nullptr) return {};
  constexpr int kFirst = static_cast<int>(CallOrder::kWindows) * CallOrder::kTagsPerWindow;
  void* value = nullptr;
  int found = 0, most = 32767;
  if (PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found) == MPI_SUCCESS && found)
    most = *static_cast<const int*>(value);
  const int room = (most - kFirst + 1) / sparse::kKylixTags;
  const std::scoped_lock lock(call.state()->mutex);
  SparseState& state = sparse_state(*call.state());
  if (state.routes >= room)
    return {Code::bad_argument, "no more than " + std::to_string(room) +
                                    " sets of index lists can be made on one communicator of this MPI"};
  first_tag = kFirst + sparse::kKylixTags * state.routes++;
  return {};
}

sparse::KylixSettings settings_of(const SparseOptions& options, const Prepared& made, BlockingSparse& call) {
  sparse::KylixSettings settings;
  settings.degrees = options.degrees;
  settings.entry = made.entry;
  settings.replicas = options.replicas;
  settings.timeout_s = options.timeout_s;
  settings.call = call.id();
  return settings;
}

// If there are too many lists, drops the lists of the key that was not used for the longest time.
void make_room(SparseState& state) {
  SparseKey* oldest = nullptr;
  std::size_t n = 0;
  for (auto& [name, key] : state.keys) {
    if (key.lists == nullptr) continue;
    ++n;
    if (oldest == nullptr || key.used < oldest->used) oldest = &key;
  }
  if (n >= SparseState::kMostLists) oldest->lists.reset();
}

// The lists of this key, new if there are none. Throws std::bad_alloc.
std::shared_ptr<SparseLists> lists_of(BlockingSparse& call, const SparseOptions& options) {
  if (call.state() == nullptr) return std::make_shared<SparseLists>();
  SparseState& state = sparse_state(*call.state());
  const std::scoped_lock lock(call.state()->mutex);
  auto at = state.keys.find(options.key.view());
  if (at == state.keys.end()) at = state.keys.emplace(std::string(options.key.view()), SparseKey()).first;
  SparseKey& key = at->second;
  key.used = ++state.calls;
  if (key.lists == nullptr) {
    auto lists = std::make_shared<SparseLists>();
    make_room(state);
    lists->first_tag = key.first_tag;
    key.lists = std::move(lists);
  }
  return key.lists;
}

bool unchanged(const SparseLists& lists, const Prepared& made, const SparseOptions& options) {
  return lists.kylix.lists_kept && lists.entry.element == made.entry.element &&
         lists.entry.op == made.entry.op && lists.entry.stride == made.entry.stride &&
         lists.degrees == options.degrees && lists.timeout_s == options.timeout_s &&
         sparse::same_lists(lists.kylix, made.out_given, made.in_given);
}

// Whether to keep the degrees of the previous lists, because choosing takes about 1 ms. They are chosen again
// after 1, 2, 4, 8 ... configurations, and after every 64th.
bool keeps_degrees(const SparseLists& lists) {
  return lists.degrees.empty() && lists.configured % 64 != 0 && !std::has_single_bit(lists.configured);
}

Status run(const SparseArguments& a, const SparseOptions& options, BlockingSparse& call) {
  Prepared made;
  Status local_error = prepare(a, options, call, made);
  std::shared_ptr<SparseLists> lists;
  try {
    lists = lists_of(call, options);
  } catch (const std::bad_alloc&) {
    local_error = {Code::no_memory, "out of memory"};
  }
  // What this rank needs. All ranks do the maximum over the ranks.
  constexpr double kNothing = 0, kRoutes = 1, kDegrees = 2;
  Maxima numbers{.measured = {kDegrees}};
  double& need = numbers.measured[0];
  if (local_error.ok() && unchanged(*lists, made, options))
    need = kNothing;
  else if (local_error.ok() && (!options.degrees.empty() || keeps_degrees(*lists)))
    need = kRoutes;
  MQ_TRY(call.agree(sign(a, options, made, kSparseReduce), local_error, numbers));
  const Traffic before = lists->reduction.traffic();
  Status status;
  if (need == kNothing) {
    status = lists->reduction.start(call.comm(), a.out_values, a.in_values);
    if (status.ok()) status = sparse::finish(call.comm(), lists->reduction);
  } else {
    sparse::KylixSettings settings = settings_of(options, made, call);
    if (lists->first_tag == 0) {
      MQ_TRY(take_tags(call, lists->first_tag));
      if (call.state() != nullptr)
        sparse_state(*call.state()).keys.find(options.key.view())->second.first_tag = lists->first_tag;
    }
    const std::vector<int> degrees = lists->kylix.degrees;  // a copy: configuring replaces them
    if (need == kDegrees && options.degrees.empty())
      MQ_TRY(call.network(settings.network));
    else if (options.degrees.empty())
      settings.degrees = degrees;
    ++lists->configured;
    settings.first_tag = lists->first_tag;
    settings.keep_lists = call.state() != nullptr;
    lists->kylix.lists_kept = false;  // until the call succeeds
    status = sparse::configure_reduce(call.comm(), settings, made.out, made.out_given.size(), a.out_values,
                                      made.in, made.in_given.size(), a.in_values, call.memory(), lists->kylix,
                                      lists->reduction, call.traffic());
    lists->entry = made.entry;
    lists->degrees = options.degrees;
    lists->timeout_s = options.timeout_s;
  }
  if (!status.ok()) {
    lists->kylix.lists_kept = false;
    lists->configured = 0;
  }
  call.add_traffic(before, lists->reduction.traffic());
  return status;
}

}  // namespace

Status sparse_reduce(const SparseArguments& arguments, MPI_Comm comm, const SparseOptions& options) {
  BlockingSparse call;
  MQ_TRY(call.begin(comm, options.timeout_s));
  return call.end(run(arguments, options, call));
}

Status SparseRun::make(const SparseArguments& a, MPI_Comm comm, const SparseOptions& options,
                       std::unique_ptr<SparseRun>& made_run) {
  BlockingSparse call;
  MQ_TRY(call.begin(comm, options.timeout_s));
  Prepared made;
  Status local_error = prepare(a, options, call, made);
  std::unique_ptr<SparseRun> run(new (std::nothrow) SparseRun);
  if (run == nullptr) local_error = {Code::no_memory, "out of memory"};
  const auto configure = [&]() -> Status {
    Maxima none;
    MQ_TRY(call.agree(sign(a, options, made, kSparseInit), local_error, none));
    run->out_values_ = a.out_values;
    run->in_values_ = a.in_values;
    run->comm_ = call.state() != nullptr ? call.state()->channel.comm() : MpiComm(comm, Waiting::spins);
    sparse::KylixSettings settings = settings_of(options, made, call);
    MQ_TRY(take_tags(call, settings.first_tag));
    if (options.degrees.empty()) MQ_TRY(call.network(settings.network));
    constexpr sparse::KylixReduction<ProgressComm>* kNoReduction = nullptr;
    MQ_TRY(sparse::configure(call.comm(), settings, made.out, made.out_given.size(), made.in,
                             made.in_given.size(), call.memory(), run->kylix_, kNoReduction, call.traffic()));
    // Prepared here, because runs use MpiComm and this call uses another class of messages.
    const Status prepared = run->reduction_.prepare(run->kylix_, made.entry, options.timeout_s);
    double failed = prepared.ok() ? 0 : 1;
    const Deadline deadline(options.timeout_s);
    Exchange exchange(call.comm(), deadline, call.traffic());
    MQ_TRY(max_over_ranks(exchange, call.first_tag(), std::span(&failed, 1),
                          call.memory().take<std::byte>(2 * sizeof failed)));
    MQ_TRY(prepared);
    return failed > 0 ? Status{Code::peer_failed, "another rank has no memory for its part"} : Status{};
  };
  MQ_TRY(call.end(configure()));
  if (call.state() != nullptr) run->state_ = call.state()->shared_from_this();
  made_run = std::move(run);
  return {};
}

SparseRun::~SparseRun() {
  if (state_ == nullptr) return;
  const std::scoped_lock lock(state_->mutex);
  // Receives what replicas send late.
  constexpr double kPatience_s = 1;
  const Deadline deadline(kPatience_s);
  while (state_->broken.ok() && !reduction_.quiet() && !deadline.over())
    if (!reduction_.receive_late(*comm_).ok()) break;
  if (!reduction_.quiet()) state_->keep();
}

Status sparse_allreduce_init(const SparseArguments& arguments, MPI_Comm comm, SparseOptions options,
                             MPIQ_Request* request) {
  if (request == nullptr) return {Code::bad_argument, "MPIQ_Sparse_allreduce_init: request is NULL"};
  *request = MPIQ_REQUEST_NULL;
  OwnedRequest made = allocate_request(comm);
  if (made == nullptr) options.local_error = {Code::no_memory, "out of memory"};  // reported to all ranks
  std::unique_ptr<SparseRun> run;
  MQ_TRY(SparseRun::make(arguments, comm, options, run));
  set_call(*made, std::move(run));
  *request = made.release();
  return {};
}

// Ignores the local error: a start has no agreement that could report it to the other ranks.
void SparseRun::start(Status) noexcept {
  done_ = false;
  share_.begin();
  status_ = {};
  if (state_ != nullptr && !state_->broken.ok()) return finish(state_->broken);
  if (Status status = reduction_.start(*comm_, out_values_, in_values_); !status.ok())
    return finish(std::move(status));
  (void)advance();
}

bool SparseRun::advance() noexcept {
  if (done_) return false;
  bool moved = false;
  Status status = reduction_.advance(*comm_, moved);
  if (!status.ok()) {  // the communication failed
    if (state_ != nullptr) state_->set_broken(status);
    finish(std::move(status));
  } else if (reduction_.done()) {
    finish(reduction_.failure());
  }
  return moved || done_;
}

void SparseRun::finish(Status status) noexcept {
  status_ = std::move(status);
  done_ = true;
  (void)share_.end();
  if (state_ == nullptr) return;
  const Traffic now = reduction_.traffic();
  MPIQ_Stats& stats = state_->stats;
  ++stats.sparse_calls;
  stats.failed_calls += !status_.ok();
  stats.wire_bytes_sent += now.sent_bytes - booked_.sent_bytes;
  stats.wire_bytes_received += now.received_bytes - booked_.received_bytes;
  stats.messages_sent += now.messages_sent - booked_.messages_sent;
  booked_ = now;
}

}  // namespace mq
