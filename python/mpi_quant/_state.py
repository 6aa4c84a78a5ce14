"""Policy, statistics, and what is loaded. SPDX-License-Identifier: Apache-2.0"""
import ctypes
from dataclasses import dataclass, fields
from typing import Any

from mpi_quant._arrays import BYTES
from mpi_quant._call import telling
from mpi_quant._library import check, communicator, datatype, handle_of, library

EXACT_MODES = ("", "policy differs between ranks", "incompatible versions", "no communicator left")


def set_policy(rules: str | None, comm: Any = None) -> None:
    """Sets the rules of comm's calls that name no method, such as "0-64K: mpi; 64K-: onebit". Collective. None or "": no rules.

    Raises Error on all ranks if the rules cannot be parsed or differ between ranks.
    """
    handle, function = handle_of(communicator(comm)), library().functions.MPIQ_Comm_set_policy
    with telling(lambda: function(handle, b"rules that cannot be used")) as ranks:
        code = ranks.meet(function, handle, None if rules is None else rules.encode())
    check(code)


@dataclass(frozen=True)
class Stats:
    """What this rank did on one communicator since its first use. Bytes hold the headers of frames. Times are in seconds."""

    calls: int  # of allreduce and iallreduce, and of MPI's under the preload library
    compressed_calls: int  # reduced by a codec
    failed_calls: int  # which raised an Error
    elements: int  # in compressed calls
    raw_bytes: int  # elements times their size
    wire_bytes_sent: int
    wire_bytes_received: int
    messages_sent: int  # frames, and messages of agreements
    nonfinite: int  # elements that were NaN or Inf, counted at every encode
    overflows: int  # finite elements that were too large for the codec
    residual_bytes: int  # held now
    scratch_bytes: int  # held now
    sparse_calls: int
    scheme_calls: int  # of lowrank
    declined_calls: int  # which lowrank could not serve, and MPI reduced
    exact_mode: int  # 0; else why the communicator compresses nothing: `exact_reason` says it
    encode_s: float
    decode_s: float
    wait_s: float  # in communication that nothing hid

    @property
    def exact_reason(self) -> str:
        """Why nothing is compressed on this communicator, or ""."""
        return EXACT_MODES[self.exact_mode] if self.exact_mode < len(EXACT_MODES) else f"reason {self.exact_mode}"


class _Stats(ctypes.Structure):
    """MPIQ_Stats of mpi_quant.h."""

    _fields_ = [("size", ctypes.c_uint64),
                *((f.name, ctypes.c_double if f.name.endswith("_s") else ctypes.c_uint64) for f in fields(Stats))]


def stats(comm: Any = None) -> Stats:
    """The statistics of comm. Local. Zeros if mpi_quant never used it."""
    raw = _Stats(size=ctypes.sizeof(_Stats))
    check(library().functions.MPIQ_Comm_get_stats(handle_of(communicator(comm)), ctypes.byref(raw)))
    return Stats(**{f.name: getattr(raw, f.name) for f in fields(Stats)})


def wire_bound(method: str, count: int, element: str = "f32") -> int:
    """Most bytes that `count` elements of f32, f64, f16, bf16, c32 or c64 (complex) take as encoded by the method, without headers. Local."""
    if element not in BYTES:
        raise TypeError(f"element is one of {', '.join(BYTES)}, not {element}")
    found = ctypes.c_int64()
    check(library().functions.MPIQ_Wire_bound(method.encode(), count, datatype(element), ctypes.byref(found)))
    return found.value


def library_info() -> dict[str, str]:
    """What is loaded: `path` of the library, `mpi`, the file of the MPI library, and `family`: mpich, openmpi or abi."""
    loaded = library()
    return {"path": loaded.path, "mpi": loaded.mpi, "family": loaded.family}
