# GoogleTest's header and the standard library's take a third of the time of a small test: they are compiled
# once, and once more for tests without optimisation.
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp CONTENT "int main() {}\n")
foreach(level IN ITEMS "" ${quick_level})
  set(name mq_precompiled${level})
  add_executable(${name} EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp)
  mpiq_compile(${name})
  target_compile_options(${name} PRIVATE ${level})
  target_link_libraries(${name} PRIVATE GTest::gtest Threads::Threads)
  target_precompile_headers(${name} PRIVATE <gtest/gtest.h> <algorithm> <array> <bit> <charconv> <cmath> <cstring> <limits> <map>
    <memory> <mutex> <optional> <random> <set> <span> <string> <string_view> <utility> <vector>)
endforeach()
