"""mpi_quant.residuals: flush, scale, reset, and states for checkpoints. On 2 and 3 ranks."""
import pickle

import numpy as np
from common import WORLD, OnAllRanks, exact_sum, main, relative_error, vector

import mpi_quant as mq

COUNT = 50_000


class Residuals(OnAllRanks):
    def setUp(self):
        self.comm = WORLD.Dup()
        self.residuals = mq.residuals(self.comm)

    def tearDown(self):
        self.comm.Free()

    def sums(self, steps, key="k", dtype=np.float32, method="onebit"):
        return [mq.allreduce(vector(COUNT, dtype=dtype), method=method, key=key, comm=self.comm) for _ in range(steps)]

    def test_a_flush_delivers_what_waits(self):
        results = self.sums(5)
        self.assertGreater(np.linalg.norm(self.residuals["k"]), 1)
        results.append(self.residuals.flush("k", np.empty(COUNT, np.float32)))
        self.assertLess(relative_error(sum(r.astype(np.float64) for r in results), 5 * exact_sum(COUNT)), 1e-5)
        self.assertEqual(np.linalg.norm(self.residuals["k"]), 0)
        self.assert_same_bits(results[-1])

    def test_keys_types_scale_and_reset(self):
        self.assertEqual(len(self.residuals), 0)
        self.sums(1, "floats")
        self.sums(1, "doubles", np.float64)
        self.sums(1, "estimates", method="onebit memory=ef21")
        self.assertEqual(list(self.residuals), ["doubles", "estimates", "floats"])
        self.assertEqual([self.residuals[key].dtype for key in ("floats", "doubles")], [np.float32, np.float64])
        self.assertEqual(self.residuals["estimates"].shape, (2, COUNT))
        before = self.residuals["floats"]
        self.residuals.scale(2.0, "floats")
        np.testing.assert_array_equal(self.residuals["floats"], 2 * before)
        self.residuals.reset("doubles")
        self.assertNotIn("doubles", self.residuals)
        with self.assertRaises(KeyError):
            self.residuals["doubles"]
        self.residuals.reset()
        self.assertEqual(len(self.residuals), 0)
        with self.assertRaises(mq.Error):
            self.residuals.scale(float("inf"))

    def test_a_restored_run_goes_on_bit_for_bit(self):
        words = {"method": "qsgd", "key": "random"}
        self.sums(3)
        mq.allreduce(vector(COUNT), comm=self.comm, **words)
        state = pickle.loads(pickle.dumps(self.residuals.state_dict()))
        went_on = self.sums(1)[0], mq.allreduce(vector(COUNT), comm=self.comm, **words)
        self.residuals.reset()
        self.residuals.load_state_dict(state)
        np.testing.assert_array_equal(self.sums(1)[0], went_on[0])
        np.testing.assert_array_equal(mq.allreduce(vector(COUNT), comm=self.comm, **words), went_on[1])

    def test_another_number_of_ranks_takes_over_all(self):
        self.sums(3)
        self.sums(3, "doubles", np.float64)
        self.sums(3, "estimates", method="onebit memory=ef21")
        states = WORLD.allgather(self.residuals.state_dict())
        for ranks in range(1, WORLD.size + 1):
            fewer = WORLD.Split(0 if WORLD.rank < ranks else 1)
            if WORLD.rank < ranks:
                loaded = mq.residuals(fewer)
                loaded.load_state_dict(states[::-1])
                for key in ("k", "doubles", "estimates"):
                    self.expect_the_same_total(states, fewer.allgather(loaded.state_dict()), key)
            fewer.Free()

    def expect_the_same_total(self, old, new, key):
        def total(states):
            return sum(np.atleast_2d(state["keys"][key]["data"]).astype(np.float64)[0] for state in states)
        self.assertLess(relative_error(total(new), total(old)), 1e-6)
        if key == "estimates":
            for state in new:
                np.testing.assert_array_equal(state["keys"][key]["data"][1], old[0]["keys"][key]["data"][1])

    def test_a_state_that_does_not_fit_one_rank_is_an_error_of_all(self):
        self.sums(1)
        state = self.residuals.state_dict()
        wrong = {**state, "ranks": 9} if WORLD.rank == 0 else state
        with self.assertRaisesRegex(ValueError, "rank 0: the states of ranks .0. of .9. do not make up the states of"):
            self.residuals.load_state_dict(wrong)
        with self.assertRaisesRegex(ValueError, "rank 0: KeyError.'rank'."):
            self.residuals.load_state_dict({} if WORLD.rank == 0 else state)
        self.residuals.load_state_dict(state)


if __name__ == "__main__":
    main()
