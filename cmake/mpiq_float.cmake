# Ends the configuration if the user's flags let the compiler change floating-point results: two ranks with
# different processors would then get different bits. Some compilers, such as icx, do so without a flag.
set(mpiq_loose_flags "-ffast-math|-Ofast|-funsafe-math-optimizations|-fassociative-math|-freciprocal-math|-ffinite-math-only")
string(APPEND mpiq_loose_flags "|-fno-signed-zeros|-f?fp-model=(fast|aggressive).*")

# OUT becomes the flags that count. A later flag undoes an earlier one: -fno-X undoes -fX, and the last model
# counts.
function(mpiq_loose_of out)
  string(REPLACE "-fp-model " "-fp-model=" flags "${ARGN}")
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(loose)
  foreach(flag IN LISTS flags)
    string(REGEX REPLACE "^-fno-" "-f" undone "${flag}")
    string(REPLACE "-fsigned-zeros" "-fno-signed-zeros" undone "${undone}")
    if(flag MATCHES "^-f?fp-model=")
      list(FILTER loose EXCLUDE REGEX "^-f?fp-model=")
    endif()
    if(flag MATCHES "^(${mpiq_loose_flags})$")
      list(APPEND loose "${flag}")
    else()
      list(REMOVE_ITEM loose "${undone}")
    endif()
  endforeach()
  set(${out} "${loose}" PARENT_SCOPE)
endfunction()

string(TOUPPER "${CMAKE_BUILD_TYPE}" mpiq_config)
set(mpiq_loose)
foreach(language C CXX)
  mpiq_loose_of(loose "${CMAKE_${language}_FLAGS} ${CMAKE_${language}_FLAGS_${mpiq_config}}")
  list(APPEND mpiq_loose ${loose})
endforeach()
if(mpiq_loose)
  list(GET mpiq_loose 0 mpiq_loose)
else()
  include(CheckCXXSourceCompiles)
  unset(MPIQ_KEEPS_FLOATS CACHE)  # the flags may have changed
  check_cxx_source_compiles("#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error
#endif
int main() {}" MPIQ_KEEPS_FLOATS)
  if(NOT MPIQ_KEEPS_FLOATS)
    set(mpiq_loose "${CMAKE_CXX_COMPILER} without a flag")
  endif()
endif()
if(mpiq_loose)
  message(FATAL_ERROR "${mpiq_loose} changes floating-point results, and the ranks of a program would get different bits: \
take it out of CFLAGS, CXXFLAGS and CMAKE_CXX_FLAGS. Where the compiler does it without a flag, add -fno-fast-math (icx: -fp-model=precise)")
endif()
