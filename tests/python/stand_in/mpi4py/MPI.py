"""See __init__.py. The numbers come from MPICH's binary interface, which all its versions share, and from the standard ABI."""
import atexit
import ctypes
import os
import pickle

_mpi = ctypes.CDLL(os.environ.get("TEST_MPI", "libmpich.so.12"))  # RTLD_LOCAL: the package has to find it, and to make it global
_IS_ABI = "mpi_abi" in os.path.basename(_mpi._name)
_INT, _HANDLE = ctypes.c_int, ctypes.c_void_p if _IS_ABI else ctypes.c_int


def _number(mpich, abi):
    return abi if _IS_ABI else mpich


_BYTE = _HANDLE(_number(0x4C00010D, 0x247))
IN_PLACE = _number(-1, 1)
THREAD_MULTIPLE = _number(3, 4096)
_version = ctypes.create_string_buffer(8192)
_mpi.MPI_Get_library_version(_version, ctypes.byref(_INT()))
# Of two implementations of the standard ABI each has the other's number of MPI_ERRORS_ABORT.
ERRORS_RETURN = _HANDLE(_number(0x54000001, 0x142 if _version.value.startswith(b"Intel") else 0x143))


class _Handle:
    def __init__(self, handle):
        self.handle = handle

    @property
    def _as_parameter_(self):
        return _HANDLE(self.handle)


class Datatype(_Handle):
    pass


class Op(_Handle):
    pass


class Info(_Handle):
    @classmethod
    def Create(cls):
        made = _HANDLE()
        _mpi.MPI_Info_create(ctypes.byref(made))
        return cls(made.value)

    def Set(self, key, value):
        _mpi.MPI_Info_set(self, key.encode(), value.encode())

    def Free(self):
        _mpi.MPI_Info_free(ctypes.byref(_HANDLE(self.handle)))


class Comm(_Handle):
    def Get_rank(self):
        found = _INT()
        _mpi.MPI_Comm_rank(self, ctypes.byref(found))
        return found.value

    def Get_size(self):
        found = _INT()
        _mpi.MPI_Comm_size(self, ctypes.byref(found))
        return found.value

    rank, size = property(Get_rank), property(Get_size)

    def Dup(self):
        made = _HANDLE()
        _mpi.MPI_Comm_dup(self, ctypes.byref(made))
        return Comm(made.value)

    def Split(self, color):
        made = _HANDLE()
        _mpi.MPI_Comm_split(self, color, 0, ctypes.byref(made))
        return Comm(made.value)

    def Free(self):
        _mpi.MPI_Comm_free(ctypes.byref(_HANDLE(self.handle)))

    def Set_errhandler(self, handler):
        _mpi.MPI_Comm_set_errhandler(self, handler)

    def Barrier(self):
        _mpi.MPI_Barrier(self)

    def Abort(self, code):
        _mpi.MPI_Abort(self, code)

    def allgather(self, item):
        own = pickle.dumps(item)
        sizes, places = (_INT * self.size)(), (_INT * self.size)()
        _mpi.MPI_Allgather(ctypes.byref(_INT(len(own))), 4, _BYTE, sizes, 4, _BYTE, self)
        for rank in range(1, self.size):
            places[rank] = places[rank - 1] + sizes[rank - 1]
        items = ctypes.create_string_buffer(sum(sizes))
        _mpi.MPI_Allgatherv(own, len(own), _BYTE, items, sizes, places, _BYTE, self)
        return [pickle.loads(items.raw[place:place + size]) for place, size in zip(places, sizes)]

    def allreduce(self, item):
        return sum(self.allgather(item))


def _handleof(of):
    return of.handle


def _sizeof(_kind):
    return ctypes.sizeof(_HANDLE)


def Query_thread():
    found = _INT()
    _mpi.MPI_Query_thread(ctypes.byref(found))
    return found.value


def Get_error_string(code):
    text, length = ctypes.create_string_buffer(4096), _INT()
    _mpi.MPI_Error_string(code, text, ctypes.byref(length))
    return text.value.decode()


COMM_WORLD, INFO_NULL = Comm(_number(0x44000000, 0x101)), Info(_number(0x1C000000, 0x130))
FLOAT, DOUBLE = Datatype(_number(0x4C00040A, 0x210)), Datatype(_number(0x4C00080B, 0x214))
C_FLOAT_COMPLEX, C_DOUBLE_COMPLEX = Datatype(_number(0x4C000840, 0x212)), Datatype(_number(0x4C001041, 0x216))
MAX, MIN, SUM = Op(_number(0x58000001, 0x23)), Op(_number(0x58000002, 0x22)), Op(_number(0x58000003, 0x21))

_mpi.MPI_Init_thread(None, None, THREAD_MULTIPLE, ctypes.byref(_INT()))
COMM_WORLD.Set_errhandler(ERRORS_RETURN)
Comm(_number(0x44000001, 0x102)).Set_errhandler(ERRORS_RETURN)
atexit.register(_mpi.MPI_Finalize)
