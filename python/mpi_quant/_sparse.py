"""Sums of sparse vectors: lists of indices with a value, or a row of values, for each. SPDX-License-Identifier: Apache-2.0"""
import ctypes
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from mpi_quant import _call
from mpi_quant._library import check, communicator, datatype, handle_of, library

Array = np.ndarray[Any, Any]

_OPERATIONS = {"sum": "SUM", "min": "MIN", "max": "MAX"}


def _indices(index: Any, name: str) -> Array:
    found = np.asarray(index)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"{name} is a list of integers, not {found.ndim} dimensions of {found.dtype}")
    return np.ascontiguousarray(found, np.int64)


def _values(value: Any, index: Array) -> Array:
    found = np.asarray(value)
    if found.dtype.name not in ("float32", "float64"):
        raise TypeError(f"value has elements of type {found.dtype}: float32 or float64 is needed")
    if not found.shape or found.shape[0] != index.size:
        raise TypeError(f"value has shape {found.shape}: its first size must be {index.size}, the number of indices")
    return np.ascontiguousarray(found, found.dtype.newbyteorder("="))


def _stride(value: Array) -> int:
    return int(np.prod(value.shape[1:], dtype=np.int64))


def _datatype(value: Array) -> int:
    return datatype("f64" if value.dtype == np.float64 else "f32")


def _words(timeout: float | None, **words: str) -> dict[str, str]:
    """The info keys of a call."""
    return words if timeout is None else {**words, "timeout": str(timeout)}


def _operation(op: str) -> int:
    from mpi4py import MPI
    if op not in _OPERATIONS:
        raise TypeError(f"op is one of {', '.join(_OPERATIONS)}, not {op}")
    return handle_of(getattr(MPI, _OPERATIONS[op]))


def sparse_allreduce(index: Any, value: Any, wanted: Any = None, *, op: str = "sum", key: str | None = None, comm: Any = None,
                     ascending: bool = False, timeout: float | None = None) -> Array:
    """Reduces the values of each index over all ranks, and gives this rank the sums at the indices that it wants. Collective.

    index: integers from 0 to 2**63 - 1, in any order, also twice. value: float32 or float64 of shape (len(index), ...): a number or
    a row for each index, of the same size on all ranks.
    wanted: the indices to give back; None: the same as index. They may be others than index.
    op: sum, min or max. key: keeps several sets of lists apart; lists that stay the same are sent once.
    ascending: all lists are strictly ascending, which saves a sort. timeout: seconds after which a silent rank is an Error.

    Returns an array of shape (len(wanted), ...). An index that no rank has gives 0 (min: Inf, max: -Inf).
    Raises Error on all ranks if ranks differ in row size, type, op or options, or if a list cannot be used.
    """
    handle, function = handle_of(communicator(comm)), library().functions.MPIQ_Sparse_allreduce
    with _call.telling(lambda: _call.with_info({}, lambda info: function(
            -1, None, None, 0, None, None, 1, datatype("f32"), _operation("sum"), handle, info))) as ranks:
        words = _words(timeout, indices="sorted" if ascending else "any", **({} if key is None else {"key": key}))
        op_handle = _operation(op)
        index = _indices(index, "index")
        value = _values(value, index)
        wanted = index if wanted is None else _indices(wanted, "wanted")
        found = np.empty((wanted.size, *value.shape[1:]), value.dtype)
        code = _call.with_info(words, lambda info: ranks.meet(
            function, index.size, index.ctypes.data, value.ctypes.data, wanted.size, wanted.ctypes.data, found.ctypes.data, _stride(value),
            _datatype(value), op_handle, handle, info))
    check(code)
    return found


def sparse_union(index: Any, value: Any, size: int, *, dense: bool = False, op: str = "sum", comm: Any = None,
                 algorithm: str = "auto", timeout: float | None = None) -> Any:
    """Reduces sparse vectors of `size` elements, and gives every rank the whole result. Collective.

    index, value, op, timeout: as in sparse_allreduce; indices are below size. algorithm: info key mpiq_algorithm of docs/sparse.md.
    dense: give the result as an array of shape (size, ...) in place of lists.

    Returns (indices, values), the indices ascending; if dense, the array alone.
    Raises Error on all ranks as sparse_allreduce does.
    """
    return _union(lambda: (index, value, size), dense, op, comm, algorithm, timeout)


def _union(vectors: Callable[[], tuple[Any, Any, int]], dense: bool, op: str, comm: Any, algorithm: str, timeout: float | None) -> Any:
    """sparse_union of the indices, the values and the size that vectors() gives."""
    comm, function = communicator(comm), library().functions.MPIQ_Sparse_allreduce_union
    handle, wrong, entries = handle_of(comm), None, 0
    try:
        words, op_handle = _words(timeout, indices="any", algorithm=algorithm), _operation(op)
        index, value, size = vectors()
        index = _indices(index, "index")
        value, size = _values(value, index), operator.index(size)
        if not 0 <= size < 2**63:
            raise TypeError(f"size is {size}: 0 to 2**63 - 1 is needed")
        entries = index.size
    except Exception as error:  # which the other ranks learn of below
        wrong = error
    room = comm.allreduce(entries)  # the result has at most as many entries as all lists together
    with _call.telling(lambda: _call.with_info({}, lambda info: function(
            -1, None, None, 0, 0, None, None, None, 1, datatype("f32"), _operation("sum"), handle, info))) as ranks:
        if wrong is not None:
            raise wrong
        room = size if dense else min(size, room)
        indices = np.empty(0 if dense else room, np.int64)
        found = np.empty((room, *value.shape[1:]), value.dtype)
        count = ctypes.c_int64()
        code = _call.with_info(words, lambda info: ranks.meet(
            function, index.size, index.ctypes.data, value.ctypes.data, size, room, None if dense else indices.ctypes.data, found.ctypes.data,
            ctypes.byref(count), _stride(value), _datatype(value), op_handle, handle, info))
    check(code)
    return found if dense else (indices[:count.value].copy(), found[:count.value].copy())


def sparse_sum(matrix: Any, *, comm: Any = None) -> Any:
    """The sum over all ranks of matrices of scipy.sparse, all of one shape and type (float32 or float64). Collective.

    Returns a matrix of the class of `matrix` on every rank. Entries that cancel stay, as zeros.
    """
    entries: Any = None
    columns = 0

    def lists() -> tuple[Any, Any, int]:
        nonlocal entries, columns
        entries = matrix.tocoo()
        rows, columns = (int(size) for size in matrix.shape)
        return entries.row.astype(np.int64) * columns + entries.col, entries.data, rows * columns

    index, value = _union(lists, False, "sum", comm, "auto", None)
    total = type(entries)((value, (index // max(columns, 1), index % max(columns, 1))), shape=matrix.shape)
    return total.asformat(matrix.format)
