// Chooses, at run time, the algorithm of the MPI library's own allreduce. A compressed method should be
// compared with the best dense one, which is not always the library's default. This is the only place that
// uses the tool interface (MPI_T).
//
// MPICH has the control variable MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM: an integer of process scope that every
// call reads. It has no MPI_T enumeration. So the names are taken from its description; MPICH's build
// generates the enumeration from it in the same order. If an algorithm cannot serve a call, MPICH silently
// uses another.
//
// Open MPI has coll_tuned_allreduce_algorithm, with an enumeration. A communicator takes its value when it is
// made, if coll_tuned_use_dynamic_rules is true. The first function of this file that is called sees to that,
// if MPI has not started yet. With a file of rules there is no choice, because it goes first. A communicator
// whose allreduce is another component's than "tuned", such as "han", does not look at the variable.
//
// Other libraries offer no choice here.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace mq::bench {

inline constexpr std::string_view kAutomatic = "auto";  // the name for the library's own choice
// Bytes of a segment of Open MPI's segmented_ring, which is a plain ring without them. Open MPI's own choice
// has as many. python/mpi_quant/report/mpi_settings.py writes the same number.
inline constexpr int kSegmentBytes = 1 << 20;

// The names in the order of the library; empty if there is no choice. May be called before MPI_Init.
const std::vector<std::string>& mpi_algorithms();
std::string mpi_algorithm_in_force();  // "" if there is no choice

// The names in the description of an MPICH variable, in order: "... auto - Internal ... nb - Force ...".
std::vector<std::string> algorithm_names(std::string_view description);

// While it exists, MPI_Allreduce uses the algorithm of this name, which is one of mpi_algorithms(), on
// communicators that are made meanwhile; "" changes nothing. It sets variables of this process only, so every
// rank must choose the same algorithm.
class MpiAlgorithm {
 public:
  explicit MpiAlgorithm(std::string_view name);
  ~MpiAlgorithm();
  MpiAlgorithm(const MpiAlgorithm&) = delete;
  MpiAlgorithm& operator=(const MpiAlgorithm&) = delete;

 private:
  bool has_set_ = false;
  std::array<int, 2> before_{};  // values of the variables of the library
};

}  // namespace mq::bench
