# Tests of device rows and of what launches them, without a GPU: kernels run in the emulator (simt/).
# mpiq_device_test(NAME SOURCES...): a unit test linked with it; `gpu_tests` builds them all.
add_subdirectory(simt)
add_custom_target(gpu_tests)
function(mpiq_device_test name)
  mpiq_test(${name} ${ARGN})
  target_sources(${name} PRIVATE $<TARGET_OBJECTS:mq_simt> simt/on_device.cpp)
  add_dependencies(gpu_tests ${name})
endfunction()

mpiq_device_test(simt_test simt_test.cpp)
mpiq_device_test(device_rows_test device_rows_test.cpp SHARDS 2)
mpiq_device_test(device_convert_test device_convert_test.cpp)

# GPUs without one: libcuda.so.1 of fake_cuda/, which is this process. A program is linked with it or started with it preloaded.
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
  # mpiq_fake_cuda_mpi_test(NAME SOURCES... RANKS 1 2 ... [LIBS ...] [ENV ...]): as mpiq_mpi_test, with a driver.
  function(mpiq_fake_cuda_mpi_test name)
    mpiq_mpi_test(${name} ${ARGN})
    mpiq_fake_cuda(${name})
  endfunction()

  mpiq_fake_cuda_test(device_api_test device_api_test.cpp)
endif()
