"""reduce_scatter and allgather: sums and vectors of which each rank has a part. SPDX-License-Identifier: Apache-2.0"""
from collections.abc import Callable
from typing import Any

from mpi_quant import _arrays
from mpi_quant._call import Prepared, Request, Words, telling, with_info, words_of
from mpi_quant._library import check, communicator, datatype, handle_of, library


class _Parts(Prepared):
    """A call on a whole vector and a part of it, along the first dimension. gathers: out is the whole one. words: makes the words of the info."""

    def __init__(self, x: Any, out: Any, comm: Any, gathers: bool, words: Callable[[], Words]) -> None:
        from mpi4py import MPI
        own = communicator(comm)
        self._gathers, self._comm, self._sum = gathers, handle_of(own), handle_of(MPI.SUM)
        self._finish: Any = lambda result: _arrays.for_user(x, out, result)
        ranks = own.Get_size()
        with telling(self._refuse):
            source = _arrays.vector(x, "x")
            if not source.shape or not gathers and source.shape[0] % ranks:
                raise TypeError(f"x has shape {source.shape}: its first size must be a multiple of {ranks}, the number of ranks")
            first = source.shape[0] * ranks if gathers else source.shape[0] // ranks
            shape = (first, *source.shape[1:])
            self._out = _arrays.empty_like(x, "x", shape) if out is None else out
            target = _arrays.vector(self._out, "out", writable=True)
            if (target.element, target.shape) != (source.element, shape):
                raise TypeError(f"x has shape {source.shape} of {source.element}, so out needs {shape} of it, not {target.shape} of {target.element}")
            in_place = _arrays.overlap(source, target)
            if in_place and not (gathers and source.address == target.address + own.Get_rank() * source.bytes):
                raise TypeError("x and out overlap: give an array of its own" + (", or this rank's part of out as x" if gathers else ""))
            self._words = words()
            stream = source.stream if source.stream is not None else target.stream
            if stream is not None:
                self._words["stream"] = hex(stream)
            self._send, self._receive = int(MPI.IN_PLACE) if in_place else source.address, target.address
            self._count, self._element = (source if gathers else target).count, source.element
            self.keep = source.owner, target.owner

    def run(self, function: Any, *after: Any) -> int:
        with telling(self._refuse) as ranks:
            return with_info(self._words, lambda info: ranks.meet(
                function, *self._arguments(self._send, self._receive, self._count, datatype(self._element)), self._comm, info, *after))

    def result(self) -> Any:
        if self._finish is not None:
            self._out, self._finish = self._finish(self._out), None
        return self._out

    def _refuse(self) -> None:
        functions = library().functions
        function = functions.MPIQ_Allgather if self._gathers else functions.MPIQ_Reduce_scatter_block
        with_info({}, lambda info: function(*self._arguments(None, None, -1, datatype("f32")), self._comm, info))

    def _arguments(self, send: int | None, receive: int | None, count: int, kind: int) -> tuple[int | None, ...]:
        """Those before the communicator. `count`: elements of a part."""
        return (send, count, kind, receive, count, kind) if self._gathers else (send, receive, count, kind, self._sum)


def reduce_scatter(x: Any, out: Any = None, *, comm: Any = None, method: str | None = None, error: float | str | None = None,
                   key: str | None = None, seed: int | None = None, op: str = "sum") -> Any:
    """This rank's part of the sum of x over the ranks of comm. Collective.

    x: its first size is a multiple of the number of ranks p; rank r gets the r-th of p equal parts. Elements as in allreduce.
    out: of the part's shape, apart from x; None: a new array. The other arguments, and errors, are as in allreduce.
    key: each rank keeps a residual of the whole vector.
    """
    call = _Parts(x, out, comm, False, lambda: words_of(method=method, error=error, key=key, matrix=None, seed=seed, op=op))
    check(call.run(library().functions.MPIQ_Reduce_scatter_block))
    return call.result()


def ireduce_scatter(x: Any, out: Any = None, *, comm: Any = None, method: str | None = None, error: float | str | None = None,
                    key: str | None = None, seed: int | None = None, op: str = "sum") -> Request:
    """Like reduce_scatter, but returns before the part is there. What iallreduce says of requests holds."""
    call = _Parts(x, out, comm, False, lambda: words_of(method=method, error=error, key=key, matrix=None, seed=seed, op=op))
    return Request(call, library().functions.MPIQ_Ireduce_scatter_block)


def allgather(x: Any, out: Any = None, *, comm: Any = None, method: str | None = None, error: float | str | None = None,
              key: str | None = None, seed: int | None = None) -> Any:
    """The x of all ranks of comm, one after the other along the first dimension: the same bits on all ranks. Collective.

    x: of the same shape on all ranks; also this rank's part of out, which then becomes what the others have of it.
    out: p times as long as x for p ranks; None: a new array. The other arguments, and errors, are as in allreduce.
    key: what is left out of x is added to it in the next call. That is right for differences, and wrong for values such as weights.
    With method="int4 memory=ef21" it is right for weights: all ranks keep an estimate of out, and x's difference from it is sent.
    """
    call = _Parts(x, out, comm, True, lambda: words_of(method=method, error=error, key=key, matrix=None, seed=seed))
    check(call.run(library().functions.MPIQ_Allgather))
    return call.result()


def iallgather(x: Any, out: Any = None, *, comm: Any = None, method: str | None = None, error: float | str | None = None,
               key: str | None = None, seed: int | None = None) -> Request:
    """Like allgather, but returns before the parts are there. What iallreduce says of requests holds."""
    call = _Parts(x, out, comm, True, lambda: words_of(method=method, error=error, key=key, matrix=None, seed=seed))
    return Request(call, library().functions.MPIQ_Iallgather)
