// unfinished WHO METHOD [parts]: a program that forgets to complete a request, and ends all the same: ranks
// that complete theirs get the sum or an error, and say if it is wrong. WHO: all, or one (rank 0) forget
// theirs; alone: rank 0 has started what nobody else has. parts: each rank gets a part of the sum.

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "mpi_quant.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const std::string who = argc > 2 ? argv[1] : "", method = argc > 2 ? argv[2] : "";
  const bool has_parts = argc > 3;
  constexpr MPI_Count kCount = 1 << 20;
  const MPI_Count part = kCount / size;
  std::vector<float> x(kCount, 1.0F), y(static_cast<std::size_t>(has_parts ? part : kCount));
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpiq_method", method.c_str());
  if (!has_parts) MPI_Info_set(info, "mpiq_matrix", "1024x1024");
  MPI_Info_set(info, "mpiq_key", "key");
  const auto sum = [&](MPIQ_Request* request) {
    if (has_parts)
      return MPIQ_Ireduce_scatter_block(x.data(), y.data(), part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, info,
                                        request);
    return MPIQ_Iallreduce(x.data(), y.data(), kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, info, request);
  };
  MPIQ_Request request = MPIQ_REQUEST_NULL;
  (void)sum(&request);
  if (who == "alone") {
    (void)MPIQ_Wait(&request);
    if (rank == 0) (void)sum(&request);
  } else if (who == "one" && rank != 0) {
    const int code = MPIQ_Wait(&request);
    const bool right = method == "mpi" ? code == MPI_SUCCESS : true;
    const auto is_wrong = [&](float v) { return !(std::abs(v - static_cast<float>(size)) < 1e-3F); };
    if (!right || (code == MPI_SUCCESS && std::any_of(y.begin(), y.end(), is_wrong))) std::puts("wrong");
  }
  MPI_Info_free(&info);
  MPI_Finalize();
  // An error without a handler: MPI would end the process.
  if (request != MPIQ_REQUEST_NULL && MPIQ_Request_free(&request) == MPI_SUCCESS) std::puts("wrong");
}
