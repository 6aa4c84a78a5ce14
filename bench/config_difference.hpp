// What differs between the options of two runs, for a user who resumes a file with other ones.
#pragma once

#include <string>
#include <string_view>

namespace mq::bench {

// For example "methods: mpi,bf16,onebit in the file, mpi,bf16 now". Both texts are as config_json writes
// them. "" if nothing differs.
std::string config_difference(std::string_view file, std::string_view now);

}  // namespace mq::bench
