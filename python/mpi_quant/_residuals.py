"""What compression left out and has not delivered yet. SPDX-License-Identifier: Apache-2.0"""
import ctypes
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from mpi_quant import _arrays
from mpi_quant._call import telling
from mpi_quant._library import Handle, check, communicator, datatype, handle_of, library

Array = np.ndarray[Any, Any]

_MEMBERS = ("element", "count", "settled", "calls", "arrays", "stamp", "since")  # of MPIQ_Residual, in a state


@cache
def residual_type(handle: Handle) -> Any:
    """MPIQ_Residual of mpi_quant.h, with handles of this type."""
    class Residual(ctypes.Structure):
        _fields_ = [("size", ctypes.c_uint64), ("key", ctypes.c_char * 64), ("element", ctypes.c_char * 8), ("count", ctypes.c_int64),
                    ("datatype", handle), ("settled", ctypes.c_double), ("calls", ctypes.c_uint64), ("in_use", ctypes.c_int),
                    ("arrays", ctypes.c_int), ("stamp", ctypes.c_uint64), ("since", ctypes.c_uint64)]
    return Residual


def _bytes(key: str | None) -> bytes | None:
    return None if key is None else key.encode()


class Residuals(Mapping[str, Array]):
    """This rank's residuals on one communicator: keys, and arrays that are copies.

    An array is of float32, or float64 for vectors of float64. It has one dimension, or two if a memory rule keeps several arrays.
    """

    def __init__(self, comm: Any = None) -> None:
        self._comm = communicator(comm)
        self._handle = handle_of(self._comm)

    def _list(self) -> dict[str, Any]:
        kind, count = residual_type(library().handle), ctypes.c_int(0)
        functions = library().functions
        check(functions.MPIQ_Residual_list(self._handle, 0, None, ctypes.byref(count)))
        items = (kind * max(count.value, 1))()
        items[0].size = ctypes.sizeof(kind)
        check(functions.MPIQ_Residual_list(self._handle, count.value, items, ctypes.byref(count)))
        return {item.key.decode(): item for item in items[:count.value]}

    def _read(self, item: Any) -> Array:
        arrays = max(item.arrays, 1)
        found = np.empty((arrays, item.count) if arrays > 1 else item.count, np.float64 if item.element == b"f64" else np.float32)
        check(library().functions.MPIQ_Residual_get(self._handle, item.key, 0, found.size, found.ctypes.data))
        return found

    def __getitem__(self, key: str) -> Array:
        return self._read(self._list()[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._list())

    def __len__(self) -> int:
        return len(self._list())

    def flush(self, key: str, out: Any) -> Any:
        """Delivers now what the key's calls left out, into out, which has shape and type of the key's vectors. Collective.

        All results of the key so far and this one add up to the exact sum of the inputs, up to rounding. The residuals are then zero.
        Raises Error on all ranks if they differ, or if the key belongs to another count or type.
        """
        function = library().functions.MPIQ_Residual_flush
        with telling(lambda: function(None, -1, datatype("f32"), self._handle, None)) as ranks:
            vector = _arrays.vector(out, "out", writable=True)
            code = ranks.meet(function, vector.address, vector.count, datatype(vector.element), self._handle, _bytes(key))
        check(code)
        return out

    def reset(self, key: str | None = None) -> None:
        """Forgets the residual of a key; None: of all keys. Call it on all ranks."""
        check(library().functions.MPIQ_Residual_reset(self._handle, _bytes(key)))

    def scale(self, factor: float, key: str | None = None) -> None:
        """Multiplies the residual of a key; None: of all keys. Call it on all ranks.

        For gradients that are multiplied by something that changes, such as a learning rate or a GradScaler's scale: new / old.
        """
        check(library().functions.MPIQ_Residual_scale(self._handle, _bytes(key), factor))

    def state_dict(self) -> dict[str, Any]:
        """This rank's residuals, for a checkpoint: numbers, texts and arrays of numpy. Local."""
        keys = {key: {**{name: getattr(item, name) for name in _MEMBERS}, "element": item.element.decode(), "data": self._read(item)}
                for key, item in self._list().items()}
        return {"ranks": self._comm.Get_size(), "rank": self._comm.Get_rank(), "keys": keys}

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Replaces the residuals of the state's keys. Collective.

        state: what state_dict() gave this rank, if the number of ranks is the same: a run that was never interrupted would give the
        same next results, bit for bit. Else the states of all old ranks, in any order: with p ranks, rank r gets the sum of the old
        ranks r, r + p, r + 2p and so on. What all ranks hold together stays the same, up to one rounding.

        Raises ValueError on all ranks if a state does not fit, Error if the ranks' keys differ.
        """
        own, wrong = None, ""
        try:
            own = _own_state([state] if isinstance(state, Mapping) else list(state), self._comm.Get_rank(), self._comm.Get_size())
        except Exception as error:  # whatever a state of the caller raises
            wrong = f"rank {self._comm.Get_rank()}: {error if isinstance(error, ValueError) else repr(error)}"
        problems = [text for text in self._comm.allgather(wrong) if text]  # or the others would wait for this rank for ever
        if own is None or problems:
            raise ValueError("; ".join(problems))
        self._put(own)

    def _put(self, keys: dict[str, Any]) -> None:
        kind = residual_type(library().handle)
        function = library().functions.MPIQ_Residual_put
        items, kept = (kind * max(len(keys), 1))(), []
        items[0].size = ctypes.sizeof(kind)
        with telling(lambda: function(self._handle, -1, None, None)) as ranks:
            for item, (key, saved) in zip(items, sorted(keys.items())):
                item.key = key.encode()
                for name in _MEMBERS:
                    setattr(item, name, saved[name].encode() if name == "element" else saved[name])
                kept.append(np.ascontiguousarray(saved["data"], np.float64 if saved["element"] == "f64" else np.float32))
            buffers = (ctypes.c_void_p * max(len(kept), 1))(*(array.ctypes.data for array in kept))
            code = ranks.meet(function, self._handle, len(keys), items, buffers)
        check(code)


def _own_state(states: list[Mapping[str, Any]], rank: int, ranks: int) -> dict[str, Any]:
    """What this rank takes over from the old ranks' states."""
    old = {int(state["rank"]): state for state in states}
    old_ranks = {int(state["ranks"]) for state in states}
    if old_ranks == {ranks} and rank in old:
        return dict(old[rank]["keys"])
    if len(old_ranks) != 1 or len(states) != len(old) or set(old) != set(range(*old_ranks)):
        raise ValueError(f"the states of ranks {sorted(int(state['rank']) for state in states)} of {sorted(old_ranks)} do not make "
                         f"up the states of {ranks} ranks: give the states of all old ranks")
    names = {tuple(sorted(state["keys"])) for state in states}
    if len(names) != 1:
        raise ValueError("the states have different keys")
    return {key: _added([old[at]["keys"][key] for at in range(rank, len(old), ranks)], old[0]["keys"][key]) for key in old[0]["keys"]}


def _added(parts: list[Mapping[str, Any]], first: Mapping[str, Any]) -> dict[str, Any]:
    """A residual that holds what the parts hold, added in double. The members are alike on all ranks."""
    total = np.zeros(np.shape(first["data"]), np.float64)
    for number, part in enumerate(parts):
        data = np.array(part["data"], np.float64)  # also of a tensor
        total = data if number == 0 else total + data
    if first["stamp"] and first["arrays"] > 1:
        total[1] = first["data"][1]  # with estimates the second array is the same on all ranks
    return {**first, "data": total.astype(np.asarray(first["data"]).dtype)}


def residuals(comm: Any = None) -> Residuals:
    """The residuals of comm's keys on this rank."""
    return Residuals(comm)
