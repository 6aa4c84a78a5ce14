"""mpi_quant.bcast and reduce, ibcast and ireduce: on 1 to 3 ranks."""
import signal
import time
import unittest

import numpy as np
from common import WORLD, Broken, OnAllRanks, exact_sum, main, relative_error, vector

import mpi_quant as mq

COUNT = 60_000
LAST = WORLD.size - 1
compresses = unittest.skipUnless(WORLD.size > 1, "one rank has nothing to send")


class Bcast(OnAllRanks):
    def test_all_ranks_get_the_vector_of_the_root(self):
        wanted = vector(COUNT, LAST)
        for method, least, most in ((None, 0, 0), ("bf16", 1e-4, 0.01), ("int8", 1e-4, 0.02)):
            x = vector(COUNT).reshape(-1, 10)
            self.assertIs(mq.bcast(x, root=LAST, method=method), x)
            self.assert_same_bits(x)
            error = relative_error(x.ravel(), wanted)
            self.assertLessEqual(error, most)
            if WORLD.size > 1:
                self.assertGreaterEqual(error, least)

    @compresses
    def test_a_key_brings_what_was_left_out(self):
        total = sum(mq.bcast(vector(COUNT), method="onebit", key="deltas").astype(np.float64) for _ in range(20))
        alone = relative_error(mq.bcast(vector(COUNT), method="onebit"), vector(COUNT, 0))
        self.assertLess(relative_error(total, 20 * vector(COUNT, 0)), 0.5 * alone)

    @compresses
    def test_an_array_that_cannot_be_used_is_an_error_of_all_ranks(self):
        for wrong, root, text in ((np.ones(COUNT, np.int64), 0, "int64"), (vector(COUNT), "0", "root is '0'")):
            with self.assertRaisesRegex(*((TypeError, text) if WORLD.rank == LAST else (mq.Error, f"rank {LAST}|count"))):
                mq.bcast(wrong if WORLD.rank == LAST else vector(COUNT), root=root if WORLD.rank == LAST else 0, method="bf16")


class Reduce(OnAllRanks):
    def test_the_root_gets_the_sum_and_the_others_nothing(self):
        for method, most in ((None, 1e-6), ("bf16", 0.01), ("int8", 0.02)):
            total = mq.reduce(vector(COUNT), root=np.int64(LAST), method=method)
            if WORLD.rank != LAST:
                self.assertIsNone(total)
                continue
            self.assertEqual((total.shape, total.dtype), ((COUNT,), np.float32))
            self.assertLess(relative_error(total, exact_sum(COUNT)), most)

    def test_the_root_gets_the_mean(self):
        for method in (None, "int8"):
            total, mean = (mq.reduce(vector(COUNT), method=method, op=op) for op in ("sum", "avg"))
            if WORLD.rank == 0:
                np.testing.assert_array_equal(mean, total / np.float32(WORLD.size))

    def test_in_place_and_into_an_array(self):
        x, out = vector(COUNT).reshape(100, -1), np.zeros((100, COUNT // 100), np.float32)
        apart = mq.reduce(x, out, method="bf16")
        same = mq.reduce(x, x, method="bf16")
        if WORLD.rank == 0:
            self.assertIs(apart, out)
            self.assertIs(same, x)
            np.testing.assert_array_equal(x, out)
        else:
            self.assertFalse(out.any())
            np.testing.assert_array_equal(x.ravel(), vector(COUNT))

    @compresses
    def test_an_array_that_cannot_be_used_is_an_error_of_all_ranks(self):
        x = vector(COUNT)
        with self.assertRaisesRegex(*((TypeError, "has shape") if WORLD.rank == 0 else (mq.Error, "rank 0|count"))):
            mq.reduce(x, np.zeros(COUNT - 1, np.float32), method="bf16")

    def test_an_argument_of_one_rank_that_raises_is_an_error_of_all_ranks(self):
        """Whatever it raises, and before MPI or the library has seen it."""
        x, grid, lists = np.ones(100, np.float32), np.ones((WORLD.size, 50), np.float32), (np.arange(3), np.ones(3, np.float32))
        calls = {"allreduce": lambda **words: mq.allreduce(x, **words), "reduce": lambda **words: mq.reduce(x, **words),
                 "ibcast": lambda **words: mq.ibcast(x.copy(), **words).wait(), "ireduce": lambda **words: mq.ireduce(x, **words).wait(),
                 "iallreduce": lambda **words: mq.iallreduce(x, **words).wait(), "bcast": lambda **words: mq.bcast(x.copy(), **words),
                 "reduce_scatter": lambda **words: mq.reduce_scatter(grid, **words), "allgather": lambda **words: mq.allgather(x, **words)}
        for name, call in calls.items():
            for word, wrong, fine in (("method", 5, "bf16"), ("method", Broken(), None), ("seed", Broken(), 3), ("key", 5, "k"), ("error", Broken(), None),
                                      ("method", "\ud800", "int8")):
                with self.subTest(function=name, word=word):
                    self.assert_last_raises(lambda value: call(**{word: value}), wrong, fine)  # pylint: disable=cell-var-from-loop
        group = [x, x.copy()]
        for word, wrong, fine in (("method", 5, "bf16"), ("seed", Broken(), 3)):
            self.assert_last_raises(lambda value: mq.allreduce_group(group, **{word: value}), wrong, fine)  # pylint: disable=cell-var-from-loop
        self.assert_last_raises(lambda value: mq.allreduce(value), Broken(), x)  # pylint: disable=unnecessary-lambda
        self.assert_last_raises(lambda value: mq.allreduce(x, matrix=value), Broken(), (10, 10))
        self.assert_last_raises(lambda value: mq.sparse_allreduce(*lists, op=value), Broken(), "sum")
        self.assert_last_raises(lambda value: mq.sparse_allreduce(*lists, key=value), 5, "k")
        self.assert_last_raises(lambda value: mq.sparse_union(*lists, 9, algorithm=value), 5, "auto")
        self.assert_last_raises(lambda value: mq.sparse_union(*lists, value), Broken(), 9)
        self.assert_last_raises(lambda value: mq.sparse_union(value, lists[1], 9), Broken(), lists[0])
        self.assert_last_raises(mq.set_policy, 5, ": bf16")
        self.assert_last_raises(lambda value: mq.residuals().flush(value, x), 5, "k")
        self.assert_last_raises(lambda value: mq.residuals().flush("k", value), Broken(), x)
        self.assert_last_raises(lambda value: mq.bcast(x.copy(), root=value), 2**32 + 1, 0)
        self.assert_last_raises(lambda value: mq.sparse_union(*lists, value), 2**64 + 5, 9)
        self.assertEqual(mq.allreduce(x, method="raw")[0], WORLD.size)

    def test_what_a_signal_raises_after_the_call_concerns_no_other_rank(self):
        """The usual way to limit the time of a call. Python runs the handler when the library has returned: the ranks have met then."""
        def late(*_):
            raise TimeoutError
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, late))
        x, grid = np.ones(100, np.float32), np.ones((WORLD.size, 50), np.float32)
        calls = [lambda: mq.allreduce(x), lambda: mq.reduce_scatter(grid), lambda: mq.reduce(x, root=WORLD.size - 1), lambda: mq.allreduce_group([x, x.copy()])]
        for number, call in enumerate(calls if WORLD.size > 1 else ()):
            with self.subTest(call=number):
                WORLD.Barrier()
                if WORLD.rank == WORLD.size - 1:
                    signal.setitimer(signal.ITIMER_REAL, 0.05)
                    with self.assertRaises(TimeoutError):
                        call()
                else:
                    time.sleep(0.2)
                    call()
                self.assertEqual(mq.allreduce(x, method="raw")[0], WORLD.size)


