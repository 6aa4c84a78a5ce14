# Tests of device rows and of what launches them, without a GPU: kernels run in the emulator (simt/).
# mpiq_device_test(NAME SOURCES...): a unit test linked with it; `gpu_tests` builds them all.
add_subdirectory(simt)
add_custom_target(gpu_tests)
function(mpiq_device_test name)
  mpiq_test(${name} ${ARGN})
  target_sources(${name} PRIVATE $<TARGET_OBJECTS:mq_simt>)
  add_dependencies(gpu_tests ${name})
endfunction()

mpiq_device_test(simt_test simt_test.cpp)
mpiq_device_test(device_rows_test device_rows_test.cpp SHARDS 2)
mpiq_device_test(device_convert_test device_convert_test.cpp)
mpiq_device_test(device_sparse_test device_sparse_test.cpp)
