"""Tests of scripts/check_results, merge, compare and export on copies of committed result files, with one thing changed in each.

Needs neither network, root nor a build: /usr/bin/python3 tests/result_tools_test.py
"""
import contextlib
import csv
import glob
import io
import json
import math
import os
import re
import shutil
import unittest

import h5py
import numpy as np

from scripts_common import ROOT, InTemporaryFolder, call, script  # finds scripts/ for the next ones

import mpiq_recompute
import mpiq_results
import mpiq_schema

SMALL = os.path.join(ROOT, "results", "2026-11-21-epyc", "lab-1gbit.h5")  # 18 rows: mpi, bf16, onebit at six sizes
OTHER = os.path.join(ROOT, "results", "2026-11-21-epyc", "shm.h5")  # another link, also 18 rows
OVER = os.path.join(ROOT, "results", "2026-11-21-xeon", "oversubscribed-lab-4x1gbit.h5")
SPARSE = os.path.join(ROOT, "results", "2026-11-22-xeon-sparse", "shm-lists-same.h5")
COMMITTED = sorted(glob.glob(os.path.join(ROOT, "results", "*", "*.h5")))
PUBLICATION = b"publicat"  # what the eight bytes of the column hold of it
NO_CACHE = {"PYTHONDONTWRITEBYTECODE": "1"}


def tool(name, *arguments):
    return call(script(name), *arguments, env=NO_CACHE)


def points_of(path):
    with h5py.File(path) as file:
        return file["points"][...]


class WithFiles(InTemporaryFolder):
    def copy(self, source=SMALL, name="a.h5"):
        return shutil.copy(source, self.path(name))

    def change(self, path, **columns):
        """Other values in one row of /points: column=(row, value)."""
        with h5py.File(path, "a") as file:
            table = file["points"][...]
            for column, (row, value) in columns.items():
                table[column][row] = value
            file["points"][...] = table
        return path

    def retype(self, path, change):
        """/points with other columns: change(table) gives the new one."""
        with h5py.File(path, "a") as file:
            attrs, table = dict(file["points"].attrs), change(file["points"][...])
            del file["points"]
            file["points"] = table
            file["points"].attrs.update(attrs)
        return path

    def part(self, rows, name, source=SMALL):
        """The file with some of its rows only, as another array task would have made it."""
        path = self.copy(source, name)
        with h5py.File(path, "a") as file:
            for group in ("samples", "phases"):
                for key in list(file[group]):
                    if file[group][key].ndim == 2 or key == "point":
                        file[group][key].resize(len(rows), axis=0) if key == "point" else self.cut(file[group][key], rows)
            table = file["points"][...][rows]
            table["point_id"] = np.arange(len(rows))
            file["points"].resize(len(rows), axis=0)
            file["points"][...] = table
            file.attrs["uuid"] = np.bytes_(name)
        return path

    @staticmethod
    def cut(matrix, rows):
        kept = matrix[...][rows]
        matrix.resize(len(rows), axis=0)
        matrix[...] = kept


