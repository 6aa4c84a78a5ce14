// The wire format of every row, pinned: a hash of the bytes of one encode in tests/kernels/golden/wire.csv. A
// change there is a change of format and needs a new codec id. `golden_test --update FILE` writes the file
// anew; it is the same for every compiler.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "tests/kernels/rows.hpp"

namespace mq::test {
namespace {

// Values that depend on nothing but integer arithmetic and one exact conversion.
template <class T>
std::vector<T> golden_input(std::size_t n) {
  std::vector<T> x(n);
  std::uint64_t state = 1;
  for (T& v : x) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v = static_cast<T>(static_cast<std::int64_t>(state >> 40) - (1 << 23)) * T{0x1p-20};
  }
  return x;
}

std::map<std::string, std::string> golden_wire() {
  std::map<std::string, std::string> wire;
  for_each_row([&](const auto& row) {
    using T = typename std::decay_t<decltype(row)>::Type;
    const std::size_t n = 5000;
    const Coded<T> got = row.run(golden_input<T>(n), golden_input<T>(n), kernels::Feedback::carry);
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const std::byte b : got.wire) hash = (hash ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3u;
    std::ostringstream key, value;
    key << row.codec->name << "," << row.codec->id << "," << name(Row<T>::kElement) << row.params_text();
    value << got.wire.size() << "," << std::hex << hash;
    const auto [at, fresh] = wire.emplace(key.str(), value.str());
    EXPECT_EQ(at->second, value.str()) << row.describe(n, "differs from another instruction set");
  });
  return wire;
}

TEST(Golden, wire_bytes_are_those_of_the_file) {
  std::ifstream file(MQ_GOLDEN_FILE);
  ASSERT_TRUE(file) << MQ_GOLDEN_FILE;
  std::map<std::string, std::string> expected;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t bar = line.find(" : ");
    ASSERT_NE(bar, std::string::npos) << line;
    expected[line.substr(0, bar)] = line.substr(bar + 3);
  }
  EXPECT_EQ(expected, golden_wire());
}

}  // namespace
}  // namespace mq::test

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--update") {
    std::ofstream file(argv[2]);
    file << "# codec,id,element,parameters : bytes,FNV-1a of the wire of golden_input(5000); written by "
            "golden_test --update\n";
    for (const auto& [key, value] : mq::test::golden_wire()) file << key << " : " << value << "\n";
    return file.good() ? 0 : 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
