"""Stands in for mpi4py on MPICH, so that the Python package is tested with MPICH's handles where mpi4py is built for Open MPI, as
Debian's is. It has the names of mpi4py that the package and its tests use, and loads Debian's MPICH as mpi4py's wheels load their MPI:
for itself alone."""
