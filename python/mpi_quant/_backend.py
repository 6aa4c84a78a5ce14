"""A backend of torch.distributed over MPI and this library, in Python. SPDX-License-Identifier: Apache-2.0"""
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist
from mpi4py import MPI

from mpi_quant import _arrays, _call, _parts, _roots
from mpi_quant._groups import free, of_ranks

_NAME = "mpi_quant"
_FIRST = (2, 15)  # of torch's versions, with backends in Python
_OPERATIONS = ("MIN", "MAX", "PRODUCT", "BAND", "BOR", "BXOR")  # besides SUM and AVG
_OF_MPI = {"SUM": "SUM", "PRODUCT": "PROD"}  # where MPI's name is another one
# Later versions of torch are to give the base class this public name.
_Base: Any = getattr(dist, "BackendBase", None) or getattr(torch._C._distributed_c10d, "Backend", object)


def _done(result: Any) -> Any:
    """What a call returns: its result is there."""
    future: Any = torch.futures.Future()
    future.set_result(result)
    return torch._C._distributed_c10d._create_work_from_future(future)


def _collective(method: Callable[..., Any]) -> Callable[..., Any]:
    """A collective of Backend. It writes also into tensors that require a gradient, as torch's own collectives do: autograd sees none of it."""
    @wraps(method)
    def run(self: "Backend", *arguments: Any, **words: Any) -> Any:
        if self.comm == MPI.COMM_NULL:
            raise RuntimeError(f"mpi_quant: {method.__name__} of a process group that has been destroyed")
        with torch.no_grad():
            return method(self, *arguments, **words)
    return run