class Check(WithFiles):
    def violations(self, path):
        """[(row or None, what)] of a file, after exit code and summary were looked at."""
        done = tool("check_results", path)
        lines = done.stdout.splitlines()
        self.assertEqual(done.stderr, "")
        found = [re.fullmatch(re.escape(path) + r": (?:row (\S+): )?(.*?): expected (.*), found (.*)", line) for line in lines[:-1]]
        self.assertNotIn(None, found, done.stdout)
        self.assertEqual(done.returncode, 1 if found else 0)
        self.assertRegex(lines[-1], rf", {len(found)} violations?$")
        return [(match.group(1), match.group(2)) for match in found]

    def only(self, path, row, *whats):
        """The violations are these, all of one row."""
        key = points_of(path)["key"][row].decode()
        self.assertEqual(self.violations(path), [(key, what) for what in whats])

    def test_all_committed_files_pass(self):
        done = tool("check_results", "-v", *COMMITTED)
        self.assertEqual(done.returncode, 0, done.stdout)
        rows = sum(len(points_of(path)) for path in COMMITTED)
        self.assertIn(f"{len(COMMITTED)} files, {rows} rows, 0 violations", done.stdout)
        self.assertIn(f"{SMALL}: remark: written before there were the columns matrix_side", done.stdout)
        self.assertIn(f"{SMALL}: 18 rows, 0 violations, 18 keys computed again", done.stdout)

    def test_every_number_that_follows_from_samples_is_computed_again(self):
        for column in ("t_median_s", "t_ci_lo_s", "t_ci_hi_s", "t_min_s", "t_mean_s", "t_p5_s", "t_p95_s", "t_mad_s", "lag1",
                       "algbw_Bps", "busbw_Bps", "wirebw_Bps", "ratio_achieved", "speedup", "speedup_lo", "speedup_hi", "snr_db"):
            path = self.copy()
            row = 4
            self.change(path, **{column: (row, points_of(path)[column][row] * (1 + 1e-8))})
            self.only(path, row, column)

    def test_whole_numbers_are_computed_again(self):
        for column, change in (("outliers_mild", 1), ("outliers_severe", 1), ("nodes", 1), ("point_id", 1)):
            path = self.copy()
            self.change(path, **{column: (2, points_of(path)[column][2] + change)})
            expected = {"nodes": ("key", "nodes, ranks_per_node")}.get(column, (column,))
            self.only(path, 2, *expected)

    def test_a_p99_of_few_repetitions_is_a_violation(self):
        path = self.copy()
        row = int(np.nonzero(points_of(path)["reps"] < 100)[0][0])
        self.only(self.change(path, t_p99_s=(row, 1.0)), row, "t_p99_s")

    def test_a_changed_sample_shows_in_what_was_computed_from_it(self):
        path = self.copy()
        with h5py.File(path, "a") as file:
            file["samples/t_max_s"][4, 0] = 2 * file["samples/t_max_s"][4, :20].max()
        whats = {what for _, what in self.violations(path)}
        self.assertLessEqual({"t_mean_s", "lag1"}, whats)

    def test_a_dropped_repetition_is_a_violation(self):
        path = self.copy()
        with h5py.File(path, "a") as file:
            file["samples/t_max_s"][4, file["points"]["reps"][4] - 1] = np.nan
        self.assertIn("repetitions in /samples", [what for _, what in self.violations(path)])

    def test_what_identifies_a_row_is_in_its_key(self):
        for column, value in (("count", 1), ("ranks", 1), ("launch", 7), ("link", b"other"), ("method", b"none"), ("place", b"in"),
                              ("model", b"resnet50"), ("buffers", b"warm"), ("key", b"0" * 32)):
            path = self.change(self.copy(), **{column: (1, value)})
            self.assertIn("key", [what for _, what in self.violations(path)], column)

    def test_a_key_stands_twice_only_after_a_failure(self):
        source = points_of(SMALL)
        again = list(range(18)) + [15, 16, 17]  # the last point once more
        path = self.part(again, "twice.h5")
        found = self.violations(path)
        self.assertEqual([what for _, what in found if what == "key"], ["key"] * 3)
        self.assertEqual(found[0][0], source["key"][15].decode())
        with h5py.File(path, "a") as file:
            table = file["points"][...]
            table["status"][16], table["note"][16] = b"failed", b"first call on rank 0: no memory"
            file["points"][...] = table
        self.assertNotIn("key", [what for _, what in self.violations(path)])

    def test_a_status_that_is_not_ok_has_a_reason(self):
        self.only(self.change(self.copy(), status=(5, b"invalid")), 5, "note")
        self.only(self.change(self.copy(), status=(5, b"fine")), 5, "status", "note")
        self.assertEqual(self.violations(self.change(self.copy(), status=(5, b"invalid"), note=(5, b"1 wrong elements"))), [])

    def test_wrong_elements_are_not_ok(self):
        self.only(self.change(self.copy(), n_wrong=(3, 2)), 3, "n_wrong")
        self.only(self.change(self.copy(), n_wrong=(3, -1)), 3, "n_wrong")
        row = int(np.nonzero(points_of(SMALL)["compressor"] == b"onebit")[0][0])
        self.only(self.change(self.copy(), replicas_equal=(row, 0)), row, "replicas_equal")

    def test_the_reason_to_stop_fits_the_interval(self):
        reasons = points_of(SMALL)["stop_reason"]
        for was, said in ((b"ci", b"budget"), (b"budget", b"ci"), (b"ci", b"max_reps"), (b"ci", b"deadline"), (b"ci", b"")):
            row = int(np.nonzero(reasons == was)[0][0])
            self.assertIn("stop_reason", [what for _, what in self.violations(self.change(self.copy(), stop_reason=(row, said)))])

    def test_a_budget_was_spent(self):
        row = int(np.nonzero(points_of(SMALL)["stop_reason"] == b"budget")[0][0])
        self.only(self.change(self.copy(), wall_s=(row, 1.0)), row, "wall_s")

    def test_few_repetitions_need_an_option(self):
        path = self.copy(OVER)
        with h5py.File(path, "a") as file:
            for name in ("t_max_s", "t_span_s", "skew_in_s", "order", "valid"):
                data = file["samples"][name]
                data[:, 19] = data.fillvalue
            table = file["points"][...]
            table["reps"] = 19
            file["points"][...] = table
        self.assertEqual([what for _, what in self.violations(path)].count("reps"), 5)

    def test_more_ranks_than_processors_are_said(self):
        self.only(self.change(self.copy(), oversubscribed=(0, 1)), 0, "oversubscribed")
        self.only(self.change(self.copy(OVER), oversubscribed=(0, 0)), 0, "oversubscribed")

    def test_the_order_is_that_of_interleaved_calls(self):
        path = self.copy()
        with h5py.File(path, "a") as file:
            order = file["samples/order"]
            first, second = order[0, 0], order[0, 1]
            order[0, 0], order[0, 1] = second, first
        self.only(path, 0, "order")
        with h5py.File(path, "a") as file:  # whole blocks, but the same one in every block: no Latin square
            order = file["samples/order"]
            n = file["points"]["reps"][0]
            for m in range(3):
                order[m, :n] = 3 * np.arange(n) + m
        self.only(path, 0, "order")

    def test_a_publication_has_a_clean_commit_and_ten_launches(self):
        path = self.change(self.copy(), grade=(0, PUBLICATION))
        self.only(path, 0, "grade")
        with h5py.File(path, "a") as file:
            file.attrs["git_dirty"] = np.uint8(1)
        self.only(path, 0, "grade", "grade")

    def test_missing_columns_and_wrong_types_are_named(self):
        def without(table):
            return table[[name for name in table.dtype.names if name != "busbw_Bps"]]

        def narrow(table):
            return table.astype([(n, "f4" if n == "t_median_s" else table.dtype[n]) for n in table.dtype.names])

        self.assertEqual(self.violations(self.retype(self.copy(), without)), [(None, "column /points.busbw_Bps")])
        self.assertEqual(self.violations(self.retype(self.copy(), narrow)), [(None, "type of column /points.t_median_s")])

    def test_attributes_units_and_scales_are_there(self):
        path = self.copy()
        with h5py.File(path, "a") as file:
            del file.attrs["git_commit"]
            del file["run"].attrs["config_json"]
            units = json.loads(file["points"].attrs["units"])
            units["t_median_s"] = "ms"
            file["points"].attrs["units"] = np.bytes_(json.dumps(units))
            del file["samples/order"]
            file["samples/t_span_s"].dims[1].detach_scale(file["samples/rep"])
        self.assertEqual(self.violations(path), [
            (None, "attribute / git_commit"), (None, "attribute /run config_json"), (None, "unit of column t_median_s"),
            (None, "dimension scales of /samples/t_span_s"), (None, "dataset /samples/order")])

    def test_damaged_files_are_violations_without_a_traceback(self):
        path = self.copy()
        os.truncate(path, os.path.getsize(path) // 2)
        done = tool("check_results", path, SMALL)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertIn(f"{path}: damaged HDF5 file", done.stdout)
        self.assertIn("2 files, 18 rows, 1 violation", done.stdout)

    def test_no_flipped_byte_gives_a_traceback(self):
        with open(SMALL, "rb") as file:
            whole = file.read()
        chance, paths = np.random.default_rng(1), []
        for i in range(60):
            damaged = bytearray(whole)
            for at in chance.integers(0, min(len(whole), 40000), 40):
                damaged[at] ^= 1 << int(chance.integers(8))
            paths.append(self.path(f"{i}.h5"))
            with open(paths[-1], "wb") as file:
                file.write(damaged)
        done = tool("check_results", *paths)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 1)

    def test_a_file_that_is_not_there_is_a_usage_error(self):
        self.assertEqual(tool("check_results", self.path("none.h5")).returncode, 2)

    def test_the_schema_is_that_of_the_harness(self):
        with open(os.path.join(ROOT, "bench", "rows.hpp"), encoding="utf-8") as file:
            text = file.read()
        kinds = {"std::int8_t": "i1", "std::int16_t": "i2", "std::int32_t": "i4", "std::int64_t": "i8", "std::uint64_t": "u8",
                 "double": "f8"}
        for struct, columns in (("PointRow", {**mpiq_schema.POINTS, **mpiq_schema.LATER}), ("InputRow", mpiq_schema.INPUTS),
                                ("EventRow", mpiq_schema.EVENTS), ("EnvRow", mpiq_schema.ENV), ("NodeRow", mpiq_schema.NODES),
                                ("RankRow", mpiq_schema.RANKS)):
            body = re.sub(r"//.*", "", re.search(rf"struct {struct} {{(.*?)\n}};", text, re.S).group(1))
            found = {}
            for kind, names in re.findall(r"(std::\w+|double|Text<\d+>)\s+([^;]+);", body):
                for name in names.split(","):
                    size = re.fullmatch(r"Text<(\d+)>", kind)
                    found[name.split("=")[0].strip()] = np.dtype(f"S{size.group(1)}" if size else kinds[kind])
            self.assertEqual(list(found.items()), list(columns.items()), struct)


