# Ends the configuration if the user's flags let the compiler change floating-point results: two ranks with different processors would
# then get different bits. Some compilers, such as icx, do so without a flag.
set(mpiq_loose_flags "-ffast-math|-Ofast|-funsafe-math-optimizations|-fassociative-math|-freciprocal-math|-ffinite-math-only")
string(APPEND mpiq_loose_flags "|-fno-signed-zeros|-ffp-model=(fast|aggressive)|-fp-model[= ]?fast")
string(TOUPPER "${CMAKE_BUILD_TYPE}" mpiq_config)
set(mpiq_flags "${CMAKE_C_FLAGS} ${CMAKE_CXX_FLAGS} ${CMAKE_C_FLAGS_${mpiq_config}} ${CMAKE_CXX_FLAGS_${mpiq_config}}")
set(mpiq_loose)
if(mpiq_flags MATCHES "(^| )(${mpiq_loose_flags})( |$)")
  set(mpiq_loose ${CMAKE_MATCH_2})
else()
  include(CheckCXXSourceCompiles)
  unset(MPIQ_KEEPS_FLOATS CACHE)  # the flags may have changed
  check_cxx_source_compiles("#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error
#endif
int main() {}" MPIQ_KEEPS_FLOATS)
  if(NOT MPIQ_KEEPS_FLOATS)
    set(mpiq_loose "${CMAKE_CXX_COMPILER} by itself")
  endif()
endif()
if(mpiq_loose)
  message(FATAL_ERROR "${mpiq_loose} changes floating-point results, and the ranks of a program would get different bits: \
take it out of CFLAGS, CXXFLAGS and CMAKE_CXX_FLAGS. Where the compiler does it by itself, add -fno-fast-math (icx: -fp-model=precise)")
endif()
