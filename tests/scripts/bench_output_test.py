"""What mpiq-bench prints with --format osu, --format csv and -G. Usage: bench_output_test.py BIN MPIEXEC..."""
import csv
import io
import os
import re
import subprocess
import sys
import unittest

from result_files import WithFiles, tool

BIN, *MPIEXEC = sys.argv[1:]
del sys.argv[1:]
SIZES = (65536, 100000, 262144)
# What parsers of osu_allreduce look for. The first two are ReFrame's way: a size at the beginning of a line,
# then the figure.
SANITY = re.compile(r"^65536\s+", re.M)
FIGURE = r"^{size}\s+(?P<latency>\S+)\s*"
TWO_DENSITIES = ("--density", "0.01,0.1", "--methods", "mpi,union")
HEAD = re.compile(r"^# Size\s+Avg Latency\(us\)\s+Min Latency\(us\)\s+Max Latency\(us\)\s+Iterations$", re.M)


def bench(*words, ranks=2, before=(), subcommand="allreduce"):
    return subprocess.run([*before, *MPIEXEC, str(ranks), os.path.join(BIN, "mpiq-bench"), subcommand, "--sizes", ",".join(map(str, SIZES)), "-n", "8", *words],
                          capture_output=True, text=True, check=False, timeout=100)


class Osu(unittest.TestCase):
    def test_parsers_of_osu_allreduce_read_it(self):
        done = bench("--methods", "bf16", "--format", "osu")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, SANITY)
        self.assertEqual(len(HEAD.findall(done.stdout)), 1)
        rows = [line.split() for line in done.stdout.splitlines() if line and line[0] != "#"]
        self.assertEqual([int(row[0]) for row in rows], list(SIZES), "ascending, whatever order they were measured in")
        for size, average, least, greatest, repetitions in rows:
            self.assertEqual(re.search(FIGURE.format(size=size), done.stdout, re.M)["latency"], average)
            self.assertTrue(0 < float(least) <= float(average) <= float(greatest), (size, average, least, greatest))
            self.assertGreaterEqual(int(repetitions), 8)

    def test_each_method_has_a_table_of_its_own(self):
        out = bench("--methods", "mpi,onebit", "--format", "osu").stdout
        self.assertEqual(re.findall(r"^# MPI Allreduce Latency Test, mpiq-bench \S+, method (\S+), 2 ranks, f32$", out, re.M), ["mpi", "onebit"])
        self.assertEqual(len(HEAD.findall(out)), 2)

    def test_what_is_no_timing_is_no_row(self):
        cpu = str(min(os.sched_getaffinity(0)))
        out = bench("--methods", "bf16", "--format", "osu", before=("taskset", "-c", cpu)).stdout
        self.assertEqual(re.findall("(?m)^# (.*): more ranks than CPUs, no timing$", out), [str(size) for size in SIZES])
        self.assertNotRegex(out, SANITY)


    def test_a_sparse_sweep_has_a_table_for_each_kind_of_lists(self):
        done = bench(*TWO_DENSITIES, "--format", "osu", subcommand="sparse")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        titles = re.findall(r"^# Sparse Allreduce Latency Test, mpiq-bench \S+, method (\S+), 2 ranks, f32, density=([\d.]+),", done.stdout, re.M)
        self.assertEqual(sorted(titles), [(method, density) for method in ("mpi", "union") for density in ("0.01", "0.1")])
        for table in HEAD.split(done.stdout)[1:]:
            self.assertEqual([int(line.split()[0]) for line in table.splitlines() if line and line[0] != "#"], list(SIZES), "each size once")


