# GoogleTest's header takes a third of the time of a small test: it is compiled once, and once more for tests with OpenMP's flags.
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp CONTENT "int main() {}\n")
foreach(name mq_precompiled mq_precompiled_openmp)
  add_executable(${name} EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp)
  mpiq_compile(${name})
  target_link_libraries(${name} PRIVATE GTest::gtest Threads::Threads)
  target_precompile_headers(${name} PRIVATE <gtest/gtest.h> <algorithm> <map> <random> <set> <string> <vector>)
endforeach()
target_link_libraries(mq_precompiled_openmp PRIVATE ${openmp})
