"""See __init__.py. The numbers are those of MPICH's binary interface, which all its versions share."""
import atexit
import ctypes
import pickle

_mpi = ctypes.CDLL("libmpich.so.12")  # RTLD_LOCAL: the package has to find it, and to make it global
_INT = ctypes.c_int
_BYTE, _ERRORS_RETURN = 0x4C00010D, 0x54000001

IN_PLACE = -1
THREAD_MULTIPLE = 3
ERRORS_RETURN = _ERRORS_RETURN


class _Handle:
    def __init__(self, handle):
        self.handle = handle


class Datatype(_Handle):
    pass


class Op(_Handle):
    pass


class Info(_Handle):
    @classmethod
    def Create(cls):
        made = _INT()
        _mpi.MPI_Info_create(ctypes.byref(made))
        return cls(made.value)

    def Set(self, key, value):
        _mpi.MPI_Info_set(self.handle, key.encode(), value.encode())

    def Free(self):
        _mpi.MPI_Info_free(ctypes.byref(_INT(self.handle)))


class Comm(_Handle):
    def Get_rank(self):
        found = _INT()
        _mpi.MPI_Comm_rank(self.handle, ctypes.byref(found))
        return found.value

    def Get_size(self):
        found = _INT()
        _mpi.MPI_Comm_size(self.handle, ctypes.byref(found))
        return found.value

    rank, size = property(Get_rank), property(Get_size)

    def Dup(self):
        made = _INT()
        _mpi.MPI_Comm_dup(self.handle, ctypes.byref(made))
        return Comm(made.value)

    def Split(self, color):
        made = _INT()
        _mpi.MPI_Comm_split(self.handle, color, 0, ctypes.byref(made))
        return Comm(made.value)

    def Free(self):
        _mpi.MPI_Comm_free(ctypes.byref(_INT(self.handle)))

    def Set_errhandler(self, handler):
        _mpi.MPI_Comm_set_errhandler(self.handle, handler)

    def Barrier(self):
        _mpi.MPI_Barrier(self.handle)

    def Abort(self, code):
        _mpi.MPI_Abort(self.handle, code)

    def allgather(self, item):
        own = pickle.dumps(item)
        sizes, places = (_INT * self.size)(), (_INT * self.size)()
        _mpi.MPI_Allgather(ctypes.byref(_INT(len(own))), 4, _BYTE, sizes, 4, _BYTE, self.handle)
        for rank in range(1, self.size):
            places[rank] = places[rank - 1] + sizes[rank - 1]
        items = ctypes.create_string_buffer(sum(sizes))
        _mpi.MPI_Allgatherv(own, len(own), _BYTE, items, sizes, places, _BYTE, self.handle)
        return [pickle.loads(items.raw[place:place + size]) for place, size in zip(places, sizes)]

    def allreduce(self, item):
        return sum(self.allgather(item))


def _handleof(of):
    return of.handle


def _sizeof(_kind):
    return ctypes.sizeof(_INT)


def Query_thread():
    found = _INT()
    _mpi.MPI_Query_thread(ctypes.byref(found))
    return found.value


def Get_error_string(code):
    text, length = ctypes.create_string_buffer(4096), _INT()
    _mpi.MPI_Error_string(code, text, ctypes.byref(length))
    return text.value.decode()


COMM_WORLD, INFO_NULL = Comm(0x44000000), Info(0x1C000000)
FLOAT, DOUBLE = Datatype(0x4C00040A), Datatype(0x4C00080B)
C_FLOAT_COMPLEX, C_DOUBLE_COMPLEX = Datatype(0x4C000840), Datatype(0x4C001041)
MAX, MIN, SUM = Op(0x58000001), Op(0x58000002), Op(0x58000003)

_mpi.MPI_Init_thread(None, None, THREAD_MULTIPLE, ctypes.byref(_INT()))
COMM_WORLD.Set_errhandler(ERRORS_RETURN)
Comm(0x44000001).Set_errhandler(ERRORS_RETURN)
atexit.register(_mpi.MPI_Finalize)
