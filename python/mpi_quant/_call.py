"""allreduce and iallreduce. SPDX-License-Identifier: Apache-2.0"""
import ctypes
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mpi_quant import _arrays
from mpi_quant._library import Error, check, communicator, datatype, handle_of, library

Words = dict[str, str]  # info keys without "mpiq_"

_scope: ContextVar[Mapping[str, str] | None] = ContextVar("mpi_quant options", default=None)
_infos: dict[tuple[tuple[str, str], ...], Any] = {}
_MAX_INFOS = 256
_in_flight: "set[Request]" = set()  # their arrays must live until the library has done with them


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is a text, not {value!r}")
    return value


def _method_words(method: str | None, error: float | str | None) -> Words:
    if method is not None and error is not None:
        raise TypeError("method and error are given: error chooses a method, so give one of them")
    if error is not None:
        return {"method": f"auto(error={error})"}
    return {} if method is None else {"method": _text("method", method)}


@contextmanager
def options(*, method: str | None = None, error: float | str | None = None, seed: int | None = None) -> Iterator[None]:
    """Method and seed of all calls inside the `with` that name none, in this thread or asyncio task.

    method, error, seed: as in allreduce. Blocks inside blocks add to the outer ones.
    """
    words = _method_words(method, error)
    if seed is not None:
        words["seed"] = str(seed)
    token = _scope.set({**scope(), **words})
    try:
        yield
    finally:
        _scope.reset(token)


def scope() -> Mapping[str, str]:
    """The words of the `with options` around the caller."""
    return _scope.get() or {}


def words_of(*, method: str | None, error: float | str | None, key: str | None, matrix: tuple[int, int] | None, seed: int | None,
             skip: bool = False, op: str = "sum") -> Words:
    """The info keys of a call."""
    words = {**scope(), **_method_words(method, error)}
    if op != "sum":
        words["op"] = _text("op", op)
    if key is not None:
        words["key"] = _text("key", key)
    if matrix is not None:
        rows, columns = matrix
        words["matrix"] = f"{columns}x{rows}"  # C counts columns first: it stores column by column
    if seed is not None:
        words["seed"] = str(seed)
    if skip:
        words["skip"] = "true"
    return words


def with_info(words: Mapping[str, str], call: Any) -> int:
    """call(info), with an MPI_Info of these words. The infos of the first calls are kept, because most programs need few."""
    from mpi4py import MPI
    if not words:
        return int(call(handle_of(MPI.INFO_NULL)))
    at = tuple(sorted(words.items()))
    info = _infos.get(at)
    if info is not None:
        return int(call(handle_of(info)))
    info = MPI.Info.Create()
    for name, value in at:
        info.Set("mpiq_" + name, value)
    if len(_infos) < _MAX_INFOS:
        _infos[at] = info
        return int(call(handle_of(info)))
    try:
        return int(call(handle_of(info)))
    finally:
        info.Free()


class telling:
    """`with telling(refuse) as ranks:` around all that a rank does before the library's call, and the call, by ranks.meet(). What is raised
    before the call, whatever it is, goes to the caller after the other ranks have got an error that names this rank. They do not wait
    for ever. What is raised after it, as by the handler of a signal, concerns no other rank.

    refuse: makes a call that no rank can make, such as one with a negative count, and without info.
    """

    def __init__(self, refuse: Callable[[], object]) -> None:
        self._refuse, self._has_met = refuse, False

    def __enter__(self) -> "telling":
        return self

    def meet(self, function: Any, *arguments: Any) -> int:
        """The library's call, which meets the other ranks. Its error code."""
        self._has_met = True
        try:
            return int(function(*arguments))
        except ctypes.ArgumentError:  # it has not been made
            self._has_met = False
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, Exception) and not self._has_met:
            self._refuse()


class Prepared:
    """The arguments of a call."""

    keep: object  # what the library uses until the call is over

    def run(self, function: Any, *after: Any) -> int:
        """Makes the call by a function of the library, with these arguments at its end. Its error code."""
        raise NotImplementedError

    def result(self) -> Any:
        """The result as the user gets it. For a call that is over."""
        raise NotImplementedError


class _Prepared(Prepared):
    """The arguments of a call of one vector. words: makes the words of the info."""

    def __init__(self, x: Any, out: Any, comm: Any, words: Callable[[], Words]) -> None:
        from mpi4py import MPI
        self._comm, self._sum = handle_of(communicator(comm)), handle_of(MPI.SUM)
        self._finish: Any = lambda result: _arrays.for_user(x, out, result)
        with telling(self._refuse):
            self._words = words()
            self._out = _arrays.empty_like(x, "x") if out is None else out
            self._source, self._target, in_place = _arrays.pair(x, self._out)
            stream = self._source.stream if self._source.stream is not None else self._target.stream
            if stream is not None:
                self._words["stream"] = hex(stream)
            self._send = int(MPI.IN_PLACE) if in_place else self._source.address
            self.keep = self._source.owner, self._target.owner

    def run(self, function: Any, *after: Any) -> int:
        with telling(self._refuse) as ranks:
            return with_info(self._words, lambda info: ranks.meet(function, self._send, self._target.address, self._target.count,
                                                                  datatype(self._target.element), self._sum, self._comm, info, *after))

    def result(self) -> Any:
        if self._finish is not None:
            self._out, self._finish = self._finish(self._out), None
        return self._out

    def _refuse(self) -> None:
        with_info({}, lambda info: library().functions.MPIQ_Allreduce(None, None, -1, datatype("f32"), self._sum, self._comm, info))


