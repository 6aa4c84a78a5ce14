"""Which arrays the Python package takes, and what it says of others; and whether its structs are the same as in mpi_quant.h. Needs no MPI: arrays of
other libraries are stood in for."""
import ctypes
import dataclasses
import os
import re
import sys
import types
import unittest

import numpy as np

from mpi_quant import _arrays, _dlpack, _library, _residuals, _state

try:
    import torch
except ImportError:
    torch = None


class Producer:
    """An array that is known by DLPack alone, of the older protocol: it wraps one of numpy, and may lie about its device."""

    def __init__(self, array, device=1):
        self.array, self.device, self.streams = array, device, []

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.array.__dlpack__()

    def __array_namespace__(self):
        return types.SimpleNamespace(empty=lambda shape, dtype, device: Producer(np.empty(shape, dtype), device))

    shape, dtype = property(lambda self: self.array.shape), property(lambda self: self.array.dtype)


class Versioned(Producer):
    """The same with DLPack 1.0, whose capsules say that an array is read-only."""

    def __dlpack__(self, stream=None, max_version=None):
        assert max_version == (1, 0)
        array = self.array
        self.sizes, self.steps = (ctypes.c_int64 * array.ndim)(*array.shape), (ctypes.c_int64 * array.ndim)(
            *(stride // array.itemsize for stride in array.strides))
        tensor = _dlpack._Tensor(array.ctypes.data, 1, 0, array.ndim, _dlpack._Type(2, 8 * array.itemsize, 1), self.sizes, self.steps, 0)
        self.managed = _dlpack._Versioned(1, 0, None, None, 0 if array.flags.writeable else 1, tensor)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.managed), b"dltensor_versioned", None)


def read_only(array):
    array.flags.writeable = False
    return array


class Numpy(unittest.TestCase):
    def refused(self, text, array, **words):
        with self.assertRaisesRegex(TypeError, text):
            _arrays.vector(array, "x", **words)

    def test_what_it_is(self):
        for dtype, element in ((np.float32, "f32"), (np.float64, "f64"), (np.float16, "f16"), (np.complex64, "c32"), (np.complex128, "c64")):
            array = np.zeros((3, 5), dtype)
            found = _arrays.vector(array, "x", writable=True)
            self.assertEqual((found.address, found.element, found.shape, found.count), (array.ctypes.data, element, (3, 5), 15))
        self.assertEqual(_arrays.vector(np.zeros((), np.float32), "x").count, 1)

    def test_what_cannot_be_used_says_why(self):
        square = np.zeros((4, 4), np.float32)
        self.refused("x has elements of type int32: float16, bfloat16, float32, float64, complex64 or complex128 is needed", square.astype(np.int32))
        self.refused("byte order of another processor", square.astype(">f4"))
        self.refused(r"x of strides \(4, 16\) is not contiguous", square.T)
        self.refused("x is read-only", read_only(square.copy()), writable=True)
        _arrays.vector(read_only(square.copy()), "x")
        self.refused("x is list: an array of numpy, torch", [1.0, 2.0])

    def test_a_pair(self):
        x = np.zeros(100, np.float32)
        self.assertTrue(_arrays.pair(x, x)[2])
        self.assertFalse(_arrays.pair(x, np.zeros(100, np.float32))[2])
        self.assertFalse(_arrays.pair(x[:50], x[50:])[2])
        for out, text in ((np.zeros(99, np.float32), r"x has shape \(100,\) of f32, but out has \(99,\) of f32"),
                          (np.zeros(100), "of f64"), (np.zeros((10, 10), np.float32), r"\(10, 10\)")):
            with self.assertRaisesRegex(TypeError, text):
                _arrays.pair(x, out)
        with self.assertRaisesRegex(TypeError, "overlap"):
            _arrays.pair(x[:60], x[40:])


