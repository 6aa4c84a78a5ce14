"""Open MPI reads the rules that scripts/policy --mpi writes, and the benchmark chooses Open MPI's algorithms. No times are looked at: an algorithm
adds in an order of its own, and its rounding tells it from the others (tests/bench/bench_open_mpi_algorithms.cpp).

Usage: open_mpi_rules_test.py PROGRAM MPIEXEC
"""
import os
import subprocess
import sys
import unittest

import h5py

from mpi_settings_test import OPEN_MPI, of_ranks
from policy_script_test import FASTER, KIB, MIB, SAME
from results_test import write_results
from scripts_common import InTemporaryFolder, call, script

PROGRAM, MPIEXEC = sys.argv[1:3]
del sys.argv[1:3]
# The rules are for three ranks, 256 KiB to 1 MiB.
WITHIN, BELOW, ABOVE = 256 * KIB, 64 * KIB, MIB + 4 * KIB
RANKS = 4
# Open MPI's own choice for the sizes above is another one.
ALGORITHM = "basic_linear"


def sums(*options):
    """(ranks, bytes, algorithm) -> hash of the sum."""
    done = subprocess.run([MPIEXEC, "-n", str(RANKS), *options, PROGRAM, *map(str, (WITHIN, BELOW, ABOVE))], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise AssertionError(f"{done.returncode}: {done.stderr}")
    rows = [line.split() for line in done.stdout.splitlines()]
    return {(int(ranks), int(size), algorithm): found for ranks, size, algorithm, found in rows}


class Rules(InTemporaryFolder):
    def rules(self):
        """The options that name a file of rules, made of results that say so."""
        path, out = self.path("a.h5"), self.path("rules")
        write_results(path, of_ranks(3, {f"mpi/{ALGORITHM}": [SAME, FASTER, FASTER, SAME, SAME, SAME]}))
        with h5py.File(path, "a") as file:
            file["run"].attrs["mpi_library"] = OPEN_MPI
        self.assertEqual(call(script("policy"), "--mpi", path, "-o", out).returncode, 0)
        return ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_dynamic_rules_filename", out]

    def test_open_mpi_takes_the_algorithm_of_a_rule_and_its_own_elsewhere(self):
        without, having = sums(), sums(*self.rules())
        named = {key: found for key, found in without.items() if key[2] not in ("none", "auto")}
        for ranks in (3, RANKS):
            for size in (WITHIN, BELOW, ABOVE):
                self.assertGreaterEqual(len({found for key, found in named.items() if key[:2] == (ranks, size)}), 3, "the benchmark chooses algorithms")
                self.assertEqual(without[ranks, size, "none"], without[ranks, size, "auto"])
                self.assertNotEqual(without[ranks, size, "none"], without[ranks, size, ALGORITHM], "else the following would say nothing")
                expected = without[ranks, size, ALGORITHM if (ranks, size) == (3, WITHIN) else "none"]
                self.assertEqual(having[ranks, size, "none"], expected, (ranks, size))
        self.assertEqual({key[2] for key in having}, {"none"}, "rules go before what the benchmark would choose, so it offers nothing")


if __name__ == "__main__":
    unittest.main()
