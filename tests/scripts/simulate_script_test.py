"""mpiq-simulate and scripts/simulate: their files keep the rules, are never mixed with measured ones, and say what they are.
Usage: simulate_script_test.py BIN"""
import json
import math
import os
import re
import subprocess
import sys
import unittest

import h5py
import numpy as np

from result_files import SMALL, WithFiles, points_of, tool
from scripts_common import ROOT, call

from mpi_quant.results import schema

BIN = os.path.abspath(sys.argv.pop(1))
RATES = os.path.join(ROOT, "results/reference/kernels.json")


def simulate(*words):
    return call(os.path.join(BIN, "mpiq-simulate"), "--rates", RATES, *words)


class Simulated(WithFiles):
    def file(self, *words, name="simulated.h5"):
        path = self.path(name)
        done = simulate("--ranks", "2,8", "--sizes", "64K,1M", "--methods", "mpi,onebit,topk/direct", *words, "-O", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return path

    def test_files_keep_every_rule(self):
        for words in ((), ("--per-node", "4", "--oversubscription", "2", "--nodes-per-switch", "1"),
                      ("--no-feedback", "--buffers", "warm", "--link", "2us/300ns/100Gbit/1ns/5GB")):
            path = self.file(*words, name=f"{len(words)}.h5")
            done = tool("check_results", path)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_rows_say_that_and_how_they_are_simulated(self):
        path = self.file("--per-node", "4", "--oversubscription", "2")
        points = points_of(path)
        self.assertEqual(len(points), 12)
        self.assertEqual(set(points["status"]), {b"simulated"})
        self.assertEqual(set(points["link"]), {b"sim:lab-10gbit:o2x16"})
        self.assertEqual({(int(r["ranks"]), int(r["nodes"]), int(r["ranks_per_node"])) for r in points}, {(2, 1, 2), (8, 2, 4)})
        self.assertTrue((points["t_median_s"] > 0).all())
        self.assertEqual(set(points["reps"]), {1})
        with h5py.File(path) as file:
            network = json.loads(file["run"].attrs["config_json"])["simulation"]
            exposed, times = file["phases/exposed_s"][...], file["samples/t_max_s"][...]
        self.assertEqual((network["per_node"], network["oversubscription"], network["rates"]), (4, 2, RATES))
        for phases, repetitions in zip(exposed[points["method"] != b"mpi"], times[points["method"] != b"mpi"]):
            self.assertAlmostEqual(phases.sum(), repetitions[0], delta=1e-12)

    def test_equal_options_give_equal_times_and_a_file_goes_on(self):
        first, again = points_of(self.file()), points_of(self.file(name="again.h5"))
        for column in ("key", "t_median_s", "wire_bytes_max", "speedup"):
            self.assertEqual(first[column].tobytes(), again[column].tobytes())
        done = simulate("--ranks", "2,8", "--sizes", "64K,1M", "--methods", "mpi,onebit,topk/direct", "-O",
                        self.path("again.h5"))
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(len(points_of(self.path("again.h5"))), 12)

    def test_speed_ups_are_over_the_fastest_dense_method(self):
        path = self.path("dense.h5")
        done = simulate("--ranks", "4,61", "--sizes", "1M", "--methods", "mpi,raw/direct,raw/recursive_doubling,onebit", "-O", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        points = points_of(path)
        for ranks in (4, 61):
            here = points[points["ranks"] == ranks]
            dense = min(here[here["method"] != b"onebit"], key=lambda row: row["t_median_s"])
            self.assertEqual(set(here["base_key"]), {dense["key"]})
            self.assertLessEqual(here["speedup"][here["method"] != b"onebit"].max(), 1)
        self.assertEqual(tool("check_results", path).returncode, 0)

    def test_compressed_methods_beside_one_dense_plan_are_found(self):
        path = self.path("lone.h5")
        words = ("--ranks", "8", "--sizes", "64K", "-O", path, "--methods")
        self.assertEqual(simulate(*words, "raw/recursive_doubling,onebit").returncode, 0)
        done = tool("check_results", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("dense methods of the point: expected mpi, which chooses; or all of raw/recursive_doubling, raw/halving_doubling, raw/ring, "
                      "found raw/recursive_doubling", done.stdout)

    def test_a_command_line_that_no_file_can_hold_is_refused_before_anything_is_simulated(self):
        path = self.path("long.h5")
        done = simulate("--ranks", "2", "--methods", "mpi", "--sizes", ",".join(map(str, range(4, 60000, 4))), "-O", path)
        self.assertEqual((done.returncode, done.stdout, os.path.exists(path)), (2, "", False))
        self.assertRegex(done.stderr, r"command_line has \d+ bytes, and an attribute of HDF5 holds at most 64000: name fewer sizes or methods")

    def test_columns_are_those_of_columns_def(self):
        with h5py.File(self.file()) as file:
            for path, columns in (("points", {**schema.POINTS, **schema.LATER}), ("inputs", schema.INPUTS),
                                  ("events", schema.EVENTS), ("run/env", schema.ENV), ("run/nodes", schema.NODES),
                                  ("run/ranks", schema.RANKS)):
                found = file[path].dtype
                self.assertEqual([(name, found[name]) for name in found.names], list(columns.items()), path)
            self.assertEqual(json.loads(file["points"].attrs["units"]), {name: schema.unit(name) for name in file["points"].dtype.names
                                                                        if schema.unit(name)})

    def test_every_dataset_has_a_checksum_and_a_damaged_one_is_neither_read_nor_gone_on_with(self):
        damaged = self.check_damage(self.file())
        self.assertGreaterEqual(len(damaged), 12)
        for path in damaged:
            done = simulate("--ranks", "2", "--sizes", "64K", "-O", path)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("is truncated or damaged", done.stderr)

    def test_a_row_that_calls_itself_measured_is_found(self):
        path = self.file()
        self.change(path, status=(3, b"ok"))
        done = tool("check_results", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("status: expected simulated, found ok", done.stdout)

    def test_simulated_and_measured_files_are_not_merged(self):
        path = self.file()
        done = tool("merge", path, SMALL, "-o", self.path("merged.h5"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"simulated\.h5 is simulated and .*lab-1gbit\.h5 is measured: they are never mixed")
        self.assertFalse(os.path.exists(self.path("merged.h5")))

    def test_what_is_meant_by_no_one_is_a_usage_error(self):
        for words, reason in ((("--methods", "mpi-direct"), "no GPU is simulated"), (("--methods", "int8"), "no rates of int8"),
                              (("--ranks", "1"), "1 ranks"), (("--ranks", "6", "--per-node", "4"), "do not divide 6"),
                              (("--link", "fast"), "neither a preset nor"), (("--node", "1us"), "--node"), (("--isa", "neon"), "neon"),
                              (("--sizes", "3"), "not a multiple"), (("-d", "f16", "--methods", "onebit"), "half types")):
            done = simulate(*words)
            self.assertEqual((words, done.returncode, done.stdout), (words, 2, ""))
            self.assertIn(reason, done.stderr)
        done = call(os.path.join(BIN, "mpiq-simulate"), "--rates", "/no/such/file")
        self.assertEqual((done.returncode, done.stdout), (2, ""))


class Halves(WithFiles):
    """Reduce-scatters and allgathers."""

    def test_files_keep_every_rule(self):
        for collective, algorithms in (("reduce_scatter", {"recursive_halving", "ring"}), ("allgather", {"recursive_doubling", "bruck", "ring"})):
            path = self.path(collective + ".h5")
            words = ("--collective", collective, "--ranks", "2,3,256", "--sizes", "64K,16M", "--methods", "mpi,raw,onebit", "-O", path)
            done = simulate(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            done = tool("check_results", path)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            points = points_of(path)
            self.assertEqual((len(points), set(points["status"]), set(points["collective"])), (18, {b"simulated"}, {collective.encode()}))
            self.assertEqual(set(points["algorithm"]), {b"mpi", collective.encode()})
            self.assertEqual(set(points["feedback"][points["method"] == b"onebit"]), {int(collective == "reduce_scatter")})
            dense = points[points["method"] == b"mpi"]
            self.assertLessEqual({row["note"].decode().rpartition(": ")[2] for row in dense}, algorithms)
            # What the dense call sends at least: P - 1 vectors in all.
            self.assertTrue((dense["wire_bytes_sum"] >= (dense["ranks"] - 1) * dense["bytes"]).all())
            self.assertTrue(np.allclose(points["busbw_Bps"], points["algbw_Bps"] * (points["ranks"] - 1) / points["ranks"]))
            done = simulate(*words)
            self.assertEqual((done.returncode, done.stdout), (0, ""), "nothing is left to do")
            done = tool("plot", "scaling", path, "-o", self.path("figures"))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assert_model_is_near(path)

    def assert_model_is_near(self, path):
        done = tool("simulate", "--bin", BIN, "--model", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        off = float(done.stdout.splitlines()[-1].split("|")[6])
        self.assertLess(off, 2, done.stdout)

    def test_what_is_for_allreduce_is_refused(self):
        for words, reason in ((("--methods", "onebit/direct"), "has a plan of its own"),
                              (("--sparse",), "of allreduce only")):
            done = simulate("--collective", "allgather", "--ranks", "4", "--sizes", "64K", *words)
            self.assertEqual((words, done.returncode, done.stdout), (words, 2, ""))
            self.assertIn(reason, done.stderr)


class Sparse(WithFiles):
    WORDS = ("--sparse", "--ranks", "8", "--sizes", "256K", "--density", "0.001,0.05", "--distribution", "uniform,powerlaw:1.1",
             "--methods", "mpi,union,union(algorithm=split)/dense,kylix,fused/4x2", "--baseline", "union")

    def test_files_keep_every_rule_and_describe_the_lists(self):
        path = self.path("sparse.h5")
        done = simulate(*self.WORDS, "--in", "union", "--list-costs", "1ns/2ns/4ns", "-O", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = tool("check_results", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        points = points_of(path)
        self.assertEqual((len(points), set(points["status"]), set(points["collective"])), (20, {b"simulated"}, {b"sparse_allreduce"}))
        self.assertIn(b"degrees=4x2,density=0.05,distribution=powerlaw:1.1,stride=1,in=union,lists=same", set(points["comp_params"]))
        with h5py.File(path) as file:
            self.assertEqual(json.loads(file["run"].attrs["config_json"])["simulation"]["list_costs"], "1ns/2ns/4ns")

    def test_rates_are_for_dense_methods_only(self):
        program = os.path.join(BIN, "mpiq-simulate")
        done = call(program, "--sparse", "--ranks", "4", "--sizes", "64K", "--methods", "union,kylix", "--baseline", "union")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("# kylix has the degrees ", done.stdout)
        self.assertIn("--rates is required", call(program, "--sparse", "--methods", "union,raw/direct").stderr)

    def test_what_cannot_be_simulated_is_a_usage_error(self):
        for words, reason in ((("--methods", "union(algorithm=dense)"), "the algorithm of a union is"), (("--methods", "densify"), "no MPI here"),
                              (("--stride", "2"), "--stride 1"), (("--density", "2"), "--density"), (("--list-costs", "1ns"), "--list-costs"),
                              (("--methods", "kylix/3"), "degrees"), (("--model",), "not of sparse vectors")):
            done = simulate("--sparse", "--ranks", "8", "--sizes", "64K", "--methods", "kylix", *words) if words[0] != "--methods" else \
                simulate("--sparse", "--ranks", "8", "--sizes", "64K", *words)
            self.assertEqual((words, done.returncode, done.stdout), (words, 2, ""))
            self.assertIn(reason, done.stderr)
        self.assertEqual(simulate("--density", "0.1").returncode, 2)

    def test_the_costs_of_lists_are_measured_in_the_form_that_is_read(self):
        done = simulate("--measure-lists")
        self.assertRegex(done.stdout, r"^[\d.]+ns/[\d.]+ns/[\d.]+ns\n$")
        self.assertEqual(simulate("--sparse", "--ranks", "4", "--sizes", "64K", "--methods", "kylix", "--list-costs", done.stdout.strip()).returncode, 0)


class Script(WithFiles):
    def run_script(self, *words):
        return subprocess.run([os.path.join(ROOT, "scripts/simulate"), "--bin", BIN, *words], capture_output=True, text=True, check=False)

    def test_writes_a_file_for_each_link(self):
        done = self.run_script("--out", self.path("out"), "--links", "lab-1gbit,rdma-100gbit", "--ranks", "2,4", "--sizes", "64K",
                               "--methods", "raw/direct,onebit")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["simulated-lab-1gbit.h5", "simulated-rdma-100gbit.h5"])

    def test_simulates_the_calls_of_a_training_step(self):
        done = self.run_script("--out", self.path("out"), "--training", "resnet50", "--links", "rdma-400gbit", "--ranks", "2,3")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        points = points_of(self.path("out", "training-rdma-400gbit.h5"))
        self.assertEqual((set(points["bytes"]), set(points["method"])), ({16 << 20, 102_228_128 % (16 << 20)}, {b"mpi", b"bf16", b"onebit"}),
                         "the rates have no int8")
        for words, reason in ((("--training", "vgg"), "no net vgg"), (("--training", "gpt2", "--sizes", "1M"), "without --sizes"),
                              (("--training", "gpt2", "--rates", SMALL), "not what mpiq-kernels writes")):
            done = self.run_script("--out", self.path("none"), *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(reason, done.stderr)

    def test_simulates_another_collective_and_compares_with_measured_files_of_it(self):
        done = self.run_script("--out", self.path("out"), "--collective", "allgather", "--links", "lab-1gbit", "--ranks", "2", "--sizes", "64K")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        points = points_of(self.path("out", "simulated-allgather-lab-1gbit.h5"))
        self.assertEqual((set(points["collective"]), set(points["method"])), ({b"allgather"}, {b"mpi", b"bf16", b"onebit", b"topk"}))
        measured = self.copy()
        with h5py.File(measured, "a") as file:
            table = file["points"][...]
            table["collective"] = b"allgather"
            file["points"][...] = table
        tables = [self.run_script("--compare", path, "--links", "lab-1gbit") for path in (measured, SMALL)]
        self.assertEqual([done.returncode for done in tables], [0, 0], tables[0].stderr)
        self.assertNotEqual(tables[0].stdout, tables[1].stdout)
        self.assertIn("rows of allgather and allreduce", self.run_script("--compare", measured, SMALL).stderr)

    def test_compares_with_measured_files(self):
        done = self.run_script("--compare", SMALL, "--links", "lab-1gbit")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        *lines, _, last = done.stdout.splitlines()
        off = [abs(int(cell)) for cell in re.findall(r"\(([+-]\d+) %\)", done.stdout)]
        self.assertEqual(last, f"{sum(o <= 15 for o in off)} of {len(off)} are within 15 %.")
        fastest = self.run_script("--compare", SMALL, "--links", "lab-1gbit", "--fastest")
        self.assertEqual((fastest.returncode, len(fastest.stdout.splitlines())), (0, len(lines) + 2))
        self.assertNotEqual(fastest.stdout, done.stdout)
        calls = self.run_script("--compare", SMALL, "--links", "lab-1gbit", "--calls", "3")  # the first ones use up the burst
        simulated = [float(re.search(r"bf16 \| ([\d.]+) /", each.stdout)[1]) for each in (done, calls)]
        self.assertGreater(simulated[1], 1.2 * simulated[0])
        self.assertEqual([line.split("|")[2].strip() for line in lines[2:]], ["bf16", "mpi", "onebit"])
        for line in lines[2:]:
            for cell in line.strip("| ").split(" | ")[2:]:
                self.assertRegex(cell, re.compile(r"^[\d.e+]+ / [\d.e+]+ \([+-]\d+ %\)$"))

    def test_says_which_degrees_are_fastest(self):
        done = self.run_script("--sparse", self.path("out"), "--links", "rdma-100gbit", "--ranks", "8")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        path = self.path("out", "sparse-rdma-100gbit-8.h5")
        self.assertEqual({m for m in set(points_of(path)["method"]) if m.startswith(b"kylix(")},
                         {b"kylix(degrees=8)", b"kylix(degrees=4x2)", b"kylix(degrees=2x2x2)"})
        done = self.run_script("--degrees", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[2:]]
        self.assertEqual([line[:4] for line in lines], [["rdma-100gbit", "8", lists, density] for lists in ("powerlaw:1.1", "uniform")
                                                        for density in ("0.0001", "0.001", "0.01")])
        self.assertEqual(self.run_script("--sparse", self.path("out"), "--ranks", "6").returncode, 1)

    def test_says_how_far_the_model_is_off(self):
        done = self.run_script("--out", self.path("out"), "--links", "lab-10gbit", "--ranks", "2,16", "--sizes", "64K,1M",
                               "--methods", "mpi,onebit")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = self.run_script("--model", self.path("out", "simulated-lab-10gbit.h5"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[2:]]
        self.assertEqual([line[:4] for line in lines], [["sim:lab-10gbit", "mpi", "mpi", "4"], ["sim:lab-10gbit", "onebit", "allgather", "2"],
                                                        ["sim:lab-10gbit", "onebit", "grid", "2"], ["all", "", "", "8"]])
        for line in lines:
            self.assertLess(float(line[5]), 1.5)
        self.assertEqual(self.run_script("--model", SMALL).returncode, 1)

    def test_the_model_s_seconds_are_those_of_its_amounts(self):
        done = simulate("--ranks", "2,64", "--sizes", "64K", "--methods", "onebit/direct", "--link", "20us/1us/1GB", "--step", "0", "--model")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for line in map(json.loads, done.stdout.splitlines()):
            amounts = line["amounts"]
            network = 20e-6 * amounts["latency"] + 1e-6 * amounts["overhead"] + 1e-9 * amounts["byte"]
            # The agreement, and one or two rounds: with many messages the processor is busy until the first
            # ones come.
            self.assertIn(amounts["latency"] - math.log2(line["ranks"]), (1, 2))
            self.assertLess(network, line["seconds"])  # the rest is the codec
            self.assertEqual(line["plan"], "direct")


if __name__ == "__main__":
    unittest.main()
