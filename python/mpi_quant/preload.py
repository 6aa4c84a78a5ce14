"""For programs that run under the preload library, whose sums are MPI's own: what they can tell it. docs/preload.md explains it.

Without the preload library these functions do nothing. SPDX-License-Identifier: Apache-2.0
"""
import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_LEVEL = 0x4D51  # MPIQ_PCONTROL of mpi_quant.h


@cache
def _pcontrol() -> Any:
    return getattr(ctypes.CDLL(None), "MPI_Pcontrol", None)  # of the preload library; mpi4py's Pcontrol takes levels only


def command(text: str) -> None:
    """Gives a command to the preload library, such as "key=layer 3". Raises ValueError if it does not know it."""
    function = _pcontrol()
    if function is not None and function(ctypes.c_int(_LEVEL), ctypes.c_char_p(text.encode())):
        raise ValueError(f"the preload library refuses the command {text!r}")


def key(name: str) -> None:
    """Names the vector of this thread's next sum: 1 to 63 bytes. What the sum leaves out is added to the next one of this name."""
    command(f"key={name}")


def step() -> None:
    """A step of the program begins, for the rule feedback=sequence."""
    command("step")


def flush() -> None:
    """The next sum of each residual is exact and adds all that waits. Call it on all ranks."""
    command("flush")


@contextmanager
def exact() -> Iterator[None]:
    """Sums inside the `with` stay exact, for example in an evaluation."""
    command("exact")
    try:
        yield
    finally:
        command("end")
