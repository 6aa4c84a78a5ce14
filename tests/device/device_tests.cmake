# Tests of device rows and of what launches them, without a GPU: kernels run in the emulator (simt/).
# mpiq_device_test(NAME SOURCES...): a unit test linked with it; `gpu_tests` builds them all.
add_subdirectory(simt)
add_custom_target(gpu_tests)
function(mpiq_device_test name)
  mpiq_test(${name} ${ARGN})
  target_sources(${name} PRIVATE $<TARGET_OBJECTS:mq_simt> simt/on_device.cpp)
  add_dependencies(gpu_tests ${name})
  mpiq_real_gpu_test(${name})
endfunction()

# What scripts/gpu_check runs on a GPU: built by gpu_check_tests, named in a file.
add_custom_target(gpu_check_tests)
file(WRITE ${PROJECT_BINARY_DIR}/gpu_check_tests.txt "")
function(mpiq_real_gpu_test name)
  add_dependencies(gpu_check_tests ${name})
  file(APPEND ${PROJECT_BINARY_DIR}/gpu_check_tests.txt "${name}\n")
endfunction()

# The emulator's own.
mpiq_test(simt_test simt_test.cpp)
target_sources(simt_test PRIVATE $<TARGET_OBJECTS:mq_simt>)
add_dependencies(gpu_tests simt_test)
mpiq_device_test(device_rows_test device_rows_test.cpp SHARDS 2)
mpiq_device_test(device_convert_test device_convert_test.cpp)
mpiq_device_test(device_batch_test device_batch_test.cpp)
mpiq_device_test(device_sparse_test device_sparse_test.cpp)
mpiq_device_test(device_lattice_test device_lattice_test.cpp)
mpiq_device_test(device_bitmaps_test device_bitmaps_test.cpp)
mpiq_device_test(device_memory_test device_memory_test.cpp)