class Backend(_Base):  # type: ignore[misc]
    """The collectives of a process group. torch calls them; they end before they return. `comm` is the group's communicator, which this
    object owns: from shutdown on it is MPI.COMM_NULL."""

    def __init__(self, comm: Any) -> None:
        super().__init__(comm.Get_rank(), comm.Get_size())
        self.comm = comm

    def shutdown(self) -> None:
        """Frees the communicator; an MPI library has about 2000 of them. destroy_process_group calls it.

        MPI_Comm_free is collective, and so is destroy_process_group: torch asks all ranks of a group to call it. With the whole world it
        calls shutdown group by group, in an order of their names. All ranks free the groups in the same order, so none waits for ever.
        What torch calls on one rank alone frees nothing: abort(), and Python when it drops the object. Such a communicator lives until
        MPI_Finalize, and so does the communicator of a group that nobody destroys.
        """
        free(self.comm)

    def name(self) -> str:
        return _NAME

    getBackendName = _get_backend_name = name

    @_collective
    def allreduce(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> Any:
        for tensor in tensors:
            self._sum(tensor, opts)
        return _done(list(tensors))

    allreduce_coalesced = allreduce

    @_collective
    def reduce(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> Any:
        root = opts.rootRank if opts is not None else 0
        for tensor in tensors:
            total = tensor.clone(memory_format=torch.contiguous_format)
            self._sum(total, opts)
            if self.rank() == root:
                tensor.copy_(total)
        return _done(list(tensors))

    @_collective
    def broadcast(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> Any:
        root = opts.rootRank if opts is not None else 0
        for tensor in tensors:
            vector = tensor.contiguous()
            if _is_summed(vector):
                _roots.bcast(vector, root=root, comm=self.comm)
            else:
                self.comm.Bcast(_bytes(vector), root=root)
            _back(vector, tensor)
        return _done(list(tensors))

    @_collective
    def allgather(self, outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], opts: Any = None) -> Any:
        for parts, own in zip(outputs, inputs):
            whole = own.new_empty((self.size(), own.numel()))
            self._gather(whole.view(-1), own.reshape(-1))
            for part, row in zip(parts, whole):
                part.copy_(row.view(part.shape))
        return _done([list(parts) for parts in outputs])

    @_collective
    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        whole = output.contiguous()
        self._gather(whole.view(-1), input.reshape(-1))
        _back(whole, output)
        return _done([output])

    @_collective
    def all_gather_single_coalesced(self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None) -> Any:
        for output, own in zip(outputs, inputs):
            self.all_gather_single(output, own)
        return _done(list(outputs))

    @_collective
    def reduce_scatter(self, outputs: Sequence[torch.Tensor], inputs: Sequence[Sequence[torch.Tensor]], opts: Any = None) -> Any:
        for output, parts in zip(outputs, inputs):
            if any(part.numel() != output.numel() for part in parts):
                raise ValueError("mpi_quant: reduce_scatter needs parts of one size")
            self.reduce_scatter_single(output, torch.cat([part.reshape(-1) for part in parts]), opts)
        return _done(list(outputs))

    @_collective
    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        vector, part = input.reshape(-1), output.contiguous()
        operation = _operation(opts)
        if operation in ("SUM", "AVG") and _is_summed(vector):
            if operation == "AVG":
                vector = vector / self.size()
            _parts.reduce_scatter(vector, part.view(-1), comm=self.comm)
        else:
            total = vector.clone()
            self._sum(total, opts)
            part.copy_(total.view(self.size(), *part.shape)[self.rank()])
        _back(part, output)
        return _done([output])

    @_collective
    def reduce_scatter_single_coalesced(self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None) -> Any:
        for output, whole in zip(outputs, inputs):
            self.reduce_scatter_single(output, whole, opts)
        return _done(list(outputs))

    @_collective
    def barrier(self, opts: Any = None) -> Any:
        self.comm.Barrier()
        return _done([])

    def _sum(self, tensor: torch.Tensor, opts: Any) -> None:
        """The sum, or what else is asked for, in place."""
        operation = _operation(opts)
        vector = tensor.contiguous()
        if operation in ("SUM", "AVG") and _is_summed(vector):
            if operation == "AVG":
                vector.div_(self.size())  # before the sum, as in ddp_hook
            _call.allreduce(vector, vector, comm=self.comm)
        elif operation == "AVG":
            raise ValueError(f"mpi_quant: no average of elements of {tensor.dtype}")
        else:
            wide = vector.float() if vector.dtype in (torch.float16, torch.bfloat16) else vector  # halves are strange to numpy and MPI
            self.comm.Allreduce(MPI.IN_PLACE, wide.detach().view(-1).numpy(), op=getattr(MPI, _OF_MPI.get(operation, operation)))
            _back(wide, vector)
        _back(vector, tensor)

    def _gather(self, whole: torch.Tensor, own: torch.Tensor) -> None:
        if _is_summed(own):
            _parts.allgather(own, whole, comm=self.comm)
            return
        at = whole.data_ptr() + self.rank() * own.numel() * own.element_size()
        self.comm.Allgather(MPI.IN_PLACE if own.data_ptr() == at else _bytes(own), _bytes(whole))


def _is_summed(tensor: torch.Tensor) -> bool:
    """Whether the library has sums of such elements."""
    return str(tensor.dtype).removeprefix("torch.") in _arrays.ELEMENTS


def _operation(opts: Any) -> str:
    """The name of what the options ask for."""
    if opts is None:
        return "SUM"
    for name in ("SUM", "AVG", *_OPERATIONS):
        if opts.reduceOp == getattr(dist.ReduceOp, name):
            return name
    raise ValueError(f"mpi_quant: no {opts.reduceOp}: SUM, AVG, {', '.join(_OPERATIONS)} are there")


def _bytes(vector: torch.Tensor) -> Any:
    return vector.detach().reshape(-1).view(torch.uint8).numpy()


def _back(vector: torch.Tensor, tensor: torch.Tensor) -> None:
    """Into the tensor from which a vector was made, if that is another one."""
    if vector.data_ptr() != tensor.data_ptr():
        tensor.copy_(vector)


def _make(options: Any, _: Any) -> Backend:
    """What torch calls for a new process group. Ranks of MPI are told by the store: torch may count in another order."""
    store, size = options.store, options.group_size
    store.set(f"{_NAME}/{options.group_rank}", str(MPI.COMM_WORLD.rank))
    return Backend(of_ranks([int(store.get(f"{_NAME}/{rank}")) for rank in range(size)]))


def register() -> None:
    """Makes "mpi_quant" a backend of torch.distributed, for tensors on the host: init_process_group("cpu:mpi_quant,cuda:nccl").

    Each process of torch is a rank of MPI. Sums, and what is gathered, reduced in parts or broadcast, follow the policy of the
    group's communicator, and are exact without one. DistributedDataParallel and FSDP2 run on it. A call ends before it returns;
    torch 2.15 asks a backend in Python for wait() alone, so is_completed() of an asynchronous call is False all the same.

    Raises NotImplementedError where this torch has no backends in Python.
    """
    if tuple(int(number) for number in torch.__version__.split(".")[:2]) < _FIRST:
        raise NotImplementedError(f"torch {torch.__version__} has no backends in Python: torch {'.'.join(map(str, _FIRST))} or later is needed")
    if not hasattr(dist.Backend, _NAME.upper()):
        dist.Backend.register_backend(_NAME, _make, extended_api=True, devices=["cpu"])


def group_communicator(group: Any = None) -> Any:
    """The communicator of a process group that has the backend "mpi_quant", for set_policy and stats. None: torch's default group."""
    backend = (group or dist.group.WORLD)._get_backend(torch.device("cpu"))
    if not isinstance(backend, Backend):
        raise ValueError("the process group has another backend for the host: init_process_group('mpi_quant') makes one")
    if backend.comm == MPI.COMM_NULL:
        raise ValueError("the process group has been destroyed, and its communicator with it")
    return backend.comm
