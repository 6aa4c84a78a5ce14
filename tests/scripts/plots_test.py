"""Tests of every plot: figures draw the numbers of the file, and what cannot be drawn fails with a message.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/plots_test.py
"""
import contextlib
import csv
import importlib
import io
import json
import math
import os
import re
import unittest
from unittest import mock

import h5py
import numpy as np

import figure_checks
import frontier_files
import training_files
from results_test import point, steady, sweep, write_results  # finds scripts/ for the next ones
from scripts_common import PACKAGE, InTemporaryFolder

from mpi_quant.commands import command_line
from mpi_quant.figures import look
from mpi_quant.figures.register import PLOTS
from mpi_quant.figures.selection import Selection
from mpi_quant.results import reader, training_step

look.use_style()  # as the programs do
KIB, MIB = 1 << 10, 1 << 20


def command(name):
    """A command as a module: starting one for every test takes long."""
    return importlib.import_module(f"mpi_quant.commands.{name}")


PROGRAMS = {name: command(name) for name in ("plot", "report")}


def rows_over(values, column, methods=(("mpi", 1e-3), ("onebit", 2.5e-4)), **changes):
    """Every method for each value of a column, with keys of their own."""
    out = []
    for value in values:
        for method, time in methods:
            key = f"{method}-{column}-{value}"
            more = {"key": key, "base_key": f"mpi-{column}-{value}", column: value, **changes}
            size = more.pop("bytes", MIB)
            out.append(point(method, size, time, **more))
    return out


