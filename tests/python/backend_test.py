"""torch.distributed over the backend "mpi_quant", on 1 to 3 ranks. Where torch has no backends in Python, only that the message says so."""
import itertools
import os
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np
import torch
import torch.distributed as dist
from common import WORLD, OnAllRanks, main, rendezvous
from mpi4py import MPI
from torch.nn.parallel import DistributedDataParallel
from training_model import network, train

import mpi_quant as mq
from mpi_quant import _backend, _groups

BACKENDS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 15)
backends = unittest.skipUnless(BACKENDS, "no backends in Python")
compresses = unittest.skipUnless(BACKENDS and WORLD.size > 1, "one rank has nothing to send" if BACKENDS else "no backends in Python")
SUM_OF_RANKS = WORLD.size * (WORLD.size + 1) // 2  # each gives its number, counted from 1


class Collectives(OnAllRanks):
    """Each does what gloo does."""

    @backends
    def test_all_reduce_of_all_types(self):
        self.assertEqual(dist.get_backend(), "cpu:mpi_quant,cuda:gloo")
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.int32, torch.int64, torch.uint8):
            for shape in ((), (5,), (40, 30)):
                x = torch.full(shape, WORLD.rank + 1, dtype=dtype)
                dist.all_reduce(x)
                self.assertTrue(torch.equal(x, torch.full(shape, SUM_OF_RANKS, dtype=dtype)), (dtype, shape))

    @backends
    def test_other_operations(self):
        Op = dist.ReduceOp
        for operation, expected in ((Op.MAX, WORLD.size), (Op.MIN, 1), (Op.PRODUCT, np.prod(range(1, WORLD.size + 1)))):
            for dtype in (torch.float32, torch.bfloat16, torch.int64):
                x = torch.full((7,), WORLD.rank + 1, dtype=dtype)
                dist.all_reduce(x, op=operation)
                self.assertTrue(torch.equal(x, torch.full((7,), int(expected), dtype=dtype)), (operation, dtype))
        x = torch.full((7,), float(WORLD.rank + 1))
        dist.all_reduce(x, op=Op.AVG)
        np.testing.assert_allclose(x, np.full(7, SUM_OF_RANKS / WORLD.size), rtol=1e-6)
        with self.assertRaisesRegex(Exception, "no average of elements of torch.int64"):
            dist.all_reduce(torch.ones(3, dtype=torch.int64), op=Op.AVG)

    @backends
    def test_strides_and_asynchronous_calls(self):
        x = torch.full((6, 4), float(WORLD.rank + 1))
        self.assertTrue(dist.all_reduce(x.t()[::2], async_op=True).wait())
        expected = torch.full((6, 4), float(WORLD.rank + 1))
        expected[:, ::2] = SUM_OF_RANKS
        self.assertTrue(torch.equal(x, expected))

    @backends
    def test_broadcast_reduce_and_objects(self):
        root = WORLD.size - 1
        for dtype in (torch.float32, torch.int64, torch.bool):
            x = torch.full((3, 2), WORLD.rank == root, dtype=dtype)
            dist.broadcast(x, root)
            self.assertTrue(bool(x.all()))
        x = torch.full((9,), float(WORLD.rank + 1))
        dist.reduce(x, root)
        self.assertEqual(float(x[0]), SUM_OF_RANKS if WORLD.rank == root else WORLD.rank + 1)
        found = [None] * WORLD.size
        dist.all_gather_object(found, {"rank": WORLD.rank, "text": "x" * (10 + 90 * WORLD.rank)})
        self.assertEqual([one["rank"] for one in found], list(range(WORLD.size)))
        dist.barrier()

    @backends
    def test_gathering_and_parts(self):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            own = torch.full((2, 3), WORLD.rank + 1, dtype=dtype)
            parts = [torch.empty_like(own) for _ in range(WORLD.size)]
            dist.all_gather(parts, own)
            whole = torch.empty((2 * WORLD.size, 3), dtype=dtype)
            dist.all_gather_into_tensor(whole, own)
            self.assertTrue(torch.equal(torch.cat(parts), whole))
            self.assertEqual([int(part[0, 0]) for part in parts], list(range(1, WORLD.size + 1)))
            in_place = torch.zeros_like(whole)
            mine = in_place[2 * WORLD.rank:2 * WORLD.rank + 2]
            mine.copy_(own)
            dist.all_gather_into_tensor(in_place, mine)  # as FSDP2 does
            self.assertTrue(torch.equal(in_place, whole))
            part = torch.empty((2, 3), dtype=dtype)
            dist.reduce_scatter_tensor(part, whole)
            self.assertTrue(torch.equal(part, (WORLD.rank + 1) * WORLD.size * torch.ones_like(part)))
            dist.reduce_scatter(part, list(whole.split(2)), op=dist.ReduceOp.MAX)
            self.assertTrue(torch.equal(part, own))

    @compresses
    def test_groups_of_some_ranks_in_their_own_order(self):
        ranks = [1, 0]
        group = dist.new_group(ranks, backend="mpi_quant", sort_ranks=False) if "sort_ranks" in dist.new_group.__code__.co_varnames \
            else dist.new_group(ranks, backend="mpi_quant")
        if WORLD.rank in ranks:
            x = torch.full((4,), float(WORLD.rank + 1))
            dist.all_reduce(x, group=group)
            self.assertEqual(float(x[0]), 3)
            self.assertEqual(mq.torch.group_communicator(group).Get_size(), 2)
            self.assertEqual(mq.torch.group_communicator(group).Get_rank(), dist.get_rank(group))

    @backends
    def test_tensors_that_require_a_gradient(self):
        """As with gloo: autograd sees nothing of it, and a parameter may be summed in place."""
        Op = dist.ReduceOp
        for operation, expected in ((Op.SUM, SUM_OF_RANKS), (Op.AVG, SUM_OF_RANKS / WORLD.size), (Op.MAX, WORLD.size)):
            for dtype in (torch.float32, torch.bfloat16):
                for x in (torch.full((5, 6), WORLD.rank + 1, dtype=dtype, requires_grad=True), torch.full((6, 5), WORLD.rank + 1, dtype=dtype, requires_grad=True).t()):
                    dist.all_reduce(x, op=operation)
                    self.assertTrue(torch.equal(x.detach(), torch.full((5, 6), expected, dtype=dtype)), (operation, dtype, x.is_contiguous()))
                    self.assertTrue(x.requires_grad)
        x, root = torch.full((7,), float(WORLD.rank + 1), requires_grad=True), WORLD.size - 1
        dist.broadcast(x, root)
        self.assertEqual(float(x.detach()[0]), WORLD.size)
        dist.reduce(x, root)
        whole = torch.empty(7 * WORLD.size, requires_grad=True)
        dist.all_gather_into_tensor(whole, x)
        self.assertEqual(float(whole.detach()[-1]), WORLD.size ** 2)  # root's sum
        part = torch.empty(7, requires_grad=True)
        for operation in (Op.AVG, Op.MAX):
            dist.reduce_scatter_tensor(part, whole, op=operation)
            self.assertEqual(float(part.detach()[0]), float(whole.detach()[7 * WORLD.rank]))


