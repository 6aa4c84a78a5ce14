# Finds nvcc if there is one and MPIQ_CUDA allows it; sets MPIQ_HAVE_CUDA and MPIQ_NVCC. No GPU or driver is
# needed to compile.
#
# The image is made by a command of its own, not by CMake's CUDA language: it is data to us, which
# libmpi_quant_cuda.so carries and hands to the driver; nothing is linked with CUDA. --fmad=false: as
# -ffp-contract=off, see mpiq_compile.cmake.
set(MPIQ_HAVE_CUDA OFF)
set(mpiq_architectures)
if(NOT MPIQ_CUDA STREQUAL "OFF")
  find_program(MPIQ_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin DOC "CUDA compiler")
  if(MPIQ_NVCC)
    set(MPIQ_HAVE_CUDA ON)
    # Code for one architecture takes nvcc more than a minute of a processor. So by default there is code for
    # the GPUs of this machine, from 8.0 on.
    find_program(MPIQ_NVIDIA_SMI nvidia-smi DOC "lists the GPUs of this machine")
    if(MPIQ_NVIDIA_SMI)
      execute_process(COMMAND ${MPIQ_NVCC} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
      execute_process(COMMAND ${MPIQ_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE gpus ERROR_QUIET)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]" gpus "${gpus}")
      foreach(gpu IN LISTS gpus)
        string(REPLACE "." "" gpu ${gpu})
        if(gpu GREATER_EQUAL 80 AND known MATCHES "compute_${gpu}[\r\n]")
          list(APPEND mpiq_architectures ${gpu})
        elseif(NOT DEFINED MPIQ_CUDA_ARCHITECTURES)
          message(WARNING "The CUDA kernels have no code for a GPU of this machine, of capability ${gpu}: docs/gpu.md, MPIQ_CUDA_ARCHITECTURES")
        endif()
      endforeach()
      list(REMOVE_DUPLICATES mpiq_architectures)
    endif()
  elseif(MPIQ_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MPIQ_CUDA=ON, but no CUDA compiler was found: put nvcc on PATH or set MPIQ_NVCC")
  endif()
endif()
if(NOT mpiq_architectures)
  set(mpiq_architectures 90)
endif()
set(MPIQ_CUDA_ARCHITECTURES ${mpiq_architectures} CACHE STRING "compute capabilities that the image of CUDA kernels has code for; PTX serves others from 80 on")

# mpiq_device_image(TARGET SOURCE): two files with the kernels of SOURCE. The target's property MPIQ_IMAGE
# names the binaries for all MPIQ_CUDA_ARCHITECTURES, which only drivers as new as nvcc take, and MPIQ_PTX the
# PTX from which all of them are made, so that they compute the same: for drivers and GPUs that the binaries
# do not serve. Without nvcc each is a line of text, which every driver refuses.
function(mpiq_device_image target source)
  set(image ${PROJECT_BINARY_DIR}/${target}.fatbin)
  set(ptx ${PROJECT_BINARY_DIR}/${target}.ptx)
  if(MPIQ_HAVE_CUDA)
    # The binaries of all are made from one PTX: of 8.0, or of the least architecture if that is less. CUDA
    # 11.0, the first with 8.0, has PTX 7.0, so that drivers of that time take the PTX of a newer nvcc.
    set(ascending ${MPIQ_CUDA_ARCHITECTURES} 80)
    list(SORT ascending COMPARE NATURAL)
    list(GET ascending 0 first)
    set(codes)
    foreach(architecture IN LISTS MPIQ_CUDA_ARCHITECTURES)
      list(APPEND codes -gencode arch=compute_${first},code=sm_${architecture})
    endforeach()
    set(lower copy ${ptx}.new ${ptx})
    if(first EQUAL 80)
      set(lower -D FROM=${ptx}.new -D TO=${ptx} -D VERSION=7.0 -P ${PROJECT_SOURCE_DIR}/cmake/lower_ptx.cmake)
    else()
      list(PREPEND lower -E)
    endif()
    set(werror)
    if(MPIQ_WERROR)
      set(werror -Werror all-warnings)
    endif()
    add_custom_command(OUTPUT ${image} ${ptx}
      COMMAND ${MPIQ_NVCC} -ptx -std=c++20 -O3 --fmad=false --expt-relaxed-constexpr ${werror} -arch=compute_${first}
        -ccbin ${CMAKE_CXX_COMPILER} -I${PROJECT_SOURCE_DIR} -I${MPIQ_KERNELS_GENERATED} -MD -MF ${image}.d -MT ${image} -o ${ptx}.new ${source}
      COMMAND ${CMAKE_COMMAND} ${lower}
      COMMAND ${MPIQ_NVCC} -fatbin -O3 --fmad=false --threads 0 ${codes} -o ${image} ${ptx}
      DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/lower_ptx.cmake DEPFILE ${image}.d
      COMMENT "CUDA kernels for ${MPIQ_CUDA_ARCHITECTURES}" VERBATIM)
  else()
    file(CONFIGURE OUTPUT ${image}.txt CONTENT "// no CUDA kernels: this library was built without nvcc\n")
    add_custom_command(OUTPUT ${image} ${ptx} COMMAND ${CMAKE_COMMAND} -E copy ${image}.txt ${image}
      COMMAND ${CMAKE_COMMAND} -E copy ${image}.txt ${ptx} DEPENDS ${image}.txt VERBATIM)
  endif()
  add_custom_target(${target} ALL DEPENDS ${image} ${ptx})
  set_target_properties(${target} PROPERTIES MPIQ_IMAGE ${image} MPIQ_PTX ${ptx})
endfunction()
