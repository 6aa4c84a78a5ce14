# mpi_quant_find_family(LANGUAGE RESULT): RESULT is the family of the MPI library of MPI::MPI_LANGUAGE: mpich
# (and all with its ABI), openmpi, abi (the standard ABI of MPI 5), or "" for another. Separate because a
# program that uses the library asks it of its own MPI.
include(CheckSourceCompiles)
function(mpi_quant_find_family language result)
  set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_${language})
  set(CMAKE_REQUIRED_DEFINITIONS -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX)
  set(CMAKE_REQUIRED_QUIET ON)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # to compile, not to link
  string(MAKE_C_IDENTIFIER "${MPI_${language}_INCLUDE_DIRS}" place)  # another MPI is asked anew
  set(is_mpich MPI_QUANT_IS_MPICH_${language}_${place})
  set(is_openmpi MPI_QUANT_IS_OPENMPI_${language}_${place})
  set(is_abi MPI_QUANT_IS_ABI_${language}_${place})
  if(language STREQUAL "Fortran")
    set(begin "program family\nimplicit none\ninclude 'mpif.h'\n")
    check_source_compiles(Fortran "${begin}print *, OMPI_MAJOR_VERSION\nend program\n" ${is_openmpi} SRC_EXT F90)
    # Handles are integers in Fortran everywhere; this one is MPICH's.
    check_source_compiles(Fortran "${begin}integer(kind=merge(4, -1, MPI_SUM == 1476395011)) :: a\na = 1\nprint *, a\nend program\n"
      ${is_mpich} SRC_EXT F90)
    check_source_compiles(Fortran "${begin}integer(kind=merge(4, -1, MPI_SUM == 33)) :: a\na = 1\nprint *, a\nend program\n"
      ${is_abi} SRC_EXT F90)
  else()
    check_source_compiles(${language} "#include <mpi.h>\n#ifndef OPEN_MPI\n#error\n#endif\nint x;\n" ${is_openmpi})
    check_source_compiles(${language} "#include <mpi.h>\nint x[sizeof(MPI_Comm) == sizeof(int) ? 1 : -1];\n" ${is_mpich})
    check_source_compiles(${language}
      "#include <mpi.h>\n#ifndef MPI_ABI_VERSION\n#error\n#endif\nint x[sizeof(MPI_Comm) == sizeof(void*) ? 1 : -1];\n" ${is_abi})
  endif()
  set(family)
  if(${is_openmpi})
    set(family openmpi)
  elseif(${is_mpich})
    set(family mpich)
  elseif(${is_abi})
    set(family abi)
  endif()
  set(${result} "${family}" PARENT_SCOPE)
endfunction()
