# Tests of calls with vectors on GPUs, over the fake driver (driver.cmake); device_calls_mpi_test alone over any.
if(TARGET mpi_quant_cuda)
  mpiq_any_cuda_mpi_test(device_calls_mpi_test device_calls_mpi_test.cpp RANKS 1 2)
  mpiq_fake_cuda_mpi_test(device_mpi_test device_mpi_test.cpp device_calls_mpi_test.cpp RANKS 1 2 3 4)
  mpiq_fake_cuda_mpi_test(device_places_mpi_test device_places_mpi_test.cpp RANKS 1 2 3)
  # Once more with a driver that takes no kernels: staged through host memory; with one that is never late; and with one that looks for pointers to host memory or another GPU's in the arguments of kernels.
  set(variable_refuse FAKE_CUDA_IMAGE=refuse)
  set(variable_eager FAKE_CUDA_EAGER=1)
  set(variable_strict FAKE_CUDA_STRICT=1)
  foreach(variant refuse eager strict)
    foreach(test device_mpi_test device_places_mpi_test)
      add_test(NAME ${test}_${variant} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 env ${variable_${variant}} $<TARGET_FILE:${test}>)
      set_tests_properties(${test}_${variant} PROPERTIES LABELS mpi TIMEOUT 300 PROCESSORS 2 ENVIRONMENT "${mpi_env}")
    endforeach()
  endforeach()

  # Once more with messages in the GPU's memory, over an MPI that takes them; with one that does not; and with ranks that differ.
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
  set_tests_properties(${wire_tests} device_wire_mpi_test_mixed PROPERTIES LABELS mpi TIMEOUT 300 PROCESSORS 2 ENVIRONMENT "${mpi_env}")
endif()
