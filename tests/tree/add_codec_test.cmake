# cmake -D SOURCE=... -D WORK=... -D CXX=... -D GTEST=... -P add_codec_test.cmake
# Does what CONTRIBUTING.md says under "Add a codec", in a copy of the tree: the codecs of the page must compile as printed, appear
# in the table, and pass the tests that every codec gets.
file(REMOVE_RECURSE ${WORK})
file(COPY ${SOURCE}/kernels ${SOURCE}/tests DESTINATION ${WORK})

# Each C++ block of the page after a line '<!-- codec: NAME -->' is a codec.
file(READ ${SOURCE}/CONTRIBUTING.md page)
set(opening "<!-- codec: ([a-z0-9]+) -->\n```cpp[^\n]*\n")
string(REGEX MATCHALL "${opening}" openings "${page}")
if(NOT openings)
  message(FATAL_ERROR "CONTRIBUTING.md has no '<!-- codec: NAME -->' before a C++ block")
endif()
file(READ ${WORK}/kernels/registry-inl.hpp registry)
set(names)
while(page MATCHES "${opening}")
  set(name ${CMAKE_MATCH_1})
  list(APPEND names ${name})
  string(FIND "${page}" "${CMAKE_MATCH_0}" begin)
  string(LENGTH "${CMAKE_MATCH_0}" length)
  math(EXPR begin "${begin} + ${length}")
  string(SUBSTRING "${page}" ${begin} -1 page)
  string(FIND "${page}" "\n```" end)
  string(SUBSTRING "${page}" 0 ${end} code)
  file(WRITE ${WORK}/kernels/codecs/${name}-inl.hpp "${code}\n")
  string(REGEX MATCH "struct ([A-Za-z0-9]+) {" ignored "${code}")
  set(type ${CMAKE_MATCH_1})
  string(REPLACE "#include \"kernels/codecs/raw-inl.hpp\"\n"
    "#include \"kernels/codecs/raw-inl.hpp\"\n#include \"kernels/codecs/${name}-inl.hpp\"\n" registry "${registry}")
  string(REGEX REPLACE "(AllQuantizers = TypeList<[^>]*)>" "\\1, ${type}>" registry "${registry}")
endwhile()
file(WRITE ${WORK}/kernels/registry-inl.hpp "${registry}")

separate_arguments(gtest UNIX_COMMAND "${GTEST}")
# Scalar code alone: a codec is written once for all instruction sets, and they compile for minutes.
set(flags -std=c++20 -O1 -DMQ_SCALAR_ONLY -Wall -Wextra -Wpedantic -Wshadow -Werror -ffp-contract=off -I.)
# run(WHAT COMMAND...): in the copy; the test fails with WHAT and the output if the command does.
function(run what)
  execute_process(WORKING_DIRECTORY ${WORK} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output COMMAND ${ARGN})
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${what}:\n${output}")
  endif()
endfunction()
foreach(source targets cpu)
  run("a codec of CONTRIBUTING.md does not compile" ${CXX} ${flags} -c kernels/host/${source}.cpp -o ${source}.o)
endforeach()
foreach(test codec_test quality_test golden_test)
  run("${test} does not compile with a codec of CONTRIBUTING.md" ${CXX} ${flags} -DMQ_GOLDEN_FILE="golden.csv" targets.o cpu.o tests/kernels/${test}.cpp
    -o ${test} ${gtest} -pthread)
endforeach()
run("codec_test fails for a codec of CONTRIBUTING.md" ./codec_test)
run("quality_test fails for a codec of CONTRIBUTING.md" ./quality_test)

# They are in the table: the golden file written for the copy names them.
run("no golden file can be written" ./golden_test --update golden.csv)
foreach(name IN LISTS names)
  file(STRINGS ${WORK}/golden.csv lines REGEX "^${name},")
  if(NOT lines)
    message(FATAL_ERROR "${name} is not in the registry of the copy")
  endif()
endforeach()
