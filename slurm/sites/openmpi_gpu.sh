# InfiniBand, Open MPI built with PMIx, four GPUs a node.
partition=gpu
small_partition=serial
modules="gcc/12 openmpi/4.1 cuda/12 hdf5 python/3.11"
launcher=srun:pmix     # where Slurm has no pmix plugin (srun --mpi=list): openmpi, which starts by mpirun
sbatch_options=(--cpu-freq=Performance)
link=infiniband
python=python3
out=${WORK:-.}/mpi_quant

site_setup() { export UCX_TLS=rc,cuda_copy,cuda_ipc,sm,self; }
