"""A Python program with a plain Allreduce of mpi4py, which the preload library compresses.

Run: mpiexec -n 2 mpiq-run --policy '64K-: bf16' --report - python3 mpi4py_example.py
Use the mpiexec of the MPI library that mpi4py was built for. With a rule such as '64K-: onebit' the key below names the vector: what
a call leaves out is added to the next call with this key.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
pcontrol = getattr(ctypes.CDLL(None), "MPI_Pcontrol", lambda *command: 0)  # mpi4py's own takes no text


def vector(rank):
    return np.sin(0.1 * np.arange(100_000, dtype=np.float32)) + np.float32(0.5 * rank)


total = vector(comm.rank)
pcontrol(0x4D51, b"key=wave")  # MPIQ_PCONTROL; before each sum of this vector. Does nothing without the library
comm.Allreduce(MPI.IN_PLACE, total, op=MPI.SUM)

# The result is close to the sum, and has the same bits on all ranks.
exact = sum(vector(rank).astype(np.float64) for rank in range(comm.size))
error = np.linalg.norm(total - exact) / np.linalg.norm(exact)
of_rank_0 = comm.bcast(total.tobytes())
same = comm.allreduce(of_rank_0 == total.tobytes(), op=MPI.LAND)
if comm.rank == 0:
    print(f"relative error of the sum: {error:.2g}, the ranks {'agree' if same else 'differ'}")
sys.exit(0 if same and error < 0.01 else 1)
