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
mpiq_device_test(device_sparse_test device_sparse_test.cpp)
mpiq_device_test(device_bitmaps_test device_bitmaps_test.cpp)