def allreduce(x: Any, out: Any = None, *, comm: Any = None, method: str | None = None, error: float | str | None = None,
              key: str | None = None, matrix: tuple[int, int] | None = None, seed: int | None = None, skip: bool = False,
              op: str = "sum") -> Any:
    """The sum of x over the ranks of comm: the same bits on all of them. Collective.

    x: elements of float16, bfloat16, float32, float64, complex64 or complex128, contiguous: an array of numpy, torch, CuPy, or what
    knows DLPack. A complex number is two reals, which are compressed as such.
    out: shape and type of x; x itself: in place; None: a new array of x's kind.
    comm: a communicator of mpi4py; None: MPI.COMM_WORLD.
    method: how to reduce, as docs/methods.md says; None: what `options` or the policy says. Without any the sum is exact.
    error: in place of a method: the greatest relative error of a call (0.01 is 1 %), or "feedback". The library chooses.
    key: 1 to 63 bytes, the vector's name. What this call leaves out is added to the next one with this key.
    matrix: (rows, columns) of an array in the order of C, for methods that know matrices, such as lowrank.
    seed: 0 to 2**64 - 1, of random rounding.
    skip: this rank sends nothing, if the method's memory rule allows it.
    op: "sum", or "avg" for the mean: the sum divided by the number of ranks. A key may serve both.

    Raises Error on all ranks if their calls differ or the library cannot make the call. Raises TypeError for an argument that cannot
    be used, such as an array that cannot be used in place; the other ranks get an Error. Other threads run while the call waits.
    """
    return allreduce_by(lambda: words_of(method=method, error=error, key=key, matrix=matrix, seed=seed, skip=skip, op=op), x, out, comm)


def allreduce_by(words: Callable[[], Words], x: Any, out: Any, comm: Any) -> Any:
    """allreduce with the info keys that words() gives."""
    functions = library().functions
    prepared = _Prepared(x, out, comm, words)
    check(prepared.run(functions.MPIQ_Allreduce))
    return prepared.result()


class Request:
    """A call in flight, from iallreduce, ireduce_scatter, iallgather, ibcast, ireduce or iallreduce_group. No array of the call may be
    touched until test() is True or wait() returns."""

    def __init__(self, prepared: Prepared, function: Any) -> None:
        """Starts the call by a function of the library."""
        self._handle, self._prepared = ctypes.c_void_p(), prepared
        self._failed: tuple[str, int] | None = None  # how the call ended: text and code of its Error
        _in_flight.add(self)  # first: what a signal raises may come when the call has begun
        try:
            check(prepared.run(function, ctypes.byref(self._handle)))
        finally:
            if self._handle.value is None:
                _in_flight.discard(self)

    def test(self) -> bool:
        """True if the result is there. Does what can be done now, and does not wait. Raises the call's Error, each time."""
        if self._is_over():
            return True
        flag = ctypes.c_int(0)
        self._completed(library().functions.MPIQ_Test(ctypes.byref(self._handle), ctypes.byref(flag)))
        return bool(flag.value)

    def wait(self, sleep: float | None = None) -> Any:
        """The result, as the blocking function returns it. Raises the call's Error, each time.

        sleep: seconds between two tests, such as 50e-6. Then waiting leaves the core to others. None: MPI waits, which reacts
        fastest and keeps the core busy.
        """
        while sleep is not None and not self.test():
            time.sleep(sleep)
        if not self._is_over():
            self._completed(library().functions.MPIQ_Wait(ctypes.byref(self._handle)))
        return self._prepared.result()

    def _is_over(self) -> bool:
        if self._failed is not None:
            raise Error(*self._failed)
        return self._handle.value is None

    def _completed(self, code: int) -> None:
        if self._handle.value is None:
            _in_flight.discard(self)
            self._prepared.keep = None
        try:
            check(code)
        except Error as error:
            self._failed = str(error), error.code
            raise


def iallreduce(x: Any, out: Any = None, *, comm: Any = None, method: str | None = None, error: float | str | None = None,
               key: str | None = None, matrix: tuple[int, int] | None = None, seed: int | None = None, skip: bool = False,
               op: str = "sum") -> Request:
    """Like allreduce, but returns before the sum is there. All ranks start their calls on comm in the same order.

    The library has no thread: calls go on while a rank is in one of its functions, so test() now and then.
    """
    functions = library().functions
    prepared = _Prepared(x, out, comm, lambda: words_of(method=method, error=error, key=key, matrix=matrix, seed=seed, skip=skip, op=op))
    return Request(prepared, functions.MPIQ_Iallreduce)
