// What a program file asks the dynamic loader for.
#pragma once

#include <string>
#include <vector>

namespace mq {

// Names of the libraries that an ELF file of this machine's word size needs, in their order. A library in a
// folder that the file names (RUNPATH, as clang -shared-libasan sets it) comes with its path. Empty for any
// other file.
std::vector<std::string> needed_libraries(const std::string& path);

// The file that execvp would run for this word; "" if there is none.
std::string program_file(const std::string& word);

}  // namespace mq
