"""FSDP2 with what its modules exchange compressed, on 1 to 4 ranks. Where torch has no FSDP2, only that the message says so."""
import unittest

import numpy as np
import torch
import torch.distributed as dist
import training_model
from common import WORLD, OnAllRanks, main, rendezvous
from torch import nn
from training_model import network

import mpi_quant as mq

try:
    from torch.distributed import fsdp
    FSDP2 = hasattr(getattr(fsdp, "FSDPModule", None), "set_custom_reduce_scatter")
except ValueError:  # torch 1.13 cannot import it in Python 3.11
    FSDP2 = False
compresses = unittest.skipUnless(FSDP2 and WORLD.size > 1, "one rank has nothing to send" if FSDP2 else "no FSDP2")
sharded = unittest.skipUnless(FSDP2, "no FSDP2")
STEPS, MOST = (30, 0.7) if WORLD.size < 4 else (6, 1)  # four ranks are slow on two cores; and the share of the first loss that may be left


def shard(model, mesh=None, **words):
    mesh = mesh or dist.device_mesh.init_device_mesh("cpu", (WORLD.size,))
    for layer in (model[0], model[2]):
        fsdp.fully_shard(layer, mesh=mesh, **words)
    return fsdp.fully_shard(model, mesh=mesh, **words)


def by_nodes(nodes, dimensions=1):
    """A mesh of the ranks of this node, and the communicator of those that have the same part. Nodes have neighbouring ranks."""
    each = WORLD.size // nodes
    mesh = dist.device_mesh.init_device_mesh("cpu", (nodes, each), mesh_dim_names=("replicate", "shard"))
    return (mesh if dimensions == 2 else mesh["shard"]), WORLD.Split(WORLD.rank % each)


def train(model, steps=STEPS, same=None):
    return training_model.train(model, steps, same, momentum=0.9)


def weights(model):
    """The whole parameters."""
    return np.concatenate([p.full_tensor().detach().double().numpy().ravel() for p in model.parameters()])


class Shards(OnAllRanks):
    @sharded
    def test_exact_methods_are_torchs_own_sums(self):
        ours, torchs = shard(network()), shard(network())
        shards = mq.torch.Shards(ours, reduce_scatter="mpi", all_gather="mpi")
        np.testing.assert_allclose(train(ours, 5), train(torchs, 5), rtol=1e-5)
        np.testing.assert_allclose(weights(ours), weights(torchs), rtol=1e-4, atol=1e-6)
        shards.close()

    @sharded
    def test_it_trains(self):
        for gradients, parameters, feedback in (("int8", "bf16", False), ("onebit", None, True), (None, "bf16", False), (None, "int4 memory=ef21", False)):
            with self.subTest(gradients=gradients, parameters=parameters):
                model = shard(network())
                shards = mq.torch.Shards(model, reduce_scatter=gradients, all_gather=parameters, feedback=feedback)
                losses = train(model, same=0)
                self.assertLess(losses[-1], MOST * losses[0])
                self.assert_same_bits(weights(model))
                shards.close()

    @compresses
    def test_it_sends_fewer_bytes_and_names_residuals_by_module(self):
        sent = {}
        for method in ("mpi", "int8"):
            model = shard(nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)))
            shards = mq.torch.Shards(model, reduce_scatter=method, all_gather="bf16" if method == "int8" else "mpi", feedback=True)
            train(model, 4)
            comm = next(iter(shards.groups))
            stats = mq.stats(comm)
            sent[method] = stats.wire_bytes_sent
            if method == "int8":
                self.assertEqual(list(shards.residuals()[0]), ["0", "2", "the whole module"])
                self.assertGreater(stats.compressed_calls, 4 * 3)
                dense = 4 * sum(p.numel() for p in model.parameters()) * 4 * (WORLD.size - 1) / WORLD.size  # of the gradients alone
                self.assertLess(sent["int8"], 1.6 * dense)  # gradients in bytes, parameters in halves, twice a step
            shards.close()

    @compresses
    def test_parameters_of_few_bits_follow_an_estimate(self):
        errors, x = {}, torch.ones(4, 64)
        for method in ("int4", "int4 memory=ef21"):
            model = shard(network())
            shards = mq.torch.Shards(model, all_gather=method)
            train(model, 6)
            gathered = model(x).detach().double().numpy()
            exact = network()
            exact.load_state_dict({name: value.full_tensor() for name, value in model.state_dict().items()})
            wanted = exact(x).detach().double().numpy()
            errors[method] = np.linalg.norm(gathered - wanted) / np.linalg.norm(wanted)
            shards.close()
        self.assertLess(errors["int4 memory=ef21"], 0.2 * errors["int4"])
        self.assertGreater(errors["int4"], 0.01)

    @compresses
    def test_halves_and_sums(self):
        """Gradients in a half type, and torch asking for sums in place of averages."""
        for policy in (fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16), fsdp.MixedPrecisionPolicy(reduce_dtype=torch.float16)):
            ours, torchs = shard(network(), mp_policy=policy), shard(network())
            for part in ours.modules():
                if isinstance(part, fsdp.FSDPModule):
                    part.set_force_sum_reduction_for_comms(True)
            shards = mq.torch.Shards(ours, reduce_scatter="bf16", all_gather="bf16")
            np.testing.assert_allclose(train(ours, 3), train(torchs, 3), rtol=0.03)
            shards.close()

    @compresses
    def test_an_object_of_ones_own_for_one_module(self):
        model = shard(network())
        one = mq.torch.ReduceScatter("middle", method="onebit", feedback=True)
        model[2].set_custom_reduce_scatter(one)
        train(model, 3)
        self.assertEqual([list(mq.residuals(comm)) for comm in one.groups], [["middle"]])
        with self.assertRaisesRegex(ValueError, r"middle: the sum or the average of gradients is asked for.*set_force_sum"):
            one(torch.zeros(1), torch.zeros(WORLD.size), dist.group.WORLD, dist.ReduceOp.MAX)
        one.groups.close()

    @compresses
    def test_backward_raises_the_error_on_all_ranks(self):
        model = shard(network())
        shards = mq.torch.Shards(model, reduce_scatter="int8")
        model[2].set_custom_reduce_scatter(mq.torch.ReduceScatter("2", method="onebit" if WORLD.rank else "int8", groups=shards.groups))
        with self.assertRaisesRegex(RuntimeError, "the ranks' calls differ; rank 0: "):
            train(model, 1)
        shards.close()


