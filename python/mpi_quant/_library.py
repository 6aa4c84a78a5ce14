"""Finds the MPI library of this process and loads the library of mpi_quant that fits it.

What is loaded is libmpi_quant_core_FAMILY, which names no MPI library: it takes the functions of the MPI that runs already, whether that
is the system's or one from a wheel. SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import ctypes
import os
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import mpi_quant

Handle = type[ctypes.c_int] | type[ctypes.c_void_p]
_SOVERSION = ".".join(mpi_quant.__version__.split(".")[:2])  # before 1.0 each minor version may change the interface
_VERSION_BYTES = 16384  # enough for any MPI library
_ABI_MAJOR = 1  # of the standard binary interface
_FAMILIES = {b"Open MPI": "openmpi", b"MPICH": "mpich", b"Intel(R) MPI": "mpich", b"MVAPICH": "mpich", b"MPI VERSION    : CRAY MPICH": "mpich"}


class Error(RuntimeError):
    """A call failed. The text is the library's; collective calls raise it on all ranks. `code` is MPI's error code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type["Error"], tuple[str, int]]:
        return Error, (str(self), self.code)


@dataclass(frozen=True)
class Library:
    """The loaded library, and how this MPI passes handles to C."""

    functions: ctypes.CDLL
    family: str  # mpich (and all with its binary interface), openmpi, or abi: the standard binary interface of MPI 5
    mpi: str  # file of the MPI library
    path: str  # file of the library of mpi_quant
    handle: Handle  # ctypes type of MPI's handles


class _Symbol(ctypes.Structure):
    """Dl_info of dladdr."""

    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def _opened(path: str | None) -> ctypes.CDLL | None:
    """The library of this path, if it is loaded already; None stands for the program itself."""
    try:
        return ctypes.CDLL(path, os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None


def _loaded_files(part: str) -> Iterator[str]:
    """Files whose name holds this part, of those that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        paths = {fields[5].strip() for line in maps if len(fields := line.split(maxsplit=5)) == 6}
    return iter(sorted(path for path in paths if part in os.path.basename(path)))


def _file_of(function: Any) -> str:
    """The file of the library that has a function of ctypes. '' if it cannot be found."""
    symbol = _Symbol()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    found = dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(symbol))
    return os.fsdecode(symbol.file) if found else ""


def _find_mpi(module: str) -> tuple[ctypes.CDLL, str]:
    """The MPI library that mpi4py uses, and its file. mpi4py's module is linked with it, or opens it when it is imported (in wheels)."""
    for path in (module, None, *_loaded_files("libmpi")):
        opened = _opened(path)
        if opened is None or not hasattr(opened, "PMPI_Get_library_version"):
            continue
        if file := _file_of(opened.PMPI_Get_library_version):
            return opened, file
    raise ImportError(f"mpi_quant: {module} has loaded no MPI library that can be found")


def _abi_major(mpi: ctypes.CDLL) -> int:
    """The major version of the standard ABI that a library's handles are of; -1 if they are of none. A library may have the function
    beside handles of its own: its answer decides. Another library of the process may have the function too: it does not count."""
    major, minor = ctypes.c_int(-1), ctypes.c_int(-1)
    if not hasattr(mpi, "PMPI_Abi_get_version") or _file_of(mpi.PMPI_Abi_get_version) != _file_of(mpi.PMPI_Get_library_version):
        return -1
    code = mpi.PMPI_Abi_get_version(ctypes.byref(major), ctypes.byref(minor))
    return major.value if code == 0 and major.value > 0 else -1


def _family(mpi: ctypes.CDLL, path: str) -> str:
    """As mpi_quant/base/family.h. A translator between MPIs has handles of its own, and cites the text of the library beneath it: only
    what the text begins with says whose handles they are."""
    text, length = ctypes.create_string_buffer(_VERSION_BYTES), ctypes.c_int()
    mpi.PMPI_Get_library_version(text, ctypes.byref(length))
    major = _abi_major(mpi)
    if major == _ABI_MAJOR:
        return "abi"
    if major < 0:
        for name, family in _FAMILIES.items():
            if text.value.startswith(name):
                return family
    raise ImportError(f"mpi_quant: mpi4py runs on {path}, for whose handles there is no library: {text.value.decode(errors='replace')[:60]!r}")


def _places(name: str) -> Iterator[str]:
    """Where the library may be, the first choice first."""
    yield from _loaded_files(name)  # under the preload library: one library, one state
    if folder := os.environ.get("MPIQ_LIBRARY_DIR"):
        yield os.path.join(folder, name)
        return  # what the user names is used, or is an error
    package = pathlib.Path(__file__).resolve().parent
    with contextlib.suppress(FileNotFoundError):  # which cmake --install writes
        yield str(package / (package / "library_dir").read_text(encoding="utf-8").strip() / name)
    yield name  # in LD_LIBRARY_PATH, or in the system's folders
    yield str(package / "lib" / name)  # in a wheel


def _version(functions: ctypes.CDLL) -> str:
    numbers = [ctypes.c_int(), ctypes.c_int(), ctypes.c_int()]
    functions.MPIQ_Get_version(*(ctypes.byref(number) for number in numbers))
    return ".".join(str(number.value) for number in numbers)


def _load(family: str, mpi: str) -> tuple[ctypes.CDLL, str]:
    name = f"libmpi_quant_core_{family}.so.{_SOVERSION}"
    tried = []
    for path in _places(name):
        try:
            functions = ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_LOCAL)
            version = _version(functions)
        except (OSError, AttributeError) as error:
            tried.append(str(error))
            continue
        if version.split(".")[:2] == _SOVERSION.split("."):
            return functions, next((file for file in _loaded_files(name)), path)
        tried.append(f"{path} has version {version}")
    raise ImportError(f"mpi_quant {mpi_quant.__version__}: mpi4py runs on {mpi} ({family}), and no {name} can be loaded. MPIQ_LIBRARY_DIR "
                      f"or LD_LIBRARY_PATH may name its folder, such as PREFIX/lib of an installed mpi_quant. Tried: {'; '.join(tried)}")


