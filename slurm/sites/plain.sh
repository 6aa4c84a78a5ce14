# A cluster where MPICH speaks Slurm's PMI-1/2, as Debian's does: what slurm/submit assumes without a site.
# Copy this file, change it, and name it by --site or MPIQ_SITE. Jobs source it, so that any bash will do;
# what is left out has the value shown here.

partition=          # of cells, unless --partition says otherwise; also account, qos, constraint
account=
qos=
constraint=
small_partition=    # of the last job, which needs one core for some minutes; empty: as the cells
modules=            # each is loaded at the beginning of every job: "gcc/12.2 mpich/4.1"
launcher=srun:pmi2  # srun:pmi2, srun:pmix, srun:cray_shasta, hydra (mpiexec of MPICH and Intel MPI), openmpi (mpirun)
srun_options=()     # more for the launcher: (--mem-bind=local)
sbatch_options=()   # more for sbatch, of cells only: (--switches=1@1:00:00 --cpu-freq=Performance)
link=               # name of the network, in results slurm-<link> [the cluster's name]
python=/usr/bin/python3  # 3.11 or later, with h5py, numpy, pandas and matplotlib
out=.               # where runs go, on a file system that all nodes see: "$SCRATCH/mpi_quant"

# Runs in every job after the modules are loaded. Fails the job, with this message, if it fails.
# site_setup() { export UCX_TLS=rc,sm,self; }