class Dlpack(unittest.TestCase):
    def test_both_versions_of_the_protocol(self):
        for kind in (Producer, Versioned):
            for dtype, element in ((np.float32, "f32"), (np.float64, "f64"), (np.float16, "f16")):
                array = np.zeros((3, 5), dtype)
                found = _arrays.vector(kind(array), "x", writable=True)
                self.assertEqual((found.address, found.element, found.shape), (array.ctypes.data, element, (3, 5)))

    def test_what_cannot_be_used_says_why(self):
        square = np.zeros((4, 4), np.float32)
        for array, text in ((Producer(square.astype(np.int32)), "type int32"), (Producer(square.T), r"strides \(1, 4\) is not contiguous"),
                            (Producer(square, device=8), "on a device of DLPack's type 8: the host or a CUDA device is needed"),
                            (Versioned(read_only(square.copy())), "is read-only")):
            with self.assertRaisesRegex(TypeError, text):
                _arrays.vector(array, "x", writable=True)
        _arrays.vector(Versioned(read_only(square.copy())), "x")

    def test_strides_of_sizes_0_and_1_say_nothing(self):
        self.assertTrue(_dlpack.View(0, "float32", (1, 3, 1), (9, 1, 7), False, None).contiguous)
        self.assertTrue(_dlpack.View(0, "float32", (0, 3), (1, 1), False, None).contiguous)
        self.assertFalse(_dlpack.View(0, "float32", (2, 3), (3, 2), False, None).contiguous)

    def test_an_array_of_a_gpu_is_ready_behind_the_default_stream(self):
        array = Producer(np.zeros(4, np.float32), device=2)
        self.assertIsNone(_arrays.vector(array, "x").stream)
        self.assertEqual(array.streams, [1])

    def test_the_memory_lives_as_long_as_the_vector(self):
        array = np.zeros(1000, np.float32)
        before = sys.getrefcount(array)
        found = _dlpack.read(Producer(array), 1)
        self.assertGreater(sys.getrefcount(array), before)
        del found
        self.assertEqual(sys.getrefcount(array), before)

    def test_new_arrays_are_of_the_same_kind(self):
        made = _arrays.empty_like(Producer(np.zeros((2, 3), np.float32)), "x")
        self.assertEqual((type(made), made.array.shape), (Producer, (2, 3)))
        plain = type("Plain", (), {"__dlpack__": Producer.__dlpack__, "__dlpack_device__": Producer.__dlpack_device__})()
        with self.assertRaisesRegex(TypeError, "x is Plain, which cannot make a new array: give one as out"):
            _arrays.empty_like(plain, "x")

    def test_arrays_of_jax_are_never_written_to(self):
        class Array(Producer):
            shape, dtype = (4,), np.dtype(np.float32)
        Array.__module__ = "jaxlib.xla_extension"
        array = Array(np.zeros(4, np.float32))
        self.assertIsInstance(_arrays.empty_like(array, "x"), np.ndarray)
        _arrays.vector(array, "x")
        with self.assertRaisesRegex(TypeError, "out is read-only"):
            _arrays.vector(array, "out", writable=True)


class Header(unittest.TestCase):
    """What the package says twice, because ctypes cannot read C."""

    @classmethod
    def setUpClass(cls):
        path = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../mpi_quant/include/mpi_quant.h")
        with open(path, encoding="utf-8") as file:
            cls.header = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)

    def members(self, struct):
        body = re.search(rf"typedef struct {struct} {{(.*?)}} {struct};", self.header, re.S)[1]
        return re.findall(r"(\w+)(?:\[[^]]*\])?;", body)

    def test_the_members_of_structs(self):
        """The library may have more at the end: a struct says its size."""
        ours = ["size", *(field.name for field in dataclasses.fields(_state.Stats))]
        self.assertEqual(self.members("MPIQ_Stats")[:len(ours)], ours)
        ours = [name for name, *_ in _residuals.residual_type(ctypes.c_int)._fields_]
        self.assertEqual(self.members("MPIQ_Residual")[:len(ours)], ours)

    def test_the_number_of_arguments(self):
        class Functions:
            def __getattr__(self, name):
                self.__dict__[name] = types.SimpleNamespace()
                return self.__dict__[name]
        functions = Functions()
        _library.declare(functions, ctypes.c_int)
        self.assertGreater(len(vars(functions)), 10)
        for name, function in vars(functions).items():
            arguments = re.search(rf"MPIQ_PUBLIC int {name}\((.*?)\);", self.header, re.S)[1].split(",")
            self.assertEqual(len(function.argtypes), len(arguments), name)

    def test_the_level_of_pcontrol_and_the_reasons_for_exact_sums(self):
        self.assertIn("#define MPIQ_PCONTROL 0x4D51\n", self.header)
        self.assertEqual(len(re.findall(r"^  MPIQ_EXACT_\w+ = \d", self.header, re.M)), len(_state.EXACT_MODES))


@unittest.skipUnless(torch, "no torch")
class Torch(unittest.TestCase):
    def test_what_it_is(self):
        for dtype, element in ((torch.float32, "f32"), (torch.float64, "f64"), (torch.float16, "f16"), (torch.bfloat16, "bf16"),
                               (torch.complex64, "c32"), (torch.complex128, "c64")):
            tensor = torch.zeros(3, 5, dtype=dtype)
            found = _arrays.vector(tensor, "x", writable=True)
            self.assertEqual((found.address, found.element, found.shape, found.stream), (tensor.data_ptr(), element, (3, 5), None))
        self.assertEqual(_arrays.empty_like(torch.zeros(2, 3, dtype=torch.bfloat16), "x").dtype, torch.bfloat16)

    def test_what_cannot_be_used_says_why(self):
        for tensor, text in ((torch.zeros(4, dtype=torch.int64), "type int64"), (torch.zeros(4, 5).T, r"strides \(1, 5\) is not contiguous"),
                             (torch.zeros(4, dtype=torch.complex64).conj(), "values other than its memory"),
                             (torch.zeros(4, 4).to_sparse(), "layout torch.sparse_coo: a dense tensor is needed"),
                             (torch.zeros(4, device="meta"), "on the device meta: the host or a CUDA device is needed")):
            with self.assertRaisesRegex(TypeError, text):
                _arrays.vector(tensor, "x")

    def test_dlpack_of_torch_says_the_same(self):
        tensor = torch.zeros(3, 5, dtype=torch.bfloat16)
        found = _dlpack.read(tensor, 1)
        self.assertEqual((found.address, found.dtype, found.shape, found.contiguous), (tensor.data_ptr(), "bfloat16", (3, 5), True))


if __name__ == "__main__":
    unittest.main()
