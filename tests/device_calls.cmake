# Tests of calls with vectors on GPUs, over the fake driver (driver.cmake).
if(TARGET mpi_quant_cuda)
  mpiq_fake_cuda_mpi_test(device_mpi_test device_mpi_test.cpp RANKS 1 2 3 4)
  # Once more with a driver that takes no kernels: staged through host memory; with one that is never late; and with one that looks for pointers to host memory in the arguments of kernels.
  set(variable_refuse FAKE_CUDA_IMAGE=refuse)
  set(variable_eager FAKE_CUDA_EAGER=1)
  set(variable_strict FAKE_CUDA_STRICT=1)
  foreach(variant refuse eager strict)
    add_test(NAME device_mpi_test_${variant} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 env ${variable_${variant}}
      $<TARGET_FILE:device_mpi_test>)
    set_tests_properties(device_mpi_test_${variant} PROPERTIES LABELS mpi TIMEOUT 300 PROCESSORS 2 ENVIRONMENT "${mpi_env}")
  endforeach()
endif()
