"""For the tests of the Python package: mpiexec -n N python3 NAME_test.py, with the package in PYTHONPATH and MPIQ_LIBRARY_DIR set.

Each rank runs all tests. A rank whose test fails ends the program, because the others would wait for it.
"""
import os
import socket
import sys
import unittest

import numpy as np
from mpi4py import MPI

import mpi_quant

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


class Broken:
    """Whatever is asked of it raises an error that no function of the package knows."""

    def __getattr__(self, name):
        raise LookupError("broken")

    def __str__(self):
        raise LookupError("broken")

    __repr__ = __float__ = __index__ = __iter__ = __len__ = __array__ = __hash__ = __str__


class OnAllRanks(unittest.TestCase):
    def assert_last_raises(self, call, given, fine):
        """call(given) on the last rank raises something else than mpi_quant's Error, and call(fine) on the other ranks an Error."""
        last = WORLD.rank == WORLD.size - 1
        try:
            call(given if last else fine)
        except Exception as error:
            self.assertEqual(isinstance(error, mpi_quant.Error), not last, f"{type(error).__name__}: {error}")
        else:
            self.fail(f"{call} with {type(given).__name__} raised nothing")

    def assert_same_bits(self, array):
        """All ranks have the same."""
        self.assertEqual(len(set(WORLD.allgather(np.ascontiguousarray(array).tobytes()))), 1)


def main():
    result = unittest.main(exit=False, verbosity=2 if WORLD.rank == 0 else 0, failfast=True).result
    if not result.wasSuccessful():
        sys.stderr.flush()
        WORLD.Abort(1)
