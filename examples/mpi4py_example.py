"""A Python program with a plain Allreduce of mpi4py, which the preload library compresses.

Run: mpiexec -n 2 mpiq-run --policy '64K-: bf16' --report - python3 mpi4py_example.py
Use the mpiexec of the MPI library that mpi4py was built for.
SPDX-License-Identifier: Apache-2.0
"""
import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def vector(rank):
    return np.sin(0.1 * np.arange(100_000, dtype=np.float32)) + np.float32(0.5 * rank)


total = vector(comm.rank)
comm.Allreduce(MPI.IN_PLACE, total, op=MPI.SUM)

# The result is close to the sum, and has the same bits on all ranks.
exact = sum(vector(rank).astype(np.float64) for rank in range(comm.size))
error = np.linalg.norm(total - exact) / np.linalg.norm(exact)
of_rank_0 = comm.bcast(total.tobytes())
same = comm.allreduce(of_rank_0 == total.tobytes(), op=MPI.LAND)
if comm.rank == 0:
    print(f"relative error of the sum: {error:.2g}, the ranks {'agree' if same else 'differ'}")
sys.exit(0 if same and error < 0.01 else 1)
