"""bcast, reduce, ibcast and ireduce: the vector of one rank for all, and the sum for one rank. SPDX-License-Identifier: Apache-2.0"""
import operator
from collections.abc import Callable
from typing import Any

from mpi_quant import _arrays
from mpi_quant._call import Prepared, Request, Words, telling, with_info, words_of
from mpi_quant._library import check, communicator, datatype, handle_of, library


class _Rooted(Prepared):
    """A call with a root. words: makes the words of the info."""

    def __init__(self, root: int, comm: Any, words: Callable[[], Words]) -> None:
        from mpi4py import MPI
        self._comm, self._root, self._sum, self._in_place = communicator(comm), root, handle_of(MPI.SUM), int(MPI.IN_PLACE)
        self._handle = handle_of(self._comm)
        with telling(self._refuse):
            if not hasattr(root, "__index__"):
                raise TypeError(f"root is {root!r}: the number of a rank is needed")
            self._root = operator.index(root)
            if not -2**31 <= self._root < 2**31:  # more than C's numbers of ranks
                raise TypeError(f"root is {self._root}: the number of a rank is needed")
            vectors = self._vectors()
            self._words, self._element = words(), vectors[0].element
            stream = next((vector.stream for vector in vectors if vector.stream is not None), None)
            if stream is not None:
                self._words["stream"] = hex(stream)
            self.keep = [vector.owner for vector in vectors]

    def run(self, function: Any, *after: Any) -> int:
        with telling(self._refuse) as ranks:
            return with_info(self._words, lambda info: ranks.meet(
                function, *self._arguments(datatype(self._element)), self._root, self._handle, info, *after))

    def _refuse(self) -> None:
        raise NotImplementedError

    def _vectors(self) -> tuple[_arrays.Vector, ...]:
        """The arrays as C sees them."""
        raise NotImplementedError

    def _arguments(self, kind: int) -> tuple[int | None, ...]:
        """Those before the root. kind: MPI's datatype."""
        raise NotImplementedError


class _Bcast(_Rooted):
    def __init__(self, x: Any, root: int, comm: Any, words: Callable[[], Words]) -> None:
        self._x = x
        super().__init__(root, comm, words)

    def result(self) -> Any:
        return self._x

    def _vectors(self) -> tuple[_arrays.Vector, ...]:
        self._buffer = _arrays.vector(self._x, "x", writable=True)
        return (self._buffer,)

    def _arguments(self, kind: int) -> tuple[int | None, ...]:
        return self._buffer.address, self._buffer.count, kind

    def _refuse(self) -> None:
        with_info({}, lambda info: library().functions.MPIQ_Bcast(None, -1, datatype("f32"), 0, self._handle, info))


class _Reduce(_Rooted):
    def __init__(self, x: Any, out: Any, root: int, comm: Any, words: Callable[[], Words]) -> None:
        self._x, self._out, self._result, self._is_finished = x, out, None, False
        self._send: int | None = None
        self._receive: int | None = None  # only the root has one
        super().__init__(root, comm, words)

    def result(self) -> Any:
        if self._receive is not None and not self._is_finished:
            self._result, self._is_finished = _arrays.for_user(self._x, self._out, self._result), True
        return self._result

    def _vectors(self) -> tuple[_arrays.Vector, ...]:
        if self._comm.Get_rank() != self._root:
            source = _arrays.vector(self._x, "x")
            self._send, self._count = source.address, source.count
            return (source,)
        self._result = _arrays.empty_like(self._x, "x") if self._out is None else self._out
        source, target, is_same = _arrays.pair(self._x, self._result)
        self._send, self._receive, self._count = self._in_place if is_same else source.address, target.address, source.count
        return source, target

    def _arguments(self, kind: int) -> tuple[int | None, ...]:
        return self._send, self._receive, self._count, kind, self._sum

    def _refuse(self) -> None:
        with_info({}, lambda info: library().functions.MPIQ_Reduce(None, None, -1, datatype("f32"), self._sum, 0, self._handle, info))


def bcast(x: Any, *, root: int = 0, comm: Any = None, method: str | None = None, error: float | str | None = None,
          key: str | None = None, seed: int | None = None) -> Any:
    """Writes the root's x into x of all ranks of comm, and returns x: the same bits on all ranks. Collective.

    x: elements as in allreduce; of the same shape on all ranks. On the root it becomes what the others have of it.
    root: the rank that has the vector. The other arguments, and errors, are as in allreduce.
    key: the root keeps a residual. That is right for differences, and wrong for values such as weights.
    """
    call = _Bcast(x, root, comm, lambda: words_of(method=method, error=error, key=key, matrix=None, seed=seed))
    check(call.run(library().functions.MPIQ_Bcast))
    return call.result()


def ibcast(x: Any, *, root: int = 0, comm: Any = None, method: str | None = None, error: float | str | None = None,
           key: str | None = None, seed: int | None = None) -> Request:
    """Like bcast, but returns before the vector is there. What iallreduce says of requests holds."""
    call = _Bcast(x, root, comm, lambda: words_of(method=method, error=error, key=key, matrix=None, seed=seed))
    return Request(call, library().functions.MPIQ_Ibcast)


def reduce(x: Any, out: Any = None, *, root: int = 0, comm: Any = None, method: str | None = None, error: float | str | None = None,
           key: str | None = None, seed: int | None = None, op: str = "sum") -> Any:
    """The sum of x over the ranks of comm on the root, and None on the others. Collective.

    x, out: as in allreduce; only the root looks at out. root: the rank that gets the sum. The other
    arguments, and errors, are as in allreduce.
    """
    call = _Reduce(x, out, root, comm, lambda: words_of(method=method, error=error, key=key, matrix=None, seed=seed, op=op))
    check(call.run(library().functions.MPIQ_Reduce))
    return call.result()


def ireduce(x: Any, out: Any = None, *, root: int = 0, comm: Any = None, method: str | None = None, error: float | str | None = None,
            key: str | None = None, seed: int | None = None, op: str = "sum") -> Request:
    """Like reduce, but returns before the sum is there. What iallreduce says of requests holds."""
    call = _Reduce(x, out, root, comm, lambda: words_of(method=method, error=error, key=key, matrix=None, seed=seed, op=op))
    return Request(call, library().functions.MPIQ_Ireduce)
