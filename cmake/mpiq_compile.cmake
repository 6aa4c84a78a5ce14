# A compiler that the project has never seen may warn of what is no fault: only the presets for developers
# stop at warnings.
option(MPIQ_WERROR "treat warnings as errors" OFF)

# mpiq_compile(TARGET): the one place for compile flags.
#
# -ffp-contract=off: a fused multiply-add on one rank and not on another would break "identical bits on all
# ranks". -fno-math-errno -fno-trapping-math change no value; they let selects become vector instructions.
# Instruction sets are never set here: see kernels/host/object.cpp.in.
function(mpiq_compile target)
  target_compile_options(${target} PRIVATE -ffp-contract=off -fno-math-errno -fno-trapping-math)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wcast-qual)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)  # "a" + std::string: GCC PR105651
  endif()
  # With its sanitizers GCC warns of unroll pragmas that it then ignores, which no option turns off.
  if(MPIQ_WERROR AND NOT (MPIQ_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"))
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  target_compile_definitions(${target} PRIVATE MPICH_SKIP_MPICXX OMPI_SKIP_MPICXX)  # the removed C++ bindings
  target_compile_definitions(${target} PRIVATE MPIQ_EXPERIMENTAL)  # the library and its tests have all functions
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/mpi_quant/include)
  if(MPIQ_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${MPIQ_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${MPIQ_SANITIZE})
  endif()
  if(MPIQ_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# What several files include is then parsed and compiled once for all of them: a build from nothing takes a
# third less time. With OFF a change of one file compiles that file alone, and each file must include what it
# uses.
option(MPIQ_TOGETHER "compile up to sixteen files of a library at a time" ON)

# mpiq_together(TARGET): compiles files of this target together. Files with options of their own stay alone.
function(mpiq_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MPIQ_TOGETHER} UNITY_BUILD_BATCH_SIZE 16)
endfunction()
