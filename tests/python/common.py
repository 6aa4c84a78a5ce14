"""For the tests of the Python package: mpiexec -n N python3 NAME_test.py, with the package in PYTHONPATH and MPIQ_LIBRARY_DIR set.

Each rank runs all tests. A rank whose test fails ends the program, because the others would wait for it.
"""
import os
import socket
import sys
import unittest

import numpy as np
from mpi4py import MPI

WORLD = MPI.COMM_WORLD


def vector(count, rank=None, dtype=np.float32):
    """Normally distributed, another one on each rank."""
    return np.random.default_rng(100 + (WORLD.rank if rank is None else rank)).standard_normal(count).astype(dtype)


def exact_sum(count, dtype=np.float32):
    return sum(vector(count, rank, dtype).astype(np.float64) for rank in range(WORLD.size))


def relative_error(found, expected):
    found = np.asarray(found, np.float64)
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def rendezvous():
    """Sets the variables by which torch's processes find each other, with a port that is free on rank 0."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = WORLD.allgather(free.getsockname()[1])[0]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(WORLD.rank), WORLD_SIZE=str(WORLD.size))


class OnAllRanks(unittest.TestCase):
    def assert_same_bits(self, array):
        """All ranks have the same."""
        self.assertEqual(len(set(WORLD.allgather(np.ascontiguousarray(array).tobytes()))), 1)


def main():
    result = unittest.main(exit=False, verbosity=2 if WORLD.rank == 0 else 0, failfast=True).result
    if not result.wasSuccessful():
        sys.stderr.flush()
        WORLD.Abort(1)
