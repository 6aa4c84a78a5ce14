"""mpiq-bench --energy with made-up counters. Usage: bench_energy_test.py BIN MPIEXEC..."""
import math
import os
import subprocess
import sys
import threading
import time
import unittest

from result_files import WithFiles, points_of, tool

BIN, *MPIEXEC = sys.argv[1:]
del sys.argv[1:]
WATTS = 50


class Counters:
    """A folder like /sys/class/powercap whose one package takes WATTS."""

    def __init__(self, folder):
        self.zone = os.path.join(folder, "intel-rapl:0")
        os.makedirs(self.zone)
        for name, text in (("name", "package-0"), ("max_energy_range_uj", 262143328850), ("energy_uj", 0)):
            self.write(name, text)
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.count)

    def write(self, name, text):
        """The reader finds the old number or the new one."""
        with open(os.path.join(self.zone, "new"), "w", encoding="ascii") as file:
            file.write(f"{text}\n")
        os.replace(file.name, os.path.join(self.zone, name))

    def count(self):
        began = time.monotonic()
        while not self.ends.wait(0.002):
            self.write("energy_uj", int((time.monotonic() - began) * WATTS * 1e6))

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def bench(folder, *words):
    return subprocess.run([*MPIEXEC, "2", os.path.join(BIN, "mpiq-bench"), "allreduce", "--sizes", "256K", "--methods", "mpi,bf16", "-n", "10", *words],
                          capture_output=True, text=True, check=False, timeout=200, env={**os.environ, "MPIQ_POWERCAP": folder})


class Energy(WithFiles):
    def test_the_energy_of_a_call_is_what_the_counters_say(self):
        path = self.path("a.h5")
        with Counters(self.path("powercap")):
            done = bench(self.path("powercap"), "--energy", "0.4", "-O", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = points_of(path)
        self.assertEqual({row["method"] for row in rows}, {b"mpi", b"bf16"})
        for row in rows:
            self.assertEqual(row["status"], b"ok")
            self.assertGreater(row["energy_calls"], 1)
            # Both ranks are on one machine: a second reader would double it.
            self.assertTrue(WATTS / 1.5 < row["energy_power_W"] < WATTS * 1.5, row["energy_power_W"])
            self.assertGreater(row["energy_J"] * row["energy_calls"], WATTS * 0.1, "of the seconds that were asked for")
        self.assertIn(" J a call, ", done.stdout)
        self.assertEqual(bench(self.path("nowhere"), "-O", self.path("b.h5")).returncode, 0)
        sent = [{row["method"]: int(row["wire_bytes_sum"]) for row in points_of(self.path(name))} for name in ("a.h5", "b.h5")]
        self.assertEqual(sent[0], sent[1], "bytes of a call, however many calls there were")
        checked = tool("check_results", path)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""), checked.stdout)

    def test_what_is_not_counted_is_unknown_and_not_nothing(self):
        path = self.path("a.h5")
        done = bench(self.path("nowhere"), "--energy", "0.01", "-O", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for row in points_of(path):
            self.assertTrue(math.isnan(row["energy_J"]) and math.isnan(row["energy_power_W"]))
        self.assertIn("energy - J a call", done.stdout)
        self.assertEqual(tool("check_results", path).returncode, 0)
        without = bench(self.path("nowhere"), "-O", self.path("b.h5"))
        self.assertNotIn("energy", without.stdout)
        self.assertEqual({int(row["energy_calls"]) for row in points_of(self.path("b.h5"))}, {-1})


if __name__ == "__main__":
    unittest.main()