@cache
def library() -> Library:
    """The library for the MPI of mpi4py. The first call imports mpi4py.MPI, and so starts MPI."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ImportError(f"mpi_quant: its functions need mpi4py, which cannot be imported: {error}") from error
    mpi, path = _find_mpi(MPI.__file__)
    family = _family(mpi, path)
    # The core looks for MPI's functions in the global scope. Python has loaded them for mpi4py's module
    # alone.
    ctypes.CDLL(path, os.RTLD_NOLOAD | os.RTLD_LAZY | os.RTLD_GLOBAL)
    functions, file = _load(family, path)
    handle: Handle = ctypes.c_int if MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_int) else ctypes.c_void_p
    declare(functions, handle)
    return Library(functions, family, path, file, handle)


def declare(functions: ctypes.CDLL, handle: Handle) -> None:
    """Types of arguments, without which ctypes would pass pointers as 32-bit numbers."""
    pointer, text, integer, count = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int64  # MPI_Count has 64 bits
    call = [pointer, pointer, count, handle, handle, handle, handle]
    gather = [pointer, count, handle, pointer, count, handle, handle, handle]
    bcast, reduce = [pointer, count, handle, integer, handle, handle], [pointer, pointer, count, handle, handle, integer, handle, handle]
    group = [integer, pointer, pointer, pointer, pointer, handle, handle, handle, handle]
    for name, arguments in {
            "Allreduce": call, "Iallreduce": [*call, pointer], "Reduce_scatter_block": call,
            "Ireduce_scatter_block": [*call, pointer], "Allgather": gather, "Iallgather": [*gather, pointer],
            "Allreduce_group": group, "Iallreduce_group": [*group, pointer],
            "Bcast": bcast, "Ibcast": [*bcast, pointer], "Reduce": reduce, "Ireduce": [*reduce, pointer],
            "Test": [pointer, pointer], "Wait": [pointer],
            "Comm_set_policy": [handle, text], "Comm_get_stats": [handle, pointer], "Wire_bound": [text, count, handle, pointer],
            "Residual_flush": [pointer, count, handle, handle, text], "Residual_reset": [handle, text],
            "Residual_scale": [handle, text, ctypes.c_double], "Residual_list": [handle, integer, pointer, pointer],
            "Residual_get": [handle, text, count, count, pointer], "Residual_put": [handle, integer, pointer, pointer],
            "Sparse_allreduce": [count, pointer, pointer, count, pointer, pointer, count, handle, handle, handle, handle],
            "Sparse_allreduce_union": [count, pointer, pointer, count, count, pointer, pointer, pointer, count, handle, handle, handle, handle],
            "Type_float16": [pointer], "Type_bfloat16": [pointer]}.items():
        function = getattr(functions, "MPIQ_" + name)
        function.argtypes, function.restype = arguments, integer


def check(code: int) -> None:
    """Raises what a function of the library returned."""
    if code:
        from mpi4py import MPI
        raise Error(MPI.Get_error_string(code), code)


def handle_of(of: Any) -> int:
    """What C passes for an object of mpi4py."""
    from mpi4py import MPI
    return int(MPI._handleof(of))


def communicator(comm: Any) -> Any:
    """The communicator to use: MPI.COMM_WORLD for None."""
    from mpi4py import MPI
    if comm is None:
        return MPI.COMM_WORLD
    if not isinstance(comm, MPI.Comm):
        raise TypeError(f"comm is a communicator of mpi4py or None, not {type(comm).__name__}")
    return comm


@cache
def datatype(element: str) -> int:
    """MPI's datatype of an element of _arrays.BYTES."""
    from mpi4py import MPI
    named = {"f32": MPI.FLOAT, "f64": MPI.DOUBLE, "c32": MPI.C_FLOAT_COMPLEX, "c64": MPI.C_DOUBLE_COMPLEX}
    if element in named:
        return handle_of(named[element])
    made = library().handle()
    functions = library().functions
    check((functions.MPIQ_Type_float16 if element == "f16" else functions.MPIQ_Type_bfloat16)(ctypes.byref(made)))
    return int(made.value or 0)
