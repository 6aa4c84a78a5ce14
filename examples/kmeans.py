"""K-means in numpy on points of several ranks: the sums of the clusters by the method bf16, of half the bytes.

Run: mpiexec -n 2 python3 kmeans.py
Needs mpi_quant in PYTHONPATH (docs/python.md), and the mpiexec of the MPI library that mpi4py was built for.
SPDX-License-Identifier: Apache-2.0
"""
import sys

import numpy as np
from mpi4py import MPI

import mpi_quant as mq

comm = MPI.COMM_WORLD
CLUSTERS, DIMENSIONS, POINTS = 32, 512, 2000
true = np.random.default_rng(0).standard_normal((CLUSTERS, DIMENSIONS)).astype(np.float32)
random = np.random.default_rng(1 + comm.rank)
points = true[random.integers(0, CLUSTERS, POINTS)] + 0.3 * random.standard_normal((POINTS, DIMENSIONS)).astype(np.float32)


def cluster(method):
    """The centres of the clusters after five steps. All ranks begin with the same centres."""
    centres = true + np.float32(0.5)
    for _ in range(5):
        near = np.argmin((centres ** 2).sum(1) - 2 * points @ centres.T, axis=1)
        sums = np.zeros((CLUSTERS, DIMENSIONS + 1), np.float32)  # of the points, and their number, in one vector
        np.add.at(sums, near, np.hstack([points, np.ones((POINTS, 1), np.float32)]))
        mq.allreduce(sums, sums, method=method)  # no key: each result counts alone
        centres = sums[:, :-1] / np.maximum(sums[:, -1:], 1)
    return centres


exact, lossy = cluster("mpi"), cluster("bf16")
change = np.linalg.norm(lossy - exact) / np.linalg.norm(exact)
same = len(set(comm.allgather(lossy.tobytes()))) == 1
if comm.rank == 0:
    print(f"centres differ by {change:.1e} from exact ones, the ranks {'agree' if same else 'differ'}")
sys.exit(0 if same and change < 0.01 and np.linalg.norm(exact - true) < 0.1 * np.linalg.norm(true) else 1)
