# GoogleTest's header and the standard library's take a third of the time of a small test: they are compiled
# once.
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp CONTENT "int main() {}\n")
add_executable(mq_precompiled EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp)
mpiq_compile(mq_precompiled)
target_link_libraries(mq_precompiled PRIVATE GTest::gtest Threads::Threads)
target_precompile_headers(mq_precompiled PRIVATE <gtest/gtest.h> <algorithm> <array> <bit> <charconv> <cmath> <cstring> <limits> <map>
  <memory> <mutex> <optional> <random> <set> <span> <string> <string_view> <utility> <vector>)
