#include "mpi_quant/core/collective_check.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "mpi_quant/core/mpi_comm.hpp"
#include "mpi_quant/core/real_mpi.hpp"
#include "mpi_quant/engine/frame.hpp"

namespace mq {
namespace {

// The words of one rank for all. Their size is fixed, so that telling the reason of an error cannot fail for
// lack of memory.
using Text = std::array<char, 256>;

Text to_text(std::string_view words) {
  Text text{};
  std::memcpy(text.data(), words.data(), std::min(words.size(), text.size() - 1));
  return text;
}

Status tell(MPI_Comm comm, int from, Text& text) {
  return mpi_status(real_mpi().bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, from, comm),
                    "MPI_Bcast");
}

std::string_view take_line(std::string_view& lines) {
  const std::string_view line = lines.substr(0, lines.find('\0'));
  lines.remove_prefix(std::min(lines.size(), line.size() + 1));
  return line;
}

// Compares line by line with rank 0 until one line differs.
Status difference(MPI_Comm comm, int rank, int size, std::string_view facts) {
  for (;;) {
    const bool more = !facts.empty();
    const Text mine = to_text(more ? take_line(facts) : "nothing more");
    Text first = mine;
    MQ_TRY(tell(comm, 0, first));
    // A line may differ only beyond the size of a text. Then the last line is shown.
    int ranks[2]{first != mine ? rank : size, more ? 1 : 0}, least[2];
    MQ_TRY(mpi_status(real_mpi().allreduce(ranks, least, 2, MPI_INT, MPI_MIN, comm), "MPI_Allreduce"));
    if (least[0] == size && least[1] != 0) continue;
    const int other_rank = std::min(least[0], size - 1);
    Text other = mine;
    MQ_TRY(tell(comm, other_rank, other));
    return {Code::mismatch, std::string("the ranks differ; rank 0: ") + first.data() + "; rank " +
                                std::to_string(other_rank) + ": " + other.data()};
  }
}

}  // namespace

Status wait_for_ranks(MPI_Comm, MPI_Request& request) {
  return mpi_status(PMPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
}

Status find_extremes(MPI_Comm comm, std::span<const std::uint64_t> mine, std::span<Extremes> extremes,
                     WaitForRanks wait) {
  // The complement of the least ~x is the greatest x.
  std::uint64_t pairs[2 * kMostExtremes], least[2 * kMostExtremes];
  for (std::size_t i = 0; i < mine.size(); ++i) {
    pairs[2 * i] = mine[i];
    pairs[2 * i + 1] = ~mine[i];
  }
  MPI_Request request = MPI_REQUEST_NULL;
  MQ_TRY(mpi_status(real_mpi().iallreduce(pairs, least, static_cast<int>(2 * mine.size()), MPI_UINT64_T,
                                          MPI_MIN, comm, &request),
                    "MPI_Iallreduce"));
  MQ_TRY(wait(comm, request));
  for (std::size_t i = 0; i < mine.size(); ++i) extremes[i] = {least[2 * i], ~least[2 * i + 1]};
  return {};
}

Status collective_check(MPI_Comm comm, const Status& local_error, std::string_view facts, WaitForRanks wait) {
  int rank = 0, size = 1;
  MQ_TRY(mpi_status(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank"));
  MQ_TRY(mpi_status(PMPI_Comm_size(comm, &size), "MPI_Comm_size"));
  const auto rank_with_error = static_cast<std::uint64_t>(local_error.ok() ? size : rank);
  const std::uint64_t mine[]{rank_with_error, hash_of(facts)};
  Extremes found[2];
  MQ_TRY(find_extremes(comm, mine, found, wait));
  if (const auto first = static_cast<int>(found[0].least); first < size) {
    Text words = to_text(local_error.text());
    MQ_TRY(tell(comm, first, words));
    MQ_TRY(local_error);  // this rank's own error has precedence
    return {Code::peer_failed, "rank " + std::to_string(first) + ": " + words.data()};
  }
  return found[1].same() ? Status{} : difference(comm, rank, size, facts);
}

}  // namespace mq
