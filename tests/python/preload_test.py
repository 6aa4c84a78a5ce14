"""mpi_quant.preload in a program of mpi4py under the preload library: mpiq-run --policy '64K-: onebit' python3 preload_test.py, on 2 ranks."""
import numpy as np
from common import WORLD, OnAllRanks, exact_sum, main, relative_error, vector

import mpi_quant as mq

COUNT = 100_000


def total():
    found = np.empty(COUNT, np.float32)
    WORLD.Allreduce(vector(COUNT), found)
    return found


class Preload(OnAllRanks):
    def test_sums_of_one_name_bring_what_was_left_out(self):
        before = mq.stats().compressed_calls
        results = []
        for _ in range(20):
            mq.preload.key("vector")
            results.append(total())
        self.assertEqual(mq.stats().compressed_calls, before + 20)  # the package has loaded the library that compresses
        alone = relative_error(total(), exact_sum(COUNT))
        self.assertGreater(alone, 0.1)
        self.assertLess(relative_error(sum(r.astype(np.float64) for r in results), 20 * exact_sum(COUNT)), 0.3 * alone)
        mq.preload.flush()
        mq.preload.key("vector")
        results.append(total())
        self.assertLess(relative_error(sum(r.astype(np.float64) for r in results), 21 * exact_sum(COUNT)), 1e-5)

    def test_sums_stay_exact_inside_exact(self):
        with mq.preload.exact():
            self.assertLess(relative_error(total(), exact_sum(COUNT)), 1e-6)
        self.assertGreater(relative_error(total(), exact_sum(COUNT)), 0.1)

    def test_a_command_that_is_none(self):
        with self.assertRaisesRegex(ValueError, "refuses the command 'nonsense'"):
            mq.preload.command("nonsense")
        mq.preload.step()


if __name__ == "__main__":
    main()
