"""scripts/frontier: which methods are on a frontier, and what the script measures. Usage: frontier_test.py BUILD"""
import importlib.util
import os
import subprocess
import sys
import unittest

import frontier_files
from needs import needs
from scripts_common import ROOT, InTemporaryFolder

from mpi_quant.results import frontier

BUILD = sys.argv.pop() if len(sys.argv) > 1 else os.path.join(ROOT, "build/dev")
HAS_TORCH = importlib.util.find_spec("torch")


class Frontier(InTemporaryFolder):
    def points(self, methods, **words):
        frontier_files.write(self.path(), methods, **words)
        return frontier.read(self.path())

    def names(self, methods, cost, **words):
        return [p.method for p in frontier.frontier(self.points(methods, **words), cost)]

    def test_no_method_on_it_has_a_smaller_error_at_a_smaller_cost(self):
        methods = {"onebit": (100, 0.2, 1e-3), "topk": (120, 0.3, 9e-4), "int8": (1000, 0.01, 2e-3), "int4": (500, 0.1, 3e-3)}
        self.assertEqual(self.names(methods, "bytes"), ["onebit", "int4", "int8"])
        self.assertEqual(self.names(methods, "shm"), ["topk", "onebit", "int8"])

    def test_costs_that_differ_by_little_are_equal(self):
        methods = {"onebit": (100, 0.2, 1e-3), "onebit(split=mean)": (100, 0.19, 1.015e-3), "adaptive(pi=8)": (101, 0.18, 1.1e-3)}
        self.assertEqual(self.names(methods, "bytes"), ["adaptive(pi=8)"])
        self.assertEqual(self.names(methods, "shm"), ["onebit(split=mean)", "adaptive(pi=8)"])

    def test_equal_errors_leave_the_cheapest(self):
        self.assertEqual(self.names({"raw": (4000, 0.0, 4e-3), "zerorun": (4100, 0.0, 5e-3)}, "shm"), ["raw"])

    def test_a_time_is_the_median_of_the_launches(self):
        point, = self.points({"onebit": (100, 0.2, 1e-3)}, launches=(1.0, 9.0, 1.1))
        self.assertAlmostEqual(point.cost("shm"), 1.1e-3)
        self.assertNotEqual(point.cost("lab-1gbit"), point.cost("lab-1gbit"), "unknown")

    def test_times_of_more_ranks_than_cores_are_left_out(self):
        frontier_files.write(self.path(), {"onebit": (100, 0.2, 1e-3)})
        path = self.path(frontier.TIMES)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(",0\n", ",1\n"))
        self.assertEqual(frontier.read(self.path())[0].times, {})

    def test_a_method_counts_the_recordings_on_whose_frontier_it_is(self):
        on = frontier.on_frontiers(self.points({"onebit": (100, 0.2, 1e-3), "topk": (120, 0.3, 9e-4)}, data=("a", "b")))
        self.assertEqual(on["topk"], {"bytes": [], "shm": ["a", "b"], "lab-10gbit": [], "lab-1gbit": []})
        self.assertEqual(on["onebit"], {"bytes": ["a", "b"], "shm": ["a", "b"], "lab-10gbit": [], "lab-1gbit": []})


    def test_candidates_have_memory_need_no_matrix_and_are_apart(self):
        methods = {"mpi": (4000, 0.0, 9e-3), "lowrank": (10, 0.1, 1e-3), "threshold(quantile=0.99)": (20, 0.3, 1e-3), "adaptive": (100, 0.25, 1e-3),
                   "adaptive(pi=24)": (120, 0.2, 1e-3), "onebit": (170, 0.15, 1e-3), "topk": (180, 0.3, 1e-3), "int8 memory=none": (200, 0.01, 1e-3)}
        found = frontier.candidates(self.points(methods, data=("a", "b", "c"), links=()))
        self.assertEqual([c.method for c in found], ["adaptive", "onebit"], "adaptive(pi=24) has nearly the bytes of adaptive")
        self.assertEqual([(round(4096 * c.bytes), c.error, c.debt, c.on["bytes"], c.sized_by_data) for c in found],
                         [(100, 0.25, 2.5, 3, False), (170, 0.15, 1.5, 3, False)])

    def test_candidates_are_also_what_is_fast(self):
        methods = {"onebit": (140, 0.3, 1e-3), "adaptive": (100, 0.25, 2e-3), "adaptive(pi=24)": (110, 0.2, 1.5e-3)}
        self.assertEqual([c.method for c in frontier.candidates(self.points(methods))], ["adaptive", "adaptive(pi=24)", "onebit"])

    def test_the_fastest_within_an_error_and_from_which_size_on_it_pays(self):
        methods = {"mpi": (4000, 0.0, 4e-3), "onebit": (140, 0.3, 1e-3), "int4": (500, 0.05, 2e-3), "int8": (1000, 0.01, 3e-3)}
        points = self.points(methods)
        self.assertEqual([frontier.fastest(points, "shm", most) for most in (0.5, 0.1, 0.02, 0.001)], ["onebit", "int4", "int8", None])
        self.assertEqual(frontier.gains(points, "int4", "shm"), {4 * 4096: 2.0})
        self.assertEqual(frontier.first_size({100: 1.3, 200: 1.1, 300: 1.25, 400: 2.0}), 300)
        self.assertIsNone(frontier.first_size({100: 1.3, 200: 1.1}))

    def test_low_rank_is_for_matrices_that_it_makes_smaller(self):
        self.assertTrue(frontier.fits("lowrank(rank=15)", 16 * 6272, 6272))
        self.assertFalse(frontier.fits("lowrank(rank=16)", 16 * 6272, 6272))
        self.assertFalse(frontier.fits("lowrank", 2 * 100, 100))
        self.assertTrue(frontier.fits("meprop(k=0.2)", 2 * 100, 100))


