# What Python scripts test of the preload library: reports, mpiq-run, scripts/compare_preload. Read once.

if(TARGET mpiq-run)
  foreach(library failing_mpi other_version slow_mpi)
    add_library(${library} SHARED ${library}.c)
    mpiq_compile(${library})
    target_link_libraries(${library} PRIVATE ${CMAKE_DL_LIBS})
  endforeach()
  foreach(family IN LISTS families)
    add_test(NAME preload_report_${family} COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/report_test.py ${family} $<TARGET_FILE:mpiq-run>
      ${mpiexec_${family}} ${CMAKE_CURRENT_BINARY_DIR}/control_${family} $<TARGET_FILE:other_version>)
    set_tests_properties(preload_report_${family} PROPERTIES LABELS mpi TIMEOUT 300)
    add_test(NAME preload_advised_${family} COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/advised_test.py ${family} $<TARGET_FILE:mpiq-run>
      ${mpiexec_${family}} ${CMAKE_CURRENT_BINARY_DIR}/advised_${family} $<TARGET_FILE:slow_mpi>)
    set_tests_properties(preload_advised_${family} PROPERTIES LABELS mpi TIMEOUT 300 PROCESSORS 3)
    add_test(NAME doctor_${family} COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/scripts/doctor_test.py $<TARGET_FILE:mpiq-run>
      ${mpiexec_${family}} ${CMAKE_CURRENT_BINARY_DIR}/control_${family} $<TARGET_FILE:failing_mpi>)
    set_tests_properties(doctor_${family} PROPERTIES LABELS mpi TIMEOUT 180)
    set(env ${yielding})
    if(family STREQUAL openmpi)
      set(env ${openmpi_env})
    endif()
    set_tests_properties(doctor_${family} preload_report_${family} preload_advised_${family} PROPERTIES ENVIRONMENT "${env}")
  endforeach()
  add_test(NAME mpiq_run COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/scripts/run_test.py $<TARGET_FILE:mpiq-run> ${MPIEXEC_EXECUTABLE}
    ${CMAKE_CURRENT_BINARY_DIR}/calls_c_${mpi_family})
  set_tests_properties(mpiq_run PROPERTIES LABELS mpi TIMEOUT 120 PROCESSORS 2)
  if(mpi_family STREQUAL openmpi)
    set_tests_properties(mpiq_run PROPERTIES ENVIRONMENT "${openmpi_env}")
  endif()
endif()

set(mpiq_run)
if(TARGET mpiq-run)
  set(mpiq_run $<TARGET_FILE:mpiq-run>)
endif()
add_test(NAME compare_preload COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/scripts/compare_preload_test.py $<TARGET_FILE:mpi_quant_pmpi>
  ${MPIEXEC_EXECUTABLE} ${CMAKE_CURRENT_BINARY_DIR}/calls_c_${mpi_family} ${mpiq_run})
set_tests_properties(compare_preload PROPERTIES LABELS mpi TIMEOUT 300 PROCESSORS 2)
if(mpi_family STREQUAL openmpi)
  set_tests_properties(compare_preload PROPERTIES ENVIRONMENT "${openmpi_env}")
endif()
