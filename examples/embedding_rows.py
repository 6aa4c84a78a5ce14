"""A large table of embeddings of which each batch touches few rows: only these rows travel.

Run: mpiexec -n 2 python3 embedding_rows.py
Needs mpi_quant in PYTHONPATH (docs/python.md), and the mpiexec of the MPI library that mpi4py was built for.
SPDX-License-Identifier: Apache-2.0
"""
import sys

import numpy as np
from mpi4py import MPI

import mpi_quant as mq

comm = MPI.COMM_WORLD
ROWS, WIDTH, BATCH, STEPS = 100_000, 64, 200, 5
table = np.zeros((ROWS, WIDTH), np.float32)  # the same on all ranks
exact = np.zeros_like(table)

random = np.random.default_rng(comm.rank)
for _ in range(STEPS):
    rows = random.zipf(1.3, BATCH) % ROWS                     # frequent words are in the batches of all ranks; some come twice
    gradients = random.standard_normal((BATCH, WIDTH)).astype(np.float32)
    touched, sums = mq.sparse_union(rows, gradients, ROWS)    # the rows that any rank has touched, and their sums
    table[touched] -= 0.1 * sums
    dense = np.zeros_like(table)                              # what a program without lists would send
    np.add.at(dense, rows, gradients)
    comm.Allreduce(MPI.IN_PLACE, dense)
    exact -= 0.1 * dense

same = len(set(comm.allgather(table.tobytes()))) == 1
sent = mq.stats().wire_bytes_sent / STEPS
if comm.rank == 0:
    print(f"{sent / 1000:.0f} kB sent a step in place of {table.nbytes / 1000:.0f}, the ranks {'agree' if same else 'differ'}")
sys.exit(0 if same and np.allclose(table, exact, atol=1e-4) and sent < 0.1 * table.nbytes else 1)
