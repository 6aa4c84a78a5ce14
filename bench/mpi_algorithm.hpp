// Which algorithm the MPI library's own allreduce uses, chosen at run time: a compressed method should be
// compared with the best dense one, which is not always the library's default. Separate because it is the one
// place that speaks to the tool interface (MPI_T).
//
// MPICH has the control variable MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM, an integer of process scope that is
// read in every call. It comes without an MPI_T enumeration: the names are taken from its description, of
// which MPICH's build generates the enumeration in the same order. Where an algorithm cannot serve a call,
// MPICH silently uses another. Other libraries offer no choice here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mq::bench {

inline constexpr std::string_view kAutomatic = "auto";  // the name of the library's own choice

// By value of the variable; empty if there is no choice. Callable before MPI_Init.
const std::vector<std::string>& mpi_algorithms();
std::string mpi_algorithm_in_force();  // "" if there is no choice

// The names in the description of an MPICH variable, in order: "... auto - Internal ... nb - Force ...".
std::vector<std::string> algorithm_names(std::string_view description);

// For its lifetime MPI_Allreduce uses the algorithm of this name, one of mpi_algorithms(); "" changes
// nothing. Of this process only: every rank must choose the same.
class MpiAlgorithm {
 public:
  explicit MpiAlgorithm(std::string_view name);
  ~MpiAlgorithm();
  MpiAlgorithm(const MpiAlgorithm&) = delete;
  MpiAlgorithm& operator=(const MpiAlgorithm&) = delete;

 private:
  int before_ = -1;  // -1: nothing to put back
};

}  // namespace mq::bench
