"""PyTorch: a communication hook that trains a DistributedDataParallel model with a fraction of the bytes.

    state = mpi_quant.torch.State(model, method="onebit", warmup_steps=100)
    ddp.register_comm_hook(state, mpi_quant.torch.ddp_hook)
SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from mpi4py import MPI

from mpi_quant import _call, _residuals
from mpi_quant._backend import group_communicator, register
from mpi_quant._groups import key_of
from mpi_quant._library import Error, communicator
from mpi_quant._shards import AllGather, BetweenNodes, ReduceScatter, Shards, between_nodes, with_tensors

__all__ = ["AllGather", "BetweenNodes", "ReduceScatter", "Scaler", "Shards", "State", "between_nodes", "ddp_hook", "group_communicator", "register"]

_NAP = 50e-6  # seconds between two tests of a waiting rank, which leaves its core to others


class Scaler(Protocol):
    """torch.cuda.amp.GradScaler, or what has its scale."""

    def get_scale(self) -> float:
        """By how much the loss is multiplied now."""


class _Bucket:
    """A bucket in flight: its requests, the oldest first, each with what is to be done when its sum is there."""

    def __init__(self, buffer: torch.Tensor) -> None:
        devices = [buffer.device] if buffer.is_cuda else None
        self.buffer, self.future = buffer, torch.futures.Future(devices=devices)
        self.requests: list[tuple[_call.Request, Callable[[], None] | None]] = []

    def test(self) -> bool:
        """True if all sums are there. Raises the error of a sum."""
        while self.requests:
            request, finish = self.requests[0]
            if not request.test():
                return False
            self.requests.pop(0)
            if finish is not None:
                finish()
        return True

    def give_up(self) -> None:
        """After an error, which all ranks have: waits for the other sums, so that the next call finds nothing in flight."""
        for request, _ in self.requests:
            with contextlib.suppress(Error):
                request.wait(_NAP)
        self.requests.clear()


class State:
    """What ddp_hook needs, on each rank. Make it on all ranks.

    module: the model, wrapped in DistributedDataParallel or not. Its parameters' names are the keys of their gradients.
    method or error: as in mpi_quant.allreduce.
    comm: the ranks of the training; None: MPI.COMM_WORLD. The state uses a duplicate of it, so nothing else is ordered with its sums.
    warmup_steps: so many first steps are exact.
    feedback: what a step leaves out of a parameter's gradient is added in the next step.
    small: gradients of fewer bytes travel together and exact, such as biases.
    progress: "hooks" advances sums while later buckets become ready, and ends them in the hook of the last bucket. "thread" has a
    thread that does so while backward() goes on; it needs MPI_THREAD_MULTIPLE. Both sleep between two tests.
    scaler: a GradScaler. Residuals follow its scale.

    `method` may be changed between two steps, on all ranks alike. `step` counts backward passes that communicated.
    """

    def __init__(self, module: torch.nn.Module, *, method: str | None = None, error: float | str | None = None, comm: Any = None,
                 warmup_steps: int = 2, feedback: bool = True, small: int = 1 << 12, progress: str = "hooks",
                 scaler: Scaler | None = None) -> None:
        words = _call.words_of(method=method, error=error, key=None, matrix=None, seed=None)
        if "method" not in words:
            raise TypeError("a method or an error is needed, such as method='onebit'")
        if progress not in ("hooks", "thread"):
            raise ValueError(f"progress is 'hooks' or 'thread', not {progress!r}")
        if progress == "thread" and MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise RuntimeError("progress='thread' needs MPI_THREAD_MULTIPLE, which this program has not asked for: use 'hooks'")
        if comm is None and dist.is_initialized() and dist.get_world_size() != MPI.COMM_WORLD.size:
            raise ValueError(f"torch.distributed has {dist.get_world_size()} ranks and MPI.COMM_WORLD {MPI.COMM_WORLD.size}: give the "
                             "communicator of the training's ranks")
        self.method, self.warmup_steps, self.feedback, self.small, self.scaler = words["method"], warmup_steps, feedback, small, scaler
        self.comm = communicator(comm).Dup()
        self.comm.Set_errhandler(MPI.ERRORS_RETURN)
        self.step = 0
        model = module.module if isinstance(module, torch.nn.parallel.DistributedDataParallel) else module
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._scale = scaler.get_scale() if scaler is not None else 1.0
        self._open: list[_Bucket] = []
        self.error: Error | None = None
        self._thread: _Thread | None = _Thread(self) if progress == "thread" else None

    @property
    def residuals(self) -> _residuals.Residuals:
        """What the steps left out so far, by the names of parameters."""
        return _residuals.Residuals(self.comm)

    def check(self) -> None:
        """Raises the Error of the last step, if it had one. backward() raises its text, but torch may change the type."""
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Ends the thread and frees the communicator. Collective. Then the hook cannot be used any more."""
        if self._thread is not None:
            self._thread.end()
            self._thread = None
        self.comm.Free()

    def state_dict(self) -> dict[str, Any]:
        """This rank's part of a checkpoint, with tensors. Between two steps."""
        return {"step": self.step, "scale": self._scale, "residuals": with_tensors(self.residuals.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Takes over a checkpoint. Collective. With the same number of ranks the training goes on bit for bit.

        state: what state_dict() gave this rank; for another number of ranks the states of all old ranks.
        """
        states = [state] if isinstance(state, Mapping) else list(state)
        inner = [one["residuals"] for one in states]
        self.residuals.load_state_dict(inner[0] if isinstance(state, Mapping) else inner)
        self.step, self._scale = states[0]["step"], states[0]["scale"]

    def key(self, parameter: torch.Tensor) -> str:
        """The key of a parameter's gradient: its name, shortened with a hash if it is long."""
        return key_of(self._names[id(parameter)])

    def reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """The average of a bucket's gradients. What ddp_hook calls."""
        if bucket.index() == 0:
            self.error = None
            self._follow_scaler()
        mine = _Bucket(bucket.buffer().div_(self.comm.size))  # before the sum, as torch does: halves do not overflow
        try:
            for earlier in self._open:
                earlier.test()
            self._start(mine, bucket.parameters())
            if self._thread is not None:
                self._thread.add(mine)
            else:
                self._open.append(mine)
                if bucket.is_last():
                    self._complete()
        except Error as error:
            self.error = error
            for one in (*self._open, mine):
                one.give_up()
            self._open.clear()
            raise
        finally:
            self.step += bucket.is_last()
        return mine.future

    def _complete(self) -> None:
        for one in self._open:
            while not one.test():
                time.sleep(_NAP)
            one.future.set_result(one.buffer)
        self._open.clear()

    def _follow_scaler(self) -> None:
        scale = self.scaler.get_scale() if self.scaler is not None else self._scale
        if scale != self._scale:
            self.residuals.scale(scale / self._scale)
            self._scale = scale

    def _start(self, mine: _Bucket, parameters: Sequence[torch.Tensor]) -> None:
        """Starts one sum for each large gradient, and one for all small ones, which is exact."""
        buffer = mine.buffer
        if self.step < self.warmup_steps or self.method == "mpi":
            self._start_one(mine, buffer, _exact_method(buffer), None)
            return
        rest, at = [], 0
        for parameter in parameters:
            gradient = buffer[at:at + parameter.numel()]
            at += parameter.numel()
            key = self.key(parameter) if self.feedback else None
            if gradient.numel() * gradient.element_size() < self.small or (self.method.startswith("lowrank") and parameter.dim() < 2):
                rest.append(gradient)
                continue
            matrix = (parameter.shape[0], gradient.numel() // parameter.shape[0]) if parameter.dim() > 1 else None
            if self.method.startswith("auto"):  # it learns from blocking calls
                _call.allreduce(gradient, gradient, comm=self.comm, method=self.method, key=key, matrix=matrix)
            else:
                self._start_one(mine, gradient, self.method, key, matrix=matrix if self.method.startswith("lowrank") else None)
        if rest:
            packed = torch.cat(rest)
            self._start_one(mine, packed, _exact_method(packed), None, lambda: _unpack(packed, rest))

    def _start_one(self, mine: _Bucket, vector: torch.Tensor, method: str, key: str | None,
                   finish: Callable[[], None] | None = None, matrix: tuple[int, int] | None = None) -> None:
        mine.requests.append((_call.iallreduce(vector, vector, comm=self.comm, method=method, key=key, matrix=matrix), finish))


def _exact_method(vector: torch.Tensor) -> str:
    """raw adds in the order of the ranks, whatever bucket a gradient is in. It has no half types; those are summed in float."""
    return "raw" if vector.element_size() > 2 else "mpi"


def _unpack(packed: torch.Tensor, parts: list[torch.Tensor]) -> None:
    for part, piece in zip(parts, packed.split([part.numel() for part in parts])):
        part.copy_(piece)


class _Thread:
    """Tests the sums of all buckets, and sleeps when none moves, because backward() needs the core."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._new: queue.SimpleQueue[_Bucket | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="mpi_quant", daemon=True)
        self._thread.start()

    def add(self, bucket: _Bucket) -> None:
        self._new.put(bucket)

    def end(self) -> None:
        self._new.put(None)
        self._thread.join()

    def _run(self) -> None:
        opened: list[_Bucket] = []
        ending = False
        while not ending or opened:
            while not ending and (not opened or not self._new.empty()):
                bucket = self._new.get()
                if bucket is None:
                    ending = True
                else:
                    opened.append(bucket)
            opened = [bucket for bucket in opened if not self._over(bucket)]
            time.sleep(_NAP)

    def _over(self, bucket: _Bucket) -> bool:
        try:
            over = bucket.test()
        except Error as error:
            bucket.give_up()
            self._state.error = error
            bucket.future.set_exception(error)
            return True
        if over:
            bucket.future.set_result(bucket.buffer)
        return over


def ddp_hook(state: State, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For register_comm_hook(state, ddp_hook): the average of the gradients over the ranks, compressed.

    backward() raises the text of an Error on all ranks, and state.check() the Error.
    """
    return state.reduce(bucket)