class Merge(WithFiles):
    def merged(self, *paths, code=0):
        done = tool("merge", "-o", self.path("out.h5"), *paths)
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
        results = mpiq_results.read(whole)
        self.assertEqual(len(results.points), 18 + 18 + 9)
        self.assertEqual(results.attrs["hosts"], ["vm"])
        for path, first in ((SMALL, 0), (OTHER, 18), (SPARSE, 36)):
            alone = mpiq_results.read(path)
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
        self.assertEqual(set(mpiq_results.read(whole).points["status"]), {"ok"})

    def test_launches_stay_and_make_a_publication(self):
        paths = [self.launch(i) for i in range(10)]
        whole = self.merged(*paths)
        self.assert_passes(whole)
        with h5py.File(whole, "a") as file:
            table = file["points"][...]
            table["grade"] = PUBLICATION
            file["points"][...] = table
        self.assert_passes(whole)
        nine = self.merged(*paths[:9])
        with h5py.File(nine, "a") as file:
            table = file["points"][...]
            table["grade"][0] = PUBLICATION
            file["points"][...] = table
        self.assertIn("10 launches behind a publication, found 9", tool("check_results", nine).stdout)

    def launch(self, number, scale=1.0):
        """The first point as another launch would have measured it, every time multiplied."""
        path = self.part([0, 1, 2], f"launch-{number}-{scale}.h5")
        with h5py.File(path, "a") as file:
            config = file["run"].attrs["config_json"].decode().replace('"launch":0', f'"launch":{number}')
            file["run"].attrs["config_json"] = np.bytes_(config)
            table = file["points"][...]
            table["launch"] = number
            file["points"][...] = table
        rescale(path, scale)
        rekey(path)
        return path

    def test_bad_input_is_named(self):
        with open(self.path("text.h5"), "w", encoding="utf-8") as file:
            file.write("size,time\n")
        self.assertIn("not an HDF5 file", self.merged(SMALL, self.path("text.h5"), code=1))
        self.assertEqual(tool("merge", SMALL).returncode, 2)


