"""Tests of what scripts/self_check computes, on made-up files: needs neither MPI nor a build."""
import math
import os
import unittest

import h5py
import numpy as np

from result_files import WithFiles, script, call

import mpiq_file
import mpiq_self_check as checks
from mpiq_results import ResultsError


class Arithmetic(WithFiles):
    def made_up(self, intervals, **columns):
        """A file in which bf16 is mpi measured again, with these intervals."""
        path = self.copy()
        with h5py.File(path, "a") as file:
            table = file["points"][...]
            again = np.flatnonzero(table["method"] == b"bf16")
            table["method"][again] = checks.AGAIN
            for row, (low, high) in zip(again, intervals):
                table["speedup_lo"][row], table["speedup_hi"][row] = low, high
            for name, value in columns.items():
                table[name][again[-1]] = value
            file["points"][...] = table
        return mpiq_file.load(path)

    def test_intervals_that_contain_one_are_counted(self):
        good = [(0.9, 1.1), (1.0, 1.2), (0.8, 1.0), (0.99, 1.01), (1, 1), (0.5, 2)]
        verdict, outside = checks.same_against_same([self.made_up(good)])
        self.assertEqual((verdict.found, verdict.wanted, verdict.good, outside), ("6 of 6", "at least 6", True, []))
        verdict, outside = checks.same_against_same([self.made_up([(1.001, 1.1), *good[1:]])])
        self.assertEqual((verdict.found, verdict.good, len(outside)), ("5 of 6", False, 1))
        self.assertIn("[1.0010, 1.1000]", outside[0])

    def test_ninety_five_of_a_hundred_are_enough(self):
        good, bad = self.made_up([(0.9, 1.1)] * 6), self.made_up([(0.9, 1.1)] * 5 + [(1.1, 1.2)])
        self.assertTrue(checks.same_against_same([bad] * 5 + [good] * 12)[0].good, "97 of 102")
        self.assertEqual(checks.same_against_same([bad] * 5 + [good] * 12)[0].found, "97 of 102")
        self.assertFalse(checks.same_against_same([bad] * 6 + [good] * 11)[0].good, "96 of 102")

    def test_no_interval_and_a_failed_point_are_not_good(self):
        self.assertEqual(checks.same_against_same([self.made_up([(math.nan, math.nan)] * 6)])[0].found, "0 of 6")
        self.assertEqual(checks.same_against_same([self.made_up([(0.9, 1.1)] * 6, status=b"failed")])[0].found, "5 of 6")

    def test_a_file_without_such_a_method_proves_nothing(self):
        with self.assertRaises(ResultsError):
            checks.same_against_same([mpiq_file.load(self.copy())])

    def test_the_clock_is_read_twice_for_each_batch(self):
        file = self.made_up([], t_median_s=1e-6)
        for name, batch, share, good in (("1 call", 1, "8.00 %", False), ("100 calls", 100, None, True)):
            with self.subTest(name):
                file.runs[0].attrs["clock_cost_s"] = np.float64(4e-8)
                file.points["batch"] = batch
                verdict = checks.clock_share([file])
                self.assertEqual(verdict.good, good, verdict)
                self.assertTrue(share is None or verdict.found == share, verdict)

    def test_ratios_to_the_bare_loop_are_of_pairs(self):
        verdict = checks.against_bare(65536, [(1.1, 1.0), (2.0, 2.0), (3.3, 3.0), (0.99, 1.0), (5.05, 5.0)])
        self.assertEqual(verdict.found, "1.010 (0.990 to 1.100)")
        self.assertIn("5 pairs", verdict.what)

    def test_the_table_is_markdown_and_names_what_is_not_as_wanted(self):
        lines = checks.table([checks.Verdict("a", "1", "2", False), checks.Verdict("b", "1", "to be looked at", True)], ["x"]).splitlines()
        self.assertEqual(lines[1:4], ["|---|---|---|---|", "| a | 1 | 2 | **not ok** |", "| b | 1 | to be looked at |  |"])
        self.assertEqual(lines[-1], "- x")

    def test_the_median_is_that_of_the_only_row(self):
        with self.assertRaises(ResultsError):
            checks.median_of(self.copy())
        path = self.part([0], "one.h5")
        self.assertEqual(checks.median_of(path), mpiq_file.load(path).points["t_median_s"][0])


class CommandLine(WithFiles):
    def test_usage_errors(self):
        for words, text in (((), "--out"), (("--out", "x", "--bin", self.folder), "no mpiq-bench"),
                            (("--out", "x", "--ranks", "0"), "--ranks 0"), (("--out", "x", "--nosuch"), "--nosuch")):
            done = call(script("self_check"), *words, env={"PYTHONDONTWRITEBYTECODE": "1"})
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)
        self.assertFalse(os.path.exists("x"))


if __name__ == "__main__":
    unittest.main()
