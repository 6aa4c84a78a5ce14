"""mpi_quant.allreduce_group and iallreduce_group: on 1 to 3 ranks."""
import unittest

import numpy as np
from common import WORLD, OnAllRanks, main, relative_error, vector

import mpi_quant as mq

LENGTHS = (10, 0, 4096, 30_001)
LAST = WORLD.size - 1
compresses = unittest.skipUnless(WORLD.size > 1, "one rank has nothing to send")


def vectors(rank=None, dtype=np.float32):
    return [vector(n, rank, dtype) for n in LENGTHS]


def sums(dtype=np.float32):
    return [sum(vectors(rank, dtype)[i].astype(np.float64) for rank in range(WORLD.size)) for i in range(len(LENGTHS))]


class Group(OnAllRanks):
    def assert_sums(self, found, most, divisor=1):
        self.assertEqual(len(found), len(LENGTHS))
        for one, exact in zip(found, sums()):
            self.assertEqual((one.shape, one.dtype), (exact.shape, np.float32))
            self.assert_same_bits(one)
            if one.size:
                self.assertLessEqual(relative_error(one, exact / divisor), most)

    def test_new_arrays_hold_the_sums(self):
        for method, most in ((None, 1e-6), ("bf16", 0.01), ("int8", 0.05)):
            self.assert_sums(mq.allreduce_group(vectors(), method=method), most)
        self.assert_sums(mq.allreduce_group(iter(vectors()), op="avg", method="bf16"), 0.01, WORLD.size)
        self.assertEqual(mq.allreduce_group([]), [])

    def test_out_is_other_arrays_or_the_same(self):
        x, out = vectors(), [np.full(n, 7, np.float32) for n in LENGTHS]
        for one, given in zip(mq.allreduce_group(x, out, method="bf16"), out):
            self.assertIs(one, given)
        self.assert_sums(out, 0.01)
        for one, before in zip(x, vectors()):
            np.testing.assert_array_equal(one, before)
        mixed = [x[0], *out[1:]]  # the first in place
        mq.allreduce_group(x, mixed, method="bf16")
        self.assert_sums(mixed, 0.01)
        x = vectors()
        mq.allreduce_group(x, x)
        self.assert_sums(x, 1e-6)

    @compresses
    def test_keys_bring_what_was_left_out_and_are_those_of_single_calls(self):
        keys = [f"layer {i} \N{GREEK SMALL LETTER DELTA}" for i in range(len(LENGTHS))]
        totals = [0, 0, 0, 0]
        for _ in range(20):
            for i, one in enumerate(mq.allreduce_group(vectors(), keys=keys, method="onebit")):
                totals[i] = totals[i] + one.astype(np.float64)
        self.assertEqual({key for key in mq.residuals() if key.startswith("layer")}, {keys[0], keys[2], keys[3]})
        alone = mq.allreduce_group(vectors(), method="onebit")
        for i in (0, 2, 3):
            self.assertLess(relative_error(totals[i], 20 * sums()[i]), 0.5 * relative_error(alone[i], sums()[i]))
            rest = mq.allreduce(np.zeros(LENGTHS[i], np.float32), method="raw", key=keys[i])
            self.assertLess(relative_error(totals[i] + rest, 20 * sums()[i]), 1e-5)
        mq.residuals().reset()

    def test_non_blocking_ones_give_the_same_bits(self):
        keys = [[f"{name} {i}" for i in range(len(LENGTHS))] for name in ("blocking", "not")]
        for method in (None, "int8", "onebit"):
            for turn in range(2):
                wanted = mq.allreduce_group(vectors(), keys=keys[0], method=method)
                request = mq.iallreduce_group(iter(vectors()), keys=iter(keys[1]), method=method)
                other = mq.iallreduce(vector(500), method="bf16")
                x = vectors()
                exact = mq.iallreduce_group(x, x, op="avg")
                found = request.wait(sleep=50e-6 if turn else None)
                if method is None:  # MPI may add in another order
                    self.assert_sums(found, 1e-6)
                else:
                    for one, same in zip(found, wanted):
                        np.testing.assert_array_equal(one, same)
                self.assertTrue(request.test())
                self.assertIs(exact.wait()[3], x[3])
                self.assert_sums(x, 1e-6, WORLD.size)
                other.wait()
            mq.residuals().reset()
        self.assertEqual(mq.iallreduce_group([]).wait(), [])
        self.assertEqual(len(mq._call._in_flight), 0)

    @compresses
    def test_an_error_of_a_non_blocking_one_is_an_error_of_all_ranks(self):
        def start(out):
            return mq.iallreduce_group(vectors(), out, method="bf16").wait()

        self.assert_last_raises(start, vectors()[:2], None)
        with self.assertRaisesRegex(mq.Error, "MPIQ_Allreduce_group"):
            mq.iallreduce_group(vectors()[:3 + (WORLD.rank == LAST)], method="bf16").wait()
        request = mq.iallreduce_group(vectors(), keys=list("abcd"), method="bf16")
        with self.assertRaisesRegex(mq.Error, "in use by a call in flight"):
            mq.allreduce(vectors()[3], key="d", method="bf16")
        self.assert_sums(request.wait(), 0.01)
        mq.residuals().reset()
        self.assertEqual(len(mq._call._in_flight), 0)

    @compresses
    def test_it_is_one_call(self):
        mq.allreduce_group(vectors(), method="int8")
        before = mq.stats()
        mq.allreduce_group(vectors(), method="int8")
        after = mq.stats()
        self.assertEqual((after.calls - before.calls, after.compressed_calls - before.compressed_calls), (1, 1))
        self.assertEqual(after.elements - before.elements, sum(LENGTHS))

    def test_other_elements_and_options(self):
        for dtype, most in ((np.float64, 0.01), (np.float16, 0.01)):
            found = mq.allreduce_group(vectors(dtype=dtype), method="bf16" if dtype == np.float64 else None)
            for one, exact in zip(found, sums(dtype)):
                self.assertEqual(one.dtype, dtype)
                if one.size:
                    self.assertLess(relative_error(one, exact), most)
        with mq.options(method="int8", seed=3):
            self.assert_sums(mq.allreduce_group(vectors()), 0.05)

    def test_what_cannot_be_used_is_an_error_of_all_ranks(self):
        x = vectors()
        for arguments, text in ((([np.ones(3, np.int64)],), "arrays.0. has elements of type int64"),
                                ((x, x[:2]), "out has 2 arrays for 4 vectors"),
                                ((x, None, ["a"]), "a list of 4 texts is needed"),
                                ((x, None, "abcd"), "a list of 4 texts is needed"),
                                ((x, None, ["a", "b", "c", 5]), "keys holds 5"),
                                ((x, None, ["a", "b", "c", "d\0e"]), "null"),
                                (([x[0], x[2].astype(np.float64)],), "several types, f32, f64"),
                                ((x, [*x[:3], x[3][:-1]]), "arrays.3. has shape .*out.3. has")):
            mine = WORLD.rank == LAST
            with self.assertRaisesRegex(*((TypeError, text) if mine else (mq.Error, f"rank {LAST}|invalid argument"))):
                first, out, keys = (*(arguments if mine else (x,)), None, None)[:3]
                mq.allreduce_group(first, out, keys=keys, method="bf16")
        self.assert_sums(mq.allreduce_group(vectors(), method="bf16"), 0.01)

    def test_what_cannot_be_listed_is_an_error_of_all_ranks(self):
        def broken(of):
            yield of
            raise LookupError("a broken source")

        x = vectors()
        for kind, arguments, text in ((TypeError, (5,), "int"), (TypeError, (None,), "NoneType"), (TypeError, (x, 5), "int"),
                                      (TypeError, (x, None, 5), "int"), (LookupError, (broken(x[0]),), "a broken source"), (LookupError, (x, broken(x[0])), "a broken source"),
                                      (LookupError, (x, None, broken("a")), "a broken source"),
                                      (UnicodeEncodeError, (x, None, ["a", "b", "c", "\ud800"]), "surrogates")):
            mine = WORLD.rank == LAST
            with self.assertRaisesRegex(*((kind, text) if mine else (mq.Error, f"rank {LAST}|invalid argument"))):
                first, out, keys = (*(arguments if mine else (x,)), None, None)[:3]
                mq.allreduce_group(first, out, keys=keys, method="bf16")
        self.assert_sums(mq.allreduce_group(vectors(), method="bf16"), 0.01)

    def test_a_limit_of_error_holds_for_each_vector(self):
        keys = [f"limited {i}" for i in range(len(LENGTHS))]
        for turn in range(20):
            self.assert_sums(mq.allreduce_group(vectors(), error=0.02, keys=keys if turn % 2 else None), 0.02)
            self.assert_sums(mq.allreduce_group(vectors(), error="feedback"), 1e-6)  # without keys it is exact
            with mq.options(error=0.05):
                self.assert_sums(mq.iallreduce_group(vectors()).wait(), 0.05)
            self.assertEqual(len(mq.allreduce_group(vectors(), error="feedback", keys=keys)), len(LENGTHS))
        mq.residuals().reset()

    @compresses
    def test_the_library_says_what_it_refuses(self):
        for words, text in (({"method": "lowrank"}, "single vectors"),
                            ({"method": "onebit", "keys": ["a", "b", "c", "c"]}, "names two vectors"), ({"method": "onebit", "keys": ["a", "b", "c", "d" * 64]}, r"keys.3."),
                            ({"method": "onebit memory=ef21", "keys": list("abcd")}, "keeps estimates")):
            with self.assertRaisesRegex(mq.Error, text):
                mq.allreduce_group(vectors(), **words)
        self.assertEqual(list(mq.residuals()), [])


if __name__ == "__main__":
    main()
