"""scripts/mnist_torch: its table, and what it says where it cannot measure. tests/python/ddp_research_test.py runs what the ranks do.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/mnist_torch_test.py
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from types import MappingProxyType

import torch_runs_files as files
from scripts_common import ROOT, script
from mpi_quant.results import frontier, torch_runs, training_runs


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def network(self, *trained, times=(), worse=MappingProxyType({})):
        dense = [files.accuracy_rows("gloo", seed, (0.5, 0.9, 0.957 + seed / 1000)) for seed in (1, 2)]
        (found,) = torch_runs.read(files.write(self.folder, [*dense, *trained], times, worse))
        return found


class Table(Folder):
    def rows(self, network):
        return {row[0]: row[1:] for row in torch_runs.table_rows(network)}

    def ratio(self, network, method):
        mean, _ = network.over_powersgd(method)
        return mean

    def test_errors_are_compared_with_powersgd_of_equal_bytes(self):
        network = self.network()
        self.assertAlmostEqual(self.ratio(network, "lowrank(rank=4)"), 1.02)
        self.assertAlmostEqual(self.ratio(network, "onebit"), 2)
        self.assertAlmostEqual(self.ratio(network, "adaptive"), 0.5)
        network.errors["lowrank(rank=8)"] = {"1": {"bytes": "101000", "error": str(0.05 * 100 / 101), "seed": "1"}}
        self.assertAlmostEqual(self.ratio(network, "lowrank(rank=8)"), 1)
        self.assertIsNone(network.over_powersgd("int8"))  # PowerSGD's ranks send less

    def test_seeds_decide_what_is_on_the_curve(self):
        """Each seed has a curve of its own: where all errors of a seed are three times as large, nothing changes."""
        worse = {**dict.fromkeys(files.ERRORS, 3), "lowrank(rank=4)": 2.7}
        network = self.network(worse=worse)
        mean, (least, most) = network.over_powersgd("lowrank(rank=4)")
        self.assertAlmostEqual(mean, 1.02 * 0.9 ** 0.5)
        self.assertTrue(least < 1 < most, (least, most))
        mean, (least, most) = network.over_powersgd("onebit")
        self.assertTrue(abs(least - 2) < 1e-9 and abs(most - 2) < 1e-9, (least, most))
        del network.errors["adaptive"]["2"]
        text = torch_runs.verdict(network)
        for words in ("not told apart from it: `lowrank(rank=4)`", "above it: `onebit`", "one seed, so not judged: `adaptive`", "ranks 1 to 8: `int8`"):
            self.assertIn(words, text)
        self.assertEqual(self.rows(network)["`adaptive`"][2], "0.50")
        self.assertEqual(self.rows(network)["`onebit`"][2], "2.00 [2.00, 2.00]")
        self.assertIn("under the curve: `adaptive`", torch_runs.verdict(self.network()))

    def test_the_names_of_methods(self):
        self.assertEqual(torch_runs.parts_of("onebit"), ("onebit", None))
        self.assertEqual(torch_runs.parts_of("lowrank(rank=4) small=1024"), ("lowrank(rank=4)", 1024))
        self.assertEqual([torch_runs.is_ours(name) for name in ("gloo+bf16", "bf16", "none")], [False, True, False])

    def test_between_two_ranks_of_powersgd_the_curve_is_straight_on_logarithmic_axes(self):
        network = self.network()
        network.errors["lowrank(rank=3)"] = {"1": {"bytes": str((25_000 * 50_000) ** 0.5), "error": str((0.1 * 0.2) ** 0.5), "seed": "1"}}
        self.assertAlmostEqual(self.ratio(network, "lowrank(rank=3)"), 1)

    def test_accuracy_is_compared_seed_by_seed_and_with_dense_gradients(self):
        network = self.network(*(files.accuracy_rows("onebit", seed, (0.4, 0.8, 0.952 + seed / 1000)) for seed in (1, 2)))
        row = self.rows(network)["`onebit`"]
        self.assertTrue(row[3].startswith("95.35 ± "), row)
        self.assertTrue(row[4].startswith("-0.50 ± 0.00"), row)

    def test_time_to_the_accuracy_of_dense_gradients(self):
        times = [files.time_row("onebit", seconds, launch) for launch, seconds in enumerate((0.01, 0.02, 0.5))] + [files.time_row("gloo", 0.04)]
        network = self.network(files.accuracy_rows("onebit", 1, (0.5, 0.95, 0.96)), files.accuracy_rows("onebit", 2, (0.5, 0.94, 0.95)),
                               files.accuracy_rows("int8", 1, (0.5, 0.9, 0.95)), files.accuracy_rows("int8", 2, (0.5, 0.9, 0.94)), times=times)
        self.assertEqual(network.target(), 0.95)
        rows = self.rows(network)
        self.assertEqual(torch_runs.head(network)[-1], "to 95 %")
        self.assertEqual(rows["`onebit`"][5:], ["20.0", "0.5 s, 25 steps"])
        self.assertEqual(rows["`gloo`"][5:], ["40.0", "1.2 s, 30 steps"])
        self.assertEqual(rows["`int8`"][5:], ["", "1 of 2 seeds reach it"])

    def test_steps_of_more_ranks_than_cores_are_no_times(self):
        network = self.network(times=[files.time_row("gloo", 0.04, oversubscribed=1)])
        self.assertIsNone(network.step_s("gloo"))

    def test_links_of_one_network_are_one_table(self):
        """auto is trained in a lab, because it chooses by the network; the others need none."""
        network = self.network(files.accuracy_rows("auto(error=feedback)", 1, (0.5, 0.9, 0.958), link="lab-1gbit"))
        self.assertIn("`auto(error=feedback)`", self.rows(network))

    def test_a_folder_that_cannot_be_used(self):
        files.write(self.folder, [files.accuracy_rows("onebit", 1, (0.5,))])
        with self.assertRaisesRegex(torch_runs.TorchRunsError, "accuracy.csv has no runs of 'gloo' on mlp:512x512"):
            torch_runs.read(self.folder)
        os.remove(os.path.join(self.folder, torch_runs.ERRORS))
        files.write(self.folder, [files.accuracy_rows("gloo", 1, (0.5,))])
        os.remove(os.path.join(self.folder, torch_runs.ERRORS))
        with self.assertRaisesRegex(frontier.FrontierError, "errors.csv: No such file"):
            torch_runs.read(self.folder)

    def test_files_are_those_of_mpiq_train_too(self):
        self.network()
        groups = training_runs.read([os.path.join(self.folder, torch_runs.ACCURACY)]).groups
        self.assertFalse(any(training_runs.timed(methods) for methods in groups.values()), "no times are in them")


class Script(Folder):
    def run_script(self, *words, **env):
        return subprocess.run([sys.executable, script("mnist_torch"), *words], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env})

    def test_usage(self):
        self.assertEqual(self.run_script().returncode, 2)
        done = self.run_script("speed", "--out", self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("accuracy", done.stderr)

    def test_an_old_torch_is_one_line(self):
        with open(os.path.join(self.folder, "torch.py"), "w", encoding="utf-8") as file:
            file.write("__version__ = '1.13.1'\n")
        for name in ("mpi4py", "numpy"):
            with open(os.path.join(self.folder, name + ".py"), "w", encoding="utf-8") as file:
                file.write("\n")
        done = self.run_script("errors", "--out", self.folder, PYTHONPATH=self.folder)
        self.assertEqual((done.returncode, done.stderr), (3, "scripts/mnist_torch: torch 1.13.1 is too old: torch 2 or later is needed\n"))

    def test_rows_that_are_measured_again_replace_the_old_ones(self):
        code = ("import sys, json, runpy; sys.path.insert(0, 'scripts'); add = runpy.run_path('scripts/mnist_torch', run_name='x')['add_rows']; "
                "[add(sys.argv[1], 'times.csv', rows) for rows in json.loads(sys.argv[2])]")
        parts = [[files.time_row("gloo", 1.0), files.time_row("int8", 1.0)], [files.time_row("int8", 2.0), files.time_row("int8", 3.0, launch=1)]]
        subprocess.run([sys.executable, "-c", code, self.folder, json.dumps(parts)], check=True, cwd=ROOT)
        rows = frontier.read_table(os.path.join(self.folder, torch_runs.TIMES), torch_runs.TIME_COLUMNS)
        self.assertEqual([(row["method"], row["launch"], float(row["t_median_s"])) for row in rows], [("gloo", "0", 1.0), ("int8", "0", 2.0), ("int8", "1", 3.0)])


if __name__ == "__main__":
    unittest.main()
