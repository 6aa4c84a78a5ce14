"""mpi_quant.torch: training with the communication hook, on 1 to 3 ranks."""
import io
import threading
import unittest

import numpy as np
import torch
import torch.distributed as dist
from common import WORLD, OnAllRanks, main, rendezvous
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from training_model import batch, network

import mpi_quant as mq

compresses = unittest.skipUnless(WORLD.size > 1, "one rank has nothing to send")
WAYS = ("hooks", "thread")


class Training:
    """A model, wrapped and hooked; buckets are so small that there are several."""

    def __init__(self, model=None, hooked=True, bucket_cap_mb=0.05, **words):
        self.model = model or network()
        find = words.pop("find_unused_parameters", False)
        self.ddp = DistributedDataParallel(self.model, bucket_cap_mb=bucket_cap_mb, find_unused_parameters=find)
        self.state = None
        if hooked:
            self.state = mq.torch.State(self.ddp, **{"method": "onebit", **words})
            self.ddp.register_comm_hook(self.state, mq.torch.ddp_hook)
        self.optimizer = torch.optim.SGD(self.ddp.parameters(), lr=0.05, momentum=0.9)

    def step(self, number):
        x, y = batch(number)
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.ddp(x), y)
        loss.backward()
        self.optimizer.step()
        return float(loss)

    def steps(self, *numbers):
        for number in range(*numbers):
            self.step(number)
        return self

    def weights(self):
        return np.concatenate([p.detach().double().numpy().ravel() for p in self.model.parameters()])


class Hook(OnAllRanks):
    def test_exact_steps_are_those_of_torch(self):
        ours, torchs = Training(warmup_steps=9).steps(3), Training(hooked=False).steps(3)
        np.testing.assert_allclose(ours.weights(), torchs.weights(), rtol=1e-5, atol=1e-7)
        self.assertEqual(list(ours.state.residuals), [])

    def test_it_trains_and_replicas_are_equal(self):
        for progress in WAYS:
            for method in ("onebit", "int8", "lowrank(rank=4)", "auto(error=feedback)"):
                with self.subTest(progress=progress, method=method):
                    training = Training(method=method, progress=progress)
                    losses = [training.step(0) for _ in range(30)]
                    self.assertLess(losses[-1], 0.7 * losses[0])
                    self.assert_same_bits(training.weights())
                    stats = mq.stats(training.state.comm)
                    self.assertEqual((stats.scheme_calls > 0, stats.declined_calls), (method.startswith("lowrank") and WORLD.size > 1, 0))
                    training.state.close()

    @compresses
    def test_it_sends_fewer_bytes_and_both_ways_compute_the_same(self):
        hooks, thread = (Training(progress=progress).steps(6) for progress in WAYS)
        np.testing.assert_array_equal(hooks.weights(), thread.weights())
        before = mq.stats(hooks.state.comm)
        hooks.steps(6, 16)
        sent = mq.stats(hooks.state.comm).wire_bytes_sent - before.wire_bytes_sent
        dense = 10 * 4 * sum(p.numel() for p in hooks.model.parameters())
        self.assertLess(sent, 0.35 * dense)  # small gradients are exact, and much of so small a network

    @compresses
    def test_a_key_for_each_large_parameter_by_its_name(self):
        training = Training(warmup_steps=0).steps(4)
        self.assertEqual(list(training.state.residuals), ["0.weight", "2.weight", "4.weight"])  # no bias

    @compresses
    def test_long_names_are_shortened_and_stay_apart(self):
        model = nn.ModuleDict({"a" * 80: nn.Linear(9, 9), "b" + "a" * 79: nn.Linear(9, 9)})
        state = mq.torch.State(model, method="int8")
        keys = {state.key(parameter) for parameter in model.parameters()}
        self.assertEqual(len(keys), 4)
        self.assertLessEqual(max(len(key) for key in keys), 63)
        state.close()

    @compresses
    def test_a_checkpoint_goes_on_bit_for_bit_whatever_the_buckets_are(self):
        whole = Training().steps(6)
        file = io.BytesIO()
        torch.save({"model": whole.model.state_dict(), "optimizer": whole.optimizer.state_dict(), "hook": whole.state.state_dict()}, file)
        whole.steps(6, 12)
        file.seek(0)
        saved = torch.load(file, weights_only=int(torch.__version__.partition(".")[0]) >= 2)  # torch 1.13 then reads no floats
        again = Training(bucket_cap_mb=25)
        again.model.load_state_dict(saved["model"])
        again.optimizer.load_state_dict(saved["optimizer"])
        again.state.load_state_dict(saved["hook"])
        self.assertEqual(again.steps(6, 12).state.step, 12)
        np.testing.assert_array_equal(again.weights(), whole.weights())

    @compresses
    def test_another_number_of_ranks_takes_over_what_waits(self):
        training = Training().steps(5)
        states = WORLD.allgather(training.state.state_dict())
        alone = WORLD.Split(WORLD.rank)
        state = mq.torch.State(training.model, method="onebit", comm=alone)
        state.load_state_dict(states)
        total = sum(one["residuals"]["keys"]["2.weight"]["data"].double().numpy() for one in states)
        np.testing.assert_allclose(state.residuals["2.weight"], total, rtol=1e-5, atol=1e-7)
        self.assertEqual(state.step, 5)

    def test_halves(self):
        """By a bucket of our own: old gloo sends no model of bfloat16."""
        class Bucket:
            def __init__(self, model):
                self.list = list(model.parameters())
                torch.manual_seed(WORLD.rank)
                self.vector = torch.randn(sum(p.numel() for p in self.list)).to(self.list[0].dtype)
                self.buffer, self.parameters = lambda: self.vector, lambda: self.list
                self.index, self.is_last = lambda: 0, lambda: True
        for dtype in (torch.bfloat16, torch.float16):
            model = network().to(dtype)
            state = mq.torch.State(model, method="int8", warmup_steps=1)
            for most in (0.01, 0.03):  # an exact step, and one that is not
                bucket = Bucket(model)
                expected = sum(WORLD.allgather(bucket.vector.double().numpy())) / WORLD.size
                average = mq.torch.ddp_hook(state, bucket).wait()
                self.assertEqual(average.dtype, dtype)
                self.assertLess(np.linalg.norm(average.double().numpy() - expected) / np.linalg.norm(expected), most)
                self.assert_same_bits(average.double().numpy())
            state.close()

    @compresses
    def test_residuals_follow_the_scale_of_a_scaler(self):
        class Scaler:
            scale = 1024.0

            def get_scale(self):
                return self.scale

        def run(follow):
            scaler = Scaler()
            training = Training(scaler=scaler if follow else None, warmup_steps=0)
            for number in range(4):
                scaler.scale = 1024.0 if number < 2 else 256.0
                x, y = batch(number)
                training.model.zero_grad()
                (nn.functional.cross_entropy(training.ddp(x), y) * scaler.scale).backward()
            return training.state.residuals["2.weight"] / scaler.scale

        def unscaled():
            training = Training(warmup_steps=0)
            for number in range(4):
                x, y = batch(number)
                training.model.zero_grad()
                nn.functional.cross_entropy(training.ddp(x), y).backward()
            return training.state.residuals["2.weight"]
        np.testing.assert_allclose(run(True), unscaled(), rtol=1e-3, atol=1e-6)
        self.assertGreater(np.linalg.norm(run(False)), 1.2 * np.linalg.norm(unscaled()))