class Requests(OnAllRanks):
    def test_calls_in_flight_have_the_bits_of_the_blocking_calls(self):
        for method in (None, "bf16", "int8"):
            for root in {0, LAST}:
                x, y, sums = vector(COUNT), vector(COUNT), np.zeros(COUNT, np.float32)
                requests = [mq.ibcast(x, root=root, method=method), mq.ireduce(vector(COUNT), root=root, method=method),
                            mq.ireduce(y, y, root=root, method=method), mq.ireduce(vector(COUNT), sums, root=root, method=method, op="avg")]
                mean, in_place, total, copy = (request.wait(sleep=50e-6) for request in reversed(requests))
                self.assertIs(copy, x)
                np.testing.assert_array_equal(x, mq.bcast(vector(COUNT), root=root, method=method))
                self.assertEqual(len(mq._call._in_flight), 0)
                wanted = mq.reduce(vector(COUNT), root=root, method=method)
                if WORLD.rank != root:
                    self.assertEqual((total, mean, in_place), (None, None, None))
                    np.testing.assert_array_equal(y, vector(COUNT))
                    self.assertFalse(sums.any())
                    continue
                self.assertIs(in_place, y)
                self.assertIs(mean, sums)
                self.assertEqual((total.shape, total.dtype), ((COUNT,), np.float32))
                for got, exact in ((total, wanted), (y, wanted), (mean, wanted / np.float32(WORLD.size))):
                    if method is None:  # MPI's two forms may round differently
                        self.assertLess(relative_error(got, exact), 1e-6)
                    else:
                        np.testing.assert_array_equal(got, exact)

    @compresses
    def test_a_key_goes_on_from_form_to_form(self):
        results = [mq.ireduce(vector(COUNT), method="onebit", key="form").wait() for _ in range(2)]
        results.append(mq.reduce(vector(COUNT), method="onebit", key="form"))
        for result in results:
            blocking = mq.reduce(vector(COUNT), method="onebit", key="blocking")
            if WORLD.rank == 0:
                np.testing.assert_array_equal(blocking, result)
        mq.residuals().reset()

    @compresses
    def test_what_one_rank_cannot_start_is_an_error_of_all_ranks(self):
        for start in (mq.ibcast, mq.ireduce):
            x = np.ones(COUNT, np.int64) if WORLD.rank == LAST else vector(COUNT)
            with self.assertRaisesRegex(*((TypeError, "int64") if WORLD.rank == LAST else (mq.Error, f"rank {LAST}|count"))):
                start(x, method="bf16").wait()
        self.assertEqual(len(mq._call._in_flight), 0)


if __name__ == "__main__":
    main()
