# How programs under the preload library are compiled and run as tests.
set(yielding LD_PRELOAD=$<TARGET_FILE:yielding_ucx>)

# mpiq_program(NAME COMPILER OPTIONS...): compiled by a family's own compiler wrapper, as its users do; in a folder of its own,
# for HDF5's leaves objects behind.
function(mpiq_program name compiler)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${name})
  set(sources ${ARGN})
  list(FILTER sources INCLUDE REGEX "\\.(c|cpp|F90)$")
  list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set(options ${ARGN})
  list(FILTER options EXCLUDE REGEX "\\.(c|cpp|F90)$")
  file(MAKE_DIRECTORY ${file}.dir)
  set(headers beneath.h check.h)
  list(TRANSFORM headers PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  add_custom_command(OUTPUT ${file} COMMAND ${compiler} -O1 -I${PROJECT_SOURCE_DIR} ${sources} ${options} -o ${file}
    WORKING_DIRECTORY ${file}.dir DEPENDS ${sources} ${headers} VERBATIM)
  add_custom_target(program_${name} ALL DEPENDS ${file})
endfunction()

# mpiq_preload_test(NAME FAMILY RANKS COMMAND...): run by the family's own launcher. COMMAND may begin with NAME=VALUE. Ranks of
# MPICH that wait let others run, behind what the test preloads itself.
function(mpiq_preload_test name family ranks)
  set(command ${ARGN})
  if(family STREQUAL mpich)
    list(TRANSFORM command APPEND ":$<TARGET_FILE:yielding_ucx>" REGEX "^LD_PRELOAD=")
    list(PREPEND command ${yielding})
  endif()
  add_test(NAME preload_${name}_${family}_np${ranks} COMMAND ${mpiexec_${family}} -n ${ranks} env ${command})
  mpiq_processors(${ranks} preload_${name}_${family}_np${ranks})
  set_tests_properties(preload_${name}_${family}_np${ranks} PROPERTIES LABELS mpi TIMEOUT 180)
  if(family STREQUAL openmpi)
    set_tests_properties(preload_${name}_${family}_np${ranks} PROPERTIES ENVIRONMENT "${openmpi_env}")
  endif()
endfunction()
# mpiq_expect(REGEX TEST...): passes if the output matches.
function(mpiq_expect regex)
  set_tests_properties(${ARGN} PROPERTIES PASS_REGULAR_EXPRESSION "${regex}")
endfunction()
