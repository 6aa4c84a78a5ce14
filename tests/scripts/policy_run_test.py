"""From a measurement to a setting: mpiq-bench writes a file, scripts/policy makes a policy and a knowledge file of it, and the library reads both.

Usage: policy_run_test.py BIN MPIEXEC...
"""
import json
import os
import shlex
import subprocess
import sys
import unittest

import h5py

from scripts_common import InTemporaryFolder, call, script

BIN, *MPIEXEC = sys.argv[1:]
del sys.argv[1:]
KIB, MIB = 1 << 10, 1 << 20
# What the calls are to have taken, so that the best rules are known on any machine.
MILLISECONDS = {"mpi": (1, 1, 1), "bf16": (0.5, 0.5, 0.5), "mxfp8": (1, 0.2, 0.2)}
SIZES = (64 * KIB, 256 * KIB, MIB)


def run(*words, **variables):
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, env={**os.environ, **variables})


def set_times(path):
    """Other times in a measured file, and a machine without other work."""
    with h5py.File(path, "a") as file:
        points, samples, nodes = file["points"][...], file["samples/t_max_s"][...], file["run/nodes"][...]
        for i, row in enumerate(points):
            seconds = 1e-3 * MILLISECONDS[row["method"].decode()][SIZES.index(int(row["bytes"]))]
            samples[i] = seconds
            for name in ("t_median_s", "t_ci_lo_s", "t_ci_hi_s"):
                points[name][i] = seconds
        points["oversubscribed"], nodes["load1"] = 0, 0
        file["points"][...], file["samples/t_max_s"][...], file["run/nodes"][...] = points, samples, nodes


class FromMeasurementToSetting(InTemporaryFolder):
    def setUp(self):
        super().setUp()
        self.results = self.path("run.h5")
        done = run(*MPIEXEC, "2", os.path.join(BIN, "mpiq-bench"), "allreduce", "--sizes", "64K,256K,1M", "--methods", "mpi,bf16,mxfp8", "-n", "8",
                   "--link", "here", "-O", self.results)
        self.assertEqual(done.returncode, 0, done.stderr)
        set_times(self.results)

    def made(self, *words):
        out = self.path("made.txt")
        done = call(script("policy"), self.results, "-o", out, *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return out

    def use(self, path):
        """The options and variables with which the first line of a file says to use it."""
        with open(path, encoding="utf-8") as file:
            words = shlex.split(file.readline().removeprefix("# Use: "))
        start = words.index("mpiexec")
        self.assertEqual((words[start:start + 4], words[-1]), (["mpiexec", "-n", "N", "mpiq-run"], "./app"))
        return words[start + 4:-1], dict(word.split("=", 1) for word in words[:start])

    def bare(self, size, policy, **variables):
        report = self.path("report.json")
        done = run(*MPIEXEC, "2", os.path.join(BIN, "mpiq-run"), *policy, "--report", report, os.path.join(BIN, "mpiq-bare"), str(size), "3", **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(report, encoding="utf-8") as file:
            return json.load(file)

    def test_the_policy_decides_the_calls_of_a_program(self):
        rules = self.made("--error", "0.1")
        done = run(os.path.join(BIN, "mpiq-run"), "--check-policy", "--policy-file", rules)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith(f"policy: 64K-256K @2 f32: bf16; 256K-{MIB + 1} @2 f32: mxfp8\n"), done.stdout)
        for size, method in ((64 * KIB, "bf16"), (MIB, "mxfp8")):
            classes = self.bare(size, self.use(rules)[0])["classes"]
            self.assertEqual([c["method"].split("/")[0] for c in classes if c["reasons"].get("compressed")], [method])
        classes = self.bare(2 * MIB, ("--policy-file", rules))["classes"]
        self.assertEqual([c for c in classes if c["reasons"].get("compressed")], [])

    def test_auto_chooses_by_the_knowledge(self):
        for error, size, method in (("0.1", MIB, "mxfp8"), ("0.1", 64 * KIB, "bf16"), ("0.01", MIB, "bf16")):
            knowledge = self.made("--knowledge", "--error", error)
            policy, variables = self.use(knowledge)
            choice, = self.bare(size, policy, **variables)["choices"]
            self.assertEqual(choice["method"].split("/")[0], method)
            self.assertGreater(choice["compressed"], 0)


if __name__ == "__main__":
    unittest.main()
