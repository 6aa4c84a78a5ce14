"""scripts/bound: every method keeps its error; a compressor that is missing is named. Usage: bound_script_test.py BUILD MPIEXEC"""
import csv
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import mpiq_tables  # noqa: E402  pylint: disable=wrong-import-position

LAUNCHER = sys.argv.pop() if len(sys.argv) > 2 else "mpiexec.mpich"
BUILD = sys.argv.pop() if len(sys.argv) > 1 else os.path.join(ROOT, "build/dev")


class Bound(unittest.TestCase):
    def test_every_sum_is_within_its_error(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bound.csv")
            done = subprocess.run([os.path.join(ROOT, "scripts/bound"), "--build", BUILD, "--launcher", LAUNCHER, "--side", "24", "-o", path],
                                  check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, done.stdout)
            with open(path, encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            table = mpiq_tables.bound(path).splitlines()
        methods = {row["method"] for row in rows}
        for method in ("zfp 1d", "zfp 3d", "SZ3 1d", "SZ3 3d"):
            self.assertNotEqual(method in methods, f"{method} is not installed" in done.stdout, done.stdout)
        self.assertEqual([row["data"] for row in rows if row["method"] == "bound"], ["smooth"] * 3 + ["rough"] * 3 + ["noise"] * 3)
        rounding = 8 * sys.float_info.epsilon  # of a sum of two numbers below 8, for bound and for the exact sum
        for row in rows:
            self.assertLessEqual(float(row["err_max"]), float(row["abs"]) + rounding, row)
            self.assertTrue(0 < float(row["bytes_per_element"]) < 8.1, row)
        self.assertEqual(len(table), 2 + 9)

    def test_a_build_that_is_not_there_is_named(self):
        done = subprocess.run([os.path.join(ROOT, "scripts/bound"), "--build", "/nowhere", "--side", "8", "-o", os.devnull], check=False,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere", done.stdout)


if __name__ == "__main__":
    unittest.main()