def rescale(path, factor):
    """All times of a file multiplied, and what follows from them made anew."""
    with h5py.File(path, "a") as file:
        file["samples/t_max_s"][...] *= factor
        file["samples/t_span_s"][...] *= factor
        file["samples/skew_in_s"][...] *= factor
        table, samples = file["points"][...], file["samples/t_max_s"][...]
        for i, row in enumerate(table):
            stats = mpiq_recompute.summary(samples[i][~np.isnan(samples[i])])
            for name, value in {**stats, **mpiq_recompute.rates(row, stats["t_median_s"])}.items():
                table[name][i] = value
        file["points"][...] = table


def rekey(path):
    import mpiq_file
    file = mpiq_file.load(path)
    new = {row["key"]: mpiq_recompute.row_key(row, file.runs[0]).encode() for row in file.points}
    with h5py.File(path, "a") as stored:
        table = stored["points"][...]
        table["key"] = [new[key] for key in table["key"]]
        table["base_key"] = [new[key] for key in table["base_key"]]
        stored["points"][...] = table


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
        merge, files = Merge(), []
        merge.folder = self.folder
        for factor in (1.0, 1.3):
            paths = [merge.launch(i, factor * (1 + 0.01 * i)) for i in range(6)]
            files.append(self.path(f"{factor}.h5"))
            self.assertEqual(tool("merge", "-o", files[-1], *paths).returncode, 0)
        out = self.compare(*files, code=1)
        self.assertEqual(out.count("(6 launches)"), 6)
        # The median of six launches has the interval from the smallest to the largest: 1.3 / 1.05 .. 1.3 * 1.05.
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
        self.assertEqual((done.returncode, done.stdout, os.listdir(self.folder)), (1, "", []))
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
        self.copy(source, "shm.h5")
        names = {}
        with contextlib.chdir(self.folder):
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
            self.assertEqual(dict(reps.sizes), {"point": 18, "rep": 1166})
            self.assertTrue(np.allclose(reps.t_max_s.median("rep"), points["t_median_s"], rtol=1e-15))
            self.assertEqual(cube.dims, ("method", "bytes"))
            self.assertEqual(float(cube.sel({"method": "mpi", "bytes": 1 << 20})),
                             points["t_median_s"][(points["method"] == b"mpi") & (points["bytes"] == 1 << 20)][0])


if __name__ == "__main__":
    unittest.main()
