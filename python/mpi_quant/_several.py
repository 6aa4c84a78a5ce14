"""allreduce_group and iallreduce_group: the sums of several vectors by one call. SPDX-License-Identifier: Apache-2.0"""
import ctypes
from collections.abc import Callable, Iterable
from typing import Any

from mpi_quant import _arrays
from mpi_quant._call import Prepared, Request, Words, telling, with_info, words_of
from mpi_quant._library import check, communicator, datatype, handle_of, library


class _Group(Prepared):
    """The arguments of a call. words: makes the words of the info."""

    def __init__(self, arrays: Iterable[Any], out: Iterable[Any] | None, keys: Iterable[str] | None, comm: Any, words: Callable[[], Words]) -> None:
        from mpi4py import MPI
        self._comm, self._sum, self._in_place = handle_of(communicator(comm)), handle_of(MPI.SUM), int(MPI.IN_PLACE)
        self._is_new, self._is_finished = out is None, False
        with telling(self._refuse):
            self._words = words()
            self._arrays = list(arrays)
            self._keys = None if keys is None else _texts(keys, len(self._arrays))
            self._results = [_arrays.empty_like(x, f"arrays[{i}]") for i, x in enumerate(self._arrays)] if out is None else list(out)
            if len(self._results) != len(self._arrays):
                raise TypeError(f"out has {len(self._results)} arrays for {len(self._arrays)} vectors")
            self._pairs = [_arrays.pair(x, y, f"arrays[{i}]", f"out[{i}]") for i, (x, y) in enumerate(zip(self._arrays, self._results))]
            elements = sorted({source.element for source, _, _ in self._pairs})
            if len(elements) > 1:
                raise TypeError(f"arrays have elements of several types, {', '.join(elements)}: make a call for each type")
            self._element = elements[0] if elements else "f32"
            self.keep = self._pairs

    def run(self, function: Any, *after: Any) -> int:
        n = len(self._pairs)
        with telling(self._refuse) as ranks:
            sources = (ctypes.c_void_p * n)(*(self._in_place if same else source.address for source, _, same in self._pairs))
            targets = (ctypes.c_void_p * n)(*(target.address for _, target, _ in self._pairs))
            counts = (ctypes.c_int64 * n)(*(target.count for _, target, _ in self._pairs))
            return with_info(self._words, lambda info: ranks.meet(
                function, n, sources, targets, counts, self._keys, datatype(self._element), self._sum, self._comm, info, *after))

    def result(self) -> list[Any]:
        if not self._is_finished and self._is_new:
            self._results = [_arrays.for_user(x, None, result) for x, result in zip(self._arrays, self._results)]
        self._is_finished = True
        return self._results

    def _refuse(self) -> None:
        with_info({}, lambda info: library().functions.MPIQ_Allreduce_group(
            -1, None, None, None, None, datatype("f32"), self._sum, self._comm, info))


def _texts(keys: Iterable[str], n: int) -> Any:
    """An array of C's texts."""
    keys = keys if isinstance(keys, str) else list(keys)
    if isinstance(keys, str) or len(keys) != n:
        raise TypeError(f"keys is {keys!r}: a list of {n} texts is needed, one for each vector")
    for key in keys:
        if not isinstance(key, str) or "\0" in key:
            raise TypeError(f"keys holds {key!r}: a text without null characters is needed")
    return (ctypes.c_char_p * n)(*(key.encode() for key in keys))


def allreduce_group(arrays: Iterable[Any], out: Iterable[Any] | None = None, *, keys: Iterable[str] | None = None, comm: Any = None,
                    method: str | None = None, error: float | str | None = None, seed: int | None = None, op: str = "sum") -> list[Any]:
    """The sums of several vectors over the ranks of comm, by one call: a list of arrays. Collective.

    It needs one agreement and the messages of one vector, where a call for each vector needs its own. Experimental: it may change.

    arrays: as x of allreduce, in host memory, all with elements of one type; of the same lengths on all ranks. There may be none.
    out: as many arrays, each of the shape and type of its vector. `arrays` itself: all in place; an array may also stand in both
    lists. No result shares memory with another vector. None: new arrays.
    keys: a key for each vector, no two alike: each has a residual of its own. None: nothing is kept.
    method: as in allreduce, but not "lowrank", or what measures a vector or keeps estimates. seed, op: as in allreduce.
    error: as in allreduce, of each vector. "feedback" needs keys.

    Errors are as in allreduce.
    """
    group = _Group(arrays, out, keys, comm, lambda: words_of(method=method, error=error, key=None, matrix=None, seed=seed, op=op))
    check(group.run(library().functions.MPIQ_Allreduce_group))
    return group.result()


def iallreduce_group(arrays: Iterable[Any], out: Iterable[Any] | None = None, *, keys: Iterable[str] | None = None, comm: Any = None,
                     method: str | None = None, error: float | str | None = None, seed: int | None = None, op: str = "sum") -> Request:
    """Like allreduce_group, but returns before the sums are there: wait() of the request gives the list. Compressed sums have the same
    bits.

    What iallreduce says of requests holds. No vector may be touched until test() is True or wait() returns. A key of a call in flight
    is an Error on all ranks. Experimental: it may change.
    """
    group = _Group(arrays, out, keys, comm, lambda: words_of(method=method, error=error, key=None, matrix=None, seed=seed, op=op))
    return Request(group, library().functions.MPIQ_Iallreduce_group)
