// Stands in for libFuzzer where there is none: runs a target once for each file of a folder, for each of
// their beginnings, and for no input at all.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/fuzz/fuzz.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " FOLDER\n";
    return 2;
  }
  std::size_t files = 0;
  LLVMFuzzerTestOneInput(nullptr, 0);
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(text.data());
    const std::size_t step = 1 + text.size() / 64;
    for (std::size_t n = text.size(); n > 0; n -= std::min(n, step)) LLVMFuzzerTestOneInput(bytes, n);
    ++files;
  }
  std::cout << files << " seeds\n";
  return files > 0 ? 0 : 1;
}
