"""mpi_quant.reduce_scatter and allgather, ireduce_scatter and iallgather: on 1 to 3 ranks."""
import unittest

import numpy as np
from common import WORLD, OnAllRanks, exact_sum, main, relative_error, vector

import mpi_quant as mq

PART = 30_000
COUNT = PART * WORLD.size
compresses = unittest.skipUnless(WORLD.size > 1, "one rank has nothing to send")


def own(array):
    return array[WORLD.rank * PART:(WORLD.rank + 1) * PART]


class ReduceScatter(OnAllRanks):
    def test_each_rank_gets_its_part(self):
        for words, most in (({}, 1e-6), ({"method": "bf16"}, 0.01), ({"method": "int8"}, 0.02)):
            part = mq.reduce_scatter(vector(COUNT), **words)
            self.assertEqual((part.shape, part.dtype), ((PART,), np.float32))
            self.assertLess(relative_error(part, own(exact_sum(COUNT))), most)
        out = np.empty((PART // 10, 10), np.float32)
        self.assertIs(mq.reduce_scatter(vector(COUNT).reshape(-1, 10), out, method="bf16"), out)
        self.assertLess(relative_error(out.ravel(), own(exact_sum(COUNT))), 0.01)

    def test_a_mean_of_the_ranks(self):
        for method in (None, "int8"):
            mean = mq.reduce_scatter(vector(COUNT), method=method, op="avg")
            np.testing.assert_array_equal(mean, mq.reduce_scatter(vector(COUNT), method=method) / np.float32(WORLD.size))

    @compresses
    def test_a_key_brings_what_was_left_out(self):
        results = [mq.reduce_scatter(vector(COUNT), method="onebit", key="part") for _ in range(20)]
        alone = relative_error(mq.reduce_scatter(vector(COUNT), method="onebit"), own(exact_sum(COUNT)))
        self.assertLess(relative_error(sum(r.astype(np.float64) for r in results), 20 * own(exact_sum(COUNT))), 0.5 * alone)

    @compresses
    def test_an_array_that_cannot_be_used_is_an_error_of_all_ranks(self):
        wrong = np.ones(COUNT + 1, np.float32)
        with self.assertRaisesRegex(*((TypeError, f"must be a multiple of {WORLD.size}") if WORLD.rank == 0 else (mq.Error, "rank 0|count"))):
            mq.reduce_scatter(wrong if WORLD.rank == 0 else vector(COUNT), method="bf16")
        for out, text in ((np.empty(PART + 1, np.float32), "so out needs"), (np.empty(PART), "of f64")):
            with self.assertRaisesRegex(TypeError, text):
                mq.reduce_scatter(vector(COUNT), out, method="bf16")
        x = vector(COUNT)
        with self.assertRaisesRegex(TypeError, "overlap"):
            mq.reduce_scatter(x, x[:PART], method="bf16")


class Allgather(OnAllRanks):
    def test_all_ranks_get_all_parts(self):
        whole = np.concatenate([vector(PART, rank) for rank in range(WORLD.size)])
        np.testing.assert_array_equal(mq.allgather(vector(PART)), whole)
        for method, most in (("bf16", 0.01), ("int8", 0.02)):
            out = np.empty((COUNT // 10, 10), np.float32)
            self.assertIs(mq.allgather(vector(PART).reshape(-1, 10), out, method=method), out)
            self.assertLess(relative_error(out.ravel(), whole), most)
            self.assert_same_bits(out)

    @compresses
    def test_an_estimate_that_all_ranks_keep(self):
        whole = np.concatenate([vector(PART, rank) for rank in range(WORLD.size)])
        words = {"method": "int4 memory=ef21", "key": "weights"}
        np.testing.assert_array_equal(mq.allgather(own(whole), **words), whole)
        errors = [relative_error(mq.allgather(own(whole) * np.float32(1.01), **words), whole * np.float32(1.01)) for _ in range(3)]
        self.assertLess(errors[0], 0.005)
        self.assertLess(errors[2], 0.1 * errors[0])
        mq.residuals().reset()

    @compresses
    def test_in_place(self):
        apart = mq.allgather(vector(PART), method="bf16")
        out = np.zeros(COUNT, np.float32)
        own(out)[:] = vector(PART)
        self.assertIs(mq.allgather(own(out), out, method="bf16"), out)
        np.testing.assert_array_equal(out, apart)
        with self.assertRaisesRegex(TypeError, "overlap"):
            mq.allgather(out[1:PART + 1], out, method="bf16")

    @compresses
    def test_an_array_that_cannot_be_used_is_an_error_of_all_ranks(self):
        with self.assertRaisesRegex(*((TypeError, "int64") if WORLD.rank == 0 else (mq.Error, "rank 0|count"))):
            mq.allgather(np.ones(PART, np.int64) if WORLD.rank == 0 else vector(PART), method="bf16")


class Requests(OnAllRanks):
    def test_parts_in_flight_have_the_bits_of_the_blocking_calls(self):
        def about_same(a, b):  # MPI's two forms may round differently
            self.assertLess(relative_error(a, b), 1e-6)

        for method in (None, "bf16", "int8"):
            same = about_same if method is None else np.testing.assert_array_equal
            part, whole = mq.reduce_scatter(vector(COUNT), method=method), mq.allgather(vector(PART), method=method)
            requests = [mq.ireduce_scatter(vector(COUNT), method=method), mq.iallgather(vector(PART), method=method)]
            out = np.zeros(COUNT, np.float32)
            own(out)[:] = vector(PART)
            in_place = mq.iallgather(own(out), out, method=method)
            mean = mq.ireduce_scatter(vector(COUNT), method=method, op="avg")
            self.assertIs(in_place.wait(), out)
            np.testing.assert_array_equal(requests[1].wait(sleep=50e-6), whole)
            np.testing.assert_array_equal(out, whole)
            same(mean.wait(), part / np.float32(WORLD.size))
            same(requests[0].wait(), part)
            self.assertEqual(len(mq._call._in_flight), 0)

    @compresses
    def test_a_key_goes_on_from_form_to_form(self):
        results = [mq.ireduce_scatter(vector(COUNT), method="onebit", key="form").wait() for _ in range(2)]
        results.append(mq.reduce_scatter(vector(COUNT), method="onebit", key="form"))
        for result in results:
            np.testing.assert_array_equal(mq.reduce_scatter(vector(COUNT), method="onebit", key="blocking"), result)
        mq.residuals().reset()

    @compresses
    def test_what_one_rank_cannot_start_is_an_error_of_all_ranks(self):
        for start, length in ((mq.ireduce_scatter, COUNT), (mq.iallgather, PART)):
            x = np.ones(length, np.int64) if WORLD.rank == 0 else vector(length)
            with self.assertRaisesRegex(*((TypeError, "int64") if WORLD.rank == 0 else (mq.Error, "rank 0|count"))):
                start(x, method="bf16").wait()


if __name__ == "__main__":
    main()
