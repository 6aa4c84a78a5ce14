#include "mpi_quant/core/requests.hpp"

#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "mpi_quant/core/comm_state.hpp"
#include "mpi_quant/base/device_copy.hpp"
#include "mpi_quant/core/operation.hpp"
#include "mpi_quant/sparse/reduce.hpp"
#include "mpi_quant/core/task.hpp"
#include "mpi_quant/core/turn.hpp"

// A call that goes through the library has a state, an operation or a sparse reduction, and the task of it.
// One that is MPI's alone (a single rank, an intercommunicator) has `reduction`; a sparse one of a single
// rank is done when it is started.
struct MPIQ_Request_object {
  MPIQ_Request_object(const mq::Call& c, const mq::Wishes& w, const mq::Choice& choice, bool again)
      : call(c), wishes(w), method(choice.method), persistent(again), state(choice.state) {}
  explicit MPIQ_Request_object(MPI_Comm comm)
      : call{nullptr, nullptr, 0, MPI_DATATYPE_NULL, MPI_OP_NULL, comm}, persistent(true) {}
  void take(std::unique_ptr<mq::SparseRun> run) noexcept {
    state = run->shared_state();
    sparse = std::move(run);
    if (state != nullptr) task.emplace(*sparse);
  }

  const mq::Listing listing;
  const mq::Call call;
  const mq::Wishes wishes;
  const mq::Method method;
  const bool persistent;
  bool input_on_device = false, output_on_device = false;  // of a persistent one, when it was made
  bool active = false;
  std::shared_ptr<mq::CommState> state;
  std::unique_ptr<mq::Operation> operation;
  std::unique_ptr<mq::SparseRun> sparse;
  std::optional<mq::Task> task;
  MPI_Request reduction = MPI_REQUEST_NULL;
};

