# What the commands of mpiq read besides the package's modules, as files of the source tree
# (mpi_quant/_places.py). mpiq_data: where to.
get_filename_component(tree ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
install(FILES ${tree}/bench/columns.def DESTINATION ${mpiq_data}/bench)
install(DIRECTORY ${tree}/bench/sweeps DESTINATION ${mpiq_data}/bench)
install(FILES ${tree}/results/reference/kernels.json DESTINATION ${mpiq_data}/results/reference)  # rates for simulate
install(PROGRAMS ${tree}/scripts/lab ${tree}/scripts/version DESTINATION ${mpiq_data}/scripts)
install(FILES ${tree}/slurm/job.sbatch DESTINATION ${mpiq_data}/slurm)
install(DIRECTORY ${tree}/slurm/sites DESTINATION ${mpiq_data}/slurm)
