"""reduce_scatter and allgather: sums and vectors of which each rank has a part. SPDX-License-Identifier: Apache-2.0"""
from collections.abc import Callable
from typing import Any

from mpi_quant import _arrays
from mpi_quant._call import Words, telling, with_info, words_of
from mpi_quant._library import check, communicator, datatype, handle_of, library


class _Parts:
    """A call on a whole vector and a part of it, along the first dimension."""

    def __init__(self, comm: Any, whole: bool) -> None:
        from mpi4py import MPI
        self._comm, self._whole = communicator(comm), whole
        self._words: Words = {}
        self._handle, self._sum, self._functions = handle_of(self._comm), handle_of(MPI.SUM), library().functions

    def out(self, x: Any, out: Any, words: Callable[[], Words]) -> tuple[Any, _arrays.Vector, _arrays.Vector]:
        """out, and x and out as C sees them. words: makes those of the info."""
        ranks, whole = self._comm.Get_size(), self._whole
        with telling(self._refuse):
            source = _arrays.vector(x, "x")
            if not source.shape or not whole and source.shape[0] % ranks:
                raise TypeError(f"x has shape {source.shape}: its first size must be a multiple of {ranks}, the number of ranks")
            first = source.shape[0] * ranks if whole else source.shape[0] // ranks
            shape = (first, *source.shape[1:])
            out = _arrays.empty_like(x, "x", shape) if out is None else out
            target = _arrays.vector(out, "out", writable=True)
            if (target.element, target.shape) != (source.element, shape):
                raise TypeError(f"x has shape {source.shape} of {source.element}, so out needs {shape} of it, not {target.shape} of {target.element}")
            own = target.address + self._comm.Get_rank() * source.bytes  # of allgather in place
            if _arrays.overlap(source, target) and not (whole and source.address == own):
                raise TypeError("x and out overlap: give an array of its own" + (", or this rank's part of out as x" if whole else ""))
            made = words()
            stream = source.stream if source.stream is not None else target.stream
            self._words = made if stream is None else {**made, "stream": hex(stream)}
        return out, source, target

    def run(self, send: int | None, receive: int | None, count: int, element: str) -> int:
        """An error code. `count`: elements of a part."""
        with telling(self._refuse) as ranks:
            return self._call(ranks.meet, self._words, send, receive, count, element)

    def _refuse(self) -> None:
        self._call(lambda function, *arguments: int(function(*arguments)), {}, None, None, -1, "f32")

    def _call(self, meet: Callable[..., int], words: Words, send: int | None, receive: int | None, count: int, element: str) -> int:
        kind = datatype(element)
        if self._whole:
            return with_info(words, lambda info: meet(self._functions.MPIQ_Allgather, send, count, kind, receive, count, kind, self._handle, info))
        return with_info(words, lambda info: meet(self._functions.MPIQ_Reduce_scatter_block, send, receive, count, kind, self._sum, self._handle, info))


def reduce_scatter(x: Any, out: Any = None, *, comm: Any = None, method: str | None = None, error: float | str | None = None,
                   key: str | None = None, seed: int | None = None, op: str = "sum") -> Any:
    """This rank's part of the sum of x over the ranks of comm. Collective.

    x: its first size is a multiple of the number of ranks p; rank r gets the r-th of p equal parts. Elements as in allreduce.
    out: of the part's shape, apart from x; None: a new array. The other arguments, and errors, are those of allreduce.
    key: each rank keeps a residual of the whole vector.
    """
    call = _Parts(comm, whole=False)
    result, source, target = call.out(x, out, lambda: words_of(method=method, error=error, key=key, matrix=None, seed=seed, op=op))
    check(call.run(source.address, target.address, target.count, target.element))
    return _arrays.for_user(x, out, result)


def allgather(x: Any, out: Any = None, *, comm: Any = None, method: str | None = None, error: float | str | None = None,
              key: str | None = None, seed: int | None = None) -> Any:
    """The x of all ranks of comm, one after the other along the first dimension: the same bits on all ranks. Collective.

    x: of the same shape on all ranks; also this rank's part of out, which then becomes what the others have of it.
    out: p times as long as x for p ranks; None: a new array. The other arguments, and errors, are those of allreduce.
    key: what is left out of x is added to it in the next call. That is right for differences, and wrong for values such as weights.
    With method="int4 memory=ef21" it is right for weights: all ranks keep an estimate of out, and x's difference from it is sent.
    """
    from mpi4py import MPI
    call = _Parts(comm, whole=True)
    result, source, target = call.out(x, out, lambda: words_of(method=method, error=error, key=key, matrix=None, seed=seed))
    in_place = _arrays.overlap(source, target)
    check(call.run(int(MPI.IN_PLACE) if in_place else source.address, target.address, source.count, source.element))
    return _arrays.for_user(x, out, result)
