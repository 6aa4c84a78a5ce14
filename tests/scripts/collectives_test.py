"""Tests of the readers of results with several collectives: no figure and no table has rows of two. Files from before there was a
choice are of allreduce.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/collectives_test.py
"""
import csv
import hashlib
import io
import os
import unittest

import h5py
import numpy as np

from plots_test import MIB, Drawn
from result_files import SMALL, WithFiles, points_of, tool
from results_test import point, steady, sweep, write_results

from mpi_quant.figures import selection
from mpi_quant.report import tables
from mpi_quant.results import reader


def rows_of(collective, **changes):
    return [point(method, size, time, collective=collective, key=f"{collective}-{method}-{size}", base_key=f"{collective}-mpi-{size}",
                  **changes) for size in (MIB // 16, MIB) for method, time in (("mpi", 1e-3), ("onebit", 2.5e-4))]


class Figures(Drawn):
    def both(self):
        return self.file(rows_of("reduce_scatter") + rows_of("allgather"), True, "both.h5")

    def test_no_figure_and_no_report_has_two_collectives(self):
        for name in ("time", "speedup", "busbw", "all"):
            self.refused(name, "rows differ in collective (allgather, reduce_scatter): choose with --where collective=allgather", self.both())
        files = [self.file(rows_of(name), True, f"{name}.h5") for name in ("reduce_scatter", "allreduce")]
        self.refused("time", "rows differ in collective (allreduce, reduce_scatter)", *files)
        status, _, problem = self.run_program("report", self.both(), "-o", self.path("r.html"))
        self.assertEqual((status, os.path.exists(self.path("r.html"))), (1, False))
        self.assertIn("rows differ in collective", problem)

    def test_a_chosen_collective_is_drawn_alone(self):
        rows = self.draw("time", self.both(), "--where", "collective=allgather")
        self.assertEqual(self.columns(rows, "method", "bytes", "t_median_s"),
                         [(method, size, time) for method, time in (("mpi", 1e-3), ("onebit", 2.5e-4)) for size in (MIB // 16, MIB)])

    def test_a_row_without_a_collective_is_of_allreduce(self):
        path = self.file(sweep(), True, "with.h5")
        drawn = self.draw("time", path)
        with h5py.File(path, "a") as file:
            table = file["points"][...]
            del file["points"]
            file["points"] = table[[name for name in table.dtype.names if name != "collective"]]
        self.assertEqual(self.draw("time", path), drawn)
        self.assertEqual(set(reader.read(path).points["collective"]), {"allreduce"})
        other = self.file(rows_of("allgather"), True, "other.h5")
        status, _, problem = self.run_program("plot", "time", path, other, "-o", self.path("both"))
        self.assertEqual(status, 1)
        self.assertIn("rows differ in collective (allgather, allreduce)", problem)

    def test_mpi_has_the_name_of_its_function(self):
        for collective, function in (("allreduce", "MPI_Allreduce"), ("sparse_allreduce", "MPI_Allreduce"),
                                     ("reduce_scatter", "MPI_Reduce_scatter_block"), ("allgather", "MPI_Allgather"), ("bcast", "MPI_Bcast"),
                                     ("reduce", "MPI_Reduce")):
            results = reader.read(self.file(rows_of(collective), True, f"{collective}.h5"))
            self.assertEqual(selection.Selection([results], [], "").base_words(), f"{function} fp32")

    def test_the_bus_bandwidth_of_half_an_allreduce_is_half(self):
        found = {}
        for collective in ("allreduce", "reduce_scatter", "allgather", "bcast", "reduce"):
            path = self.file(rows_of(collective, ranks=4, nodes=4), name=f"{collective}.h5")
            found[collective] = self.columns(self.draw("busbw", path), "method", "bytes", "busbw")[1]
        self.assertEqual(found["allreduce"], ("mpi", MIB, 1.5 * MIB / 1e-3))
        self.assertEqual(found["reduce_scatter"], ("mpi", MIB, 0.75 * MIB / 1e-3))
        self.assertEqual(found["allgather"], found["reduce_scatter"])
        self.assertEqual((found["bcast"], found["reduce"]), (("mpi", MIB, MIB / 1e-3),) * 2)  # the root moves the whole vector

    def test_a_report_speaks_of_its_collective(self):
        status, _, problem = self.run_program("report", self.file(rows_of("allgather"), True), "-o", self.path("r.html"))
        self.assertEqual((status, problem), (0, ""))
        with open(self.path("r.html"), encoding="utf-8") as file:
            page = file.read()
        for words in ("Compressed allgather", "the fastest MPI_Allgather", "gets the whole vector", "Time of an allgather", "are gathered"):
            self.assertIn(words, page)
        self.assertNotIn("MPI_Allreduce", page)


class Tables(WithFiles):
    def test_the_terminal_has_a_table_for_each_collective(self):
        def text(rows, name):
            return reader.table(reader.read(write_results(self.path(name), rows)))
        both = text(rows_of("reduce_scatter") + rows_of("allgather"), "both.h5").split("\n\n")
        self.assertEqual([part.splitlines()[0] for part in both], ["allgather:", "reduce_scatter:"])
        self.assertEqual([len(part.splitlines()) for part in both], [6, 6])
        self.assertEqual(len(text(sweep(), "one.h5").splitlines()), 5)

    def test_a_table_of_a_page_is_of_one_collective(self):
        def points(rows):
            return tables.over_dense(reader.read(write_results(self.path("a.h5"), rows, steady(rows))))
        gathers = points(rows_of("allgather"))
        self.assertTrue(tables.times(gathers, "bytes", reader.bytes_label, "vector").startswith("| vector | MPI_Allgather | onebit"))
        self.assertEqual(tables.conditions(gathers), "allgather, 2 ranks, test, f32, normal input")
        with self.assertRaisesRegex(reader.ResultsError, "rows of allgather and allreduce: a table is of one collective"):
            points(rows_of("allgather") + sweep())


class Tools(WithFiles):
    def other(self, name="gather.h5"):
        """The file as an allgather would have made it."""
        path = self.copy(SMALL, name)
        with h5py.File(path, "a") as file:
            table = file["points"][...]
            table["collective"] = b"allgather"
            for column in ("key", "base_key"):
                table[column] = [hashlib.md5(key).hexdigest().encode() if key else b"" for key in table[column]]
            file["points"][...] = table
            file.attrs["uuid"] = np.bytes_(name)
        return path

    def merged(self, *paths):
        out = self.path("merged.h5")
        done = tool("merge", "--replace", "-o", out, *paths)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = tool("check_results", out)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return out

    def test_one_file_may_hold_two_and_they_are_compared_apart(self):
        both = self.merged(SMALL, self.other())
        self.assertEqual([int((points_of(both)["collective"] == name).sum()) for name in (b"allreduce", b"allgather")], [18, 18])
        done = tool("compare", both, both)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("36 rows in both, 0 slower", done.stdout)
        first, second = done.stdout.index("allgather:\n"), done.stdout.index("allreduce:\n")
        tables = [part.count("no difference") for part in (done.stdout[min(first, second):max(first, second)], done.stdout[max(first, second):])]
        self.assertEqual(tables, [18, 18])

    def test_rows_of_two_collectives_are_not_the_same(self):
        done = tool("compare", SMALL, self.other())
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout.count("only in B: allgather, "), 18)

    def test_rows_from_before_there_was_a_choice_are_of_allreduce(self):
        def without(table):
            return table[[name for name in table.dtype.names if name != "collective"]].astype(
                [(name, table.dtype[name]) for name in table.dtype.names if name != "collective"])
        before = self.retype(self.copy(), without)
        done = tool("compare", before, SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("18 rows in both", done.stdout)
        out = self.path("merged.h5")
        done = tool("merge", "-o", out, before, self.other())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(list(points_of(out)["collective"]), [b"allreduce"] * 18 + [b"allgather"] * 18)

    def test_an_unknown_collective_is_a_violation(self):
        done = tool("check_results", self.change(self.copy(), collective=(3, b"allscatter")))
        self.assertEqual(done.returncode, 1)
        self.assertIn("collective: expected allreduce or iallreduce or reduce_scatter", done.stdout)

    def test_repetitions_say_of_which_collective_they_are(self):
        done = tool("export", self.other(), "--samples")
        self.assertEqual({row["collective"] for row in csv.DictReader(io.StringIO(done.stdout))}, {"allgather"})


if __name__ == "__main__":
    unittest.main()