class Groups(OnAllRanks):
    """Each process group has a communicator, of which an MPI library has about 2000."""

    @backends
    def test_a_destroyed_group_has_no_communicator(self):
        group = dist.new_group(backend="mpi_quant")
        backend, x = group._get_backend(torch.device("cpu")), torch.ones(3)
        dist.all_reduce(x, group=group)
        dist.destroy_process_group(group)
        self.assertEqual(backend.comm, MPI.COMM_NULL)
        backend.shutdown()  # again: nothing happens
        with self.assertRaisesRegex(RuntimeError, "allreduce of a process group that has been destroyed"):
            backend.allreduce([x])
        with self.assertRaisesRegex(ValueError, "the process group has been destroyed"):
            mq.torch.group_communicator(group)

    @unittest.skipUnless(BACKENDS and WORLD.size < 3, "no backends in Python, or as slow as three ranks on two cores are")
    def test_groups_come_and_go(self):
        """More than a library has communicators. Where there is something to send, each group takes two: the library has one of its own."""
        for _ in range(2200 // WORLD.size):
            comm = _groups.of_ranks(list(range(WORLD.size)))
            backend = _backend.Backend(comm)
            mq.allreduce(np.ones(10, np.float32), comm=backend.comm)
            backend.shutdown()

    @backends
    def test_the_group_of_a_communicator_is_freed(self):
        """Where it were not, its place would be taken, and each new group of MPI would have another one."""
        places = set()
        for _ in range(20):
            _groups.of_ranks([WORLD.rank]).Free()
            whole = WORLD.Get_group()
            some = whole.Incl([0])
            places.add(MPI._handleof(some))
            some.Free()
            whole.Free()
        self.assertLess(len(places), 5)

    @backends
    def test_abort_frees_nothing_as_other_ranks_may_not_come(self):
        group = dist.new_group(backend="mpi_quant")
        backend = group._get_backend(torch.device("cpu"))
        group.abort()
        self.assertNotEqual(backend.comm, MPI.COMM_NULL)
        dist.destroy_process_group(group)

    @compresses
    def test_groups_that_overlap_are_freed_in_one_order_on_all_ranks(self):
        """destroy_process_group() of the whole world: where a rank had another order, MPI_Comm_free could wait for ever."""
        members = [ranks for size in range(1, WORLD.size + 1) for ranks in itertools.permutations(range(WORLD.size), size)]
        made = [dist.new_group(ranks, backend="mpi_quant") for ranks in 3 * members]  # more than nine, so that names have two digits
        made = {number: group._get_backend(torch.device("cpu")) for number, group in enumerate(made) if dist.get_rank(group) >= 0}
        for backend in made.values():
            mq.allreduce(np.ones(10, np.float32), comm=backend.comm)  # from here on the library has a communicator of its own for it
        order = []
        with mock.patch.object(_backend, "free", lambda comm: (order.append(MPI._handleof(comm)), _groups.free(comm))):
            numbers = {MPI._handleof(backend.comm): number for number, backend in made.items()}
            dist.destroy_process_group()
        self.addCleanup(start)
        self.assertTrue(all(backend.comm == MPI.COMM_NULL for backend in made.values()))
        orders = WORLD.allgather([numbers[handle] for handle in order if handle in numbers])
        self.assertEqual(sorted(orders[WORLD.rank]), sorted(made))
        for one, other in itertools.combinations(orders, 2):
            self.assertEqual([number for number in one if number in other], [number for number in other if number in one])

    @backends
    def test_the_whole_world_is_destroyed_before_and_after_the_end_of_mpi(self):
        """In programs of their own, each of one rank: they end their MPI."""
        for order in ("dist.destroy_process_group(); MPI.Finalize()", "MPI.Finalize(); dist.destroy_process_group()", ""):
            code = ("import torch, torch.distributed as dist, mpi_quant as mq; from mpi4py import MPI; mq.torch.register(); "
                    "dist.init_process_group('mpi_quant', store=dist.HashStore(), rank=0, world_size=1); dist.new_group(backend='mpi_quant'); "
                    f"dist.all_reduce(torch.ones(3)); {order}")
            alone = {name: value for name, value in os.environ.items() if not name.startswith(("PMI", "HYD", "MPI_", "OMPI", "PMIX", "PRTE"))}
            done = subprocess.run([sys.executable, "-c", code], env=alone, capture_output=True, text=True, check=False, timeout=120)
            self.assertEqual(done.returncode, 0, (order, done.stderr))


class Training(OnAllRanks):
    @backends
    def test_ddp_and_fsdp2_train_as_over_gloo(self):
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard
        gloo = dist.new_group(backend="gloo")
        expected = train(DistributedDataParallel(network(), process_group=gloo), 5)
        ddp = DistributedDataParallel(network())
        np.testing.assert_allclose(train(ddp, 5), expected, rtol=1e-5)
        self.assert_same_bits(torch.cat([p.detach().ravel() for p in ddp.parameters()]).numpy())
        mesh = DeviceMesh("cpu", list(range(WORLD.size)))
        sharded = network()
        for part in (sharded[0], sharded[2], sharded):
            fully_shard(part, mesh=mesh)
        np.testing.assert_allclose(train(sharded, 5), expected, rtol=1e-5)

    @compresses
    def test_a_policy_compresses(self):
        comm = mq.torch.group_communicator()
        mq.set_policy("32K-: int8", comm)
        before = mq.stats(comm)
        losses = train(DistributedDataParallel(network(), bucket_cap_mb=0.05), 20)
        self.assertGreater(mq.stats(comm).compressed_calls - before.compressed_calls, 20)
        self.assertLess(losses[-1], losses[0])
        mq.set_policy(None, comm)

    @compresses
    def test_the_hook_runs_over_it(self):
        ddp = DistributedDataParallel(network())
        state = mq.torch.State(ddp, method="onebit")
        ddp.register_comm_hook(state, mq.torch.ddp_hook)
        train(ddp, 5)
        self.assertEqual(list(state.residuals), ["0.weight", "2.weight"])
        state.close()


class Messages(OnAllRanks):
    def test_a_group_of_another_backend(self):
        group = dist.new_group(backend="gloo")
        if BACKENDS:
            with self.assertRaisesRegex(ValueError, "has another backend for the host"):
                mq.torch.group_communicator(group)

    def test_a_torch_without_backends_in_python(self):
        if BACKENDS:
            mq.torch.register()  # again: nothing happens
        else:
            with self.assertRaisesRegex(NotImplementedError, r"torch 1\S+ has no backends in Python: torch 2.15 or later is needed"):
                mq.torch.register()


def start():
    """Makes torch's default group."""
    rendezvous()
    dist.init_process_group("cpu:mpi_quant,cuda:gloo" if BACKENDS else "gloo")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if BACKENDS:
        mq.torch.register()
    start()
    main()