class Nodes(OnAllRanks):
    """Each rank is a node; of four ranks, two are."""

    NODES = WORLD.size if WORLD.size < 4 else 2

    @sharded
    def test_exact_methods_are_torchs_own_sums(self):
        mesh, same_part = by_nodes(self.NODES)
        ours, torchs = shard(network(), mesh), shard(network())
        hook = mq.torch.between_nodes(ours, same_part, "mpi")
        np.testing.assert_allclose(train(ours, 5), train(torchs, 5), rtol=1e-5)
        np.testing.assert_allclose(weights(ours), weights(torchs), rtol=1e-4, atol=1e-6)
        hook.close()

    @compresses
    def test_it_trains_and_residuals_are_as_long_as_a_ranks_part(self):
        mesh, same_part = by_nodes(self.NODES)
        model = shard(network(), mesh)
        hook = mq.torch.between_nodes(model, same_part, "onebit")
        losses = train(model, same=0)
        self.assertLess(losses[-1], MOST * losses[0])
        self.assert_same_bits(weights(model))
        each = WORLD.size // self.NODES
        self.assertEqual({key: len(hook.residuals[key]) for key in hook.residuals},
                         {"0": 65 * 128 // each, "2": 129 * 128 // each, "the whole module": 129 * 10 // each})
        hook.close()

    @compresses
    def test_a_checkpoint_goes_on_bit_for_bit(self):
        def made():
            mesh, same_part = by_nodes(self.NODES)
            model = shard(network(), mesh)
            return model, mq.torch.between_nodes(model, same_part, "onebit")
        whole, hook = made()
        train(whole, 4)
        again, other = made()
        again.load_state_dict(whole.state_dict())
        other.load_state_dict(hook.state_dict())
        train(whole, 4)
        train(again, 4)
        np.testing.assert_array_equal(weights(whole), weights(again))
        hook.close()
        other.close()

    @compresses
    def test_where_torch_sums_between_nodes_it_is_refused(self):
        mesh, same_part = by_nodes(self.NODES, dimensions=2)
        with self.assertRaisesRegex(ValueError, "it is sharded by a mesh that also replicates it"):
            mq.torch.between_nodes(shard(network(), mesh), same_part, "int8")


class Arguments(OnAllRanks):
    def test_what_is_missing(self):
        with self.assertRaisesRegex(TypeError, "a method is needed, such as reduce_scatter='int8'"):
            mq.torch.Shards(network())
        with self.assertRaisesRegex(TypeError, "a method or an error is needed"):
            mq.torch.ReduceScatter("a")
        if FSDP2:
            with self.assertRaisesRegex(ValueError, "no part of the module is sharded: call fully_shard first"):
                mq.torch.Shards(network(), reduce_scatter="int8")
        else:
            for call in (lambda: mq.torch.Shards(network(), all_gather="bf16"), lambda: mq.torch.between_nodes(network(), WORLD, "int8")):
                with self.assertRaisesRegex(NotImplementedError, r"torch 1\S* has no set_\w+ of FSDP2 modules: torch 2.8 or later is needed"):
                    call()


if __name__ == "__main__":
    torch.set_num_threads(1)
    rendezvous()
    dist.init_process_group("gloo")
    main()
