# A Cray EX with Slurm: MPICH of the vendor over Slingshot, programming environments as modules, a scratch
# file system.
partition=standard
qos=standard
modules="PrgEnv-gnu cray-hdf5 cray-python"
launcher=srun:cray_shasta
sbatch_options=(--switches=1@30:00)  # one group of the network if there is one within half an hour
link=slingshot
python=python3
out=${SCRATCH:-.}/mpi_quant
