"""FSDP2: what its modules exchange, compressed. mpi_quant.torch has these names. SPDX-License-Identifier: Apache-2.0"""
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from mpi4py import MPI

from mpi_quant import _arrays, _call, _parts, _residuals
from mpi_quant._groups import Groups, key_of
from mpi_quant._library import communicator

_ROOT = "the whole module"  # the name of a module that is part of no other


class _Named:
    """What FSDP2 calls for one of its modules."""

    def __init__(self, name: str, method: str | None, error: float | str | None, groups: Groups | None) -> None:
        words = _call.words_of(method=method, error=error, key=None, matrix=None, seed=None)
        if "method" not in words:
            raise TypeError("a method or an error is needed, such as method='int8'")
        self.name, self.method, self.groups = name, words["method"], Groups() if groups is None else groups

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """A new tensor. FSDP2 asks for its buffers here."""
        return torch.empty(*size, dtype=dtype, device=device)


class ReduceScatter(_Named):
    """For set_custom_reduce_scatter of one FSDP2 module: each rank gets its part of the average gradient, compressed.

    name: the module's name, which is the key of its gradients. Another one for each module.
    method or error: as in mpi_quant.allreduce.
    feedback: what a step leaves out of a gradient is added in the next step. A rank then keeps a residual as long as the module's
    whole gradient, in float: as much memory as FSDP2 saves for it. Without it errors stay, which int8 and bf16 bear well.
    """

    def __init__(self, name: str, *, method: str | None = None, error: float | str | None = None, feedback: bool = False,
                 groups: Groups | None = None) -> None:
        super().__init__(name, method, error, groups)
        self.feedback = feedback

    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, op: Any, async_op: bool = False) -> None:
        """What FSDP2 calls: output_tensor becomes this rank's part of the sum (or average) of input_tensor over the group."""
        if op != dist.ReduceOp.SUM and op != dist.ReduceOp.AVG:
            raise ValueError(f"{self.name}: the sum or the average of gradients is asked for, not {op}: call "
                             "set_force_sum_reduction_for_comms(True) of the FSDP2 module")
        if op == dist.ReduceOp.AVG:
            input_tensor.div_(group.size())  # before the sum, as in ddp_hook
        _parts.reduce_scatter(input_tensor, output_tensor, comm=self.groups.of(group), method=self.method,
                              key=key_of(self.name) if self.feedback else None)


class AllGather(_Named):
    """For set_custom_all_gather of one FSDP2 module: all ranks get the module's parameters, compressed.

    name, method, error: as in ReduceScatter. No key: what is left out of parameters must not be added to the next ones. With
    memory=ef21 in the method, such as "int4 memory=ef21", the name is a key: each rank keeps an estimate of the module's whole
    parameters, in float, and sends how its part differs from it. The part that a rank owns stays exact there. With method "mpi" all
    parameters are exact everywhere.
    """

    def __init__(self, name: str, *, method: str | None = None, error: float | str | None = None, groups: Groups | None = None) -> None:
        super().__init__(name, method, error, groups)
        self.key = key_of(name) if re.search(r"memory\s*=\s*ef21", self.method) else None

    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, async_op: bool = False) -> Any:
        """What FSDP2 calls: output_tensor becomes the input_tensor of all ranks of the group, one after the other."""
        if str(output_tensor.dtype).removeprefix("torch.") not in _arrays.ELEMENTS:  # bytes, of parameters of several types
            return dist.all_gather_into_tensor(output_tensor, input_tensor, group=group, async_op=async_op)
        _parts.allgather(input_tensor, output_tensor, comm=self.groups.of(group), method=self.method, key=self.key)
        return None


class Shards:
    """Compresses what the FSDP2 modules in `module` exchange. Make it on all ranks, after fully_shard.

    module: a module to which, or to parts of which, fully_shard has been applied. Their names are the keys of their gradients.
    reduce_scatter: the method for gradients; None: torch sums them.
    all_gather: the method for parameters; None: torch gathers them.
    feedback: as in ReduceScatter.

    Raises NotImplementedError where this torch has no FSDP2 with these hooks, and ValueError if no part of the module is sharded.
    """

    def __init__(self, module: torch.nn.Module, *, reduce_scatter: str | None = None, all_gather: str | None = None,
                 feedback: bool = False) -> None:
        if reduce_scatter is None and all_gather is None:
            raise TypeError("a method is needed, such as reduce_scatter='int8'")
        self.groups = Groups()
        for name, part in _sharded(module, "set_custom_reduce_scatter"):
            if reduce_scatter is not None:
                part.set_custom_reduce_scatter(ReduceScatter(name, method=reduce_scatter, feedback=feedback, groups=self.groups))
            if all_gather is not None:
                part.set_custom_all_gather(AllGather(name, method=all_gather, groups=self.groups))

    def residuals(self) -> list[_residuals.Residuals]:
        """What the steps left out so far, by the names of modules: for each process group over which modules are sharded."""
        return [_residuals.Residuals(comm) for comm in self.groups]

    def close(self) -> None:
        """Frees the communicators. Collective. Then the modules cannot be used any more."""
        self.groups.close()


