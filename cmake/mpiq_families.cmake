# The families of MPI libraries, which differ in their handles: mpich (and all with its ABI), openmpi, and
# abi, the standard ABI of MPI 5. Sets mpi_family, of the build's MPI library, and makes targets for the
# others where there is a compiler wrapper for them:
# - mq_other_mpi of Debian's other MPI, by its name there or MPIQ_OTHER_MPI_C_COMPILER; sets
#   mpi_other_family, too.
# - mq_abi_mpi of the standard ABI, by mpicc_abi in PATH or MPIQ_ABI_MPI_C_COMPILER.
# OFF in place of a compiler wrapper: none.
include(mpi_quant_family)
mpi_quant_find_family(C mpi_family)
if(mpi_family STREQUAL "openmpi")
  set(mpi_other_family mpich)
elseif(mpi_family MATCHES "^(mpich|abi)$")
  set(mpi_other_family openmpi)
else()
  message(FATAL_ERROR "the MPI library of ${MPI_C_COMPILER} has neither MPICH's nor Open MPI's handles, nor the handles of the standard ABI")
endif()

# mpiq_mpi_of(TARGET WRAPPER): what this compiler wrapper adds to a command. All families' wrappers print the
# command they would run.
function(mpiq_mpi_of target wrapper)
  execute_process(COMMAND ${wrapper} -show OUTPUT_VARIABLE command RESULT_VARIABLE result OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${wrapper} -show failed")
  endif()
  separate_arguments(words UNIX_COMMAND "${command}")
  add_library(${target} INTERFACE)
  foreach(word IN LISTS words)
    if(word MATCHES "^-I(.+)")
      target_include_directories(${target} SYSTEM INTERFACE ${CMAKE_MATCH_1})
    elseif(word MATCHES "^-D(MPI_ABI.*)")
      target_compile_definitions(${target} INTERFACE ${CMAKE_MATCH_1})
    elseif(word MATCHES "^-L(.+)")
      target_link_directories(${target} INTERFACE ${CMAKE_MATCH_1})
    elseif(word MATCHES "^-l(.+)")
      target_link_libraries(${target} INTERFACE ${CMAKE_MATCH_1})
    endif()
  endforeach()
endfunction()

find_program(MPIQ_OTHER_MPI_C_COMPILER NAMES mpicc.${mpi_other_family} DOC "compiler wrapper of the other family of MPI libraries")
if(MPIQ_OTHER_MPI_C_COMPILER)
  mpiq_mpi_of(mq_other_mpi ${MPIQ_OTHER_MPI_C_COMPILER})
endif()

if(NOT mpi_family STREQUAL "abi")
  find_program(MPIQ_ABI_MPI_C_COMPILER NAMES mpicc_abi DOC "compiler wrapper of the standard ABI of MPI 5")
  if(MPIQ_ABI_MPI_C_COMPILER)
    mpiq_mpi_of(mq_abi_mpi ${MPIQ_ABI_MPI_C_COMPILER})
    message(STATUS "libmpi_quant_abi, for the standard ABI of MPI 5, is built with ${MPIQ_ABI_MPI_C_COMPILER}")
  else()
    message(STATUS "libmpi_quant_abi, for the standard ABI of MPI 5, is not built: no mpicc_abi in PATH (-D MPIQ_ABI_MPI_C_COMPILER=...)")
  endif()
endif()