class Csv(WithFiles):
    def test_it_is_what_export_makes_of_the_file(self):
        path = self.path("a.h5")
        done = bench("--format", "csv", "-O", path, "--methods", "mpi,bf16(round=stochastic)")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        printed = list(csv.DictReader(io.StringIO(done.stdout)))
        exported = {row["key"]: row for row in csv.DictReader(io.StringIO(tool("export", path).stdout))}
        self.assertEqual(len(printed), 2 * len(SIZES))
        for row in printed:
            other = exported[row["key"]]
            self.assertEqual(list(row), list(other))
            for name, value in row.items():
                same = value == other[name] or float(value) == float(other[name])
                self.assertTrue(same, (name, value, other[name]))

    def test_going_on_prints_no_other_line(self):
        path = self.path("a.h5")
        self.assertTrue(bench("--format", "csv", "-O", path).stdout)
        self.assertEqual(bench("--format", "csv", "-O", path).stdout, "")


class Usage(unittest.TestCase):
    def test_what_does_not_go_together_is_refused(self):
        for words, named in ((("--format", "xml"), "'xml' is none of table, osu, csv"), (("--format", "csv", "-G"), "--graph"),
                             (("--format", "csv", "--phases"), "--phases")):
            done = bench(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(named, done.stderr)


class Graph(unittest.TestCase):
    def test_each_method_has_a_letter_and_larger_sizes_are_to_the_right(self):
        done = bench("--methods", "mpi,bf16,mpi#2", "-G")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout[done.stdout.index("# time over size, 2 ranks, f32"):].splitlines()
        self.assertEqual([line.split()[1:] for line in lines[-3:]], [["a", "mpi"], ["b", "bf16"], ["c", "mpi#2"]])
        drawn = [line.partition("|")[2] for line in lines if "|" in line]
        marks = [(x, mark) for line in drawn for x, mark in enumerate(line) if mark != " "]
        self.assertEqual(len({x for x, _ in marks}), len(SIZES))
        self.assertLessEqual({mark for _, mark in marks}, set("abc*"))
        self.assertTrue(all(len(line) <= 80 for line in lines), lines)
        self.assertTrue(drawn[0].strip() and drawn[-1].strip(), "the axis ends where points are")

    def test_a_sparse_sweep_has_a_picture_for_each_kind_of_lists(self):
        out = bench(*TWO_DENSITIES, "-G", subcommand="sparse").stdout
        self.assertEqual(re.findall(r"^# time over size, 2 ranks, f32;.*\n# density=([\d.]+),", out, re.M), ["0.01", "0.1"])

    def test_what_is_no_timing_is_not_drawn(self):
        done = bench("--methods", "bf16", "-G", before=("taskset", "-c", str(min(os.sched_getaffinity(0)))))
        self.assertEqual(done.returncode, 0)
        self.assertIn("!", done.stdout, "more ranks than CPUs")
        self.assertNotIn("# time over size", done.stdout)


class Alone(unittest.TestCase):
    def test_a_single_rank_is_told_that_nothing_is_exchanged(self):
        words = os.path.join(BIN, "mpiq-bench"), "allreduce", "--sizes", "64K", "-n", "6", "--methods", "bf16"
        for format_words in ((), ("--format", "osu")):
            done = subprocess.run([*words, *format_words], capture_output=True, text=True, check=False, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("\n# 1 rank: nothing is exchanged; start it with a launcher, such as mpiexec -n 2 mpiq-bench", done.stdout)
        self.assertNotIn("nothing is exchanged", bench("--methods", "bf16", "--format", "osu").stdout)


class Detours(unittest.TestCase):
    def test_time_that_a_rank_does_not_get_is_in_the_rows(self):
        """Two ranks on one processor take it from each other."""
        done = bench("--methods", "bf16", "--format", "csv", before=("taskset", "-c", str(min(os.sched_getaffinity(0)))))
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual(len(rows), len(SIZES), done.stderr)
        self.assertTrue(all(0 <= float(row["detour"]) <= 1 for row in rows), rows)
        self.assertGreater(max(float(row["detour_max_s"]) for row in rows), 5e-4)


if __name__ == "__main__":
    unittest.main()
