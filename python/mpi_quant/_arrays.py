"""What an array is to the library: address, number and type of elements, device. numpy, torch, and all that speaks DLPack.

An array that cannot be used where it is raises a TypeError that says why. Nothing is copied.
SPDX-License-Identifier: Apache-2.0
"""
import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpi_quant import _dlpack

ELEMENTS = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "complex64": "c32", "complex128": "c64"}
BYTES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "c32": 8, "c64": 16}  # c32: a pair of f32


@dataclass(frozen=True)
class Vector:
    """An array as C sees it. `owner` keeps its memory."""

    address: int
    element: str  # one of BYTES
    shape: tuple[int, ...]
    stream: int | None  # of a GPU, behind whose work the array is ready; None: on the host, or ready behind the default stream
    owner: Any

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.count * BYTES[self.element]


def vector(array: Any, name: str, *, writable: bool = False) -> Vector:
    """`name` is what messages call the array. `writable`: the library writes into it."""
    torch = sys.modules.get("torch")
    if isinstance(array, np.ndarray):
        return _of_numpy(array, name, writable)
    if torch is not None and isinstance(array, torch.Tensor):
        return _of_torch(array, name)
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        return _of_dlpack(array, name, writable)
    raise TypeError(f"{name} is {type(array).__name__}: an array of numpy, torch, or a library that knows DLPack is needed")


def _element(dtype: str, name: str) -> str:
    if dtype not in ELEMENTS:
        raise TypeError(f"{name} has elements of type {dtype}: float16, bfloat16, float32, float64, complex64 or complex128 is needed")
    return ELEMENTS[dtype]


def _refuse(name: str, why: str) -> TypeError:
    return TypeError(f"{name} {why}")


def _of_numpy(array: "np.ndarray[Any, Any]", name: str, writable: bool) -> Vector:
    element = _element(array.dtype.name, name)
    if not array.dtype.isnative:
        raise _refuse(name, "has elements in the byte order of another processor: use array.astype(array.dtype.newbyteorder('='))")
    if not array.flags.c_contiguous:
        raise _refuse(name, f"of strides {array.strides} is not contiguous: use numpy.ascontiguousarray")
    if writable and not array.flags.writeable:
        raise _refuse(name, "is read-only")
    return Vector(array.ctypes.data, element, array.shape, None, array)


def _of_torch(tensor: Any, name: str) -> Vector:
    torch = sys.modules["torch"]
    element = _element(str(tensor.dtype).removeprefix("torch."), name)
    if tensor.layout != torch.strided:
        raise _refuse(name, f"has the layout {tensor.layout}: a dense tensor is needed")
    if not tensor.is_contiguous():
        raise _refuse(name, f"of strides {tuple(tensor.stride())} is not contiguous: use tensor.contiguous()")
    if tensor.is_conj() or tensor.is_neg():
        raise _refuse(name, "has values other than its memory: use tensor.resolve_conj().resolve_neg()")
    if tensor.device.type not in ("cpu", "cuda"):
        raise _refuse(name, f"is on the device {tensor.device}: the host or a CUDA device is needed")
    stream = torch.cuda.current_stream(tensor.device).cuda_stream if tensor.device.type == "cuda" else None
    return Vector(tensor.data_ptr(), element, tuple(tensor.shape), stream, tensor)


def _of_dlpack(array: Any, name: str, writable: bool) -> Vector:
    device = int(array.__dlpack_device__()[0])
    if device not in _dlpack.HOST + _dlpack.CUDA:
        raise _refuse(name, f"is on a device of DLPack's type {device}: the host or a CUDA device is needed")
    view = _dlpack.read(array, device)
    element = _element(view.dtype, name)
    if not view.contiguous:
        raise _refuse(name, f"of strides {view.strides} is not contiguous")
    if writable and (view.read_only or is_jax(array)):
        raise _refuse(name, "is read-only")
    return Vector(view.address, element, view.shape, None, (array, view.capsule))


def is_jax(array: Any) -> bool:
    """Arrays of jax never change."""
    return type(array).__module__.split(".")[0] in ("jax", "jaxlib")


def empty_like(array: Any, name: str, shape: tuple[int, ...] | None = None) -> Any:
    """A new array of the same kind, type and device, to write into; shape None: the shape of the array. For jax it is an array of numpy."""
    torch = sys.modules.get("torch")
    if shape is None and hasattr(array, "shape"):
        shape = tuple(array.shape)
    if isinstance(array, np.ndarray):
        return np.empty(shape, array.dtype)
    if torch is not None and isinstance(array, torch.Tensor):
        return torch.empty(shape, dtype=array.dtype, device=array.device)
    if is_jax(array):
        return np.empty(shape, array.dtype)  # of ml_dtypes for bfloat16
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__().empty(shape, dtype=array.dtype, device=array.device)
    raise TypeError(f"{name} is {type(array).__name__}, which cannot make a new array: give one as out")


def for_user(x: Any, out: Any, result: Any) -> Any:
    """The result of a call as the user gets it: arrays of jax for arrays of jax."""
    if out is None and is_jax(x):
        import jax.numpy
        return jax.numpy.asarray(result)
    return result


def overlap(one: Vector, other: Vector) -> bool:
    """Whether they share memory."""
    return one.address < other.address + other.bytes and other.address < one.address + one.bytes


def pair(x: Any, out: Any, x_name: str = "x", out_name: str = "out") -> tuple[Vector, Vector, bool]:
    """x and out as C sees them, and whether they are one vector."""
    source = vector(x, x_name)
    target = vector(out, out_name, writable=True)
    if (source.element, source.shape) != (target.element, target.shape):
        raise TypeError(f"{x_name} has shape {source.shape} of {source.element}, but {out_name} has {target.shape} of {target.element}")
    in_place = source.address == target.address
    if overlap(source, target) and not in_place:
        raise TypeError(f"{x_name} and {out_name} overlap: give an array of its own, or {x_name} itself as {out_name}")
    return source, target, in_place
