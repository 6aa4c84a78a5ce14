"""The lines of Python in docs/preload.md that state a key, in a program of mpi4py: key_test.py MPIQ_RUN MPIEXEC. Called with "sum" it
is that program."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def lines_of_page():
    with open(os.path.join(ROOT, "docs", "preload.md"), encoding="utf-8") as file:
        (block,) = re.findall(r"^```python\n(.*?)^```", file.read(), re.S | re.M)
    return block.splitlines(keepends=True)


def sum_with_keys():
    import numpy as np
    from mpi4py import MPI
    lines = lines_of_page()
    names = {}
    exec("".join(lines[:-1]), names)  # the last line stands before each sum
    random = np.random.default_rng(MPI.COMM_WORLD.rank)
    total = np.empty(100000, np.float32)
    for _ in range(10):
        exec(lines[-1], names)
        MPI.COMM_WORLD.Allreduce(random.standard_normal(100000).astype(np.float32), total)


class Key(unittest.TestCase):
    def run_program(self, *before):
        return subprocess.run([MPIEXEC, "-n", "2", *before, sys.executable, os.path.realpath(__file__), "sum"], capture_output=True,
                              text=True, timeout=90, check=False)

    def test_each_sum_finds_what_the_one_before_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            done = self.run_program(RUN, "--policy", "64K-: onebit", "--report", report)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(report, encoding="utf-8") as file:
                classes = json.load(file)["classes"]
        (feedback,) = [c["feedback"] for c in classes if c["reasons"].get("compressed")]
        self.assertEqual({name: count for name, count in feedback.items() if count}, {"fresh": 2, "hit": 2 * 9})

    def test_without_the_library_the_lines_do_nothing(self):
        done = self.run_program()
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    if sys.argv[1:] == ["sum"]:
        sum_with_keys()
    else:
        RUN, MPIEXEC = sys.argv[1:3]
        unittest.main(argv=sys.argv[:1])
