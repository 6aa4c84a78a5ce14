"""mpi_quant.reduce_scatter and allgather: on 1 to 3 ranks."""
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


if __name__ == "__main__":
    main()
