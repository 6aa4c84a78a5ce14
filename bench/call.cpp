#include "bench/call.hpp"

#include <dlfcn.h>

#include <array>
#include <new>

#include "bench/check.hpp"
#include "bench/mpi_algorithm.hpp"

namespace mq::bench {
namespace {

constexpr const char* kKey = "mpiq-bench";  // the same key for all: each communicator has one vector

}  // namespace

MPI_Datatype mpi_type(kernels::Element element) {
  MPI_Datatype half = MPI_DATATYPE_NULL;
  switch (element) {
    case kernels::Element::f32: return MPI_FLOAT;
    case kernels::Element::f64: return MPI_DOUBLE;
    case kernels::Element::f16: (void)MPIQ_Type_float16(&half); break;
    case kernels::Element::bf16: (void)MPIQ_Type_bfloat16(&half); break;
  }
  return half;
}

bool mpi_takes_gpu_memory() {
  constexpr int kCuda = 0;  // MPIX_GPU_SUPPORT_CUDA of MPICH
  int says = 0;
  if (void* of_mpich = dlsym(RTLD_DEFAULT, "MPIX_GPU_query_support"); of_mpich != nullptr)
    return reinterpret_cast<int (*)(int, int*)>(of_mpich)(kCuda, &says) == MPI_SUCCESS && says != 0;
  if (void* of_openmpi = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"); of_openmpi != nullptr)
    return reinterpret_cast<int (*)()>(of_openmpi)() == 1;
  return false;
}

namespace {

bool is_lossless(const Method& method) {
  if (method.chooses()) return method.automatic == Automatic{Automatic::Kind::relative, 0};
  return method.exact() || (method.codec->lossless && method.memory_rule().ops == nullptr);
}

bool keeps_residual(const Method& method) {
  if (method.chooses()) return method.automatic.kind == Automatic::Kind::feedback;
  return !method.exact() && method.memory_rule().arrays > 0;
}

}  // namespace

Call::Call(const MethodWord& method, kernels::Element element, MPI_Count count, bool feedback, MPI_Comm comm,
           std::shared_ptr<const Gpu> gpu, mq::Collective collective, Form form, int window)
    : exact_(is_lossless(method.method)),
      compresses_(!method.method.exact()),
      carries_(compresses_ && feedback && keeps_residual(method.method) &&
               (!exact_ || kernels::compute_element(element) != element)),
      chooses_(method.method.chooses()),
      dense_(method.dense),
      element_bytes_(kernels::element_bytes(element)),
      gpu_(std::move(gpu)),
      pinned_(compresses_ || dense_ != Dense::host ? nullptr : gpu_, GpuMemory::Kind::pinned,
              static_cast<std::size_t>(count) * element_bytes_),
      infos_(static_cast<std::size_t>(window), MPI_INFO_NULL),
      form_(form),
      mpi_requests_(infos_.size(), MPI_REQUEST_NULL),
      requests_(infos_.size(), MPIQ_REQUEST_NULL) {
  const MpiAlgorithm chosen(method.algorithm);
  PMPI_Comm_dup(comm, &comm_);
  PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  collective_.emplace(collective, count, mpi_type(element), comm_);
  if (dense_ == Dense::direct && !all_agree(mpi_takes_gpu_memory(), comm_))
    unavailable_ = "this MPI library does not say that it takes addresses on a GPU";
  if (dense_ == Dense::nccl) {
    auto made = Nccl::make(element, count, gpu_ ? gpu_->info().gpu_uuid.str() : "", comm_);
    if (made.ok())
      nccl_ = std::move(*made);
    else
      unavailable_ = made.status().text();
  }
  if (form == Form::persistent && !compresses_ && !kHasPersistentCalls)
    unavailable_ = "this MPI library has no persistent collectives: they are of MPI 4";
  for (std::size_t i = 0; i < infos_.size() && compresses_; ++i) {
    PMPI_Info_create(&infos_[i]);
    PMPI_Info_set(infos_[i], "mpiq_method", mq::to_string(method.method).c_str());
    const std::string key = i == 0 ? kKey : kKey + ("-" + std::to_string(i));
    if (feedback) PMPI_Info_set(infos_[i], "mpiq_key", key.c_str());
  }
}

Call::~Call() {
  nccl_.reset();
  for (MPIQ_Request& request : requests_)
    if (request != MPIQ_REQUEST_NULL) (void)MPIQ_Request_free(&request);
  for (MPI_Request& request : mpi_requests_)
    if (request != MPI_REQUEST_NULL) PMPI_Request_free(&request);
  for (MPI_Info& info : infos_)
    if (info != MPI_INFO_NULL) PMPI_Info_free(&info);
  PMPI_Comm_free(&comm_);
}

int Call::operator()(const void* send, void* receive) const {
  if (compresses_) return collective_->ours(send, receive, infos_.front());
  if (nccl_) return (*nccl_)(send == MPI_IN_PLACE ? receive : send, receive) ? MPI_SUCCESS : MPI_ERR_OTHER;
  if (gpu_ && dense_ == Dense::host) return staged(send, receive);
  return collective_->mpi(send, receive);
}

int Call::start(const void* send, void* receive, std::size_t i) {
  MPIQ_Request& ours = requests_[i];
  MPI_Request& mpi = mpi_requests_[i];
  const bool is_prepared = compresses_ ? ours != MPIQ_REQUEST_NULL : mpi != MPI_REQUEST_NULL;
  if (!is_prepared) {
    const int error = compresses_ ? collective_->ours(send, receive, infos_[i], form_, &ours)
                                  : collective_->mpi(send, receive, form_, &mpi);
    if (error != MPI_SUCCESS || form_ != Form::persistent) return error;
  }
  return compresses_ ? MPIQ_Start(&ours) : MPI_Start(&mpi);
}

int Call::test(bool& over, std::size_t i) {
  int flag = 0;
  const int error =
      compresses_ ? MPIQ_Test(&requests_[i], &flag) : MPI_Test(&mpi_requests_[i], &flag, MPI_STATUS_IGNORE);
  over = flag != 0;
  return error;
}

int Call::wait(std::size_t i) {
  return compresses_ ? MPIQ_Wait(&requests_[i]) : MPI_Wait(&mpi_requests_[i], MPI_STATUS_IGNORE);
}

// Copies to pinned memory, makes the call there in place with MPI, and copies back. Nothing is cheaper if MPI
// does not know GPU memory.
int Call::staged(const void* send, void* receive) const try {
  const Part &input = collective_->input(), &output = collective_->output();
  const std::size_t at = input.begin * element_bytes_;
  if (send == MPI_IN_PLACE) send = static_cast<const std::byte*>(receive) + at;
  gpu_->to_host(pinned_.data() + at, send, input.count * element_bytes_);
  const int error = collective_->mpi(MPI_IN_PLACE, pinned_.data());
  if (error != MPI_SUCCESS) return error;
  gpu_->to_device(receive, pinned_.data(), output.count * element_bytes_);
  return MPI_SUCCESS;
} catch (const std::exception&) {
  return MPI_ERR_OTHER;
}

MPIQ_Stats Call::stats() const {
  MPIQ_Stats stats = MPIQ_STATS_INIT;
  if (compresses_) (void)MPIQ_Comm_get_stats(comm_, &stats);
  return stats;
}

std::string error_text(int mpi_error) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  PMPI_Error_string(mpi_error, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace mq::bench