def with_tensors(state: dict[str, Any]) -> dict[str, Any]:
    """A state of residuals with tensors in place of arrays, which torch.load reads with weights_only=True, too."""
    keys = {key: {**saved, "data": torch.from_numpy(saved["data"])} for key, saved in state["keys"].items()}
    return {**state, "keys": keys}


class BetweenNodes:
    """What between_nodes returns: the sum of gradients over nodes.

    `method` may be changed between two steps, on all ranks alike.
    """

    def __init__(self, comm: Any, method: str, feedback: bool) -> None:
        self.comm, self.method, self.feedback = communicator(comm).Dup(), method, feedback
        self.comm.Set_errhandler(MPI.ERRORS_RETURN)

    @property
    def residuals(self) -> _residuals.Residuals:
        """What the steps left out so far, by the names of modules. Each is as long as this rank's part of the module."""
        return _residuals.Residuals(self.comm)

    def state_dict(self) -> dict[str, Any]:
        """This rank's part of a checkpoint, with tensors. Between two steps."""
        return with_tensors(self.residuals.state_dict())

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Takes over a checkpoint: as mpi_quant.Residuals.load_state_dict. Collective over comm."""
        self.residuals.load_state_dict(state)

    def close(self) -> None:
        """Frees the communicator. Collective over comm. Then the modules cannot be trained any more."""
        self.comm.Free()

    def average(self, name: str, gradient: torch.Tensor) -> None:
        """The hook of a module: the average of this part of its gradient over the nodes, in place."""
        gradient.div_(self.comm.size)  # before the sum, as in ddp_hook
        _call.allreduce(gradient, gradient, comm=self.comm, method=self.method, key=key_of(name) if self.feedback else None)


def between_nodes(module: torch.nn.Module, comm: Any, method: str, *, feedback: bool = True) -> BetweenNodes:
    """FSDP2 inside a node, and compressed sums of gradients between nodes. Collective; after fully_shard.

    module: sharded over the ranks of a node, by a mesh of one dimension. All nodes have the same number of ranks.
    comm: the ranks that have the same part of the module, one on each node: a communicator of mpi4py. It is duplicated.
    method: as in mpi_quant.allreduce.
    feedback: what a step leaves out is added in the next one. Residuals are as long as this rank's parts of the module.

    Raises NotImplementedError where this torch has no FSDP2 with set_all_reduce_hook. Raises ValueError if no part of the module is
    sharded, or if it is also replicated (HSDP): torch then sums between nodes itself, and the hook would sum once more.
    """
    parts = list(_sharded(module, "set_all_reduce_hook"))
    for name, part in parts:
        if any(_is_replicated(parameter) for parameter in part.parameters()):
            raise ValueError(f"{name}: it is sharded by a mesh that also replicates it, so torch sums between nodes: shard it by the "
                             "mesh of a node alone, such as init_device_mesh(...)['shard']")
    hook = BetweenNodes(comm, method, feedback)
    for name, part in parts:
        part.set_all_reduce_hook(lambda gradient, name=name: hook.average(name, gradient))
    return hook


def _sharded(module: torch.nn.Module, function: str) -> Iterator[tuple[str, Any]]:
    """The FSDP2 modules in a module, with their names. `function` is the one that torch must have."""
    try:
        from torch.distributed.fsdp import FSDPModule as of_torch
    except (ImportError, ValueError):  # before torch 2.6; ValueError: torch 1.13 in Python 3.11
        of_torch = None
    if not hasattr(of_torch, function):
        raise NotImplementedError(f"torch {torch.__version__} has no {function} of FSDP2 modules: torch 2.8 or later is needed")
    found = [(name or _ROOT, part) for name, part in module.named_modules() if isinstance(part, of_torch)]
    if not found:
        raise ValueError("no part of the module is sharded: call fully_shard first")
    return iter(found)


def _is_replicated(parameter: Any) -> bool:
    """Whether the outer dimension of a distributed parameter's mesh replicates it."""
    placements: tuple[Any, ...] = getattr(parameter, "placements", ())
    return len(placements) > 1 and bool(placements[0].is_replicate())
