"""mpi_quant.sparse_allreduce, sparse_union and sparse_sum: on 1 to 3 ranks."""
import unittest

import numpy as np
from common import WORLD, OnAllRanks, main

import mpi_quant as mq

try:
    import scipy.sparse
except ImportError:
    scipy = None

SIZE = 1000


def lists(rank, row=()):
    random = np.random.default_rng(rank)
    index = random.integers(0, SIZE, 200)  # unsorted, some twice
    return index, random.integers(-9, 9, (200, *row)).astype(np.float32)


def dense(row=()):
    total = np.zeros((SIZE, *row), np.float32)
    for rank in range(WORLD.size):
        np.add.at(total, *lists(rank, row))
    return total


class Sparse(OnAllRanks):
    def test_each_rank_gets_what_it_wants(self):
        for row in ((), (3,), (2, 2)):
            index, value = lists(WORLD.rank, row)
            wanted = np.arange(WORLD.rank, SIZE, 7)
            np.testing.assert_array_equal(mq.sparse_allreduce(index, value, wanted), dense(row)[wanted])
            np.testing.assert_array_equal(mq.sparse_allreduce(index, value, key="own"), dense(row)[index])

    def test_minimum_maximum_and_options(self):
        index, value = np.arange(5), np.full(5, WORLD.rank, np.float64)
        np.testing.assert_array_equal(mq.sparse_allreduce(index, value, op="max", ascending=True, timeout=60), np.full(5, WORLD.size - 1.0))
        self.assertEqual(mq.sparse_allreduce(index, value, [77], op="min")[0], np.inf)
        with self.assertRaisesRegex(mq.Error, "not greater than the one before"):
            mq.sparse_allreduce(index[::-1], value, ascending=True)

    def test_the_union_of_all_lists(self):
        for row in ((), (3,)):
            index, value = lists(WORLD.rank, row)
            whole = mq.sparse_union(index, value, SIZE, dense=True)
            np.testing.assert_array_equal(whole, dense(row))
            indices, values = mq.sparse_union(index, value, SIZE, algorithm="split")
            np.testing.assert_array_equal(indices, np.unique(np.concatenate([lists(rank)[0] for rank in range(WORLD.size)])))
            np.testing.assert_array_equal(values, whole[indices])
            self.assert_same_bits(values)

    def test_a_list_that_cannot_be_used_is_an_error_of_all_ranks(self):
        good, wrong = (np.arange(3), np.ones(3, np.float32)), (np.arange(3), np.ones(4, np.float32))
        for call in (mq.sparse_allreduce, lambda *lists: mq.sparse_union(*lists, SIZE), lambda *lists: mq.sparse_union(*lists, SIZE, dense=True)):
            with self.assertRaisesRegex(*((TypeError, r"its first size must be 3") if WORLD.rank == 0 else (mq.Error, "rank 0|-1"))):
                call(*(wrong if WORLD.rank == 0 else good))
        for index, value, text in (([1.5], np.ones(1, np.float32), "index is a list of integers"), ([1], [1], "float32 or float64 is needed")):
            with self.assertRaisesRegex(TypeError, text):
                mq.sparse_allreduce(index, value)
        with self.assertRaisesRegex(TypeError, "sum, min, max"):
            mq.sparse_allreduce(*good, op="product")

    @unittest.skipUnless(scipy, "no scipy")
    def test_matrices_of_scipy(self):
        def own(rank):
            return scipy.sparse.random(30, 40, 0.1, format="csr", dtype=np.float32, random_state=rank)
        total = mq.sparse_sum(own(WORLD.rank))
        self.assertEqual((total.format, total.shape), ("csr", (30, 40)))
        np.testing.assert_allclose(total.toarray(), sum(own(rank).toarray() for rank in range(WORLD.size)), rtol=1e-6)
        self.assert_same_bits(total.data)


if __name__ == "__main__":
    main()
