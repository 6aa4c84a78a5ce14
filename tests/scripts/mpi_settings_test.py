"""Tests of scripts/policy --mpi on made-up result files whose fastest algorithm is known. Whether Open MPI reads the file is tested by
open_mpi_rules_test.py.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/mpi_settings_test.py
"""
import math
import os
import unittest

import h5py

from policy_script_test import FASTER, KIB, MIB, SAME, SIZES, SLOWER, dense, line
from results_test import write_results
from scripts_common import ROOT, InTemporaryFolder, call, script

OPEN_MPI, MPICH = "Open MPI v4.1.4, package: Debian OpenMPI", "MPICH Version: 4.0.2"
FIVE = "Open MPI v5.0.11, package: Open MPI"
SMALL = [64, KIB, 64 * KIB, MIB]
SMALL_SUMS = dense(SMALL)


class WithSettings(InTemporaryFolder):
    maxDiff = None

    def run_policy(self, rows, *words, library=OPEN_MPI, samples=None):
        path = write_results(self.path("a.h5"), rows, samples)
        with h5py.File(path, "a") as file:
            file["run"].attrs["mpi_library"] = library
        done = call(script("policy"), "--mpi", path, *words, env={"PYTHONDONTWRITEBYTECODE": "1"})
        return done.returncode, done.stdout, done.stderr

    def text(self, rows, *words, **settings):
        code, out, problem = self.run_policy(rows, *words, **settings)
        self.assertEqual((code, problem), (0, ""))
        return out

    def numbers(self, rows, *words):
        """The lines for Open MPI, as it reads them."""
        bare = (text.partition("#")[0].split() for text in self.text(rows, *words).splitlines())
        return [[int(word) for word in words] for words in bare if words]

    def settings(self, rows, *words):
        return [text for text in self.text(rows, *words, library=MPICH).splitlines() if not text.startswith("#")]


def of_ranks(ranks, lines, **changes):
    """Rows of algorithms, and of MPI's own choice, with one number of ranks."""
    rows = dense(SIZES, ranks=ranks, **changes) + [row for method, gains in lines.items() for row in line(method, gains, ranks=ranks, error=3e-8, **changes)]
    for i, row in enumerate(rows):
        row["key"] = f"r{ranks}-{i}".encode()
    return rows


