"""Finds the package mpi_quant of this tree, and chooses the Python that runs a script (mpi_quant/_python.py). To be imported before all that
is not in the standard library. The files that start a command of mpiq, such as scripts/plot, call start."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "python"))

from mpi_quant import __main__, _python  # noqa: E402

# Scripts that need more than the standard library, and are no commands of mpiq.
NEEDS = {"entropy": ("numpy",), "frontier": ("numpy",), "readme_tables": _python.FIGURES}


def start(command, program):
    """Runs a command of mpiq. program: the name by which it speaks of itself."""
    sys.exit(__main__.run(command, program, sys.argv[1:]))


_NAME = os.path.basename(sys.argv[0]) if sys.argv else ""
if _NAME in NEEDS and os.path.dirname(os.path.realpath(sys.argv[0])) == os.path.dirname(os.path.realpath(__file__)):
    _python.settle(f"scripts/{_NAME}", NEEDS[_NAME])
