"""Tests of scripts/check_results on copies of committed result files, with one thing changed in each.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/check_results_test.py
"""
import json
import os
import re
import signal
import subprocess
import unittest
from unittest import mock

import h5py
import numpy as np

from result_files import NO_CACHE, OTHER, OVER, SMALL, WithFiles, points_of, script, tool
from scripts_common import committed

from mpi_quant.commands import check
from mpi_quant.results import reader, schema

COMMITTED = [*committed("*.h5"), SMALL, OTHER, OVER]


class Check(WithFiles):
    def violations(self, path):
        """[(row or None, what)] of a file, after exit code and summary were looked at. Of a line that stands for several rows: the first of
        them, so many times."""
        done = tool("check_results", path)
        lines = done.stdout.splitlines()
        self.assertEqual(done.stderr, "")
        pattern = re.escape(path) + r": (?:row (\S+): )?(.*?): expected (.*), found (.*?)(?: \(and (\d+) more rows?\))?"
        found = [re.fullmatch(pattern, line) for line in lines[:-1]]
        self.assertNotIn(None, found, done.stdout)
        self.assertEqual(done.returncode, 1 if found else 0)
        rows = [match.group(1, 2) for match in found for _ in range(1 + int(match.group(5) or 0))]
        self.assertRegex(lines[-1], rf", {len(rows)} violations?$")
        return rows

    def only(self, path, row, *whats):
        """The violations are these, all of one row."""
        key = points_of(path)["key"][row].decode()
        self.assertEqual(self.violations(path), [(key, what) for what in whats])

    def test_rows_with_the_same_violation_share_a_line(self):
        path = self.change(self.copy(), status=(slice(None), b"fine"))
        done = tool("check_results", path)
        said = [line for line in done.stdout.splitlines() if ": status: " in line]
        self.assertEqual(len(said), 1, done.stdout)
        self.assertTrue(said[0].endswith(", found fine (and 17 more rows)"), said)
        self.assertIn(points_of(path)["key"][0].decode(), said[0])

    def test_all_committed_files_pass(self):
        done = tool("check_results", "-v", *COMMITTED)
        self.assertEqual(done.returncode, 0, done.stdout)
        rows = sum(len(points_of(path)) for path in COMMITTED)
        self.assertIn(f"{len(COMMITTED)} files, {rows} rows, 0 violations", done.stdout)
        self.assertIn(f"{SMALL}: remark: written before there were the columns matrix_side", done.stdout)
        self.assertIn(f"{SMALL}: 18 rows, 0 violations", done.stdout)

    def test_a_dropped_repetition_is_a_violation(self):
        path = self.copy()
        with h5py.File(path, "a") as file:
            file["samples/t_max_s"][4, file["points"]["reps"][4] - 1] = np.nan
        self.assertIn("repetitions in /samples", [what for _, what in self.violations(path)])

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

    def late(self, row, repetition):
        """A copy that began every repetition by agreement, and one of them was missed."""
        path = self.change(self.copy(), sync=(slice(None), b"round"))
        with h5py.File(path, "a") as file:
            file["samples/valid"][row, repetition] = 0
            table = file["points"][...]
            table["reps"][row] -= 1
            table["invalid_reps"][row] = 1
            file["points"][...] = table
        return path

    def test_repetitions_that_began_too_late_are_in_no_statistic(self):
        row = int(np.nonzero(points_of(SMALL)["compressor"] == b"bf16")[0][1])
        path = self.late(row, 3)
        self.assertEqual(self.violations(path), [])
        self.only(self.change(self.copy(path, "few.h5"), invalid_reps=(row, 0)), row, "repetitions in /samples")
        both = self.copy(path, "valid.h5")
        with h5py.File(both, "a") as file:
            file["samples/valid"][row, 3] = 1
        self.assertIn("samples valid", [what for _, what in self.violations(both)])

    def test_only_a_start_that_was_agreed_on_can_be_missed(self):
        path = self.change(self.late(4, 3), sync=(slice(None), b"barrier"))
        self.only(path, 4, "invalid_reps")
        self.only(self.change(self.copy(), sync=(4, b"other")), 4, "sync")

    def test_readers_leave_out_repetitions_that_do_not_count(self):
        results = reader.read(self.late(4, 3))
        self.assertTrue(np.isnan(results.samples[4, 3]))
        self.assertTrue(np.isfinite(results.samples[4, :3]).all())

    def with_ranks(self):
        """A copy with the times of both ranks, of which the first is late in every repetition."""
        path = self.copy()
        with h5py.File(path, "a") as file:
            t = file["samples/t_max_s"][...]
            data = file["samples"].create_dataset("t_rank_s", data=np.stack([t, 0.5 * t], axis=2), fillvalue=np.nan)
            data.attrs["units"] = np.bytes_("s")
            file["samples/rank"] = np.arange(2)
            file["samples/rank"].make_scale("rank")
            for axis, name in enumerate(("point", "rep", "rank")):
                data.dims[axis].attach_scale(file["samples"][name])
        return path

    def test_the_longest_time_of_a_rank_is_that_of_the_repetition(self):
        path = self.with_ranks()
        self.assertEqual(self.violations(path), [])
        merged = self.path("merged.h5")
        self.assertEqual(tool("merge", path, OTHER, "--out", merged).returncode, 0)
        self.assertEqual(self.violations(merged), [])
        for value in (np.nan, 1e3, 1e-9):
            with h5py.File(path, "a") as file:
                file["samples/t_rank_s"][4, 2, 0] = value
            self.only(path, 4, "samples t_rank_s")
        with h5py.File(path, "a") as file:
            file["samples/t_rank_s"].attrs["units"] = np.bytes_("ms")
        self.assertEqual(self.violations(path), [(None, "units and dimension scales of /samples/t_rank_s")])

    def test_a_build_outside_of_git_is_a_remark(self):
        path = self.copy()
        with h5py.File(path, "a") as file:
            file.attrs["git_commit"] = np.bytes_("")
        done = tool("check_results", "--verbose", path)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("remark: run 0 names no commit", done.stdout)

    def test_a_method_that_failed_before_it_was_timed_has_no_samples(self):
        path = self.copy()
        rows, last = points_of(path), 17  # of the last point, which has three
        self.change(path, reps=(last, 0), status=(last, b"failed"), note=(last, b"warm-up: no memory"), stop_reason=(last, b"error"))
        with h5py.File(path, "a") as file:
            for data in (file["samples"][name] for name in schema.SAMPLES):
                data[last] = data.fillvalue
            order = file["samples/order"]  # the two others took turns
            n = int(rows["reps"][15])
            start, blocks = int(order[15:17, :n].min()), np.arange(n)
            order[15, :n] = start + 2 * blocks + blocks % 2
            order[16, :n] = start + 2 * blocks + 1 - blocks % 2
        self.assertEqual(self.violations(path), [])
        self.only(self.change(path, reps=(last, 1)), last, "repetitions in /samples")

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

    def test_what_went_wrong_is_said_and_nothing_is_called_damaged_for_it(self):
        """An error of this program, or of the machine: its own words. A crash of the HDF5 library: a damaged file."""
        for broken, said in ((RuntimeError("no more\nmemory here"), "cannot be checked (RuntimeError: no more memory here)"),
                             (lambda *_: os.kill(os.getpid(), signal.SIGSEGV), "damaged HDF5 file (reading it ended with signal 11)")):
            shown = mock.Mock()
            with mock.patch.object(check, "check", side_effect=broken):
                self.assertEqual(check.isolated("a.h5", False, shown), (0, 1))
            shown.print.assert_called_once_with(f"a.h5: {said}")

    def test_a_full_disk_is_no_damaged_file(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([script("check_results"), self.change(self.copy(), status=(5, b"fine")), SMALL], stdout=full, stderr=subprocess.PIPE, text=True,
                                  check=False, env={**os.environ, **NO_CACHE})
        self.assertEqual((done.returncode, done.stderr), (1, "scripts/check_results: standard output: No space left on device\n"))

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
        self.assertNotIn("Traceback", done.stderr)  # the C library may complain there
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"60 files, \d+ rows, \d+ violations\n$")

    def test_a_file_that_is_not_there_is_a_usage_error(self):
        self.assertEqual(tool("check_results", self.path("none.h5")).returncode, 2)


if __name__ == "__main__":
    unittest.main()
