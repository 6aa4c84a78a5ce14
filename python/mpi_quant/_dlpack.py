"""Reads what an array tells about itself by DLPack (https://dmlc.github.io/dlpack), of any device and any library.

numpy.from_dlpack does this for the host and for numpy's types alone. SPDX-License-Identifier: Apache-2.0
"""
import ctypes
from dataclasses import dataclass
from typing import Any

HOST = (1, 3, 11)  # kDLCPU, and memory of the host that a GPU's library has pinned
CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
_READ_ONLY = 1
_LEGACY_STREAM = 1  # DLPack's name of CUDA's default stream, for which the library waits


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32), ("dimensions", ctypes.c_int32),
                ("type", _Type), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned. The older DLManagedTensor begins with the tensor."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


@dataclass(frozen=True)
class View:
    """What a capsule says. The memory lives as long as the capsule."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in elements; None: contiguous
    read_only: bool
    capsule: Any

    @property
    def contiguous(self) -> bool:
        """In the order of C. Strides of sizes 0 and 1 say nothing."""
        if self.strides is None or 0 in self.shape:
            return True
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True


def _capsule(array: Any, stream: dict[str, int]) -> Any:
    try:
        return array.__dlpack__(max_version=(1, 0), **stream)
    except TypeError:  # older than DLPack 1.0, which knows no max_version
        return array.__dlpack__(**stream)


def read(array: Any, device: int) -> View:
    """The array's capsule is not consumed: it frees itself."""
    capsule = _capsule(array, {"stream": _LEGACY_STREAM} if device in CUDA else {})
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    is_valid = ctypes.pythonapi.PyCapsule_IsValid
    is_valid.restype, is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    read_only = False
    if is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(pointer(capsule, b"dltensor_versioned"))
        tensor, read_only = managed.tensor, bool(managed.flags & _READ_ONLY)
    else:
        tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    names = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
    dtype = f"{names.get(tensor.type.code, f'code {tensor.type.code} ')}{tensor.type.bits}"
    if tensor.type.lanes != 1:
        dtype += f"x{tensor.type.lanes}"
    sizes = range(tensor.dimensions)
    return View((tensor.data or 0) + tensor.offset, dtype, tuple(tensor.shape[i] for i in sizes),
                tuple(tensor.strides[i] for i in sizes) if tensor.strides else None, read_only, capsule)
