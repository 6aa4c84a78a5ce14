# cmake -D SOURCE=... -D WORK=... -D CXX=... -D GTEST=... -P add_codec_test.cmake
# Does what README.md says under "Add a codec", in a copy of the tree: the codec in the README must compile as printed, appear
# in the table, and pass the tests that every codec gets.
file(REMOVE_RECURSE ${WORK})
file(COPY ${SOURCE}/kernels ${SOURCE}/tests DESTINATION ${WORK})

file(READ ${SOURCE}/README.md readme)
string(REGEX MATCH "<!-- codec: ([a-z0-9]+) -->\n```cpp\n" opening "${readme}")
if(NOT opening)
  message(FATAL_ERROR "README.md has no '<!-- codec: NAME -->' before a C++ block")
endif()
set(name ${CMAKE_MATCH_1})
string(FIND "${readme}" "${opening}" begin)
string(LENGTH "${opening}" length)
math(EXPR begin "${begin} + ${length}")
string(SUBSTRING "${readme}" ${begin} -1 code)
string(FIND "${code}" "\n```" end)
string(SUBSTRING "${code}" 0 ${end} code)
file(WRITE ${WORK}/kernels/codecs/${name}-inl.hpp "${code}\n")

string(REGEX MATCH "struct ([A-Za-z0-9]+) {" ignored "${code}")
set(type ${CMAKE_MATCH_1})
file(READ ${WORK}/kernels/registry-inl.hpp registry)
string(REPLACE "#include \"kernels/codecs/raw-inl.hpp\"\n"
  "#include \"kernels/codecs/raw-inl.hpp\"\n#include \"kernels/codecs/${name}-inl.hpp\"\n" registry "${registry}")
string(REGEX REPLACE "(AllQuantizers = TypeList<[^>]*)>" "\\1, ${type}>" registry "${registry}")
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
  run("the codec of the README does not compile" ${CXX} ${flags} -c kernels/host/${source}.cpp -o ${source}.o)
endforeach()
foreach(test codec_test quality_test golden_test)
  run("${test} does not compile with the codec of the README" ${CXX} ${flags} -DMQ_GOLDEN_FILE="golden.csv" targets.o cpu.o tests/${test}.cpp
    -o ${test} ${gtest} -pthread)
endforeach()
run("codec_test fails for the codec of the README" ./codec_test)
run("quality_test fails for the codec of the README" ./quality_test)

# It is in the table: the golden file written for the copy names it.
run("no golden file can be written" ./golden_test --update golden.csv)
file(STRINGS ${WORK}/golden.csv lines REGEX "^${name},")
if(NOT lines)
  message(FATAL_ERROR "${name} is not in the registry of the copy")
endif()
