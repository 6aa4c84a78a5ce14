"""jax: allreduce for functions that jit compiles. mpi_quant.allreduce takes arrays of jax as well, but only outside of them.

    gradient = mpi_quant.jax.allreduce(gradient, method="int8", key="weights", op="avg")
SPDX-License-Identifier: Apache-2.0
"""
from typing import Any

import jax
import numpy as np
from jax.experimental import io_callback

from mpi_quant import _arrays, _call
from mpi_quant._library import communicator


def allreduce(x: Any, *, comm: Any = None, method: str | None = None, error: float | str | None = None, key: str | None = None,
              matrix: tuple[int, int] | None = None, seed: int | None = None, op: str = "sum") -> Any:
    """The sum of x over the ranks of comm, or with op="avg" its mean, of x's shape and type: the same bits on all of them. Collective. For use inside jit.

    x: elements of float16, bfloat16, float32, float64, complex64 or complex128, on the one device of this process. It goes through the host's memory.
    The other arguments are as in mpi_quant.allreduce. They, and a `with mpi_quant.options` around the call, count when jax traces
    the function: a compiled function keeps the method with which it was traced.

    It is an ordered callback of jax: calls of a program run one after the other, in the order of the program. So all ranks must run
    the same calls in the same order. jax has no derivative of it, and no vmap: call it on gradients.

    Raises TypeError for elements that cannot be summed. Where mpi_quant.allreduce raises an Error, jax raises its own error with the
    library's text, on all ranks, when the program waits for the result.
    """
    x = jax.numpy.asarray(x)
    if x.dtype.name not in _arrays.ELEMENTS:
        raise TypeError(f"x has elements of type {x.dtype.name}: one of {', '.join(_arrays.ELEMENTS)} is needed")
    own, words = communicator(comm), _call.words_of(method=method, error=error, key=key, matrix=matrix, seed=seed, op=op)

    def on_host(value: Any) -> Any:
        return _call.allreduce_by(lambda: dict(words), np.asarray(value, order="C"), None, own)

    return io_callback(on_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)