# Tests of what calls a CUDA driver, over a fake one.
#
# It is a GPU without one: libcuda.so.1 of fake_cuda/, which is this process. A program is linked with it or
# started with it preloaded.
if(TARGET mpi_quant_cuda)
  add_subdirectory(fake_cuda)

  # mpiq_fake_cuda(TARGET): a program with a driver, whose functions (fake_cuda/fake.hpp) it may call.
  function(mpiq_fake_cuda target)
    target_link_libraries(${target} PRIVATE -Wl,--no-as-needed fake_cuda)
    add_dependencies(${target} mpi_quant_cuda)
    add_dependencies(gpu_tests ${target})
  endfunction()
  # mpiq_fake_cuda_test(NAME SOURCES... [LIBS ...] [SHARDS N]): as mpiq_test, with a driver.
  function(mpiq_fake_cuda_test name)
    mpiq_test(${name} ${ARGN})
    mpiq_fake_cuda(${name})
  endfunction()
  # mpiq_fake_cuda_mpi_test(NAME SOURCES... RANKS 1 2 ... [LIBS ...] [ENV ...]): as mpiq_mpi_test, with a
  # driver.
  function(mpiq_fake_cuda_mpi_test name)
    mpiq_mpi_test(${name} ${ARGN})
    mpiq_fake_cuda(${name})
  endfunction()

  # mpiq_any_cuda_mpi_test(NAME SOURCES... RANKS 1 2 ...): as mpiq_mpi_test, with the driver that the loader
  # finds: under CTest the fake one, by its folder, in scripts/gpu_check the machine's. Not by
  # target_link_libraries, which has the program look there first.
  function(mpiq_any_cuda_mpi_test name)
    mpiq_mpi_test(${name} ${ARGN} ENV LD_LIBRARY_PATH=$<TARGET_FILE_DIR:fake_cuda>)
    target_link_options(${name} PRIVATE -Wl,--no-as-needed $<TARGET_FILE:fake_cuda>)
    add_dependencies(${name} fake_cuda mpi_quant_cuda)
    add_dependencies(gpu_tests ${name})
    mpiq_real_gpu_test(${name})
  endfunction()

  mpiq_fake_cuda_test(device_where_test device_where_test.cpp)
  mpiq_fake_cuda_test(device_api_test device_api_test.cpp)
  mpiq_fake_cuda_test(device_driver_test device_driver_test.cpp)
  mpiq_fake_cuda_test(device_errors_test device_errors_test.cpp)

  # A driver that is opened by a program which did not have one: the library is found beside it; is told not
  # to look; is not there; the driver is refused; or names no functions.
  mpiq_test(device_absent_test device_absent_test.cpp)
  set_tests_properties(device_absent_test PROPERTIES ENVIRONMENT "TABLE=FOUND;DRIVER=$<TARGET_FILE:fake_cuda>")
  add_dependencies(device_absent_test mpi_quant_cuda fake_cuda fake_hidden_cuda fake_old_cuda)
  add_dependencies(gpu_tests device_absent_test)
  add_test(NAME device_off COMMAND device_absent_test)
  add_test(NAME device_old COMMAND device_absent_test)
  add_test(NAME device_hidden COMMAND device_absent_test)
  set(apart ${CMAKE_CURRENT_BINARY_DIR}/apart)
  add_test(NAME device_missing COMMAND sh -c "mkdir -p ${apart} && cp $<TARGET_FILE:device_absent_test> ${apart} && exec ${apart}/device_absent_test")
  set_tests_properties(device_off PROPERTIES ENVIRONMENT "TABLE=OFF;MPIQ_CUDA=off;DRIVER=$<TARGET_FILE:fake_cuda>")
  set_tests_properties(device_old PROPERTIES ENVIRONMENT "TABLE=OLD;DRIVER=$<TARGET_FILE:fake_old_cuda>")
  set_tests_properties(device_hidden PROPERTIES ENVIRONMENT "TABLE=FOUND;DRIVER=$<TARGET_FILE:fake_hidden_cuda>")
  set_tests_properties(device_missing PROPERTIES ENVIRONMENT "TABLE=MISSING;DRIVER=$<TARGET_FILE:fake_cuda>")
  set_tests_properties(device_off device_old device_hidden device_missing PROPERTIES LABELS unit TIMEOUT 60)

  # The same library serves machines without CUDA.
  set(libraries)
  foreach(library mpi_quant mpi_quant_core_${mpi_family} mpi_quant_pmpi mpi_quant_cuda)
    list(APPEND libraries $<TARGET_FILE:${library}>)
  endforeach()
  list(JOIN libraries "," libraries)
  add_test(NAME device_needed COMMAND ${CMAKE_COMMAND} -D READELF=${CMAKE_READELF} -D LIBRARIES=${libraries}
    -D WITHOUT=cuda,nvidia
    -P ${PROJECT_SOURCE_DIR}/tests/tree/needed_test.cmake)
  add_test(NAME symbols_mpi_quant_cuda COMMAND ${CMAKE_COMMAND} -D NM=${CMAKE_NM} -D LIBRARY=$<TARGET_FILE:mpi_quant_cuda>
    -D EXPECTED=mpiq_cuda_api -P ${PROJECT_SOURCE_DIR}/tests/tree/symbols_test.cmake)
  set_tests_properties(device_needed symbols_mpi_quant_cuda PROPERTIES LABELS unit TIMEOUT 60)

  # What drivers older than nvcc are given. That its version has what it uses, ptxas has found out when it
  # made the binaries of it.
  if(MPIQ_HAVE_CUDA)
    get_target_property(ptx mq_device_image MPIQ_PTX)
    add_test(NAME device_ptx COMMAND grep -x -E "[.]version 7[.][0-8]" ${ptx})
    set_tests_properties(device_ptx PROPERTIES LABELS unit TIMEOUT 60)
    add_dependencies(gpu_tests mq_device_image)
  endif()

  # Our declarations of the driver against CUDA's, where they are.
  find_path(MPIQ_CUDA_INCLUDE cuda.h HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
  if(MPIQ_CUDA_INCLUDE)
    add_library(device_declarations OBJECT device_declarations.cpp)
    mpiq_compile(device_declarations)
    target_include_directories(device_declarations SYSTEM PRIVATE ${MPIQ_CUDA_INCLUDE})
    add_dependencies(unit_tests device_declarations)
  endif()
endif()

# Tests of calls with vectors on GPUs, over the fake driver (above); device_calls_mpi_test alone over any.
if(TARGET mpi_quant_cuda)
  mpiq_any_cuda_mpi_test(device_calls_mpi_test device_calls_mpi_test.cpp RANKS 1 2)
  # device_mpi_test_np2 has the same two sweeps over all methods, with the same driver.
  set_property(TEST device_calls_mpi_test_np2 APPEND PROPERTY ENVIRONMENT "GTEST_FILTER=-*_in_every_memory")
  mpiq_any_cuda_mpi_test(device_streams_mpi_test device_streams_mpi_test.cpp RANKS 1)
  mpiq_fake_cuda_mpi_test(device_mpi_test device_mpi_test.cpp device_calls_mpi_test.cpp RANKS 1 2 3 4)
  mpiq_fake_cuda_mpi_test(device_places_mpi_test device_places_mpi_test.cpp RANKS 1 2 3)
  # Once more with a driver that takes no kernels: staged through host memory; with one that is never late;
  # and with one that looks for pointers to host memory or another GPU's in the arguments of kernels.
  set(variable_refuse FAKE_CUDA_IMAGE=refuse)
  set(variable_eager FAKE_CUDA_EAGER=1)
  set(variable_strict FAKE_CUDA_STRICT=1)
  foreach(variant refuse eager strict)
    foreach(test device_mpi_test device_places_mpi_test)
      add_test(NAME ${test}_${variant} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 env ${variable_${variant}} $<TARGET_FILE:${test}>)
      set_tests_properties(${test}_${variant} PROPERTIES LABELS mpi TIMEOUT 300 ENVIRONMENT "${mpi_env}")
    endforeach()
  endforeach()

  # Once more with messages in the GPU's memory, over an MPI that takes them; with one that does not; and with
  # ranks that differ.
  mpiq_fake_cuda_mpi_test(device_wire_mpi_test device_wire_mpi_test.cpp device_mpi_test.cpp device_calls_mpi_test.cpp gpu_aware_mpi.cpp
    RANKS 1 2 3 ENV MPIQ_CUDA_WIRE=device)
  target_link_libraries(device_wire_mpi_test PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(device_wire_mpi_test PROPERTIES ENABLE_EXPORTS ON)
  foreach(wanted device auto)
    foreach(takes 0 off 1)
      add_test(NAME device_wire_mpi_test_${wanted}_${takes} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2
        env MPIQ_CUDA_WIRE=${wanted} GPU_AWARE_MPI=${takes} $<TARGET_FILE:device_wire_mpi_test> --gtest_filter=DeviceWire.*)
      list(APPEND wire_tests device_wire_mpi_test_${wanted}_${takes})
    endforeach()
  endforeach()
  add_test(NAME device_wire_mpi_test_mixed COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 1 env MPIQ_CUDA_WIRE=device
    $<TARGET_FILE:device_wire_mpi_test> : ${MPIEXEC_NUMPROC_FLAG} 1 env MPIQ_CUDA_WIRE=host $<TARGET_FILE:device_wire_mpi_test>)
  set_tests_properties(${wire_tests} device_wire_mpi_test_mixed PROPERTIES LABELS mpi TIMEOUT 300 ENVIRONMENT "${mpi_env}")
endif()
