// What `auto` has chosen for one call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi_quant/automatic/chooser.hpp"

namespace mq {

class ChoiceClass;  // choices.cpp

struct Chosen {
  ChoiceClass* calls = nullptr;  // null: nothing was to be chosen
  // Has chosen, and what `choice` names is in its list. The class may have another chooser by now.
  Chooser* chooser = nullptr;
  // This rank has no memory for the class, or no room for one more: MPI reduces, and ranks that have it begin
  // it again.
  bool has_no_class = false;
  Choice choice;
  std::uint16_t limit_hash = 0;  // of what auto was asked for
  bool teaches = false;          // the call is blocking
  std::size_t bytes = 0;         // of its vector
  double begin_s = 0;            // when it began
  double agreement_s = 0;        // when its agreement began
  double trying_s = 0;           // what it took before that to prepare a method, and to try some on samples
};

}  // namespace mq