def linear(alpha=1e-5, beta=1e-9, gamma=1e-10, sizes=(64 * KIB, MIB, 16 * MIB, 64 * MIB)):
    """Rows with the times of a latency and a link. onebit sends a quarter and has a codec."""
    out = []
    for size in sizes:
        dense, ours = alpha + beta * size, alpha + (beta / 4 + gamma) * size
        out.append(point("mpi", size, dense, speedup=1, speedup_lo=1, speedup_hi=1))
        out.append(point("onebit", size, ours, speedup=dense / ours, speedup_lo=dense / ours, speedup_hi=dense / ours,
                         wire_bytes_max=size // 4, algorithm="allgather", ratio_target=4, ratio_achieved=4.5))
    return out


class Drawn(InTemporaryFolder):
    def run_program(self, name, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            command_line.start_as(f"scripts/{name}")
            try:
                status = PROGRAMS[name].main([str(a) for a in arguments])
            except SystemExit as ended:  # of argparse
                status = ended.code
        return status, out.getvalue(), err.getvalue()

    def setUp(self):
        super().setUp()
        lay_out = look.lay_out

        def checked(figure, *arguments, **options):
            lay_out(figure, *arguments, **options)
            self.assertEqual(figure_checks.problems(figure), [])
        patch = mock.patch.object(look, "lay_out", checked)
        patch.start()
        self.addCleanup(patch.stop)

    def draw(self, name, *arguments, variant=None):
        """Rows of the CSV of a plot, or of a variant of it. Every figure that a test makes is looked at, see setUp."""
        status, _, problem = self.run_program("plot", name, *arguments, "-o", self.path("out"), "--name", "f", "--format", "png")
        self.assertEqual((status, problem), (0, ""))
        name = "-".join(filter(None, (name, variant)))
        self.assertGreater(os.path.getsize(self.path("out", f"f-{name}.png")), 5000)
        with open(self.path("out", f"f-{name}.csv"), encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def refused(self, name, reason, *arguments):
        status, out, problem = self.run_program("plot", name, *arguments, "-o", self.path("out"))
        self.assertEqual((status, out), (1, ""))
        self.assertIn(reason, problem)
        self.assertFalse(os.path.exists(self.path("out")))

    def file(self, rows, samples=False, name="a.h5", data=None, **attributes):
        path = write_results(self.path(name), rows, steady(rows) if samples else None, **attributes)
        with h5py.File(path, "a") as file:
            file["run"]["nodes"] = np.array([(b"host", b"cpu")], dtype=[("host", "S8"), ("cpu_model", "S8")])
            if data:
                table = np.array([(i, d.encode(), 0.0) for i, d in enumerate(data)], dtype=file["inputs"].dtype)
                del file["inputs"]
                file["inputs"] = table
        return path

    def with_dataset(self, path, name, values):
        with h5py.File(path, "a") as file:
            file[name] = values
        return path

    def columns(self, rows, *names):
        """Texts as they are, numbers as numbers."""
        def number(word):
            try:
                return float(word)
            except ValueError:
                return word
        return [tuple(number(row[n]) for n in names) for row in rows]


class Plots(Drawn):
    """A test for every plot, named after it; see Register."""

    def test_time(self):
        self.assertEqual(self.columns(self.draw("time", self.file(sweep())), "method", "bytes", "t_median_s")[0],
                         ("mpi", 64 * KIB, 1e-3))

    def test_speedup(self):
        self.assertEqual(self.columns(self.draw("speedup", self.file(sweep())), "method", "speedup"), [("onebit", 4)] * 2)

    def test_error(self):
        self.assertEqual(self.columns(self.draw("error", self.file(sweep())), "err_rel_l2")[-1], (0.5,))

    def test_overlap(self):
        rows = [point(method, MIB, 1e-3, key=f"{method}-{percent}", collective="iallreduce", compute_percent=percent, test_interval_us=100,
                      **(dict(overlap=percent / 4 + ours, overlap_lo=percent / 4, overlap_hi=percent / 4 + 2 * ours) if percent else {}))
                for ours, method in ((10, "mpi"), (20, "bf16")) for percent in (0, 100, 200)]
        drawn = self.columns(self.draw("overlap", self.file(rows)), "method", "computation", "overlap")
        self.assertEqual(drawn, [("mpi", 1, 35), ("mpi", 2, 60), ("bf16", 1, 45), ("bf16", 2, 70)])
        self.assertEqual(len(self.draw("time", self.file(rows, name="b.h5"))), 2, "the calls without computation")

    def test_paper(self):
        rows = [point("mpi", 4 * side * side, 1e-3, matrix_side=side, key=f"m{side}") for side in (64, 128)]
        self.assertEqual(self.columns(self.draw("paper", self.file(rows, True)), "matrix_side"), [(64,), (128,)])

    def test_busbw(self):
        rows = rows_over([4, 8], "ranks", nodes=4, link="lab-10gbit")
        found = self.columns(self.draw("busbw", self.file(rows)), "ranks", "method", "busbw", "busbw_lo", "busbw_hi")[0]
        self.assertEqual(found[:2], (4, "mpi"))
        self.assertTrue(np.allclose(found[2:], [1.5 * MIB / t for t in (1e-3, 1.1e-3, 0.9e-3)], rtol=1e-8), found)
        from mpi_quant.figures.plots import busbw
        self.assertEqual([busbw.wire_limit(n) for n in ("lab-10gbit", "100 Mbit", "shm")], [1.25e9, 1.25e7, None])

    def test_pareto(self):
        rows = [point("mpi", MIB, 1e-3), point("bf16", MIB, 5e-4, err_rel_l2=1e-3), point("onebit", MIB, 2e-4, err_rel_l2=0.5),
                point("threshold", MIB, 4e-4, err_rel_l2=0.9)]
        found = self.columns(self.draw("pareto", self.file(rows)), "method", "err_rel_l2", "speedup", "efficient")
        self.assertEqual(found, [("mpi", 3e-8, 1, 1), ("bf16", 1e-3, 2, 1), ("onebit", 0.5, 5, 1), ("threshold", 0.9, 2.5, 0)])

    def test_phases(self):
        rows = sweep()
        path = self.file(rows)
        nothing, parts = [np.nan] * 4, [1e-4, 0.0, 1e-4, 5e-5]
        self.with_dataset(path, "phases/exposed_s", np.array([nothing if r["compressor"] == b"none" else parts for r in rows]))
        self.with_dataset(path, "phases/phase", np.array([(n,) for n in (b"encode", b"wait", b"decode", b"other")],
                                                         dtype=[("name", "S24")]))
        found = self.columns(self.draw("phases", path), "method", "bytes", "phase", "exposed_s", "share")
        self.assertEqual(found, [("onebit", MIB, "encode", 1e-4, 0.4), ("onebit", MIB, "wait", 0, 0),
                                 ("onebit", MIB, "decode", 1e-4, 0.4), ("onebit", MIB, "other", 5e-5, 0.2)])

    def test_scaling(self):
        rows = rows_over([2, 4], "ranks") + rows_over([8], "ranks", oversubscribed=1)
        found = self.columns(self.draw("scaling", self.file(rows)), "fixed", "method", "ranks", "drawn", "t_median_s", "speedup")
        self.assertEqual([f for f in found if f[1] == "onebit"], [("vector", "onebit", 2, "line", 2.5e-4, 4),
                         ("vector", "onebit", 4, "line", 2.5e-4, 4), ("vector", "onebit", 8, "oversubscribed", 2.5e-4, 4)])

    def test_scaling_sent(self):
        rows = rows_over([2, 4, 8], "ranks", wire_bytes_max=MIB // 4)
        found = self.columns(self.draw("scaling-sent", self.file(rows)), "bytes", "method", "ranks", "wire_bytes_max")
        self.assertEqual([f for f in found if f[1] == "onebit"], [(MIB, "onebit", ranks, MIB // 4) for ranks in (2, 4, 8)])

    def test_scale(self):
        """A step of resnet50: 7 calls, the first of which begins when the backward pass has made 16 MiB."""
        net = training_step.NETS["resnet50"]
        rows = [row for size in set(training_step.calls_of(net)) for row in
                rows_over([16, 64], "ranks", (("mpi", 1.0), ("onebit", 0.25)), bytes=size, status="simulated", sync="none", reps=1, link="sim:a")]
        for number, row in enumerate(rows):
            row["key"] = str(number)
        found = self.columns(self.draw("scale", self.file(rows), variant="resnet50-strong"), "method", "ranks", "t_step_s", "speedup")
        def step(ranks, call):
            return net.flop * net.samples * 256 / ranks / 1e14 * (1 + 2 * 16 * MIB / net.bytes) / 3 + 7 * call
        for method, ranks, took, speedup in found:
            call = 1 if method == "dense/fastest" else 0.25
            self.assertAlmostEqual(took, step(ranks, call), places=6)
            self.assertAlmostEqual(speedup, step(ranks, 1) / step(ranks, call), places=6)
        self.assertEqual(len(found), 6)

    def test_simulated_rows_are_drawn_as_such_and_beside_measured_ones_by_two_plots_only(self):
        rows = rows_over([2, 4], "ranks", status="simulated")
        files = self.file(rows, name="s.h5"), self.file(rows_over([8], "ranks"), name="m.h5")
        for name in ["all"] + [n for n, function in PLOTS.items() if function.takes == "results" and n not in ("scaling", "scaling-sent")]:
            self.refused(name, "some rows are measured and some are simulated: draw them apart", *files)
        self.assertEqual({r["drawn"] for r in self.draw("scaling", files[0])}, {"simulated"})

    def test_scaling_with_the_share_of_a_rank_fixed(self):
        rows = [point("mpi", ranks * MIB, 1e-3 * ranks, ranks=ranks) for ranks in (2, 4)]
        self.assertEqual(self.columns(self.draw("scaling", self.file(rows)), "fixed", "fixed_bytes", "ranks"),
                         [("share", MIB, 2), ("share", MIB, 4)])

    def test_distribution(self):
        rows = [point("mpi", MIB, 2e-3)]
        path = write_results(self.path("a.h5"), rows, np.array([[3e-3, 1e-3, 9.0, 2e-3, np.nan]]))
        self.assertEqual(self.columns(self.draw("distribution", path), "t_max_s", "share"),
                         [(1e-3, 0.25), (2e-3, 0.5), (3e-3, 0.75), (9, 1)], "the tail is kept")

    def test_launches(self):
        rows = [point("mpi", MIB, t, key=f"k{i}", launch=i, oversubscribed=int(i == 2)) for i, t in enumerate((1e-3, 2e-3, 3e-3))]
        self.assertEqual(self.columns(self.draw("launches", self.file(rows)), "launch", "t_median_s", "drawn"),
                         [(0, 1e-3, "line"), (1, 2e-3, "line"), (2, 3e-3, "oversubscribed")])

    def test_ranks(self):
        rows = [point("mpi", MIB, 2e-3)]
        path = self.with_dataset(self.file(rows), "samples/t_rank_s", np.array([[[1e-3, 2e-3], [3e-3, 4e-3], [np.nan] * 2]]))
        self.assertEqual(self.columns(self.draw("ranks", path), "repetition", "rank", "t_rank_s"),
                         [(0, 0, 1e-3), (0, 1, 2e-3), (1, 0, 3e-3), (1, 1, 4e-3)])

    def test_layers(self):
        rows = [point(m, size, t, model="net", layer=f"l{size}", layers_alike=alike) for size, t, alike in
                ((4 * KIB, 1e-3, 3), (MIB, 5e-3, 1)) for m in ("mpi", "onebit")]
        rows[-1]["oversubscribed"] = 1
        found = self.columns(self.draw("layers", self.file(rows)), "method", "layer", "layers_alike", "cumulative_s")
        self.assertEqual(found[:2], [("mpi", "l4096", 3, 3e-3), ("mpi", f"l{MIB}", 1, 8e-3)])
        self.assertTrue(all(math.isnan(f[-1]) for f in found[2:]), "a step with a bad layer has no sum")

    def test_data(self):
        rows = rows_over([0, 1], "input_id")
        rows[1]["speedup"] = 3
        path = self.file(rows, data=["x density=0.1", "x density=0.01"])
        found = self.columns(self.draw("data", path), "data", "method", "speedup")
        self.assertEqual(found, [("x density=0.01", "onebit", 4), ("x density=0.1", "onebit", 3)])

    def test_training(self):
        found = self.draw("training", training_files.three_methods(self.path("t.csv")))
        self.assertEqual(self.columns(found, "method", "epoch", "accuracy_lo", "accuracy", "accuracy_hi")[1],
                         ("mpi", 2, 0.96, 0.965, 0.97))

    def test_adacomp(self):
        runs = training_files.rows_of("adacomp", accuracies=(0.9, 0.95, 0.96), sent_bytes=5000)
        sent = [{**row, "sent_bytes": bytes_so_far} for row, bytes_so_far in zip(runs, (500000, 1000000, 1250000))]
        found = self.draw("adacomp", training_files.write(self.path("t.csv"), training_files.rows_of(), sent))
        self.assertEqual(self.columns(found, "method", "step", "ratio"), [("adacomp", 100, 40), ("adacomp", 200, 40), ("adacomp", 300, 80)])

    def test_logistic_regressions_are_no_training_of_networks(self):
        rows = training_files.rows_of("raw", accuracies=(0.9,) * 12, network="logistic", rate=0.1, batch=1000)
        self.refused("training", "no run of a network", training_files.write(self.path("t.csv"), rows))

    def test_codecs(self):
        path = self.path("q.csv")
        with open(path, "w", encoding="utf-8") as file:
            file.write("method,data,elements,bytes_per_element,rel_err,optimum,over_optimum,calls,residual\n"
                       "raw,normal,64,4,0,,,10,0\nbf16,normal,64,2,.002,,,10,.002\nint8,normal,64,1,.007,,,10,.007\n"
                       '"int8(scale=minmax)",normal,64,1.1,.008,,,10,.008\nonebit,normal,64,.1,.6,,,10,.8\n')
        found = self.draw("codecs", path)
        self.assertEqual({(r["method"], r["on_frontier"]) for r in found},
                         {("bf16", "1"), ("int8", "1"), ("int8(scale=minmax)", "0"), ("onebit", "1")})

    def test_other_tables_of_codecs_are_refused(self):
        path = self.path("q.csv")
        head = "method,data,elements,bytes_per_element,rel_err,calls,residual\n"
        for text, reason in (("int4,normal,64,x,.1,10,.1\n", "q.csv: line 2: bytes_per_element is 'x'"), ("", "nothing was measured"),
                             ("int4,normal,64,.5,-1,10,.1\n", "q.csv: line 2: rel_err is '-1'")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(head + text)
            self.refused("codecs", reason, path)

    def test_frontier(self):
        frontier_files.write(self.path(), {"onebit": (100, 0.2, 1e-3), "int8": (1000, 0.01, 2e-3), "topk": (1200, 0.3, 3e-3)})
        found = self.columns(self.draw("frontier", self.path("errors.csv")), "data", "method", "error", "bytes", "on_bytes", "shm", "on_shm", "on_none")
        self.assertEqual(found, [("a", "onebit", 0.2, 100, 1, 1e-3, 1, 0), ("a", "int8", 0.01, 1000, 1, 2e-3, 1, 0),
                                 ("a", "topk", 0.3, 1200, 0, 3e-3, 0, 1)])

    def test_files_of_another_frontier_are_refused(self):
        frontier_files.write(self.path(), {})
        self.refused("frontier", "errors.csv has no rows: nothing was measured", self.path("errors.csv"))
        frontier_files.write(self.path(), {"onebit": (100, 0.2, 1e-3)})
        with open(self.path("times.csv"), "w", encoding="utf-8") as file:
            file.write("method,data\n")
        self.refused("frontier", "times.csv: not what scripts/frontier writes: lacks the columns link", self.path("errors.csv"))

    def test_roofline(self):
        path = self.path("kernels.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"context": {"host_name": "h", "num_cpus": 2}, "benchmarks": [
                {"name": f"onebit/{work}/f32/{isa}/1024KiB/manual_time", "real_time": 100.0 * slow, "time_unit": "us",
                 "moved_GB/s": 20 / slow, "triad_GB/s": 25.0} for work in ("encode+feedback", "decode+add", "encode")
                for isa, slow in (("scalar", 4), ("avx2", 1))]}, file)
        found = self.columns(self.draw("roofline", path), "work", "isa", "elements_per_s", "elements_per_B")
        self.assertEqual(found, [(work, "avx2", 2621440000, 0.131072) for work in ("encode+feedback", "decode+add")])


class Legends(Drawn):
    def test_curves_are_listed_as_they_end_on_the_right(self):
        times = {"bf16": (1e-4, 5e-4), "onebit": (4e-4, 2e-4), "topk": (3e-4, 3e-4), "adaptive": (2e-4, 4e-4)}
        rows = [point(m, s, t) for m, both in times.items() for s, t in zip((MIB, 2 * MIB), both)]
        rows += [point("mpi", s, 1e-3) for s in (MIB, 2 * MIB)]
        selection = Selection([reader.read(self.file(rows))], [], "")
        for name, order in (("time", ["bf16", "adaptive", "topk", "onebit"]), ("speedup", ["onebit", "topk", "adaptive", "bf16"])):
            figure, _ = PLOTS[name](selection)
            listed = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
            self.assertEqual([method for method in listed if method in times], order)
            look.plt.close(figure)

    def test_many_long_names_make_the_figure_higher(self):
        rows = [point(f"topk(k=0.{i:03},select=sample)", MIB, 1e-3 + 1e-5 * i) for i in range(30)]
        self.draw("time", self.file(rows))

    def test_ticks_are_round_apart_and_as_many_as_fit(self):
        ticks = look.log_ticks
        self.assertEqual(ticks(60e3, 70e6, 2, 0.2), [2.0**16, 2.0**19, 2.0**22, 2.0**25])
        self.assertEqual(ticks(1, 100, 10, 0.2), [1, 3, 10, 30, 100])
        self.assertEqual(ticks(1, 100, 10, 0.1), [1, 2, 5, 10, 20, 50, 100])
        self.assertEqual(ticks(0.9, 1.2, 10, 0.1), [0.9, 1])


class Register(Drawn):
    def test_every_plot_has_a_test_words_and_a_file(self):
        folder = os.listdir(os.path.join(PACKAGE, "mpi_quant", "figures", "plots"))
        for name, function in PLOTS.items():
            self.assertTrue(hasattr(Plots, "test_" + name.replace("-", "_")), name)
            self.assertTrue(function.__doc__ and function.read, f"{name}: what it shows and how to read it")
            self.assertIn(name.replace("-", "_") + ".py", folder)

    def test_all_draws_what_applies_and_nothing_else(self):
        path = self.file(linear(), True)
        status, out, problem = self.run_program("plot", "all", path, "-o", self.path("out"), "--format", "png")
        self.assertEqual((status, problem), (0, ""))
        drawn = {re.search(r"a-([\w-]+)\.csv", line).group(1) for line in out.splitlines()}
        self.assertEqual(drawn, {"busbw", "distribution", "error", "speedup", "time"})

    def test_what_a_file_cannot_feed_is_refused_with_the_reason(self):
        lonely = self.file([point("mpi", MIB, 1e-3)])
        reasons = {"paper": "no row is of a matrix",
                   "phases": "phases", "scaling": "more than one number of ranks", "scaling-sent": "more than one number of ranks",
                   "scale": "scripts/simulate --training resnet50", "distribution": "no samples",
                   "launches": "more than one launch", "ranks": "/samples/t_rank_s",
                   "layers": "layer of a model", "data": "more than one distribution",
                   "roofline": "kernels.json",
                   "training": "TRAIN.csv", "adacomp": "TRAIN.csv", "codecs": "QUALITY.csv", "frontier": "errors.csv"}
        for name, reason in reasons.items():
            with self.subTest(name):
                self.refused(name, reason, lonely)

    def test_an_empty_selection_is_refused_by_every_plot(self):
        path = self.file(sweep())
        for name, function in PLOTS.items():
            if function.takes == "results":
                with self.subTest(name):
                    self.refused(name, "no rows match", path, "--where", "ranks=64")

    def test_other_json_is_refused(self):
        path = self.path("k.json")
        for content in ("{", "[]", '{"benchmarks": [{"name": "a"}], "context": {}}'):
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
            self.refused("roofline", "k.json: ", path)

    def test_bad_points_are_never_quoted(self):
        rows = [point(m, s, t, oversubscribed=1) for s in (MIB, 2 * MIB) for m, t in (("mpi", 1e-3), ("onebit", 2e-4))]
        path = self.file(rows, True)
        self.refused("distribution", "without oversubscription", path)
        self.assertEqual(self.columns(self.draw("busbw", path), "drawn"), [("oversubscribed",)] * 4)

    def test_rows_without_intervals_are_drawn(self):
        none = dict.fromkeys(("t_ci_lo_s", "t_ci_hi_s", "speedup_lo", "speedup_hi"), float("nan"))
        rows = [point(m, s, t, **none)
                for s in (MIB, 2 * MIB) for m, t in (("mpi", 1e-3), ("onebit", 2e-4))]
        for name, drawn in (("time", 4), ("speedup", 2), ("busbw", 4)):
            self.assertEqual(len(self.draw(name, self.file(rows))), drawn)

    def test_a_figure_is_the_same_bytes_when_made_again(self):
        path, seen = self.file(linear(), True), []
        for _ in range(2):
            status, _, _ = self.run_program("plot", "speedup", path, "-o", self.path("out"), "--format", "png,pdf,svg")
            self.assertEqual(status, 0)
            seen.append({})
            for suffix in ("png", "pdf", "svg", "csv"):
                with open(self.path("out", f"a-speedup.{suffix}"), "rb") as file:
                    seen[-1][suffix] = file.read()
        self.assertEqual(seen[0], seen[1])


if __name__ == "__main__":
    unittest.main()
