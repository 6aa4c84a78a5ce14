"""mpiq-bench --overlap: calls that do not block, with computation between start and end; --form and --window: such calls, and persistent ones, one or
several in flight. Usage: bench_overlap_test.py BIN MPIEXEC..."""
import os
import re
import subprocess
import sys
import unittest

from result_files import WithFiles, points_of, tool

BIN, *MPIEXEC = sys.argv[1:]
del sys.argv[1:]
SIZE = 1 << 18


def bench(*words):
    return subprocess.run([*MPIEXEC, "2", os.path.join(BIN, "mpiq-bench"), "allreduce", "--sizes", str(SIZE), "--methods", "mpi,bf16",
                           "--overlap", "50,200", "-n", "8", *words], capture_output=True, text=True, check=False, timeout=200)


class Overlap(WithFiles):
    def test_each_method_computes_for_each_length_and_not_at_all(self):
        path = self.path("a.h5")
        done = bench("-O", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(re.findall(r"computing 200 % \([^)]*\): overlap [\d-]+ %", done.stdout)), 2, done.stdout)
        rows = points_of(path)
        self.assertEqual({(row["collective"], row["status"], int(row["n_wrong"]), int(row["test_interval_us"])) for row in rows}, {(b"iallreduce", b"ok", 0, 100)})
        found = {(row["method"].decode(), int(row["compute_percent"])): row for row in rows}
        self.assertEqual(set(found), {(method, percent) for method in ("mpi", "bf16") for percent in (0, 50, 200)})
        for (method, percent), row in found.items():
            if percent == 0:
                self.assertTrue(row["overlap"] != row["overlap"] and row["t_pure_s"] != row["t_pure_s"], "no computation, no overlap")
                continue
            self.assertEqual(row["t_pure_s"], found[method, 0]["t_median_s"])
            self.assertTrue(0 <= row["overlap_lo"] <= row["overlap"] <= row["overlap_hi"] <= 100)
            self.assertEqual(row["base_key"], found["mpi", percent]["key"], "speed-ups are of equal computation")
            self.assertGreater(row["t_compute_s"], 0)
        for percent in (50, 200):
            lengths = [found[method, percent]["t_compute_s"] for method in ("mpi", "bf16")]
            self.assertLess(max(lengths), 4 * min(lengths), "all methods compute as long")
        checked = tool("check_results", path)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""), checked.stdout)
        self.assertEqual(bench("-O", path, "--format", "csv").stdout, "", "nothing is left to do")
        self.drawn(path)

    def drawn(self, path):
        """The figure and the page have the rows that compute, the other figures those that do not."""
        for name in ("overlap", "time"):
            drawn = tool("plot", name, path, "-o", self.path("figures"))
            self.assertEqual(drawn.returncode, 0, drawn.stderr)
        lines = {}
        for name in ("overlap", "time"):
            with open(self.path("figures", f"a-{name}.csv"), encoding="utf-8") as file:
                lines[name] = file.read().splitlines()[1:]
        self.assertEqual(sorted({line.split(",")[-4] for line in lines["overlap"]}), ["0.5", "2"])
        self.assertEqual(len(lines["time"]), 2, "a line for each method")
        self.assertEqual(tool("report", path, "-o", self.path("report.html")).returncode, 0)
        with open(self.path("report.html"), encoding="utf-8") as file:
            self.assertIn("hidden behind computation", file.read())

    def test_the_text_is_that_of_osu_iallreduce(self):
        out = bench("--format", "osu", "--test-interval", "0").stdout
        titles = re.findall(r"^# MPI Non-blocking Allreduce Latency Test, mpiq-bench \S+, method (\S+), 2 ranks, f32, computing (\d+) %$", out, re.M)
        self.assertEqual(sorted(titles), [("bf16", "200"), ("bf16", "50"), ("mpi", "200"), ("mpi", "50")])
        self.assertEqual(len(re.findall(r"^#\s+Size\s+Overall\(us\)\s+Compute\(us\)\s+Pure Comm\.\(us\)\s+Overlap\(%\)\s*$", out, re.M)), 4)
        rows = [[float(word) for word in line.split()] for line in out.splitlines() if line and line[0] != "#"]
        self.assertEqual(len(rows), 4)
        for size, overall, compute, pure, overlap in rows:
            self.assertEqual(size, SIZE)
            self.assertTrue(min(overall, compute, pure) > 0 and 0 <= overlap <= 100)


class Form(WithFiles):
    def rows(self, name, *words, collective="allreduce", methods="mpi,bf16,onebit"):
        """method -> row."""
        path = self.path(name)
        done = subprocess.run([*MPIEXEC, "2", os.path.join(BIN, "mpiq-bench"), collective, "--sizes", str(SIZE), "--methods", methods, "-n", "6",
                               *words, "-O", path], capture_output=True, text=True, check=False, timeout=200)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        checked = tool("check_results", path)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""), checked.stdout)
        return {row["method"].decode(): row for row in points_of(path)}

    def test_all_calls_in_flight_are_checked_and_count_as_one_each(self):
        plain = self.rows("plain.h5")
        for form, words in (("nonblocking", ()), ("persistent", ("--buffers", "warm"))):
            rows = self.rows(f"{form}.h5", "--form", form, "--window", "3", *words)
            if rows["mpi"]["status"] == b"skipped":  # an MPI before MPI 4
                self.assertEqual((form, b"no persistent collectives" in rows.pop("mpi")["note"]), ("persistent", True))
            for method, row in rows.items():
                self.assertEqual((row["status"], row["form"].decode(), int(row["window"]), int(row["n_wrong"])), (b"ok", form, 3, 0), method)
                if method != "mpi":
                    self.assertEqual((int(row["replicas_equal"]), row["wire_bytes_max"]), (1, plain[method]["wire_bytes_max"]), "of one call")
            self.assertEqual(rows["onebit"]["residual_bytes"], 3 * plain["onebit"]["residual_bytes"], "each call has its own")
        self.assertEqual({(row["form"], int(row["window"])) for row in plain.values()}, {(b"blocking", 1)})
        drawn = tool("plot", "time", self.path("plain.h5"), self.path("nonblocking.h5"), "-o", self.path("figures"))
        self.assertEqual(drawn.returncode, 1)
        self.assertIn("rows differ in form", drawn.stderr)

    def test_the_other_collectives_have_these_forms(self):
        for collective in ("reduce_scatter", "allgather", "bcast", "reduce"):
            plain = self.rows(f"{collective}.h5", collective=collective)
            # MPI_Allgather_init of MPICH 4.0.2 gives a wrong result from its second start on.
            for form, words, methods in (("nonblocking", (), "mpi,bf16,onebit"), ("nonblocking", ("--in-place",), "mpi,bf16,onebit"),
                                         ("persistent", ("--buffers", "warm"), "bf16,onebit")):
                rows = self.rows(f"{collective}-{form}{len(words)}.h5", "--form", form, "--window", "3", *words, collective=collective, methods=methods)
                self.assertEqual(len(rows), len(methods.split(",")))
                for method, row in rows.items():
                    self.assertEqual((row["status"], row["collective"].decode(), row["form"].decode(), int(row["window"]), int(row["n_wrong"])),
                                     (b"ok", collective, form, 3, 0), method)
                    if method != "mpi":
                        self.assertEqual((row["replicas_equal"], row["wire_bytes_max"]), tuple(plain[method][["replicas_equal", "wire_bytes_max"]]))


if __name__ == "__main__":
    unittest.main()
