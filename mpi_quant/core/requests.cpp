#include "mpi_quant/core/requests.hpp"

#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/core/allreduce.hpp"
#include "mpi_quant/core/blocking_calls.hpp"
#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/errors.hpp"
#include "mpi_quant/core/mean.hpp"
#include "mpi_quant/core/scheme_run.hpp"
#include "mpi_quant/core/shared_time.hpp"
#include "mpi_quant/core/spare_runs.hpp"
#include "mpi_quant/core/turn.hpp"

// A call that goes through the library has a state, and a `run` to start. A call that MPI makes alone (on a
// single rank, or on an intercommunicator) has `of_mpi`. A call of another part of the library on a single
// rank is over when it is started.
struct MPIQ_Request_object {
  MPIQ_Request_object(const mq::Request& r, const mq::Decided& decided, bool again)
      : request(r), decision(decided.decision), persistent(again), state(decided.state) {}
  explicit MPIQ_Request_object(MPI_Comm comm)
      : request{.call = {nullptr, nullptr, 0, MPI_DATATYPE_NULL, MPI_OP_NULL, comm}}, persistent(true) {}
  mq::InFlight* in_flight() const { return run != nullptr ? run->in_flight() : nullptr; }

  const mq::InFlightSlot slot;
  const mq::Request request;
  const mq::Decision decision;
  const bool persistent;
  bool input_on_device = false, output_on_device = false;  // for a persistent call, when it was made
  bool active = false;
  std::shared_ptr<mq::CommState> state;
  std::unique_ptr<mq::Startable> run;
  MPI_Request of_mpi = MPI_REQUEST_NULL;
  mq::Share share;  // of `of_mpi`
  std::shared_ptr<const mq::KeptHandler>
      kept;  // of a communicator of one rank: nobody knows when it is freed
};

namespace mq {
namespace {

std::size_t bytes_of(const Call& call) {
  const std::optional<kernels::Element> element = element_of(call.datatype);
  return element && call.count > 0 ? static_cast<std::size_t>(call.count) * kernels::element_bytes(*element)
                                   : 0;
}

// The collective of a request. The request outlives it.
class CollectiveRun final : public Startable {
 public:
  // The state's mutex must be held.
  explicit CollectiveRun(const MPIQ_Request_object& request)
      : request_(request),
        bytes_(bytes_of(request.request.call)),
        owned_(request.persistent ? std::make_unique<Runs>(*request.state, RunningCall::Exact::here)
                                  : spare_runs(*request.state).take(*request.state, bytes_)),
        run_(owned_->of(request.decision)) {}
  ~CollectiveRun() override {
    const std::scoped_lock lock(request_.state->mutex);
    if (request_.persistent)
      owned_.reset();  // the program says when its memory goes
    else
      spare_runs(*request_.state).give_back(std::move(owned_), bytes_);
  }
  InFlight* in_flight() override { return &run_; }
  void start(Status local_error) noexcept override {
    ++request_.state->stats.calls;
    begin(std::move(local_error), false);
  }
  // The ranks compare what they are going to start, and all memory is allocated.
  void rehearse(Status local_error) noexcept { begin(std::move(local_error), true); }
  Status result() noexcept override {
    run_.release();
    return run_.outcome().status;
  }

 private:
  void begin(Status local_error, bool rehearsal) noexcept {
    const Request& request = request_.request;
    if (local_error.ok())
      run_.prepare(request, request_.decision, request.options.local_error, rehearsal);
    else
      run_.prepare(request, request_.decision.without_key(), std::move(local_error), rehearsal);
    run_.start();
  }

