"""mpiq-bench --arrival: ranks that enter a call late. Usage: bench_arrival_test.py BIN MPIEXEC..."""
import os
import subprocess
import sys
import unittest

import h5py
import numpy as np

from result_files import WithFiles, points_of, tool

BIN, *MPIEXEC = sys.argv[1:]
del sys.argv[1:]
LATE_S = 20e-3  # many times what a call takes
PATTERNS = ("together", "one:20000", "ramp:20000")


def bench(*words):
    return subprocess.run([*MPIEXEC, "2", os.path.join(BIN, "mpiq-bench"), "allreduce", "--sizes", "64K", "--methods", "mpi,bf16", "-n", "12",
                           "-w", "1", *words], capture_output=True, text=True, check=False, timeout=200)


class Arrival(WithFiles):
    def test_the_time_of_a_call_counts_from_the_last_arrival(self):
        path = self.path("a.h5")
        done = bench("--arrival", ",".join(PATTERNS), "--keep-ranks", "-O", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = {(row["method"].decode(), row["arrival"].decode()): row for row in points_of(path)}
        with h5py.File(path) as file:
            apart = {row["key"]: np.nanmedian(skew) for row, skew in zip(file["points"][...], file["samples/skew_in_s"][...])}
        self.assertEqual(set(rows), {(method, pattern) for method in ("mpi", "bf16") for pattern in PATTERNS})
        for (method, pattern), row in rows.items():
            what = f"{method} {pattern}"
            self.assertEqual((row["status"], int(row["n_wrong"]), int(row["batch"]) if pattern != "together" else 1), (b"ok", 0, 1), what)
            self.assertEqual(row["base_key"], rows["mpi", pattern]["key"], "speed-ups are of the same pattern")
            if pattern != "together":
                self.assertGreater(apart[row["key"]], 0.9 * LATE_S, "a rank was late")
                self.assertLess(row["t_min_s"], LATE_S, "its lateness is not in the time of the call")
        self.assertIn("  arrival ramp:20000", done.stdout)
        checked = tool("check_results", path)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""), checked.stdout)
        mixed = tool("plot", "time", path, "-o", self.path("figures"))
        self.assertEqual(mixed.returncode, 1)
        self.assertIn("--where arrival=", mixed.stderr)
        drawn = tool("plot", "time", path, "--where", "arrival=ramp:20000", "-o", self.path("figures"))
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        again = bench("--arrival", ",".join(PATTERNS), "--keep-ranks", "-O", path, "--format", "csv")
        self.assertEqual(again.stdout, "", "nothing is left to do")

    def test_the_text_of_osu_has_a_table_for_each_pattern(self):
        out = bench("--arrival", "together,one:200", "--format", "osu").stdout
        titles = sorted(line.partition("method ")[2] for line in out.splitlines() if " Latency Test, " in line)
        self.assertEqual(titles, ["bf16, 2 ranks, f32", "bf16, 2 ranks, f32, arrival one:200", "mpi, 2 ranks, f32", "mpi, 2 ranks, f32, arrival one:200"])


if __name__ == "__main__":
    unittest.main()
