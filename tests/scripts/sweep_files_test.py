"""Tests of bench/sweeps and of scripts/sweep with mpiq-bench itself: sweep_files_test.py MPIQ_BENCH MPIEXEC."""
import glob
import os
import signal
import subprocess
import sys
import unittest

from result_files import ROOT, InTemporaryFolder, call, points_of, script, tool

from mpi_quant.sweep import sweep_files

BENCH, MPIEXEC = os.path.abspath(sys.argv[1]), sys.argv[2]
FILES = sorted(glob.glob(os.path.join(ROOT, "bench", "sweeps", "*.toml")))
TINY = """
[allreduce]
sizes = ["4K", "8K"]
methods = ["mpi", "bf16"]
iters = 20
buffers = "warm"
[launch]
launches = 3
ranks = 1
"""


def sweep(*arguments):
    words = [script("sweep"), "--bin", os.path.dirname(BENCH), "--mpiexec", MPIEXEC, *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


class Shipped(unittest.TestCase):
    def test_every_file_is_understood_by_both_readers(self):
        self.assertGreaterEqual(len(FILES), 8)
        for path in FILES:
            with self.subTest(path=os.path.basename(path)):
                content = sweep_files.read(path)
                ranks = [str(max(cell.ranks for cell in sweep_files.cells(content)))]
                done = subprocess.run([MPIEXEC, "-n", *ranks, BENCH, "--config", path, content.section, "--dry-run"],
                                      capture_output=True, text=True, check=False)
                if 'unexpected "#2"' in done.stderr:
                    self.skipTest("this mpiq-bench cannot measure a method twice")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, r"# \d+ points of \d+ methods")
                for key, values in content.varied.items():
                    for value in values:
                        done = subprocess.run([BENCH, "--config", path, content.section, f"--{key}={value}", "--ranks", "1", "--dry-run"],
                                              capture_output=True, text=True, check=False)
                        self.assertEqual(done.returncode, 0, done.stderr)

    def test_quick_and_reference_have_what_the_readme_quotes(self):
        for name in ("quick", "reference"):
            content = sweep_files.read(os.path.join(ROOT, "bench", "sweeps", name + ".toml"))
            self.assertIn("mpi/*", content.options["methods"], "the best of the MPI library's own algorithms")
            self.assertEqual(content.links[:2], ("shm", "2x1gbit"))


class Tiny(InTemporaryFolder):
    def test_three_launches_are_measured_merged_checked_and_drawn(self):
        with open(self.path("tiny.toml"), "w", encoding="utf-8") as file:
            file.write(TINY)
        done = sweep(self.path("tiny.toml"), "--out", self.path("out"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("0 violations", done.stdout)
        table = points_of(self.path("out", "shm.h5"))
        self.assertEqual([(row["launch"], row["link"]) for row in table], [(launch, b"shm") for launch in (0, 1, 2) for _ in range(4)])
        drawn = tool("plot", "launches", self.path("out", "shm.h5"), "-o", self.folder)
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        again = sweep(self.path("tiny.toml"), "--out", self.path("out"))
        self.assertEqual(again.stdout.count("is complete"), 3, again.stdout)

    def test_a_signal_takes_the_lab_down(self):
        if "HYDRA" not in call(MPIEXEC, "--version").stdout or call(script("lab"), "check").returncode != 0:
            self.skipTest("no lab can be made here, or not for this MPI library")
        with open(self.path("tiny.toml"), "w", encoding="utf-8") as file:
            file.write(TINY)
        words = [script("sweep"), self.path("tiny.toml"), "--bin", os.path.dirname(BENCH), "--mpiexec", MPIEXEC, "--out", self.path("out"),
                 "--labs", "2x1gbit", "--launches", "1", "--", "--iters", "100000"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            for line in process.stdout:
                if line.startswith(b"#       size"):  # about to measure
                    break
            self.assertIn(f"s{process.pid}-1", call("ip", "netns", "list").stdout)
            process.terminate()
            process.stdout.read()
            self.assertEqual(process.wait(), 128 + signal.SIGTERM)
        for what in (("netns", "list"), ("-o", "link")):
            self.assertNotIn(f"s{process.pid}", call("ip", *what).stdout)

    def test_a_dry_run_speaks_of_points_memory_and_time(self):
        done = sweep(os.path.join(ROOT, "bench", "sweeps", "quick.toml"), "--dry-run", "--labs", "shm")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"shm-0 +3 points +2 ranks +\S+B each +about \d+ s\n# .*quick.toml: 1 launches, about \d+ s")

    def test_a_usage_error_of_the_file_comes_before_any_launch(self):
        with open(self.path("bad.toml"), "w", encoding="utf-8") as file:
            file.write('[allreduce]\nmethods = ["mpi", "nosuch"]\n')
        done = sweep(self.path("bad.toml"), "--out", self.path("out"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("nosuch", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
