"""Arrays of every kind through mpi4py: large sums of real and complex floats follow the policy, all else is exact.

dtypes.py exact|lossy
"""
import sys

import numpy as np
from mpi4py import MPI

LOSSY = len(sys.argv) > 1 and sys.argv[1] == "lossy"
N = 40000
comm = MPI.COMM_WORLD
wrong = []


def check(what, got, expected, compressed=False):
    if bool(np.array_equal(got, expected)) == compressed:
        wrong.append(f"{what} is {'not compressed' if compressed else 'not exact'}")


def arrays(dtype):
    """What this rank brings, and the sum of all: whole numbers that every type holds."""
    x = (np.arange(N) % 7).astype(dtype)
    return x, (comm.size * x).astype(dtype)


for dtype in "f4 f8 c8 c16 g i1 u1 i2 i4 u4 i8 u8".split():
    x, expected = arrays(dtype)
    compressed = LOSSY and dtype in ("f4", "f8", "c8", "c16")
    y = np.zeros_like(x)
    comm.Allreduce(x, y)
    check(f"{dtype}", y, expected, compressed)
    y = x.copy()
    comm.Allreduce(MPI.IN_PLACE, y, op=MPI.SUM)
    check(f"{dtype} in place", y, expected, compressed)
    comm.Allreduce(x, y, op=MPI.MAX) if dtype[0] != "c" else comm.Allreduce(x, y, op=MPI.PROD)
    check(f"another operation on {dtype}", y, x if dtype[0] != "c" else x**comm.size)
    comm.Iallreduce(x, y).Wait()
    check(f"Iallreduce of {dtype}", y, expected)

x, expected = arrays("f4")
check("allreduce of objects", comm.allreduce(x), expected)
check("allreduce of numbers", comm.allreduce(0.1), sum([0.1] * comm.size))
y = np.zeros_like(x)
comm.Allreduce([x, N, MPI.FLOAT], [y, N, MPI.FLOAT])
check("with count and type", y, expected, LOSSY)
wide = np.zeros(N + 1, "f4")
comm.Allreduce(x, wide[1:])
check("into a slice", wide[1:], expected, LOSSY)
check("before the slice", wide[0], 0)
small = np.zeros(100, "f4")
comm.Allreduce(x[:100], small)
check("a small sum", small, expected[:100])
if wrong:
    print("\n".join(wrong))
sys.exit(len(wrong) > 0)
