"""Stands in for mpi4py, so that the Python package is tested with handles that no installed mpi4py has: handles of MPICH where mpi4py
is built for Open MPI, as Debian's is, and handles of the standard ABI, for which there is no wheel. It has the names of mpi4py that
the package and its tests use, and loads the library TEST_MPI (Debian's MPICH) as mpi4py's wheels load their MPI: for itself alone."""
