"""Tests of scripts/merge, compare and export, and of the readers in results/README.md, on committed result files.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/result_tools_test.py
"""
import contextlib
import csv
import errno
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

from result_files import NO_CACHE, OTHER, OVER, SMALL, SPARSE, WithFiles, points_of, rescale, tool
from scripts_common import PACKAGE, ROOT, call, script

from mpi_quant.results import reader


class Checksums(WithFiles):
    def test_a_merged_file_has_one_in_every_dataset(self):
        self.assertEqual(tool("merge", SMALL, OTHER, "-o", self.path("merged.h5")).returncode, 0)
        self.assertGreaterEqual(len(self.check_damage(self.path("merged.h5"))), 18)


class NoLocks(WithFiles):
    """A file system whose flock fails, as NFS without its lock daemon, Lustre without flock, and others."""

    SOURCE = """#include <errno.h>
#include <stdlib.h>
int flock(int file, int operation) { (void)file; (void)operation; errno = atoi(getenv("FAKE_ERRNO")); return -1; }
"""
    CODE = """import os, sys
from mpi_quant.__main__ import main
file, folder, *errors = sys.argv[1:]
for error in errors:
    os.environ["FAKE_ERRNO"] = error
    for words in (["check", file], ["merge", file, "-o", f"{folder}/{error}.h5"], ["export", file, "-o", f"{folder}/{error}.csv"]):
        print(f"{words[0]} with {error} ends with {main(words)}")
"""

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_files_are_read_and_written(self):
        with open(self.path("flock.c"), "w", encoding="utf-8") as file:
            file.write(self.SOURCE)
        subprocess.run(["cc", "-shared", "-fPIC", self.path("flock.c"), "-o", self.path("flock.so")], check=True)
        errors = (errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO, errno.ENOSYS, 524)
        # All in one process, whose start takes longer than the rest.
        env = {**os.environ, **NO_CACHE, "LD_PRELOAD": self.path("flock.so"), "PYTHONPATH": PACKAGE}
        done = subprocess.run([sys.executable, "-c", self.CODE, SMALL, self.folder, *map(str, errors)], capture_output=True, text=True, check=False, env=env)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        for error in errors:
            for name in ("check", "merge", "export"):
                self.assertIn(f"{name} with {error} ends with 0\n", done.stdout)
            self.assertEqual(len(points_of(self.path(f"{error}.h5"))), len(points_of(SMALL)))


