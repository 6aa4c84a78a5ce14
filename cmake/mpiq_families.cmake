# The families of MPI libraries, which differ in the size of handles: mpich (and all with its ABI) and openmpi.
# Sets mpi_family, of the build's MPI library. Where a compiler wrapper of the other family is installed under Debian's name
# (or given as MPIQ_OTHER_MPI_C_COMPILER; OFF for none), makes the target mq_other_mpi and sets mpi_other_family and
# MPIQ_OTHER_MPI_C_COMPILER.
include(mpi_quant_family)
mpi_quant_find_family(C mpi_family)
if(mpi_family STREQUAL "openmpi")
  set(mpi_other_family mpich)
elseif(mpi_family STREQUAL "mpich")
  set(mpi_other_family openmpi)
else()
  message(FATAL_ERROR "the MPI library of ${MPI_C_COMPILER} has neither MPICH's nor Open MPI's handles")
endif()

find_program(MPIQ_OTHER_MPI_C_COMPILER NAMES mpicc.${mpi_other_family} DOC "compiler wrapper of the other family of MPI libraries")
if(MPIQ_OTHER_MPI_C_COMPILER)
  # Both families' wrappers print the command they would run.
  execute_process(COMMAND ${MPIQ_OTHER_MPI_C_COMPILER} -show OUTPUT_VARIABLE command RESULT_VARIABLE result OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${MPIQ_OTHER_MPI_C_COMPILER} -show failed")
  endif()
  separate_arguments(words UNIX_COMMAND "${command}")
  add_library(mq_other_mpi INTERFACE)
  foreach(word IN LISTS words)
    if(word MATCHES "^-I(.+)")
      target_include_directories(mq_other_mpi SYSTEM INTERFACE ${CMAKE_MATCH_1})
    elseif(word MATCHES "^-L(.+)")
      target_link_directories(mq_other_mpi INTERFACE ${CMAKE_MATCH_1})
    elseif(word MATCHES "^-l(.+)")
      target_link_libraries(mq_other_mpi INTERFACE ${CMAKE_MATCH_1})
    endif()
  endforeach()
endif()
