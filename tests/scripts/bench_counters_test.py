"""mpiq-bench --counters with events of the kernel, which virtual machines count, too. Usage: bench_counters_test.py BIN MPIEXEC..."""
import csv
import io
import json
import math
import os
import subprocess
import sys
import unittest

import h5py
from needs import needs
from result_files import WithFiles, points_of, tool

BIN, *MPIEXEC = sys.argv[1:]
del sys.argv[1:]
TIME, NONE = "perf::TASK-CLOCK", "perf::NO-SUCH-EVENT"


def bench(*words):
    return subprocess.run([*MPIEXEC, "2", os.path.join(BIN, "mpiq-bench"), "allreduce", "--sizes", "256K", "--methods", "mpi,bf16", "-n", "10", *words],
                          capture_output=True, text=True, check=False, timeout=200)


def counted(path):
    """(method, event, phase) -> the row of /counters."""
    with h5py.File(path) as file:
        methods = [row["method"].decode() for row in file["points"][...]]
        return {(methods[row["point_id"]], row["event"].decode(), row["phase"].decode()): row for row in file["counters"][...]}


def why_not():
    """Why nothing can be counted here; '' if the kernel's events can."""
    done = bench("--counters", TIME)
    return done.stderr.strip() if "cannot count" in done.stderr else ""


@needs("libpapi-dev", "no PAPI" not in subprocess.run([os.path.join(BIN, "mpiq-bench"), "allreduce", "--help"], capture_output=True, text=True, check=True).stdout,
       "the test of --counters")
class Counters(WithFiles):
    @classmethod
    def setUpClass(cls):
        if problem := why_not():
            raise unittest.SkipTest(problem)

    def test_the_time_of_the_task_in_a_call_and_in_its_steps(self):
        path = self.path("a.h5")
        done = bench("--counters", f"{TIME},{NONE}", "-O", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(done.stderr, rf"^mpiq-bench: warning: --counters: rank 0 cannot count {NONE} \(.+\)$")
        rows = counted(path)
        self.assertEqual({key[1:] for key in rows if key[0] == "mpi"}, {(event, phase) for event in (TIME, NONE) for phase in ("call", "empty")})
        self.assertTrue(all(math.isnan(row["count"]) and math.isnan(row["count_max"]) for key, row in rows.items() if key[1] == NONE))
        of = {phase: rows["bf16", TIME, phase] for phase in ("call", "encode", "decode", "empty")}
        for phase in ("encode", "decode"):
            self.assertGreater(of[phase]["count"], of[phase]["times"] * of["empty"]["count"] / 2, "nanoseconds of a step")
            self.assertGreaterEqual(of[phase]["times"], 1)
            self.assertGreaterEqual(of[phase]["count_max"], of[phase]["count"])
        self.assertGreater(of["call"]["count"], 1000)
        self.assertIn(f"#   counters: {TIME} ", done.stdout)
        with h5py.File(path) as file:
            self.assertIn(NONE.encode(), b"".join(file["events"]["text"]))
        checked = tool("check_results", path)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""), checked.stdout)
        self.assertEqual(bench("-O", self.path("b.h5")).returncode, 0)
        sent = [{row["method"]: int(row["wire_bytes_sum"]) for row in points_of(self.path(name))} for name in ("a.h5", "b.h5")]
        self.assertEqual(sent[0], sent[1], "bytes of a call, however many calls there were")
        with h5py.File(self.path("b.h5")) as file:
            self.assertNotIn("counters", file)

    def test_texts_and_merged_files_have_what_was_counted(self):
        done = bench("--counters", f"{TIME},{NONE}", "--format", "csv", "-O", self.path("a.h5"))
        printed, exported = (list(csv.DictReader(io.StringIO(text))) for text in (done.stdout, tool("export", self.path("a.h5")).stdout))
        self.assertEqual([list(row) for row in printed], [list(row) for row in exported])
        for one, other in zip(printed, exported):
            self.assertEqual([one[name] and float(one[name]) for name in one if "::" in name], [other[name] and float(other[name]) for name in other if "::" in name])
        bf16 = next(row for row in printed if row["method"] == "bf16")
        self.assertEqual(float(bf16[f"{TIME}.decode"]), counted(self.path("a.h5"))["bf16", TIME, "decode"]["count"])
        self.assertEqual(bf16[f"{NONE}.call"], "")
        self.assertEqual(bench("--counters", TIME, "--launch-index", "1", "-O", self.path("b.h5")).returncode, 0)
        merged = tool("merge", self.path("b.h5"), self.path("a.h5"), "-o", self.path("m.h5"))
        self.assertEqual(merged.returncode, 0, merged.stderr)
        self.assertEqual(tool("check_results", self.path("m.h5")).returncode, 0)
        rows = json.loads(tool("export", "--format", "json", self.path("m.h5")).stdout)["rows"]
        self.assertEqual(len(rows), 4)
        for row in rows:
            name = "b.h5" if row["launch"] == 1 else "a.h5"
            self.assertEqual(row[f"{TIME}.call"], counted(self.path(name))[row["method"], TIME, "call"]["count"])
        page = self.path("page.html")
        self.assertEqual(tool("report", self.path("m.h5"), "-o", page).returncode, 0)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("Events of the processor", text)
        self.assertIn(f"<th>{TIME}</th>", text)


if __name__ == "__main__":
    unittest.main()
