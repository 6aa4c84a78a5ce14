# What CONTRIBUTING.md says step by step, done to copies of the tree: codecs, and the other walks.
if(MPIQ_SANITIZE)
  return()
endif()
add_test(NAME add_codec COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR} -D WORK=${CMAKE_CURRENT_BINARY_DIR}/add_codec
  -D CXX=${CMAKE_CXX_COMPILER} "-DGTEST=-lgtest_main -lgtest" -P ${CMAKE_CURRENT_SOURCE_DIR}/add_codec_test.cmake)
set_tests_properties(add_codec PROPERTIES LABELS unit TIMEOUT 600)
# The other steps of that page, likewise.
set(walks plan function plot)
if(MPIQ_BUILD_BENCH)
  list(APPEND walks column)
endif()
foreach(walk IN LISTS walks)
  add_test(NAME add_${walk} COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/walks_test.py ${walk} ${CMAKE_CXX_COMPILER}
    ${MPI_C_COMPILER} "-lgtest_main -lgtest")
  set_tests_properties(add_${walk} PROPERTIES LABELS unit TIMEOUT 600)
endforeach()
