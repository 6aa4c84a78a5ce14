# What programs of one family meet on other people's machines: read once for each family.

# Loaded or linked, the library takes no processor from the program, whatever is set for OpenMP.
mpiq_program(affinity_${family} ${mpicc} affinity.c)
set(link -L$<TARGET_FILE_DIR:mpi_quant_pmpi> -Wl,-rpath,$<TARGET_FILE_DIR:mpi_quant_pmpi>)
mpiq_program(affinity_linked_${family} ${mpicc} affinity.c -Wl,--no-as-needed ${link} -lmpi_quant_pmpi -lmpi_quant_${family})
set(library mpi_quant)
if(NOT family STREQUAL mpi_family)
  set(library mpi_quant_other)
endif()
add_dependencies(program_affinity_linked_${family} mpi_quant_pmpi ${library})
foreach(set OMP_PROC_BIND=true GOMP_CPU_AFFINITY=0-1)
  string(REGEX MATCH "^[A-Z]+" name ${set})
  set(run sh -c "exec \"$0\" \"$(nproc)\" \"$@\"" ${at}/affinity)
  mpiq_preload_test(affinity_${name} ${family} 2 ${set} ${preload} ${run}_${family} exact)
  mpiq_preload_test(affinity_${name}_threads ${family} 2 ${set} ${preload} ${onebit} MPIQ_THREADS=3 ${run}_${family} lossy 3)
  mpiq_preload_test(affinity_${name}_linked ${family} 2 ${set} ${run}_linked_${family} exact)
  foreach(how "" _threads _linked)
    set_tests_properties(preload_affinity_${name}${how}_${family}_np2 PROPERTIES SKIP_REGULAR_EXPRESSION "one processor"
      ENVIRONMENT "${openmpi_env};OMPI_MCA_hwloc_base_binding_policy=none")
  endforeach()
endforeach()
