"""mpi_quant.allreduce, iallreduce, options, set_policy, stats: on 1 to 3 ranks."""
import asyncio
import threading
import time
import unittest

import numpy as np
from common import WORLD, OnAllRanks, exact_sum, main, relative_error, vector

import mpi_quant as mq

COUNT = 100_000
compresses = unittest.skipUnless(WORLD.size > 1, "one rank has nothing to send")


def calls(of="compressed_calls"):
    return getattr(mq.stats(), of)


class Sums(OnAllRanks):
    def test_without_a_method_the_sum_is_exact(self):
        x = vector(COUNT)
        total = mq.allreduce(x)
        self.assertEqual((total.dtype, total.shape), (x.dtype, x.shape))
        self.assertLess(relative_error(total, exact_sum(COUNT)), 1e-6)
        np.testing.assert_array_equal(x, vector(COUNT))

    @compresses
    def test_a_method_compresses_and_all_ranks_get_the_same_bits(self):
        for method, least, most in (("bf16", 1e-4, 0.01), ("int8", 1e-4, 0.02), ("onebit", 0.1, 0.9)):
            before = mq.stats()
            total = mq.allreduce(vector(COUNT), method=method)
            after = mq.stats()
            self.assertEqual(after.compressed_calls, before.compressed_calls + 1)
            self.assertTrue(least < relative_error(total, exact_sum(COUNT)) < most, method)
            self.assertLess(after.wire_bytes_sent - before.wire_bytes_sent, 0.6 * 4 * COUNT * 2)
            self.assert_same_bits(total)

    def test_a_mean_is_the_sum_over_the_ranks(self):
        for method in (None, "int8", "onebit"):
            mean = mq.allreduce(vector(COUNT), method=method, op="avg")
            np.testing.assert_array_equal(mean, mq.allreduce(vector(COUNT), method=method) / np.float32(WORLD.size))
            self.assert_same_bits(mean)
        later = mq.iallreduce(vector(COUNT), method="int8", op="avg").wait()
        np.testing.assert_array_equal(later, mq.allreduce(vector(COUNT), method="int8", op="avg"))
        with self.assertRaisesRegex(mq.Error, "neither sum nor avg"):
            mq.allreduce(vector(9), op="max")

    def test_in_place_and_into_an_array(self):
        x, out = vector(COUNT).reshape(100, -1), np.empty((100, COUNT // 100), np.float32)
        self.assertIs(mq.allreduce(x, out, method="bf16"), out)
        self.assertIs(mq.allreduce(x, x, method="bf16"), x)
        np.testing.assert_array_equal(x, out)
        self.assertLess(relative_error(x.ravel(), exact_sum(COUNT)), 0.01)

    def test_every_type_of_elements(self):
        for dtype, most in ((np.float64, 1e-6), (np.float32, 1e-6), (np.float16, 2e-3)):
            with self.subTest(dtype=dtype):
                total = mq.allreduce(vector(COUNT, dtype=dtype))
                self.assertEqual(total.dtype, dtype)
                self.assertLess(relative_error(total, exact_sum(COUNT, dtype)), most)
                self.assert_same_bits(total)

    def test_complex_numbers_are_pairs_of_reals(self):
        for real, pair in ((np.float32, np.complex64), (np.float64, np.complex128)):
            x = vector(COUNT, dtype=real)
            for method in (None, "onebit"):
                total = mq.allreduce(x.view(pair), method=method)
                self.assertEqual((total.dtype, total.shape), (pair, (COUNT // 2,)))
                np.testing.assert_array_equal(total.view(real), mq.allreduce(x, method=method))

    def test_a_key_brings_what_was_left_out(self):
        results = [mq.allreduce(vector(COUNT), method="onebit", key="feedback") for _ in range(20)]
        alone = mq.allreduce(vector(COUNT), method="onebit")
        expected = 20 * exact_sum(COUNT)
        if WORLD.size > 1:
            self.assertLess(relative_error(sum(r.astype(np.float64) for r in results), expected), 0.3 * relative_error(alone, expected / 20))

    def test_an_empty_array(self):
        self.assertEqual(mq.allreduce(np.empty((0, 3), np.float32), method="bf16").shape, (0, 3))

    def test_a_communicator(self):
        half = WORLD.Split(WORLD.rank % 2)
        total = mq.allreduce(np.full(COUNT, WORLD.rank, np.float32), comm=half, method="bf16")
        self.assertEqual(total[0], sum(range(WORLD.rank % 2, WORLD.size, 2)))
        half.Free()
        with self.assertRaisesRegex(TypeError, "comm is a communicator of mpi4py or None, not int"):
            mq.allreduce(total, comm=1)

    @compresses
    def test_a_matrix_is_given_as_rows_and_columns(self):
        rows, columns = vector(200).reshape(-1, 1), vector(300, rank=7).reshape(1, -1)
        x = np.ascontiguousarray(rows * columns)
        total = mq.allreduce(x, method="lowrank(rank=1)", key="matrix", matrix=x.shape)
        expected = exact_sum(200).reshape(-1, 1) * columns
        self.assertLess(relative_error(total, expected), 1e-3)  # a sum of rank 1
        with self.assertRaisesRegex(mq.Error, "300x201"):
            mq.allreduce(x, method="lowrank(rank=1)", key="matrix", matrix=(201, 300))


class Requests(OnAllRanks):
    def test_it_is_there_after_wait_or_test(self):
        blocking = mq.allreduce(vector(COUNT), method="int8")
        for end in (lambda r: r.wait(), lambda r: r.wait(sleep=50e-6), self.until_tested):
            np.testing.assert_array_equal(end(mq.iallreduce(vector(COUNT), method="int8")), blocking)

    @staticmethod
    def until_tested(request):
        while not request.test():
            pass
        return request.wait()

    def test_several_in_flight_end_in_any_order(self):
        requests = [mq.iallreduce(vector(COUNT, WORLD.rank + number), method="bf16", key=f"flight {number}") for number in range(4)]
        for number in (2, 0, 3, 1):
            expected = sum(vector(COUNT, rank + number).astype(np.float64) for rank in range(WORLD.size))
            self.assertLess(relative_error(requests[number].wait(), expected), 0.01)

    def test_a_request_that_nobody_keeps_keeps_its_arrays(self):
        mq.iallreduce(vector(COUNT), method="bf16")
        first = mq._call._in_flight
        self.assertEqual(len(first), 1)
        np.testing.assert_array_equal(next(iter(first)).wait(), mq.allreduce(vector(COUNT), method="bf16"))
        self.assertEqual(len(first), 0)

    def test_in_place(self):
        x = vector(COUNT)
        self.assertIs(mq.iallreduce(x, x, method="bf16").wait(), x)
        self.assertLess(relative_error(x, exact_sum(COUNT)), 0.01)


class Words(OnAllRanks):
    @compresses
    def test_options_are_for_the_calls_inside(self):
        before = calls()
        with mq.options(method="bf16"):
            lossy = mq.allreduce(vector(COUNT))
            self.assertEqual(calls(), before + 1)
            with mq.options(seed=7):
                np.testing.assert_array_equal(mq.allreduce(vector(COUNT)), lossy)
            with mq.options(method="mpi"):
                mq.allreduce(vector(COUNT))
            self.assertEqual(calls(), before + 2)
        mq.allreduce(vector(COUNT))
        self.assertEqual(calls(), before + 2)

    @compresses
    def test_the_seed_of_random_rounding(self):
        def total(**words):
            mq.residuals().reset("random")  # with the number of the key's call, on which random numbers depend too
            return mq.allreduce(vector(COUNT), method="int8(round=stochastic)", key="random", **words).tobytes()
        with mq.options(seed=3):
            inside = total()
        self.assertEqual(total(seed=3), inside)
        self.assertNotEqual(total(seed=4), inside)

    def test_options_are_of_one_task(self):
        async def inside():
            with mq.options(method="onebit"):
                await asyncio.sleep(0.01)
                return dict(mq._call.scope())

        async def outside():
            await asyncio.sleep(0.005)
            return dict(mq._call.scope())

        async def both():
            return await asyncio.gather(inside(), outside())
        self.assertEqual(asyncio.run(both()), [{"method": "onebit"}, {}])

    def test_an_error_is_a_spelling_of_the_method_auto(self):
        words = {"key": None, "matrix": None, "seed": None}
        self.assertEqual(mq._call.words_of(method=None, error=0.01, **words), {"method": "auto(error=0.01)"})
        with mq.options(error="feedback"):
            self.assertEqual(mq._call.words_of(method=None, error=None, **words), {"method": "auto(error=feedback)"})
            self.assertEqual(mq._call.words_of(method="bf16", error=None, **words), {"method": "bf16"})
        for _ in range(20):
            self.assertLess(relative_error(mq.allreduce(vector(COUNT), error=0.01), exact_sum(COUNT)), 0.01)
        with self.assertRaisesRegex(TypeError, "give one of them"):
            mq.allreduce(vector(9), method="bf16", error=0.01)

    @compresses
    def test_more_words_than_infos_are_kept(self):
        for seed in range(mq._call._MAX_INFOS + 5):
            mq.allreduce(vector(9), method="bf16", seed=seed)
        self.assertLessEqual(len(mq._call._infos), mq._call._MAX_INFOS)

    @compresses
    def test_a_policy(self):
        comm = WORLD.Dup()
        mq.set_policy("64K-: bf16", comm)
        mq.allreduce(vector(COUNT), comm=comm)
        mq.allreduce(vector(100), comm=comm)
        self.assertEqual((mq.stats(comm).calls, mq.stats(comm).compressed_calls), (2, 1))
        with self.assertRaisesRegex(mq.Error, "a rule for exactly 65536 bytes"):
            mq.set_policy("64K: onebit", comm)
        mq.set_policy(None, comm)
        mq.allreduce(vector(COUNT), comm=comm)
        self.assertEqual(mq.stats(comm).compressed_calls, 1)
        self.assertEqual(mq.stats(comm).exact_reason, "")
        comm.Free()

    def test_bounds_of_messages(self):
        self.assertEqual(mq.wire_bound("bf16", 1000), 2000)
        self.assertEqual(mq.wire_bound("mpi", 1000, "f64"), 8000)
        with self.assertRaisesRegex(mq.Error, "nonsense"):
            mq.wire_bound("nonsense", 1000)
        with self.assertRaisesRegex(TypeError, "f32, f64, f16, bf16"):
            mq.wire_bound("bf16", 1000, "i8")


class Errors(OnAllRanks):
    def test_an_unknown_method_has_the_text_of_the_library(self):
        with self.assertRaises(mq.Error) as raised:
            mq.allreduce(vector(COUNT), method="nonsense")
        self.assertIn("nonsense", str(raised.exception))
        self.assertGreater(raised.exception.code, 0)

    @compresses
    def test_ranks_that_differ_all_get_the_error(self):
        for start in (mq.allreduce, lambda *x, **words: mq.iallreduce(*x, **words).wait()):
            with self.assertRaisesRegex(mq.Error, "differ"):
                start(vector(COUNT + (WORLD.rank == 0)), method="bf16")
        self.assertEqual(len(mq._call._in_flight), 0)

    @compresses
    def test_a_request_that_failed_stays_failed(self):
        """Its array has no meaning. It keeps the text of its own error, whatever failed since then."""
        starts = {"iallreduce": mq.iallreduce, "iallreduce_group": lambda x, **words: mq.iallreduce_group([x], **words),
                  "ireduce_scatter": mq.ireduce_scatter, "iallgather": mq.iallgather, "ibcast": mq.ibcast, "ireduce": mq.ireduce}
        x = vector(WORLD.size * (1000 + (WORLD.rank == 0)))
        for name, start in starts.items():
            for first in (lambda request: request.wait(), lambda request: request.wait(sleep=50e-6), self.until_tested):
                with self.subTest(function=name):
                    request = start(x, method="bf16")
                    with self.assertRaises(mq.Error) as raised:
                        first(request)
                    with self.assertRaisesRegex(mq.Error, "nonsense"):
                        mq.allreduce(x, method="nonsense")
                    for again in (request.test, request.wait, lambda: request.wait(sleep=50e-6)):  # pylint: disable=cell-var-from-loop
                        with self.assertRaises(mq.Error) as repeated:
                            again()
                        self.assertEqual((str(repeated.exception), repeated.exception.code), (str(raised.exception), raised.exception.code))

    @staticmethod
    def until_tested(request):
        while not request.test():
            pass

    @compresses
    def test_an_array_that_cannot_be_used_is_an_error_of_all_ranks(self):
        """One rank gets the TypeError. The others do not wait for ever."""
        for start in (mq.allreduce, lambda *x, **words: mq.iallreduce(*x, **words).wait()):
            for words in ({}, {"method": "bf16"}, {"method": "onebit", "key": "unusable"}):
                with self.assertRaisesRegex(*((TypeError, "x has elements of type int64") if WORLD.rank == 0 else (mq.Error, "count"))):
                    start(np.ones(COUNT, np.int64) if WORLD.rank == 0 else vector(COUNT), **words)
            for name, value in (("method", 3), ("key", b"layer"), ("op", None)):
                with self.assertRaisesRegex(*((TypeError, f"{name} is a text, not ") if WORLD.rank == 0 else (mq.Error, "count"))):
                    start(vector(COUNT), **({name: value} if WORLD.rank == 0 else {"method": "bf16"}))
        self.assertLess(relative_error(mq.allreduce(vector(COUNT), method="bf16"), exact_sum(COUNT)), 0.01)

    @compresses
    def test_other_threads_run_while_a_call_waits(self):
        mq.allreduce(vector(COUNT), method="bf16")
        turns, stop = [0], threading.Event()

        def count_turns():
            while not stop.wait(0.001):
                turns[0] += 1
        thread = threading.Thread(target=count_turns)
        thread.start()
        WORLD.Barrier()
        if WORLD.rank == WORLD.size - 1:
            time.sleep(0.3)
        turns[0] = 0
        mq.allreduce(vector(COUNT), method="bf16")
        counted = turns[0]
        stop.set()
        thread.join()
        if WORLD.rank == 0:
            self.assertGreater(counted, 10)


if __name__ == "__main__":
    main()
