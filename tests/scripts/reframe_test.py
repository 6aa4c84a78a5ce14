"""The check of cmake/packaging/reframe runs under ReFrame on this machine: it passes, keeps its figures, and fails where a result is no timing.

Usage: reframe_test.py REFRAME BIN MPIEXEC..., MPIEXEC with what says the number of ranks, such as "mpiexec -n".
"""
import json
import os
import shlex
import subprocess
import sys
import unittest

from scripts_common import ROOT, InTemporaryFolder

REFRAME, BIN, *MPIEXEC = sys.argv[1:]
del sys.argv[1:]
PLACE = os.path.join(ROOT, "cmake", "packaging", "reframe")


class Check(InTemporaryFolder):
    def run_check(self, *words, before=(), methods="bf16"):
        """The process, and its report."""
        os.makedirs(self.path("bin"), exist_ok=True)
        with open(self.path("bin", "mpiexec"), "w", encoding="utf-8") as file:  # settings.py says: mpiexec -n RANKS PROGRAM
            file.write(f'#!/bin/sh\nshift\nexec {shlex.join([*before, *MPIEXEC])} "$@"\n')
        os.chmod(self.path("bin", "mpiexec"), 0o755)
        report = self.path("report.json")
        done = subprocess.run([REFRAME, "-C", os.path.join(PLACE, "settings.py"), "-c", os.path.join(PLACE, "mpiq_check.py"), "--prefix", self.folder,
                               "--report-file", report, "-S", "sizes=64K", "-S", f"methods={methods}", "-S", "point_time=0.1", *words, "-r"],
                              capture_output=True, text=True, check=False, cwd=self.folder, timeout=250,
                              env={**os.environ, "PATH": os.pathsep.join((self.path("bin"), BIN, os.environ["PATH"])), "HOME": self.folder})
        with open(report, encoding="utf-8") as file:
            return done, json.load(file)

    def test_it_passes_and_keeps_its_figures(self):
        done, report = self.run_check()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        (session,) = report["runs"] if "runs" in report else report["sessions"]
        cases = session["testcases"]
        self.assertEqual(sorted(case["check_params"]["collective"] if "check_params" in case else case["collective"] for case in cases),
                         ["allgather", "allreduce", "reduce_scatter"])
        for case in cases:
            self.assertEqual(case["result"], "pass")
            figures = {name.rpartition(":")[2]: values for name, values in case["perfvalues"].items()}
            self.assertEqual(set(figures), {"mpi_65536", "bf16_65536", "bf16_65536_speedup_low"}, case["perfvalues"])
            self.assertTrue(all(values[0] > 0 for values in figures.values()))

    def test_a_method_that_is_left_out_fails(self):
        os.makedirs(self.path("bin"))
        with open(self.path("bin", "mpiq-bench"), "w", encoding="utf-8") as file:  # drops the rows of int8
            file.write(f'#!/bin/bash\nset -o pipefail\n{shlex.quote(os.path.join(BIN, "mpiq-bench"))} "$@" | sed /int8/d\n')
        os.chmod(self.path("bin", "mpiq-bench"), 0o755)
        done, _ = self.run_check("-n", "MpiqBench.*collective=allreduce", methods="bf16,int8")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("2 pairs of size and method, expected 3", done.stdout + done.stderr)

    def test_lists_with_mpi_and_with_commas_in_parentheses_are_counted_right(self):
        done, report = self.run_check("-n", "MpiqBench.*collective=allreduce", methods="bound(growth=sqrt,rel=0.02), mpi")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        (case,) = (report["runs"] if "runs" in report else report["sessions"])[0]["testcases"]
        self.assertEqual(len([name for name in case["perfvalues"] if not name.endswith("_low")]), 2, case["perfvalues"])

    def test_more_ranks_than_processors_fail(self):
        done, _ = self.run_check("-n", "MpiqBench.*collective=allreduce", before=("taskset", "-c", str(min(os.sched_getaffinity(0)))))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("more ranks than processors", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
