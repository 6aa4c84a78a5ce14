"""bcast and reduce: the vector of one rank for all, and the sum for one rank. SPDX-License-Identifier: Apache-2.0"""
import operator
from collections.abc import Callable
from typing import Any

from mpi_quant import _arrays
from mpi_quant._call import Words, telling, with_info, words_of
from mpi_quant._library import check, communicator, datatype, handle_of, library


class _Rooted:
    """A call with a root."""

    def __init__(self, root: int, comm: Any) -> None:
        from mpi4py import MPI
        self._comm, self._root, self._sum = communicator(comm), root, handle_of(MPI.SUM)
        self._words: Words = {}
        self._handle, self._functions = handle_of(self._comm), library().functions

    def is_root(self) -> bool:
        return bool(self._comm.Get_rank() == self._root)

    def prepare(self, make: Callable[[], tuple[_arrays.Vector, ...]], words: Callable[[], Words]) -> tuple[_arrays.Vector, ...]:
        """The arrays as C sees them. words: makes those of the info."""
        with telling(self._refuse):
            if not hasattr(self._root, "__index__"):
                raise TypeError(f"root is {self._root!r}: the number of a rank is needed")
            self._root = operator.index(self._root)
            if not -2**31 <= self._root < 2**31:  # more than C's numbers of ranks
                raise TypeError(f"root is {self._root}: the number of a rank is needed")
            vectors, made = make(), words()
            streams = [hex(vector.stream) for vector in vectors if vector.stream is not None]
            self._words = {**made, "stream": streams[0]} if streams else made
        return vectors

    def run(self, send: int | None, receive: int | None, count: int, element: str) -> int:
        """An error code."""
        with telling(self._refuse) as ranks:
            return self._call(ranks.meet, send, receive, count, element)

    def _refuse(self) -> None:
        self._root, self._words = 0, {}
        self._call(lambda function, *arguments: int(function(*arguments)), None, None, -1, "f32")

    def _call(self, meet: Callable[..., int], send: int | None, receive: int | None, count: int, element: str) -> int:
        raise NotImplementedError


class _Bcast(_Rooted):
    def _call(self, meet: Callable[..., int], send: int | None, receive: int | None, count: int, element: str) -> int:
        return with_info(self._words, lambda info: meet(self._functions.MPIQ_Bcast, receive, count, datatype(element), self._root, self._handle, info))


class _Reduce(_Rooted):
    def _call(self, meet: Callable[..., int], send: int | None, receive: int | None, count: int, element: str) -> int:
        return with_info(self._words, lambda info: meet(
            self._functions.MPIQ_Reduce, send, receive, count, datatype(element), self._sum, self._root, self._handle, info))


def bcast(x: Any, *, root: int = 0, comm: Any = None, method: str | None = None, error: float | str | None = None,
          key: str | None = None, seed: int | None = None) -> Any:
    """Writes the root's x into x of all ranks of comm, and returns x: the same bits on all ranks. Collective.

    x: elements as in allreduce; of the same shape on all ranks. On the root it becomes what the others have of it.
    root: the rank that has the vector. The other arguments, and errors, are those of allreduce.
    key: the root keeps a residual. That is right for differences, and wrong for values such as weights.
    """
    call = _Bcast(root, comm)
    [buffer] = call.prepare(lambda: (_arrays.vector(x, "x", writable=True),),
                            lambda: words_of(method=method, error=error, key=key, matrix=None, seed=seed))
    check(call.run(None, buffer.address, buffer.count, buffer.element))
    return x


def reduce(x: Any, out: Any = None, *, root: int = 0, comm: Any = None, method: str | None = None, error: float | str | None = None,
           key: str | None = None, seed: int | None = None, op: str = "sum") -> Any:
    """The sum of x over the ranks of comm on the root, and None on the others. Collective.

    x, out: as in allreduce; only the root looks at out. root: the rank that gets the sum.
    The other arguments, and errors, are those of allreduce.
    """
    from mpi4py import MPI
    call = _Reduce(root, comm)
    result = out

    def vectors() -> tuple[_arrays.Vector, ...]:
        nonlocal result
        if not call.is_root():
            return (_arrays.vector(x, "x"),)
        result = _arrays.empty_like(x, "x") if out is None else out
        source, target, _ = _arrays.pair(x, result)
        return source, target

    source, *targets = call.prepare(vectors, lambda: words_of(method=method, error=error, key=key, matrix=None, seed=seed, op=op))
    if not targets:
        check(call.run(source.address, None, source.count, source.element))
        return None
    in_place = source.address == targets[0].address
    check(call.run(int(MPI.IN_PLACE) if in_place else source.address, targets[0].address, source.count, source.element))
    return _arrays.for_user(x, out, result)
