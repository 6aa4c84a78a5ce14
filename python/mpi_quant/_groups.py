"""Communicators for torch's process groups, and keys of names. SPDX-License-Identifier: Apache-2.0"""
import hashlib
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist
from mpi4py import MPI

_MAX_KEY = 63


def key_of(name: str) -> str:
    """The key that stands for a name: the name, shortened with a hash if it is long."""
    if len(name.encode()) <= _MAX_KEY:
        return name
    return f"{name.encode()[-40:].decode(errors='ignore')}:{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


def of_ranks(ranks: list[int]) -> Any:
    """A communicator of its own for these ranks of MPI.COMM_WORLD, in this order. Collective over them."""
    whole = MPI.COMM_WORLD.Get_group()
    some = whole.Incl(ranks)
    try:
        made = MPI.COMM_WORLD.Create_group(some)
    finally:
        some.Free()
        whole.Free()
    made.Set_errhandler(MPI.ERRORS_RETURN)
    return made


def free(comm: Any) -> None:
    """Frees a communicator and leaves MPI.COMM_NULL in its place. Collective over its ranks. Does nothing if that has been done, or after
    MPI_Finalize, which frees all that is left."""
    if comm != MPI.COMM_NULL and not MPI.Is_finalized():
        comm.Free()


class Groups:
    """A communicator for each process group of torch, which the first call of a group makes."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, ...], Any] = {}

    def of(self, group: Any) -> Any:
        """The communicator of a process group, in its order of ranks. The first time it is collective over the group."""
        name = tuple(dist.get_process_group_ranks(group))
        if name not in self._made:
            ranks: list[int] = [0] * len(name)
            dist.all_gather_object(ranks, MPI.COMM_WORLD.rank, group=group)  # torch may count processes in another order than MPI
            self._made[name] = of_ranks(ranks)
        return self._made[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._made.values())

    def close(self) -> None:
        """Frees the communicators. Collective."""
        for comm in self._made.values():
            free(comm)
        self._made.clear()
