// calls.c with Boost.MPI, whose std::plus is MPI_SUM: four eligible sums, exact or lossy.
#include <boost/mpi.hpp>
#include <cmath>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace {

template <class T>
int wrong_sums(const boost::mpi::communicator& world, bool exact) {
  const int n = 40000;
  std::vector<T> x(n), y(n);
  for (int i = 0; i < n; ++i) x[i] = static_cast<T>(i % 7);
  std::vector<T> z = x;
  boost::mpi::all_reduce(world, x.data(), n, y.data(), std::plus<T>());
  boost::mpi::all_reduce(world, boost::mpi::inplace(z.data()), n, std::plus<T>());
  int wrong = 0;
  for (const std::vector<T>& got : {y, z}) {
    bool is_exact = true;
    for (int i = 0; i < n; ++i) is_exact = is_exact && std::abs(got[i] - world.size() * x[i]) < 1e-3;
    wrong += is_exact != exact;
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  boost::mpi::environment environment(argc, argv);
  const boost::mpi::communicator world;
  const bool exact = argc < 2 || std::string(argv[1]) != "lossy";
  const int wrong = wrong_sums<float>(world, exact) + wrong_sums<double>(world, exact);
  if (wrong > 0) std::cout << wrong << " of 4 sums are not " << (exact ? "exact" : "compressed") << "\n";
  return wrong;
}
