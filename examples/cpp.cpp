// The library from C++: a policy for a whole communicator, and errors as exceptions.
// Build: mpicxx -std=c++20 cpp.cpp -o cpp $(pkg-config --cflags --libs mpi_quant)
// Run:   mpiexec -n 2 ./cpp
// SPDX-License-Identifier: Apache-2.0
#include <mpi_quant.h>

#include <cmath>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

// Throws what the library says of an error.
static void check(int code) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error(std::string(text, static_cast<std::size_t>(length)));
}

static double error_of_sum(int rank, int ranks) {
  std::vector<float> sum(200'000);
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] = static_cast<float>(i % 1000) * 0.1F + static_cast<float>(rank);
  check(MPIQ_Allreduce(MPI_IN_PLACE, sum.data(), static_cast<MPI_Count>(sum.size()), MPI_FLOAT, MPI_SUM,
                       MPI_COMM_WORLD, MPI_INFO_NULL));
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const double exact = ranks * (static_cast<double>(i % 1000) * 0.1 + 0.5 * (ranks - 1));
    error += std::pow(sum[i] - exact, 2);
    norm += exact * exact;
  }
  return std::sqrt(error / norm);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // else an error ends the program
  check(MPIQ_Comm_set_policy(MPI_COMM_WORLD, "64K-: bf16"));  // sums of 64 KiB and more, two bytes an element
  const double error = error_of_sum(rank, ranks);

  std::string
      reason;  // a method that does not exist: every rank gets the error, and the policy stays as it was
  try {
    check(MPIQ_Comm_set_policy(MPI_COMM_WORLD, "64K-: twobit"));
  } catch (const std::runtime_error& caught) {
    reason = caught.what();
  }
  if (rank == 0) std::cout << "relative error " << error << "\nthe wrong policy: " << reason << '\n';
  MPI_Finalize();
  return error > 0 && error < 0.01 && reason.find("twobit") != std::string::npos ? 0 : 1;
}
