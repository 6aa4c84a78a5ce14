# Tests of calls with vectors on GPUs, over the fake driver (driver.cmake).
if(TARGET mpi_quant_cuda)
  # Once more with a driver that takes no kernels: staged through host memory; and with one that is never late.
  mpiq_fake_cuda_mpi_test(device_mpi_test device_mpi_test.cpp RANKS 1 2 3 4)
  foreach(variant refuse eager)
    set(variable FAKE_CUDA_IMAGE=refuse)
    if(variant STREQUAL eager)
      set(variable FAKE_CUDA_EAGER=1)
    endif()
    add_test(NAME device_mpi_test_${variant} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 env ${variable}
      $<TARGET_FILE:device_mpi_test>)
    set_tests_properties(device_mpi_test_${variant} PROPERTIES LABELS mpi TIMEOUT 300 PROCESSORS 2 ENVIRONMENT "${mpi_env}")
  endforeach()
endif()
