"""Residuals in a checkpoint, of any format, which fewer ranks load: what waits on all ranks together stays the same.

Run: mpiexec -n 2 python3 checkpoint.py
Needs mpi_quant in PYTHONPATH (docs/python.md), and the mpiexec of the MPI library that mpi4py was built for.
SPDX-License-Identifier: Apache-2.0
"""
import os
import pickle
import sys
import tempfile

import numpy as np
from mpi4py import MPI

import mpi_quant as mq

comm = MPI.COMM_WORLD
COUNT, STEPS = 100_000, 10
gradient = np.random.default_rng(comm.rank).standard_normal(COUNT).astype(np.float32)
exact = np.zeros_like(gradient)
comm.Allreduce(gradient, exact)

delivered = np.zeros(COUNT)
for _ in range(STEPS):
    delivered += mq.allreduce(gradient, method="onebit", key="gradient")

# Each rank writes a file of its own.
folder = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
with open(os.path.join(folder, f"{comm.rank}.pickle"), "wb") as file:
    pickle.dump(mq.residuals(comm).state_dict(), file)
comm.Barrier()

# The run goes on with one rank, which reads them all.
good = True
if comm.rank == 0:
    states = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            states.append(pickle.load(file))
        os.remove(os.path.join(folder, name))
    os.rmdir(folder)
    waiting = mq.residuals(MPI.COMM_SELF)
    waiting.load_state_dict(states)
    before = np.linalg.norm(delivered - STEPS * exact) / np.linalg.norm(STEPS * exact)
    delivered += waiting.flush("gradient", np.empty_like(gradient))
    after = np.linalg.norm(delivered - STEPS * exact) / np.linalg.norm(STEPS * exact)
    print(f"error of the sum of {STEPS} steps: {before:.1e}, with what waited {after:.1e}")
    good = after < 1e-5
sys.exit(0 if good else 1)