class OpenMpi(WithSettings):
    def test_a_rule_ends_where_its_algorithm_was_last_measured_to_be_worth_it(self):
        rows = of_ranks(4, {"mpi/ring": [SAME, FASTER, FASTER, SAME, SLOWER, SAME]})
        self.assertEqual(self.numbers(rows), [[1], [2], [3], [0], [1], [0, 0, 0, 0], [4], [3], [0, 0, 0, 0], [256 * KIB, 4, 0, 0], [MIB + 1, 0, 0, 0],
                                              [5], [1], [0, 0, 0, 0]])
        out = self.text(rows)
        self.assertIn("# ring: speed-up 2 [1.9, 2.1] at 256 KiB to 2 [1.9, 2.1] at 1 MiB\n", out)
        self.assertIn("Open MPI v4.1.4's own choice is at least 1.2, at two neighbouring sizes or more.\n", out)
        self.assertIn("# Not for programs with operations of their own that do not commute", out)

    def test_one_algorithm_follows_another_and_a_segmented_ring_has_its_segment(self):
        rows = of_ranks(2, {"mpi/rabenseifner": [FASTER] * 3 + [SAME] * 3, "mpi/segmented_ring": [SAME] * 3 + [FASTER] * 3})
        self.assertEqual(self.numbers(rows)[7:-3], [[4], [0, 0, 0, 0], [64 * KIB, 6, 0, 0], [4 * MIB, 5, 0, MIB], [64 * MIB + 1, 0, 0, 0]])

    def test_numbers_of_ranks_that_were_not_measured_are_left_to_open_mpi(self):
        rows = of_ranks(2, {"mpi/ring": [FASTER] * 6}) + of_ranks(3, {"mpi/ring": [FASTER] * 6}) + of_ranks(8, {"mpi/ring": [SAME] * 6})
        at = [numbers[0] for numbers in self.numbers(rows)]
        self.assertEqual([at[2], at[3], at[6], at[11], at[16]], [4, 0, 2, 3, 4], "ranks 0 and 4 on: as before")
        self.assertIn("# 8 ranks on 1 node, measured at 64 KiB to 64 MiB. No algorithm is worth it: MPI's own choice stays.\n", self.text(rows))
        self.assertEqual(self.numbers(rows, "--ranks", "8"), [[0]], "no collective has rules")

    def test_noise_wins_nothing(self):
        wide = [(2.93, 8.65, 458)] * 6
        for gains in ([SAME, FASTER, SAME] * 2, [(1.1, 1.6, 2.1)] * 6, [(1.02, 1.03, 1.04)] * 6, wide):
            self.assertEqual(self.numbers(of_ranks(2, {"mpi/ring": gains})), [[0]], gains)
        self.assertIn("# Not judged, because the interval is too wide: ring at 64 KiB, 8.65 [2.93, 458]\n", self.text(of_ranks(2, {"mpi/ring": wide})))
        self.assertEqual(self.numbers(of_ranks(2, {"mpi/ring": [FASTER] * 6}, oversubscribed=1)), [[0]])

    def test_on_several_nodes_open_mpi_5_is_told_to_take_the_rules(self):
        """As tried with Open MPI 5.0.11 on two nodes of two ranks: without the variable a file of rules changes no sum."""
        for library, nodes, told in ((FIVE, 2, 1), (FIVE, 1, 0), (OPEN_MPI, 2, 0)):
            rows = of_ranks(4, {"mpi/ring": [FASTER] * 6}, nodes=nodes)
            out = self.text(rows, library=library)
            self.assertEqual(out.count("\n#   OMPI_MCA_coll_han_allreduce_dynamic_global_communicator_module=3\n"), told, (library, nodes))
        self.assertIn(" 4 ranks on 2 nodes, measured at", out)

    def test_compressed_methods_change_nothing(self):
        rows = of_ranks(2, {"mpi/ring": [FASTER] * 6})
        self.assertEqual(self.numbers(rows + line("bf16", [(8, 9, 10)] * 6)), self.numbers(rows))

    def test_what_no_setting_can_be_made_of_is_refused(self):
        rows = of_ranks(2, {"mpi/ring": [FASTER] * 6})
        new = of_ranks(2, {"mpi/newest": [FASTER] * 6})
        other = of_ranks(4, {"mpi/ring": [FASTER] * 6}, dtype="f64")
        for text, made, words, library in (("no row of one of MPI's algorithms", dense(SIZES), (), OPEN_MPI), ("newest: the numbers", new, (), OPEN_MPI),
                                           ("rows differ in dtype (f32, f64)", rows + other, (), OPEN_MPI),
                                           ("--ranks 3: not in", rows, ("--ranks", "3"), OPEN_MPI), ("neither Open MPI nor MPICH", rows, (), "Intel(R) MPI Library 2021"),
                                           ("simulated", of_ranks(2, {"mpi/ring": [FASTER] * 6}, status="simulated"), (), OPEN_MPI)):
            code, out, problem = self.run_policy(made, *words, library=library)
            self.assertEqual((code, out), (1, ""), text)
            self.assertIn(text, problem)
        for word in ("--knowledge", "--simulated", "--error=0.1"):
            code, out, problem = self.run_policy(rows, word)
            self.assertEqual((code, out), (2, ""), word)
            self.assertIn("--mpi: about MPI's own algorithms", problem)


class Mpich(WithSettings):
    def test_the_variable_is_set_if_its_algorithm_loses_nowhere(self):
        slightly = (0.96, 0.98, 1)
        self.assertEqual(self.settings(SMALL_SUMS + line("mpi/smp", [slightly, slightly, FASTER, FASTER], SMALL)),
                         ["export MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=smp"])
        two = line("mpi/smp", [slightly, slightly, FASTER, FASTER], SMALL) + line("mpi/nb", [slightly, slightly, (2.9, 3, 3.1), (2.9, 3, 3.1)], SMALL)
        self.assertEqual(self.settings(SMALL_SUMS + two), ["export MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=nb"])

    def test_it_is_not_set_for_what_may_be_slower_somewhere(self):
        for gains in ([SLOWER, SAME, FASTER, FASTER], [SAME, SAME, FASTER, FASTER], [(math.nan,) * 3, FASTER, FASTER, FASTER]):
            rows = SMALL_SUMS + line("mpi/smp", gains, SMALL)
            self.assertEqual(self.settings(rows), [], gains)
            self.assertIn("# Nothing is set: each of smp may be slower than MPICH's own choice somewhere else", self.text(rows, library=MPICH))

    def test_it_is_not_set_where_small_sums_were_not_measured(self):
        rows = of_ranks(2, {"mpi/smp": [FASTER] * 6})
        self.assertEqual(self.settings(rows), [])
        out = self.text(rows, library=MPICH)
        self.assertIn("# smp: speed-up 2 [1.9, 2.1] at 64 KiB to 2 [1.9, 2.1] at 64 MiB\n", out)
        self.assertIn("# Nothing is set: not all numbers of ranks were measured at 1 KiB or below", out)

    def test_committed_results_are_read(self):
        done = call(script("policy"), "--mpi", os.path.join(ROOT, "results", "reference", "shm.h5"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("# 2 ranks on 1 node, measured at 64 KiB to 64 MiB.", done.stdout)


if __name__ == "__main__":
    unittest.main()
