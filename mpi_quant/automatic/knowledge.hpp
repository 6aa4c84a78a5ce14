// What `auto` has learnt, as a text file: a line for each class of calls.
//
//   1048576 f32 @2 auto(error=0.02): int8/direct seconds=0.000213 mpi=0.00079 margin=1.25 calls=400
//
// The bytes of the vectors, their type, the ranks, what was asked for; then what was the fastest, its time
// and the time of MPI's own reduction, how much more exact than the limit samples have to be, and the calls
// that it was learnt from. Where several ranks share each of several nodes, "nodes=4" follows the ranks of an
// allreduce; "vectors=20" then, if a call is of about so many vectors, of these bytes together. The line of
// another collective begins with its name, as a rule of a policy does. A # begins a
// comment. A program that reads the file learns nothing: it makes the same choices each time. Only samples of
// its data may still make a call exact.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mpi_quant/automatic/candidates.hpp"
#include "mpi_quant/base/status.hpp"

namespace mq {

struct KnownClass {
  CallClass calls;
  Method method;
  double seconds = 0, dense_s = 0, margin = 1;
  std::uint64_t learnt_from = 0;  // calls; 0: not enough of them
};

// An error names the line and the word.
Result<std::vector<KnownClass>> parse_knowledge(std::string_view text);
std::string to_string(const KnownClass& known);

// The line for a class: of the same type, ranks, nodes and limit, whose size and number of vectors are
// nearest and at most four times as large or small. If there is none: such a line that names no nodes. Null:
// there is none either.
const KnownClass* find_known(const std::vector<KnownClass>& all, const CallClass& calls);

}  // namespace mq
