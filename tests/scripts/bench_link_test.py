"""mpiq-bench link: what it prints is a network for mpiq-simulate, and its file keeps the rules.
Usage: bench_link_test.py BIN MPIEXEC..."""
import os
import re
import subprocess
import sys
import unittest

from result_files import WithFiles, points_of, tool
from scripts_common import call

BIN, *MPIEXEC = sys.argv[1:]
del sys.argv[1:]


def link(ranks, *words):
    return subprocess.run([*MPIEXEC, str(ranks), os.path.join(BIN, "mpiq-bench"), "link", *words], capture_output=True, text=True, check=False)


class Link(WithFiles):
    def test_what_it_prints_is_a_network(self):
        path = self.path("link.h5")
        done = link(2, "--sizes", "64,1K,64K", "-n", "20", "--link", "here", "-O", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        found = done.stdout.splitlines()[-1]
        self.assertRegex(found, re.compile(r"^[\d.e+-]+us/[\d.e+-]+us/[\d.e+]+MB(/0us/[\d.e+]+MB)?$"))
        simulated = call(os.path.join(BIN, "mpiq-simulate"), "--sparse", "--ranks", "4", "--sizes", "64K", "--methods", "kylix", "--link", found)
        self.assertEqual((simulated.returncode, simulated.stderr), (0, ""))
        checked = tool("check_results", path)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""), checked.stdout)
        points = points_of(path)
        self.assertEqual({(row["collective"], row["method"], row["status"], int(row["n_wrong"])) for row in points},
                         {(b"link", b"mpi/single", b"ok", 0), (b"link", b"mpi/burst", b"ok", 0)})
        drawn = tool("plot", "time", path, "-o", self.path("figures"))
        self.assertEqual(drawn.returncode, 1, drawn.stdout)
        self.assertIn("no reductions: there is nothing to draw", drawn.stderr)
        again = link(2, "--sizes", "64,1K,64K", "-n", "20", "--link", "here", "-O", path)
        self.assertEqual(again.stdout.splitlines()[-1], found)

    def test_pairs_and_two_sizes_are_needed(self):
        for ranks, words, reason in ((3, (), "not pairs"), (2, ("--sizes", "1K"), "two sizes"), (2, ("--sizes", "1K,128M"), "more than")):
            done = link(ranks, *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(reason, done.stderr)


if __name__ == "__main__":
    unittest.main()