class Programs(OnAllRanks):
    """What training programs do with DistributedDataParallel."""

    @compresses
    def test_gradients_of_several_passes_are_added_up_before_they_are_sent(self):
        training = Training()
        for number in range(4):
            training.optimizer.zero_grad()
            with training.ddp.no_sync():
                x, y = batch(number)
                nn.functional.cross_entropy(training.ddp(x), y).backward()
            x, y = batch(number + 50)
            nn.functional.cross_entropy(training.ddp(x), y).backward()
            training.optimizer.step()
        self.assertEqual(training.state.step, 4)
        self.assert_same_bits(training.weights())

    @compresses
    def test_parameters_that_a_rank_does_not_use(self):
        class Either(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.c = nn.Linear(64, 100), nn.Linear(64, 100), nn.Linear(100, 10)

            def forward(self, x):
                return self.c((self.a if x[0, 0] > 0 else self.b)(x))
        torch.manual_seed(0)
        for progress in WAYS:
            training = Training(Either(), find_unused_parameters=True, progress=progress).steps(8)
            self.assert_same_bits(training.weights())

    @compresses
    def test_ranks_with_fewer_batches(self):
        for progress in WAYS:
            training = Training(progress=progress)
            with training.ddp.join():
                training.steps(4 + 2 * WORLD.rank)
            self.assert_same_bits(training.weights())


class Errors(OnAllRanks):
    @compresses
    def test_backward_raises_the_text_of_the_library_on_all_ranks_and_check_the_error(self):
        for progress in WAYS:
            training = Training(warmup_steps=0, progress=progress)
            training.state.method = "onebit" if WORLD.rank else "int8"
            with self.assertRaisesRegex(RuntimeError, "the ranks' calls differ; rank 0: "):
                training.step(0)
            with self.assertRaisesRegex(mq.Error, "the ranks' calls differ; rank 0: "):
                training.state.check()
            self.assertEqual(len(mq._call._in_flight), 0)

    def test_arguments(self):
        with self.assertRaisesRegex(TypeError, "a method or an error is needed"):
            mq.torch.State(network())
        with self.assertRaisesRegex(ValueError, "'hooks' or 'thread', not 'spin'"):
            mq.torch.State(network(), method="bf16", progress="spin")
        with mq.options(method="int8"):
            self.assertEqual(mq.torch.State(network()).method, "int8")

    def test_the_thread_ends(self):
        before = threading.active_count()
        state = mq.torch.State(network(), method="bf16", progress="thread")
        self.assertEqual(threading.active_count(), before + 1)
        state.close()
        self.assertEqual(threading.active_count(), before)


class Tensors(OnAllRanks):
    def test_sums_of_tensors(self):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            x = torch.arange(1000).to(dtype) / 1000 + WORLD.rank
            total = mq.allreduce(x, method="bf16")
            self.assertEqual((total.dtype, total.shape), (dtype, x.shape))
            expected = sum(torch.arange(1000).double() / 1000 + rank for rank in range(WORLD.size))
            self.assertLess(float((total.double() - expected).norm() / expected.norm()), 0.01)
            self.assertIs(mq.iallreduce(x, x, method="bf16").wait(), x)
            self.assertTrue(torch.equal(x, total))


if __name__ == "__main__":
    torch.set_num_threads(1)
    rendezvous()
    dist.init_process_group("gloo")
    main()
