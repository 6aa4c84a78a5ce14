"""mpi_quant: sums of float vectors over the ranks of an MPI program, with a fraction of the bytes.

    import mpi_quant as mq
    total = mq.allreduce(x, method="onebit", key="layer 3")

`import mpi_quant` needs no MPI and starts nothing. The first use of a function imports mpi4py, which starts MPI, and loads the
library that fits this MPI. docs/python.md explains all functions.
SPDX-License-Identifier: Apache-2.0
"""
from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from mpi_quant import plots, preload, results
    from mpi_quant._call import Request, allreduce, iallreduce, options
    from mpi_quant._library import Error
    from mpi_quant._parts import allgather, iallgather, ireduce_scatter, reduce_scatter
    from mpi_quant._residuals import Residuals, residuals
    from mpi_quant._roots import bcast, ibcast, ireduce, reduce
    from mpi_quant._several import allreduce_group, iallreduce_group
    from mpi_quant._sparse import sparse_allreduce, sparse_sum, sparse_union
    from mpi_quant._state import Stats, library_info, set_policy, stats, wire_bound

# Where each public name is. A module is imported when one of its names is used.
_PLACES = {
    "Error": "_library", "Request": "_call", "Residuals": "_residuals", "Stats": "_state", "allgather": "_parts", "allreduce": "_call",
    "allreduce_group": "_several", "iallreduce_group": "_several", "iallgather": "_parts", "ireduce_scatter": "_parts",
    "bcast": "_roots", "ibcast": "_roots", "ireduce": "_roots", "iallreduce": "_call", "library_info": "_state", "options": "_call", "reduce": "_roots", "reduce_scatter": "_parts", "residuals": "_residuals", "set_policy": "_state",
    "sparse_allreduce": "_sparse", "sparse_sum": "_sparse", "sparse_union": "_sparse", "stats": "_state", "wire_bound": "_state",
}
_MODULES = ("jax", "plots", "preload", "results", "torch")

__all__ = [
    "Error", "Request", "Residuals", "Stats", "allgather", "allreduce", "allreduce_group", "bcast", "iallgather", "iallreduce", "iallreduce_group",
    "ibcast", "ireduce", "ireduce_scatter", "library_info", "options", "plots", "preload", "reduce", "reduce_scatter", "residuals",
    "results", "set_policy", "sparse_allreduce", "sparse_sum", "sparse_union", "stats", "wire_bound",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(_import_module(f"mpi_quant.{_PLACES[name]}"), name)
    if name in _MODULES:
        return _import_module(f"mpi_quant.{name}")
    raise AttributeError(f"module 'mpi_quant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES, *_MODULES])
