#include "mpi_quant/core/parted_call.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "mpi_quant/core/datatypes.hpp"
#include "mpi_quant/core/request.hpp"
#include "mpi_quant/engine/frame.hpp"

namespace mq {
namespace {

constexpr MPI_Count kMostElements = MPI_Count{1} << 58;

// From here on the call counts reals.
void take_type(Call& call, bool is_intra, PartedCall& parted) {
  const bool may_be_derived = !adds(call.collective) || (is_intra && !parted.from_program);
  parted.each = count_in_reals(call, may_be_derived ? Types::derived : Types::predefined);
}

// Adds up the counts of all ranks.
Status add_up(const PartCounts& counts, int ranks, PartedCall& parted) {
  const auto each = static_cast<MPI_Count>(parted.each);
  MPI_Count total = 0;
  Hash hash;
  parted.ends.reserve(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    const MPI_Count n = counts.of(r);
    if (n < 0)
      return {Code::bad_argument,
              "recvcount " + std::to_string(n) + " of rank " + std::to_string(r) + " is negative"};
    if (n > (kMostElements - total) / each)
      return {Code::bad_argument, "the parts have more than 2^58 elements together"};
    total += n * each;
    hash.add(static_cast<std::int64_t>(n * each));
    parted.ends.push_back(static_cast<std::size_t>(total));
  }
  parted.hash = static_cast<std::uint32_t>(mixed(hash.value()));
  return {};
}

// The ranks of the communicator. False if it tells none, which is MPI's affair.
bool ask_ranks(MPI_Comm comm, int& ranks, int& rank) {
  int inter = 0;
  return comm != MPI_COMM_NULL && PMPI_Comm_test_inter(comm, &inter) == MPI_SUCCESS && !inter &&
         PMPI_Comm_size(comm, &ranks) == MPI_SUCCESS && PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS;
}

Range part_of(const PartedCall& parted, int rank) {
  const auto own = static_cast<std::size_t>(rank);
  const std::size_t begin = own == 0 ? 0 : parted.ends[own - 1];
  return {begin, parted.ends[own] - begin};
}

// MPI has no sum of derived types: it gets the reals.
void give_reals(PartedCall& parted) {
  if (parted.each == 1) return;
  if (parted.counts.is_uneven()) {
    for (int rank = 0; rank < static_cast<int>(parted.ends.size()); ++rank)
      parted.own_counts.push_back(static_cast<MPI_Count>(part_of(parted, rank).n));
    parted.counts = {0, nullptr, parted.own_counts.data()};
  }
  parted.counts.each *= static_cast<MPI_Count>(std::exchange(parted.each, 1));
}

// Where each part begins in recvbuf.
void find_places(const GatherArguments& gather, PartedCall& parted) {
  const bool follow = gather.displs == nullptr && gather.displs_large == nullptr;
  std::size_t end = 0;
  parted.places.reserve(parted.ends.size());
  for (std::size_t r = 0; r < parted.ends.size(); ++r) {
    const Range part = part_of(parted, static_cast<int>(r));
    const MPI_Aint displ = follow ? 0 : gather.displ(static_cast<int>(r));
    const bool is_usual = displ >= 0 && displ <= kMostElements / static_cast<MPI_Count>(parted.each);
    parted.is_unusual = parted.is_unusual || !is_usual;
    const std::size_t at = is_usual ? static_cast<std::size_t>(displ) * parted.each : 0;
    parted.places.push_back(follow ? part.begin : at);
    if (part.n > 0) end = std::max(end, parted.places.back() + part.n);
  }
  parted.output = {0, end};
}

// The arguments of an allgather with these ranks.
Status begin_gather(Call& call, int ranks, int rank, PartedCall& parted) {
  MQ_TRY(add_up(parted.counts, ranks, parted));
  call.count = static_cast<MPI_Count>(parted.ends.back());
  find_places(parted.gather, parted);
  const Range own = part_of(parted, rank);
  const std::optional<kernels::Element> element = element_of(call.datatype);
  parted.input = own;
  if (call.sendbuf == MPI_IN_PLACE) {
    const std::size_t at = parted.places[static_cast<std::size_t>(rank)];
    if (call.recvbuf != nullptr && element)
      parted.input_at = static_cast<const std::byte*>(call.recvbuf) + at * kernels::element_bytes(*element);
    return {};
  }
  const std::optional<Reals> sent = reals_of(parted.gather.sendtype, Types::derived);
  if (!element || !sent || sent->element != element || sent->is_complex != call.given.is_complex) {
    parted.is_unusual = true;
    return {};
  }
  const MPI_Count sendcount = parted.gather.sendcount, recvcount = parted.counts.of(rank);
  const auto each = static_cast<MPI_Count>(sent->each);
  if (sendcount >= 0 && sendcount <= kMostElements / each &&
      sendcount * each == static_cast<MPI_Count>(own.n))
    return {};
  return {Code::bad_argument, "sendcount is " + std::to_string(sendcount) +
                                  ", but recvcount of this rank is " + std::to_string(recvcount) +
                                  (sent->each == parted.each ? "" : ", and the types differ")};
}

Range whole(const Call& call) { return {0, call.count > 0 ? static_cast<std::size_t>(call.count) : 0}; }

// Whether this rank is the root. None if the communicator tells no ranks: then any root is MPI's affair.
std::optional<bool> find_root(Call& call, int root, PartedCall& parted) {
  parted.root = root;
  call.parted = &parted;
  int ranks = 0, rank = 0;
  const bool is_intra = ask_ranks(call.comm, ranks, rank);
  take_type(call, is_intra, parted);
  parted.counts.each = call.mpi_count();
  if (!is_intra) return {};
  parted.hash = static_cast<std::uint32_t>(root);
  if (root >= 0 && root < ranks) return rank == root;
  parted.error = {Code::bad_argument, "root " + std::to_string(root) + " is no rank of a communicator of " +
                                          std::to_string(ranks)};
  call.count = -1;
  return false;
}

// How many counts and displacements the caller gives. 0: MPI does not tell for this communicator, and will
// refuse the call.
int length_of_arrays(const Call& call) {
  if (!call.parted->ends.empty()) return static_cast<int>(call.parted->ends.size());
  int inter = 0, ranks = 0;
  if (call.comm == MPI_COMM_NULL || PMPI_Comm_test_inter(call.comm, &inter) != MPI_SUCCESS) return 0;
  const bool is_remote = inter && call.collective == Collective::allgather;
  const int code = is_remote ? PMPI_Comm_remote_size(call.comm, &ranks) : PMPI_Comm_size(call.comm, &ranks);
  return code == MPI_SUCCESS ? ranks : 0;
}

}  // namespace

bool IntArrays::take(const Call& call) {
  const PartedCall& parted = *call.parted;
  const bool gathers = call.collective == Collective::allgather;
  if (!fits_int(parted.gather.sendcount)) return false;
  const int ranks = length_of_arrays(call);
  for (int rank = 0; rank < ranks; ++rank) {
    const MPI_Count n = parted.counts.of(rank);
    const MPI_Aint displ = gathers ? parted.gather.displ(rank) : 0;
    if (!fits_int(n) || !fits_int(displ)) return false;
    counts.push_back(static_cast<int>(n));
    displs.push_back(static_cast<int>(displ));
  }
  return true;
}

bool has_uneven_parts(const Call& call) {
  if (call.parted == nullptr || call.parted->ends.empty()) return false;
  std::size_t longest = 0, begin = 0;
  for (const std::size_t end : call.parted->ends)
    longest = std::max(longest, end - std::exchange(begin, end));
  return longest / 2 >= begin / call.parted->ends.size();
}

void keep_arrays(const Call& call, PartedCall& parted) {
  if (!parted.counts.is_uneven() || !parted.error.ok()) return;
  const int ranks = length_of_arrays(call);
  if (ranks == 0) return;
  const bool gathers = call.collective == Collective::allgather;
  if (parted.ints.take(call)) {
    parted.counts = {0, parted.ints.counts.data(), nullptr};
    parted.gather.displs = gathers ? parted.ints.displs.data() : nullptr;
    parted.gather.displs_large = nullptr;
    return;
  }
  std::vector<MPI_Count> counts;
  for (int rank = 0; rank < ranks; ++rank) {
    counts.push_back(parted.counts.of(rank));
    if (gathers) parted.own_displs.push_back(parted.gather.displ(rank));
  }
  parted.own_counts = std::move(counts);
  parted.counts = {0, nullptr, parted.own_counts.data()};
  parted.gather.displs = nullptr;
  parted.gather.displs_large = gathers ? parted.own_displs.data() : nullptr;
}

Call reduce_scatter_call(const void* sendbuf, void* recvbuf, const PartCounts& counts, MPI_Datatype datatype,
                         MPI_Op op, MPI_Comm comm, PartedCall& parted) {
  parted.counts = counts;
  Call call{sendbuf, recvbuf, 0, datatype, op, comm};
  call.collective = Collective::reduce_scatter;
  call.parted = &parted;
  int ranks = 0, rank = 0;
  const bool is_intra = ask_ranks(comm, ranks, rank);
  take_type(call, is_intra, parted);
  if (!is_intra) return call;
  parted.error = add_up(counts, ranks, parted);
  call.count = parted.error.ok() ? static_cast<MPI_Count>(parted.ends.back()) : -1;
  if (!parted.error.ok()) return call;
  call.given.count = call.count / static_cast<MPI_Count>(parted.each);
  parted.input = {0, parted.ends.back()};
  parted.output = part_of(parted, rank);
  parted.moves = sendbuf == MPI_IN_PLACE;
  if (call.given.datatype == MPI_DATATYPE_NULL) give_reals(parted);
  return call;
}

Call allgather_call(const void* sendbuf, void* recvbuf, const GatherArguments& gather,
                    const PartCounts& counts, MPI_Comm comm, PartedCall& parted) {
  parted.counts = counts;
  parted.gather = gather;
  Call call{sendbuf, recvbuf, 0, gather.recvtype, MPI_SUM, comm};
  call.collective = Collective::allgather;
  call.parted = &parted;
  int ranks = 0, rank = 0;
  const bool is_intra = ask_ranks(comm, ranks, rank);
  take_type(call, is_intra, parted);
  if (!is_intra) return call;
  parted.error = begin_gather(call, ranks, rank, parted);
  if (!parted.error.ok()) call.count = -1;
  call.given.count = call.count / static_cast<MPI_Count>(parted.each);
  return call;
}

Call bcast_call(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                PartedCall& parted) {
  Call call{MPI_IN_PLACE, buffer, count, datatype, MPI_SUM, comm};
  call.collective = Collective::bcast;
  const bool is_root = find_root(call, root, parted) == true;
  parted.output = whole(call);
  if (is_root) parted.input = parted.output;
  return call;
}

Call reduce_call(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                 int root, MPI_Comm comm, PartedCall& parted) {
  Call call{sendbuf, recvbuf, count, datatype, op, comm};
  call.collective = Collective::reduce;
  const std::optional<bool> is_root = find_root(call, root, parted);
  if (is_root == false && parted.error.ok() && sendbuf == MPI_IN_PLACE) {
    parted.error = {Code::bad_argument, "sendbuf is MPI_IN_PLACE on a rank that is not the root"};
    call.count = -1;
  }
  parted.input = whole(call);
  if (is_root == true) parted.output = parted.input;
  return call;
}

}  // namespace mq