class Committed(unittest.TestCase):
    FOLDER = "results/2026-11-27-epyc-frontier"

    def test_the_library_chooses_from_what_is_on_the_frontier(self):
        folder = os.path.join(ROOT, self.FOLDER)
        with open(os.path.join(ROOT, "mpi_quant/policy/feedback_candidates.def"), encoding="utf-8") as file:
            text = file.read()
        points = frontier.read(folder)
        self.assertEqual(text, frontier.candidates_text(points, frontier.read_rates(folder), self.FOLDER))
        sizes = [each.bytes for each in frontier.candidates(points)]
        self.assertGreater(len(sizes), 5)
        self.assertEqual(sizes, sorted(sizes))


class Script(InTemporaryFolder):
    def run_script(self, *options, env=None):
        return subprocess.run([os.path.join(ROOT, "scripts/frontier"), "--build", BUILD, "--out", self.path("out"), *options], check=False, text=True,
                              env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    @needs("python3-torch", HAS_TORCH, "scripts/frontier")
    def test_errors_times_and_a_figure_of_recorded_gradients(self):
        words = ("--first", "1", "--steps", "4", "--data", "attention-qkv-384x128,attention-all")
        done = self.run_script(*words, "--methods", "onebit;int8;bf16", "--links", "shm", "--launches", "1")
        self.assertEqual(done.returncode, 0, done.stdout)
        points = {(p.data, p.method): p for p in frontier.read(self.path("out"))}
        self.assertEqual(len(points), 6)
        matrix, vector = ({m: points[data, m] for m in ("onebit", "int8", "bf16")} for data in ("attention-qkv-384x128", "attention-all"))
        self.assertEqual(matrix["onebit"].elements, 384 * 128)
        self.assertGreater(vector["onebit"].elements, matrix["onebit"].elements)
        for found in (matrix, vector):
            self.assertGreater(found["onebit"].error, 10 * found["int8"].error)
            self.assertGreater(found["int8"].error, found["bf16"].error)
            self.assertLess(found["onebit"].bytes, found["int8"].bytes)
            self.assertTrue(0 < found["onebit"].cost("shm") < 1)
        self.assertTrue(os.path.exists(self.path("out", "all-frontier.png")))

    @needs("python3-torch", HAS_TORCH, "scripts/frontier")
    def test_a_method_that_is_refused_is_named(self):
        done = self.run_script("--only", "errors", "--first", "0", "--steps", "1", "--data", "attention-all", "--methods", "lowrank")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("lowrank: MPI made 1 of the calls", done.stdout)
        self.assertFalse(os.path.exists(self.path("out", frontier.ERRORS)))

    def test_what_is_not_there_is_named(self):
        done = self.run_script("--data", "resnet")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("no recording 'resnet': cnn-filters-128x144", done.stdout)


if __name__ == "__main__":
    unittest.main()