  const MPIQ_Request_object& request_;
  const std::size_t bytes_;
  std::unique_ptr<Runs> owned_;
  CallRun& run_;
};

Status no_memory() { return {Code::no_memory, "out of memory"}; }

Handler handler_of(const MPIQ_Request_object& r) {
  if (r.state == nullptr && r.kept != nullptr) return {MPI_COMM_SELF, r.kept};
  if (r.state == nullptr || !r.state->orphan) return {r.request.call.comm, nullptr};
  return {MPI_COMM_SELF, r.state->orphan_handler};
}

// Makes a request that is not active yet. It has no run if MPI alone makes the call. Every rank has to come
// to the agreement. So if there is no memory, that becomes the local error of a blocking call, which tells
// the others.
Status make(const Request& request, bool persistent, OwnedRequest& made) {
  Result<Decided> decided = decide_requested(request);
  if (!decided.ok()) return decided.status();
  CommState* const state = decided->state.get();
  if (state == nullptr) {
    MQ_TRY(request.options.local_error);
    // MPI_Iallgather of Open MPI 4.1 would read it.
    if (request.call.comm == MPI_COMM_NULL) return {Code::bad_argument, "comm is MPI_COMM_NULL"};
  } else {
    std::optional<Turn> turn;  // needed if the private communicator has to be replaced now
    if (!state->channel.serves(Use::all)) turn.emplace(*state);
    const std::scoped_lock lock(state->mutex);
    MQ_TRY(state->broken);
    const Result<bool> active = activate(*state, request.call.comm, Use::all);
    MQ_TRY(active.status());
    if (!*active) return no_communicator();
  }
  try {
    made.reset(new MPIQ_Request_object(request, *decided, persistent));
    if (state == nullptr) {
      if (decided->decision.reason == Reason::alone) made->kept = keep_handler(request.call.comm);
      return {};
    }
    const std::scoped_lock lock(state->mutex);
    made->run = std::make_unique<CollectiveRun>(*made);
  } catch (const std::bad_alloc&) {
    if (state == nullptr) return no_memory();
    return agree_and_run(*state, request, {}, no_memory()).status;
  }
  return {};
}

// True if p is memory of a device, as far as the driver can tell.
bool finds_device(const void* p) noexcept {
  const Result<bool> there = is_on_device(p);
  return there.ok() && *there;
}

// Of a call with parts, a rank may have nothing in one of the buffers.
void note_devices(MPIQ_Request_object& r) noexcept {
  const Call& call = r.request.call;
  const bool is_in_place = call.sendbuf == MPI_IN_PLACE, has_input = call.input_range().n > 0;
  r.input_on_device = has_input && !is_in_place && finds_device(call.sendbuf);
  r.output_on_device =
      (call.output_range().n > 0 || (has_input && is_in_place)) && finds_device(call.recvbuf);
}

// Checks that vectors that were in device memory are still there. Device memory that was freed, or is gone
// with a reset, is an unknown address to the driver. The library would take it for host memory and crash the
// program.
Status memory_there(const MPIQ_Request_object& r) noexcept {
  const auto check = [](const char* name, const void* p, bool was_there) -> Status {
    if (!was_there) return {};
    const Result<bool> there = is_on_device(p);
    if (!there.ok() || *there) return there.status();
    return status_of(Code::device_failed, [&] {
      return std::string("MPIQ_Start: ") + name + " is no longer memory of a GPU (freed, or GPU reset?)";
    });
  };
  MQ_TRY(check("sendbuf", r.request.call.sendbuf, r.input_on_device));
  return check("recvbuf", r.request.call.recvbuf, r.output_on_device);
}

// Several vectors have no state if there is one rank, which waits for nobody, or if the communicator is none.
Status sum_alone(const Call& call) {
  int size = 0;
  MQ_TRY(mpi_status(PMPI_Comm_size(call.comm, &size), "MPI_Comm_size"));
  for (std::size_t i = 0; i < call.group->vectors.size(); ++i) {
    const Call one = call_of(call, i);
    if (one.count > 0) MQ_TRY(mpi_status(exact_call(one, element_of(one.datatype)), "MPI_Allreduce"));
  }
  return {};
}

// Starts the call of a request without a state.
Status start_alone(MPIQ_Request_object& r) {
  if (r.run != nullptr) {
    r.run->start({});
    return {};
  }
  Call call = r.request.call;
  if (r.decision.reason == Reason::alone) call.comm = MPI_COMM_SELF;  // the program may have freed its own
  if (call.group != nullptr) return sum_alone(call);
  const Result<bool> copied = copies_alone(call);
  if (!copied.ok() || *copied) return copied.status();
  r.share.begin();
  Status started = start_exact(call, call.comm, r.of_mpi);
  if (!started.ok()) (void)r.share.end();
  return started;
}

Status start_now(MPIQ_Request_object& r) {
  const InLibrary in_library;
  Status lost = memory_there(r);
  InFlight* const call = r.in_flight();
  if (call == nullptr) {
    MQ_TRY(lost);
    MQ_TRY(start_alone(r));
    r.active = true;
    return {};
  }
  {
    const std::scoped_lock lock(r.state->mutex);
    r.run->start(r.state->turns.taken ? Turn::crowded() : std::move(lost));
  }
  list(*call);
  r.active = true;
  return {};
}

// Takes the result of a finished call. The request is deleted if it is not persistent. tested: of
// test_alone().
Status collect(MPIQ_Request* request, Status tested = {}) {
  MPIQ_Request_object* const r = *request;
  Status status = std::move(tested);
  bool broken = false;
  r->active = false;
  (void)r->share.end();
  if (const InFlight* const call = r->in_flight()) {
    unlist(*call);
    const std::scoped_lock lock(r->state->mutex);
    status = r->run->result();
    broken = !r->state->broken.ok();
  } else if (r->run != nullptr) {
    status = r->run->result();
  } else if (status.ok()) {
    status = divide_result(r->request.call);
  }
  if (r->persistent) return status;
  *request = MPIQ_REQUEST_NULL;
  if (!broken) delete r;  // if broken, messages may still arrive in its buffers
  return status;
}

// The first agreement of a persistent call.
Status rehearse(OwnedRequest& r) {
  const Turn turn(*r->state);
  auto& run = static_cast<CollectiveRun&>(*r->run);
  {
    const std::scoped_lock lock(r->state->mutex);
    run.rehearse(turn.local_error());
  }
  complete(*run.in_flight());
  const std::scoped_lock lock(r->state->mutex);
  Status status = run.result();
  if (r->state->broken.ok()) return status;
  return r.release()->state->broken;  // not freed, because messages may still arrive in its buffers
}

// Tests a request without a call in flight. done: it is over, with this status. After an error of MPI nothing
// more can be asked about it.
Status test_alone(MPIQ_Request_object& r, bool& done) {
  int flag = 1;
  const int code =
      r.of_mpi == MPI_REQUEST_NULL ? MPI_SUCCESS : PMPI_Test(&r.of_mpi, &flag, MPI_STATUS_IGNORE);
  done = flag != 0 || code != MPI_SUCCESS;
  return mpi_status(code, "MPI_Test");
}

bool is_inactive(const MPIQ_Request* request) { return *request == MPIQ_REQUEST_NULL || !(*request)->active; }

Status null_pointer(const char* function) {
  return {Code::bad_argument, std::string(function) + ": request is NULL"};
}

Request refused(const Request& wanted, const char* function) {
  Request request = wanted;
  request.options.local_error = null_pointer(function);
  return request;
}

}  // namespace

int raise(const Handler& handler, const Status& status) {
  return handler.kept == nullptr ? raise(handler.comm, status) : handler.kept->raise(status);
}

Status start_once(const Request& wanted, const char* function, MPIQ_Request* request) {
  if (request == nullptr) {  // the other ranks wait for this one: it goes their way, with an error
    MPIQ_Request own = MPIQ_REQUEST_NULL;
    Handler handler;
    MQ_TRY(start_once(refused(wanted, function), function, &own));
    return wait(&own, handler);
  }
  *request = MPIQ_REQUEST_NULL;
  OwnedRequest made;
  MQ_TRY(make(wanted, false, made));
  MQ_TRY(start_now(*made));
  *request = made.release();
  return {};
}

Status make_persistent(const Request& wanted, const char* function, MPIQ_Request* request) {
  if (request == nullptr) {
    MPIQ_Request own = MPIQ_REQUEST_NULL;
    return make_persistent(refused(wanted, function), function, &own);
  }
  *request = MPIQ_REQUEST_NULL;
  OwnedRequest made;
  MQ_TRY(make(wanted, true, made));
  if (made->run != nullptr) MQ_TRY(rehearse(made));
  note_devices(*made);
  *request = made.release();
  return {};
}

void DeleteRequest::operator()(MPIQ_Request request) const noexcept { delete request; }

OwnedRequest allocate_request(MPI_Comm comm) noexcept {
  try {
    return OwnedRequest(new MPIQ_Request_object(comm));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void set_call(MPIQ_Request_object& request, std::unique_ptr<Startable> call) noexcept {
  request.run = std::move(call);
  if (InFlight* const started = request.run->in_flight())
    request.state = started->state().shared_from_this();
  else
    request.kept = keep_handler(request.request.call.comm);
}

Status start(MPIQ_Request* request, Handler& handler) {
  if (request == nullptr || *request == MPIQ_REQUEST_NULL) return null_pointer("MPIQ_Start");
  handler = handler_of(**request);
  if (!(*request)->persistent) return {Code::bad_argument, "MPIQ_Start: the request is not persistent"};
  if ((*request)->active) return {Code::bad_argument, "MPIQ_Start: the request is active already"};
  return start_now(**request);
}

Status test(MPIQ_Request* request, int* flag, Handler& handler) {
  if (request == nullptr) return null_pointer("MPIQ_Test");
  if (flag == nullptr) return {Code::bad_argument, "MPIQ_Test: flag is NULL"};
  *flag = 1;
  const InLibrary in_library;  // also while it advances other calls
  (void)advance_requests();
  if (is_inactive(request)) return {};
  handler = handler_of(**request);
  bool done = false;
  Status tested;
  if (const InFlight* const call = (*request)->in_flight()) {
    const std::scoped_lock lock((*request)->state->mutex);
    done = call->done();
  } else {
    tested = test_alone(**request, done);
  }
  *flag = done ? 1 : 0;
  return done ? collect(request, std::move(tested)) : Status{};
}

Status wait(MPIQ_Request* request, Handler& handler) {
  if (request == nullptr) return null_pointer("MPIQ_Wait");
  if (is_inactive(request)) return {};
  handler = handler_of(**request);
  const InLibrary in_library;
  if (InFlight* const call = (*request)->in_flight()) {
    complete(*call);
    return collect(request);
  }
  Status tested;
  for (bool done = false; !done; (void)advance_requests()) tested = test_alone(**request, done);
  return collect(request, std::move(tested));
}

Status request_free(MPIQ_Request* request, Handler& handler) {
  if (request == nullptr || *request == MPIQ_REQUEST_NULL) return null_pointer("MPIQ_Request_free");
  handler = handler_of(**request);
  if ((*request)->active)
    return {Code::bad_argument, "MPIQ_Request_free: the request is active; complete it with MPIQ_Wait first"};
  bool broken = false;
  if ((*request)->state != nullptr) {
    const std::scoped_lock lock((*request)->state->mutex);
    broken = !(*request)->state->broken.ok();
  }
  if (!broken) delete *request;  // if broken, messages may still arrive in its buffers
  *request = MPIQ_REQUEST_NULL;
  return {};
}

}  // namespace mq
