"""What the ranks of scripts/mnist_torch do, in a small form, on 2 ranks. Without torch 2: skipped, with a line that says so."""
import os
import sys
import unittest
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch
from common import WORLD, OnAllRanks, main

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
TORCH2 = int(torch.__version__.split(".")[0]) >= 2
MLP, CNN = "mlp:512x512", "cnn:8x16x128"
if TORCH2:
    sys.path.insert(0, os.path.join(ROOT, "bench", "research", "ddp"))
    import methods
    import networks
    import rank


def options(**words):
    return SimpleNamespace(**{"networks": [MLP], "methods": ["gloo"], "seeds": [1], "steps": 4, "every": 2, "rounds": 2, "block": 2, "launch": 0, "link": "shm", **words})


@unittest.skipUnless(TORCH2, "no torch 2")
class Parts(OnAllRanks):
    @classmethod
    def setUpClass(cls):
        cls.images = networks.Images(os.path.join(ROOT, "tests", "data", "mnist"), WORLD.rank, WORLD.size)

    def test_each_rank_has_its_own_images_and_all_methods_the_same_ones(self):
        first, again = (next(self.images.batches(3)) for _ in range(2))
        self.assertTrue(torch.equal(first[0], again[0]))
        self.assertEqual(len(set(WORLD.allgather(first[0].numpy().tobytes()))), WORLD.size)
        self.assertEqual(first[0].shape, (networks.BATCH, 1, 28, 28))

    def test_training(self):
        for network in (MLP, CNN):
            rows = list(rank.accuracies(options(networks=[network], methods=["gloo", "gloo+fp16", "int8", "lowrank(rank=4)"], seeds=[1, 2], steps=6, every=4), self.images))
            self.assertEqual([row["step"] for row in rows], [4, 6] * 8)
            self.assertEqual(len({(row["method"], row["seed"]) for row in rows}), 8)
            self.assertEqual(len(set(WORLD.allgather([(row["accuracy"], row["loss"]) for row in rows].__repr__()))), 1)
            first = [row["loss"] for row in rows if row["step"] == 6 and row["seed"] == 1]
            self.assertLess(max(first) - min(first), 0.1)

    def test_errors_and_bytes(self):
        self.enterContext(mock.patch.multiple(rank, RECORDED_FROM=2, REPLAYED=12))
        names = ["gloo", "gloo+bf16", "gloo+powersgd(rank=2)", "bf16", "onebit", "lowrank(rank=2)", "lowrank(rank=2) small=1024"]
        found = {row["method"]: row for row in rank.errors(options(methods=names), self.images)}
        self.assertEqual(list(found), names)
        dense = 4 * found["gloo"]["elements"]
        for name, share in (("gloo", 1), ("gloo+bf16", 0.5), ("bf16", 0.5), ("onebit", 0.035), ("lowrank(rank=2)", 0.01), ("gloo+powersgd(rank=2)", 0.01)):
            self.assertAlmostEqual(found[name]["bytes"] / dense, share, delta=0.15 * share)
        self.assertLess(found["lowrank(rank=2) small=1024"]["bytes"], found["lowrank(rank=2)"]["bytes"] + 1)
        self.assertLess(found["gloo"]["error"], 1e-6)
        self.assertLess(found["bf16"]["error"], found["gloo+bf16"]["error"])
        self.assertLess(found["onebit"]["error"], found["onebit"]["first_error"])
        self.assertLess(found["onebit"]["error"], 0.5)

    def test_times(self):
        rows = list(rank.times(options(networks=[CNN], methods=["gloo", "onebit"]), self.images))
        self.assertEqual([row["method"] for row in rows], ["none", "gloo", "onebit"])
        for row in rows:
            self.assertEqual((row["calls"], row["sent_bytes"]), (4, ""))
            self.assertTrue(0 < row["t_lo_s"] <= row["t_median_s"] <= row["t_hi_s"])

    def test_replicas_that_differ_are_an_error_on_all_ranks(self):
        model, _ = networks.made(CNN, 1)
        rank.assert_replicas_are_equal(model, "a")
        with torch.no_grad():
            model[0].bias[0] += WORLD.rank
        with self.assertRaisesRegex(RuntimeError, "a: the ranks have different parameters"):
            rank.assert_replicas_are_equal(model, "a")

    def test_a_replay_gives_the_gradients_that_it_is_given(self):
        model, _ = networks.made(CNN, 1)
        given = networks.Given(model)
        gradients = [torch.randn_like(p) for p in model.parameters()]
        given(gradients).backward()
        for parameter, gradient in zip(given.parameters(), gradients):
            np.testing.assert_array_equal(parameter.grad, gradient)

    def test_methods_that_are_unknown(self):
        with self.assertRaisesRegex(ValueError, "no method gloo\\+zip"):
            methods.Method(networks.made(CNN, 1)[0], "gloo+zip")


if __name__ == "__main__":
    if TORCH2:
        rank.start_torch()
    elif WORLD.rank == 0:
        print(f"left out: scripts/mnist_torch needs torch 2, and this is torch {torch.__version__}")
    main()
