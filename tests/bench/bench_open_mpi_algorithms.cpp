// Compiled with Open MPI, whichever library the rest of the build uses. Rank 0 writes, for sums of BYTES...
// on communicators of three ranks and of all ranks, what each algorithm of Open MPI leaves in the result:
//
//   RANKS BYTES ALGORITHM HASH
//
// An algorithm adds in an order of its own, so its rounding tells which one it was. ALGORITHM "none" is a
// communicator that nothing was chosen for.
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/mpi_algorithm.hpp"

namespace {

using mq::bench::MpiAlgorithm;

// The hash (FNV-1a) of the sum on rank 0. No two ranks bring the same numbers.
std::uint64_t hash_of_sum(MPI_Comm comm, std::size_t bytes) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  std::vector<float> x(bytes / sizeof(float));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = 1.0F / static_cast<float>(1 + (i * 7919 + static_cast<std::size_t>(rank) * 104729) % 65537);
  MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM, comm);
  std::uint64_t hash = 14695981039346656037U;
  const auto* byte = reinterpret_cast<const unsigned char*>(x.data());
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ byte[i]) * 1099511628211U;
  return hash;
}

void write_sums(MPI_Comm comm, std::size_t bytes, const std::string& algorithm) {
  const MpiAlgorithm chosen(algorithm);
  MPI_Comm mine = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &mine);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(mine, &rank);
  MPI_Comm_size(mine, &ranks);
  const std::uint64_t hash = hash_of_sum(mine, bytes);
  if (rank == 0)
    std::printf("%d %zu %s %016llx\n", ranks, bytes, algorithm.empty() ? "none" : algorithm.c_str(),
                static_cast<unsigned long long>(hash));
  MPI_Comm_free(&mine);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string>& algorithms = mq::bench::mpi_algorithms();  // before MPI_Init, as mpiq-bench
  const std::string before = mq::bench::mpi_algorithm_in_force();
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm three = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank < 3 ? 0 : MPI_UNDEFINED, rank, &three);
  for (const MPI_Comm comm : {three, MPI_COMM_WORLD}) {
    if (comm == MPI_COMM_NULL) continue;
    for (int i = 1; i < argc; ++i) {
      const std::size_t bytes = std::strtoull(argv[i], nullptr, 10);
      for (const std::string& name : algorithms) write_sums(comm, bytes, name);
      write_sums(comm, bytes, "");
    }
  }
  if (three != MPI_COMM_NULL) MPI_Comm_free(&three);
  const bool is_as_before = mq::bench::mpi_algorithm_in_force() == before;
  MPI_Finalize();
  return is_as_before ? 0 : 1;
}