namespace mq {
namespace {

Status no_memory() { return {Code::no_memory, "out of memory"}; }

// The communicator for errors: the user's, unless it is gone.
MPI_Comm comm_of(const MPIQ_Request_object& r) {
  return r.state != nullptr && r.state->orphan ? MPI_COMM_SELF : r.call.comm;
}

// Fills a request that is not active yet; without an operation where the reduction is MPI's alone. The memory
// that is missing here becomes the call's trouble, on the operation that blocking calls use, for nobody may
// stay away from an agreement.
Status make(const Call& call, const Wishes& wishes, bool persistent,
            std::unique_ptr<MPIQ_Request_object>& made) {
  Result<Choice> choice = choose_requested(call, wishes);
  if (!choice.ok()) return choice.status();
  if (choice->state == nullptr) MQ_TRY(wishes.trouble);
  if (choice->state != nullptr) {
    std::optional<Turn> turn;  // where the private communicator has to be another one from now on
    if (!choice->state->has(Use::all)) turn.emplace(*choice->state);
    const std::scoped_lock lock(choice->state->mutex);
    MQ_TRY(choice->state->broken);
    const Result<bool> active = choice->state->activate(call.comm, Use::all);
    MQ_TRY(active.status());
    if (!*active) return no_communicator();
  }
  try {
    made = std::make_unique<MPIQ_Request_object>(call, wishes, *choice, persistent);
    if (choice->state == nullptr) return {};
    made->operation = std::make_unique<Operation>(*choice->state, Operation::Exact::here);
    made->task.emplace(*made->operation);
  } catch (const std::bad_alloc&) {
    if (choice->state == nullptr) return no_memory();
    Wishes refused;
    refused.trouble = no_memory();
    return operate(*choice->state, call, refused, choice->method).status;
  }
  return {};
}

// Whether p is memory of a device, as far as anybody can tell.
bool finds_device(const void* p) noexcept {
  const Result<bool> there = is_on_device(p);
  return there.ok() && *there;
}

void note_devices(MPIQ_Request_object& r) noexcept {
  if (r.call.count <= 0) return;
  r.input_on_device = r.call.sendbuf != MPI_IN_PLACE && finds_device(r.call.sendbuf);
  r.output_on_device = finds_device(r.call.recvbuf);
}

// Device memory that is freed, or gone with a reset, is an address like any other to the driver: taken for
// host memory it would end the program.
Status memory_there(const MPIQ_Request_object& r) noexcept {
  const auto check = [](const char* name, const void* p, bool was_there) -> Status {
    if (!was_there) return {};
    const Result<bool> there = is_on_device(p);
    if (!there.ok() || *there) return there.status();
    return status_of(Code::device_failed, [&] {
      return std::string("MPIQ_Start: ") + name + " is no memory of a GPU any more (freed, or a GPU reset?)";
    });
  };
  MQ_TRY(check("sendbuf", r.call.sendbuf, r.input_on_device));
  return check("recvbuf", r.call.recvbuf, r.output_on_device);
}

// Starts the reduction of a request without a state.
Status start_alone(MPIQ_Request_object& r) {
  if (r.sparse != nullptr) {
    r.sparse->start();
    return {};
  }
  const Result<bool> copied = copies_alone(r.call);
  if (!copied.ok() || *copied) return copied.status();
  return start_exact(r.call, r.call.comm, r.reduction);
}

Status start_now(MPIQ_Request_object& r) {
  Status lost = memory_there(r);
  if (!r.task) {
    MQ_TRY(lost);
    MQ_TRY(start_alone(r));
    r.active = true;
    return {};
  }
  {
    const std::scoped_lock lock(r.state->mutex);
    if (r.sparse != nullptr) {
      r.sparse->start();
    } else {
      ++r.state->stats.calls;
      Wishes refused;
      refused.trouble = r.state->has_turn ? Turn::crowded() : std::move(lost);
      r.operation->prepare(r.call, refused.trouble.ok() ? r.wishes : refused, r.method);
      r.operation->start();
    }
  }
  list(*r.task);
  r.active = true;
  return {};
}

// Takes a finished call out of its request, which goes away if it is not persistent.
Status collect(MPIQ_Request* request) {
  MPIQ_Request_object* const r = *request;
  Status status;
  bool broken = false;
  r->active = false;
  if (r->task) {
    unlist(r->task->call());
    const std::scoped_lock lock(r->state->mutex);
    if (r->operation != nullptr) {
      r->operation->release();
      status = r->operation->outcome().status;
    }
    broken = !r->state->broken.ok();
  }
  if (r->sparse != nullptr) status = r->sparse->status();
  if (r->persistent) return status;
  *request = MPIQ_REQUEST_NULL;
  if (!broken) delete r;  // else messages may still be on their way into its buffers
  return status;
}

// The ranks compare what they are going to start, and every allocation is made.
Status rehearse(std::unique_ptr<MPIQ_Request_object>& r) {
  const Turn turn(*r->state);
  Wishes refused;
  refused.trouble = turn.trouble();
  {
    const std::scoped_lock lock(r->state->mutex);
    r->operation->prepare(r->call, refused.trouble.ok() ? r->wishes : refused, r->method, true);
    r->operation->start();
  }
  complete(*r->task);
  const std::scoped_lock lock(r->state->mutex);
  r->operation->release();
  if (r->state->broken.ok()) return r->operation->outcome().status;
  return r.release()->state->broken;  // not freed: messages may still be on their way into its buffers
}

// Done, for requests without a task.
Status test_alone(MPIQ_Request_object& r, bool& done) {
  int flag = 1;
  const int code =
      r.reduction == MPI_REQUEST_NULL ? MPI_SUCCESS : PMPI_Test(&r.reduction, &flag, MPI_STATUS_IGNORE);
  done = flag != 0 || code != MPI_SUCCESS;
  return mpi_status(code, "MPI_Test");
}

bool is_inactive(const MPIQ_Request* request) { return *request == MPIQ_REQUEST_NULL || !(*request)->active; }

Status null_pointer(const char* function) {
  return {Code::bad_argument, std::string(function) + ": request is NULL"};
}

}  // namespace

Status iallreduce(const Call& call, const Wishes& wishes, MPIQ_Request* request) {
  if (request == nullptr) return null_pointer("MPIQ_Iallreduce");
  *request = MPIQ_REQUEST_NULL;
  std::unique_ptr<MPIQ_Request_object> made;
  MQ_TRY(make(call, wishes, false, made));
  MQ_TRY(start_now(*made));
  *request = made.release();
  return {};
}

Status allreduce_init(const Call& call, const Wishes& wishes, MPIQ_Request* request) {
  if (request == nullptr) return null_pointer("MPIQ_Allreduce_init");
  *request = MPIQ_REQUEST_NULL;
  std::unique_ptr<MPIQ_Request_object> made;
  MQ_TRY(make(call, wishes, true, made));
  if (made->operation != nullptr)
    if (const Status status = rehearse(made); !status.ok()) return status;
  note_devices(*made);
  *request = made.release();
  return {};
}

Status sparse_allreduce_init(const SparseArguments& arguments, MPI_Comm comm, SparseWishes wishes,
                             MPIQ_Request* request) {
  if (request == nullptr) return null_pointer("MPIQ_Sparse_allreduce_init");
  *request = MPIQ_REQUEST_NULL;
  std::unique_ptr<MPIQ_Request_object> made;
  try {
    made = std::make_unique<MPIQ_Request_object>(comm);
  } catch (const std::bad_alloc&) {
    wishes.trouble = no_memory();  // to all ranks
  }
  std::unique_ptr<SparseRun> run;
  MQ_TRY(SparseRun::make(arguments, comm, wishes, run));
  made->take(std::move(run));
  *request = made.release();
  return {};
}

Status start(MPIQ_Request* request, MPI_Comm& comm) {
  if (request == nullptr || *request == MPIQ_REQUEST_NULL) return null_pointer("MPIQ_Start");
  comm = comm_of(**request);
  if (!(*request)->persistent) return {Code::bad_argument, "MPIQ_Start: the request is not persistent"};
  if ((*request)->active) return {Code::bad_argument, "MPIQ_Start: the request is active already"};
  return start_now(**request);
}

Status test(MPIQ_Request* request, int* flag, MPI_Comm& comm) {
  if (request == nullptr) return null_pointer("MPIQ_Test");
  if (flag == nullptr) return {Code::bad_argument, "MPIQ_Test: flag is NULL"};
  *flag = 1;
  (void)advance_requests();
  if (is_inactive(request)) return {};
  comm = comm_of(**request);
  bool done = false;
  if (!(*request)->task) {
    MQ_TRY(test_alone(**request, done));
  } else {
    const std::scoped_lock lock((*request)->state->mutex);
    done = (*request)->task->done();
  }
  *flag = done ? 1 : 0;
  return done ? collect(request) : Status{};
}

Status wait(MPIQ_Request* request, MPI_Comm& comm) {
  if (request == nullptr) return null_pointer("MPIQ_Wait");
  if (is_inactive(request)) return {};
  comm = comm_of(**request);
  if ((*request)->task) {
    complete(*(*request)->task);
    return collect(request);
  }
  for (bool done = false; !done; (void)advance_requests()) MQ_TRY(test_alone(**request, done));
  return collect(request);
}

Status request_free(MPIQ_Request* request, MPI_Comm& comm) {
  if (request == nullptr || *request == MPIQ_REQUEST_NULL) return null_pointer("MPIQ_Request_free");
  comm = comm_of(**request);
  if ((*request)->active)
    return {Code::bad_argument, "MPIQ_Request_free: the request is active; complete it with MPIQ_Wait first"};
  bool broken = false;
  if ((*request)->state != nullptr) {
    const std::scoped_lock lock((*request)->state->mutex);
    broken = !(*request)->state->broken.ok();
  }
  if (!broken) delete *request;  // else messages may still be on their way into its buffers
  *request = MPIQ_REQUEST_NULL;
  return {};
}

}  // namespace mq
