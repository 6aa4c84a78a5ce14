# Which MPI this build takes, as MPI_C_COMPILER: what the user names (-D MPI_C_COMPILER or -D MPI_HOME); else
# the mpicc that PATH names, as modules, Spack and conda set it. Only where that mpicc is the system's own is
# MPICH's taken first: Debian's plain mpicc may belong to either family. The mpiexec is the one beside the
# mpicc.
set(mpiq_system_folders /usr/bin /bin)

if(NOT DEFINED MPI_C_COMPILER AND NOT DEFINED MPI_HOME AND NOT DEFINED ENV{MPI_HOME})
  find_program(mpiq_mpicc NAMES mpicc NO_CACHE)
  set(mpiq_folder)
  if(mpiq_mpicc)
    get_filename_component(mpiq_folder ${mpiq_mpicc} DIRECTORY)
  endif()
  if(NOT mpiq_mpicc OR mpiq_folder IN_LIST mpiq_system_folders)
    find_program(mpiq_of_system NAMES mpicc.mpich mpicc mpicc.openmpi PATHS ${mpiq_folder} NO_CACHE)
    if(mpiq_of_system)
      set(mpiq_mpicc ${mpiq_of_system})
    endif()
  endif()
  if(mpiq_mpicc)
    set(MPI_C_COMPILER ${mpiq_mpicc} CACHE FILEPATH "compiler wrapper of the MPI library")
    message(STATUS "MPI: ${MPI_C_COMPILER} (another: -D MPI_C_COMPILER=...)")
  endif()
endif()

if(MPI_C_COMPILER AND NOT DEFINED MPIEXEC_EXECUTABLE)
  get_filename_component(mpiq_folder ${MPI_C_COMPILER} DIRECTORY)
  get_filename_component(mpiq_name ${MPI_C_COMPILER} NAME)
  string(REPLACE mpicc mpiexec mpiq_name ${mpiq_name})
  if(EXISTS ${mpiq_folder}/${mpiq_name})
    set(MPIEXEC_EXECUTABLE ${mpiq_folder}/${mpiq_name} CACHE FILEPATH "launcher of the MPI library")
  endif()
endif()