class Merge(WithFiles):
    def merged(self, *paths, code=0):
        done = tool("merge", "--replace", "-o", self.path("out.h5"), *paths)
        self.assertEqual(done.returncode, code, done.stderr)
        return self.path("out.h5") if code == 0 else done.stderr

    def assert_passes(self, path):
        done = tool("check_results", path)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_parts_give_the_whole_again(self):
        parts = [self.part(list(range(0, 6)), "1.h5"), self.part(list(range(6, 18)), "2.h5")]
        whole, original = self.merged(*parts), points_of(SMALL)
        rows = points_of(whole)
        for name in original.dtype.names:
            self.assertEqual(rows[name].tobytes(), original[name].tobytes(), name)
        self.assertEqual(rows["run"].tolist(), [0] * 6 + [1] * 12)
        with h5py.File(whole) as new, h5py.File(SMALL) as old:
            for name in ("t_max_s", "t_span_s", "skew_in_s", "order", "valid"):
                self.assertEqual(new["samples"][name][...].tobytes(), old["samples"][name][...].tobytes(), name)
                self.assertEqual(dict(new["samples"][name].attrs).get("long_name"), old["samples"][name].attrs["long_name"])
            self.assertEqual(new["phases/exposed_s"][...].tobytes(), old["phases/exposed_s"][...].tobytes())
            self.assertEqual(new["inputs"][...].tolist(), old["inputs"][...].tolist())
            self.assertEqual([new[f"runs/{i}"].attrs["file"] for i in (0, 1)], [b"1.h5", b"2.h5"])
        self.assert_passes(whole)

    def test_files_of_different_width_columns_and_inputs_go_together(self):
        whole = self.merged(SMALL, OTHER, SPARSE)
        self.assert_passes(whole)
        results = reader.read(whole)
        self.assertEqual(len(results.points), 18 + 18 + 9)
        self.assertEqual(results.attrs["hosts"], ["vm"])
        for path, first in ((SMALL, 0), (OTHER, 18), (SPARSE, 36)):
            alone = reader.read(path)
            for i, row in enumerate(alone.points):
                mine = results.points[first + i]
                self.assertEqual(mine["data"], row["data"])
                self.assertEqual((mine["key"], mine["matrix_side"]), (row["key"], row["matrix_side"]))
                n = row["reps"]
                self.assertEqual(results.samples[first + i][:n].tobytes(), alone.samples[i][:n].tobytes())
                self.assertTrue(np.isnan(results.samples[first + i][n:]).all())
        done = tool("plot", "speedup", whole, "-o", self.path("figures"), "--format", "pdf", "--where", "collective=allreduce")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_merged_files_can_be_merged_and_the_bytes_are_the_same_again(self):
        first = shutil.copy(self.merged(SMALL, OTHER), self.path("first.h5"))
        again = self.merged(SMALL, OTHER)
        with open(first, "rb") as a, open(again, "rb") as b:
            self.assertEqual(a.read(), b.read())
        both = self.merged(first, SPARSE)
        self.assert_passes(both)
        self.assertEqual(sorted(set(points_of(both)["run"].tolist())), [0, 1, 2])

    def test_the_same_key_twice_is_refused_unless_the_earlier_failed_or_force_is_given(self):
        twin = self.copy(SMALL, "twin.h5")
        reason = self.merged(SMALL, twin, code=1)
        self.assertIn("18 rows of the same key", reason)
        self.assertFalse(os.path.exists(self.path("out.h5")))
        self.assertEqual([name for name in os.listdir(self.folder) if "tmp" in name], [])
        self.assert_passes(self.merged(SMALL, twin, "--force"))
        failed = self.change(self.part([0, 1, 2], "failed.h5"), status=(1, b"failed"), note=(1, b"no memory"))
        whole = self.merged(failed, SMALL)
        self.assert_passes(whole)
        self.assertEqual(len(points_of(whole)), 21)
        self.assertEqual(set(reader.read(whole).points["status"]), {"ok"})

    def test_launches_stay_and_make_a_publication(self):
        paths = [self.launch(i) for i in range(10)]
        whole = self.merged(*paths)
        self.assert_passes(whole)
        self.assertEqual(set(points_of(whole)["grade"]), {b"smoke"}, "ten smoke tests are not worth more than one")
        for path in paths:
            self.change(path, grade=(slice(None), b"normal"))
        self.change(paths[3], status=(1, b"invalid"), note=(1, b"1 wrong elements"))
        whole = self.merged(*paths)
        self.assert_passes(whole)
        found = [set(points_of(whole)["grade"][first::3]) for first in range(3)]
        self.assertEqual(found, [{b"publication"}, {b"normal"}, {b"publication"}], "nine good launches are not ten")
        with h5py.File(paths[5], "a") as file:
            file.attrs["git_dirty"] = np.uint8(1)
        self.assertEqual(set(points_of(self.merged(*paths))["grade"]), {b"normal"})

    def test_a_file_that_exists_is_replaced_only_when_told(self):
        with open(self.path("mine.h5"), "w", encoding="utf-8") as file:
            file.write("mine\n")
        done = tool("merge", "-o", self.path("mine.h5"), SMALL)
        self.assertEqual(done.returncode, 2)
        self.assertIn("mine.h5 exists", done.stderr)
        with open(self.path("mine.h5"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine\n")
        for word in ("--replace", "--force"):
            self.assertEqual(tool("merge", word, "-o", self.path("mine.h5"), SMALL).returncode, 0)

    def test_bad_input_is_named(self):
        with open(self.path("text.h5"), "w", encoding="utf-8") as file:
            file.write("size,time\n")
        self.assertIn("not an HDF5 file", self.merged(SMALL, self.path("text.h5"), code=1))
        self.assertEqual(tool("merge", SMALL).returncode, 2)


class Compare(WithFiles):
    def compare(self, *arguments, code=0):
        done = tool("compare", *arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout if code < 2 else done.stderr

    def scaled(self, factor, name="b.h5"):
        path = self.copy(SMALL, name)
        rescale(path, factor)
        return path

    def test_a_file_is_not_different_from_itself(self):
        out = self.compare(SMALL, SMALL)
        self.assertEqual(out.count("no difference"), 18)
        self.assertIn("18 rows in both, 0 slower", out)
        self.assertIn("fewer than 6 launches", out)

    def test_a_slower_file_is_caught_and_a_faster_one_is_not(self):
        slower = self.scaled(1.3)
        self.assertEqual(tool("check_results", slower).returncode, 0)
        out = self.compare(SMALL, slower, code=1)
        self.assertEqual(out.count("1.300 "), 18)
        caught = int(re.search(r", (\d+) slower", out).group(1))
        self.assertGreaterEqual(caught, 15)
        self.assertEqual(out.count("  slower\n"), caught)
        self.compare(SMALL, slower, "--max-slower", "40")
        self.assertEqual(self.compare(slower, SMALL).count("  faster\n"), caught)

    def test_the_gate_is_the_lower_end_of_the_interval(self):
        path = self.copy()
        row = points_of(path)[0]
        a, b = self.change(self.copy(SMALL, "a.h5")), self.copy(SMALL, "b.h5")
        for p, low, high in ((a, 0.9, 1.0), (b, 1.1, 1.2)):
            self.change(p, t_median_s=(0, row["t_median_s"]), t_ci_lo_s=(0, low * row["t_median_s"]),
                        t_ci_hi_s=(0, high * row["t_median_s"]))
        key = ["--where", f"key={row['key'].decode()}"]
        self.assertIn("1.100 .. 1.333", self.compare(a, b, *key, code=1))
        self.compare(a, b, *key, "--max-slower", "10.1")
        self.compare(a, b, *key, "--max-slower", "9.9", code=1)

    def test_json_says_what_the_exit_code_says(self):
        out = self.path("compare.json")
        for b, code in ((SMALL, 0), (self.scaled(1.3), 1)):
            self.compare(SMALL, b, "--json", out, code=code)
            with open(out, encoding="utf-8") as file:
                found = json.load(file)
            self.assertEqual((found["schema"], found["version"], found["exit_code"], found["problem"], len(found["rows"])), ("mpi_quant.compare", 1, code, "", 18))
            self.assertEqual(any(row["too_slow"] for row in found["rows"]), code == 1)
            self.assertEqual(len({row["name"] for row in found["rows"]}), 18, "names tell rows apart")
            for row in found["rows"]:
                self.assertAlmostEqual(row["value"], row["ratio"] * row["a_s"])
                self.assertEqual(row["unit"], "s")
                self.assertRegex(row["range"], r"^\+- [\d.e-]+$")
                self.assertEqual(row["verdict"] == "slower", row["ratio_low"] > 1)

    def test_json_says_why_nothing_was_compared(self):
        out = self.path("compare.json")
        self.compare(OVER, OVER, "--json", out, code=2)
        with open(out, encoding="utf-8") as file:
            found = json.load(file)
        self.assertEqual((found["exit_code"], found["rows"]), (2, []))
        self.assertIn("more ranks than processors", found["problem"])
        self.compare(SMALL, SMALL, "--json", self.path("none", "x.json"), code=2)

    def test_json_is_written_also_where_nothing_can_be_printed(self):
        out = self.path("compare.json")
        reader, writer = os.pipe()
        os.close(reader)
        for standard_output, problem in ((os.open("/dev/full", os.O_WRONLY), "standard output: No space left on device"), (writer, "Broken pipe")):
            done = subprocess.run([script("compare"), SMALL, SMALL, "--json", out], stdout=standard_output, stderr=subprocess.PIPE, text=True,
                                  check=False, env={**os.environ, **NO_CACHE})
            os.close(standard_output)
            with open(out, encoding="utf-8") as file:
                found = json.load(file)
            os.unlink(out)
            self.assertEqual((done.returncode, found["exit_code"]), (2, 2))
            self.assertIn(problem, found["problem"])
            self.assertEqual(done.stderr, f"scripts/compare: {problem}\n" if problem.startswith("standard output") else "")
            self.assertNotIn("Exception", done.stderr)

    def test_what_cannot_be_read_is_named_also_where_nothing_can_be_printed(self):
        path = self.copy()
        os.truncate(path, 100)
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([script("compare"), SMALL, path], stdout=full, stderr=subprocess.PIPE, text=True, check=False, env={**os.environ, **NO_CACHE})
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, f"^scripts/compare: {re.escape(path)}: damaged HDF5 file .*\n$")

    def test_rows_of_one_file_are_listed(self):
        part = self.part(list(range(3)), "part.h5")
        out = self.compare(SMALL, part)
        self.assertEqual(out.count("only in A: "), 15)
        self.assertEqual(self.compare(part, SMALL).count("only in B: "), 15)

    def test_a_failed_row_is_listed_with_its_reason(self):
        path = self.change(self.copy(), status=(0, b"failed"), note=(0, b"no memory"), t_median_s=(0, np.nan))
        out = self.compare(SMALL, path)
        self.assertIn("only in A, failed in the other (no memory): ", out)
        self.assertIn("17 rows in both", out)

    def test_times_of_invalid_and_oversubscribed_rows_are_not_compared(self):
        self.assertIn("more ranks than processors", self.compare(OVER, OVER, code=2))
        path = self.change(self.copy(), status=(0, b"invalid"), note=(0, b"3 wrong elements"))
        self.assertIn("invalid: 3 wrong elements", self.compare(SMALL, path, code=2))
        self.assertIn("17 rows in both", self.compare(SMALL, path, "--where", "status=ok"))

    def test_files_without_a_common_row_are_refused(self):
        self.assertIn("no row is in both", self.compare(SMALL, OTHER, code=2))
        self.assertIn("no such file", self.compare(SMALL, self.path("none.h5"), code=2))
        self.assertIn("expected COLUMN=VALUE", self.compare(SMALL, SMALL, "--where", "size=3", code=2))

    def test_launches_are_compared_by_their_medians(self):
        files = []
        for factor in (1.0, 1.3):
            paths = [self.launch(i, factor * (1 + 0.01 * i)) for i in range(6)]
            files.append(self.path(f"{factor}.h5"))
            self.assertEqual(tool("merge", "-o", files[-1], *paths).returncode, 0)
        out = self.compare(*files, code=1)
        self.assertEqual(out.count("(6 launches)"), 6)
        self.assertNotIn("fewer than 6 launches", out)
        # The interval of six launches goes from the smallest to the largest: 1.3 / 1.05 to 1.3 * 1.05.
        self.assertEqual(out.count("1.300  1.238 .. 1.365  slower"), 3)


class Export(WithFiles):
    def export(self, *arguments):
        done = call(script("export"), *arguments, env=NO_CACHE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def same_bits(self, text, value, kind):
        if kind == "S":
            self.assertEqual(text, value.decode())
        elif kind == "f" and math.isnan(value) or kind == "i" and value == -1:
            self.assertIn(text, ("", None))
        else:
            self.assertEqual(np.array(text).astype(value.dtype).tobytes(), value.tobytes())

    def test_csv_gives_the_same_bits_again(self):
        for source in (SMALL, SPARSE):
            out = self.path("rows.csv")
            self.export(source, "-o", out)
            with open(out, "rb") as file:
                self.assertEqual(file.read().count(b"\r\n"), 1 + len(points_of(source)))
            with open(out, encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            points = points_of(source)
            self.assertEqual(len(rows), len(points))
            for text, row in zip(rows, points):
                for name in points.dtype.names:
                    self.same_bits(text[name], row[name], points.dtype[name].kind)
                self.assertEqual(text["input_seed"], "1")

    def test_json_is_strict_and_gives_the_same_bits_again(self):
        def refuse(word):
            raise AssertionError(f"{word} is not JSON")

        content = json.loads(self.export(SMALL, "--format", "json", "--samples"), parse_constant=refuse)
        points = points_of(SMALL)
        self.assertEqual(content["git_commit"], "4f315d79a001aa2caccb953dc77d46344bff8d7b")
        self.assertEqual(content["runs"][0]["config"]["rel_ci"], 0.02)
        self.assertEqual(content["units"]["t_median_s"], "s")
        with h5py.File(SMALL) as file:
            samples, order = file["samples/t_max_s"][...], file["samples/order"][...]
        for i, (found, row) in enumerate(zip(content["rows"], points)):
            for name in points.dtype.names:
                self.same_bits(found[name], row[name], points.dtype[name].kind)
            n = row["reps"]
            self.assertEqual(np.array(found["samples"]["t_max_s"]).tobytes(), samples[i, :n].tobytes())
            self.assertEqual(found["samples"]["order"], order[i, :n].tolist())

    def test_samples_are_a_line_for_each_repetition(self):
        rows = list(csv.DictReader(io.StringIO(self.export(SMALL, "--samples"))))
        points = points_of(SMALL)
        self.assertEqual(len(rows), points["reps"].sum())
        with h5py.File(SMALL) as file:
            samples = file["samples/t_max_s"][...]
        for row in rows:
            self.assertEqual(float(row["t_max_s"]), samples[int(row["point_id"]), int(row["rep"])])

    def test_only_rows_that_count_are_written_and_infinity_is_text(self):
        path = self.change(self.copy(), key=(0, points_of(SMALL)["key"][1]), snr_db=(1, np.inf), note=(1, b'a "b", c'))
        rows = json.loads(self.export(path, "--format", "json"))["rows"]
        self.assertEqual(len(rows), 17)
        self.assertEqual((rows[0]["snr_db"], rows[0]["note"]), ("inf", 'a "b", c'))
        self.assertIn('"a ""b"", c"', self.export(path))

    def test_bad_input_leaves_no_file(self):
        done = tool("export", self.path("none.h5"), "-o", self.path("out.csv"))
        self.assertEqual((done.returncode, done.stdout, os.listdir(self.folder)), (2, "", []))
        self.assertIn("no such file", done.stderr)
        self.assertEqual(tool("export", SMALL, "--format", "xml").returncode, 2)


class Readers(WithFiles):
    """The lines of results/README.md, as they stand there."""

    def setUp(self):
        super().setUp()
        with open(os.path.join(ROOT, "results", "README.md"), encoding="utf-8") as file:
            self.blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
        for module in ("pandas", "xarray", "h5netcdf"):
            try:
                __import__(module)
            except ImportError:
                self.skipTest(f"no {module}: run scripts/setup plot")

    def run_blocks(self, source):
        folder, names = tempfile.mkdtemp(dir=self.folder), {}  # xarray keeps its file open: not one file after another
        shutil.copy(source, os.path.join(folder, "shm.h5"))
        with contextlib.chdir(folder):
            for block in self.blocks:
                exec(block, names)
        return names

    def test_they_give_rows_and_repetitions(self):
        self.assertEqual(len(self.blocks), 2)
        merged = self.path("merged.h5")
        self.assertEqual(tool("merge", "-o", merged, OTHER).returncode, 0)
        for source in (OTHER, merged):
            names, points = self.run_blocks(source), points_of(source)
            df, reps, cube = names["df"], names["reps"], names["cube"]
            self.assertEqual(df["method"].tolist(), [m.decode() for m in points["method"]])
            self.assertEqual(df["t_median_s"].tolist(), points["t_median_s"].tolist())
            self.addCleanup(reps.close)
            self.assertEqual(dict(reps.sizes), {"point": 18, "rep": 1166})
            self.assertTrue(np.allclose(reps.t_max_s.median("rep"), points["t_median_s"], rtol=1e-15))
            self.assertEqual(cube.dims, ("method", "bytes"))
            self.assertEqual(float(cube.sel({"method": "mpi", "bytes": 1 << 20})),
                             points["t_median_s"][(points["method"] == b"mpi") & (points["bytes"] == 1 << 20)][0])


if __name__ == "__main__":
    unittest.main()
