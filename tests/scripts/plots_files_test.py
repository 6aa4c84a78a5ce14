"""Every plot over every committed result file that can feed it, and measured and simulated files in one figure.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/plots_files_test.py
"""
import glob
import os
import re
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np

import figure_checks
import frontier_files
from plots_test import MIB, Drawn, rows_over
from result_files import OTHER, OVER, SMALL
from results_test import point
from scripts_common import ROOT, committed  # finds scripts/ for the next ones

import matplotlib.pyplot as plt

from mpi_quant.figures import look
from mpi_quant.figures.plots.scaling import SCALED
from mpi_quant.results import frontier, kernel_rates, training_runs
from mpi_quant import _python
from mpi_quant.figures import source_files
from mpi_quant.figures import plots  # noqa: F401  registers them
from mpi_quant.figures.register import PLOTS
from mpi_quant.figures.selection import BEST_DENSE, Selection
from mpi_quant.results import reader

FILES = [*(path for path in committed("*.h5") if not os.path.basename(path).startswith("link-")), SMALL, OTHER, OVER]


class CommittedFiles(unittest.TestCase):
    def drawn(self, function, source):
        figure, rows = function(source)
        plt.close(figure)
        self.assertGreater(len(rows), 0)
        self.assertEqual({tuple(row) for row in rows}, {tuple(rows[0])}, "all rows of a CSV have the same columns")
        return rows

    def select(self, *paths):
        results = [reader.read(path) for path in paths]
        return Selection(results, [], "", BEST_DENSE if all(r.samples is not None for r in results) else None)

    @staticmethod
    def shape(path, source):
        """What decides which lines of a plot a file runs: the same for all files of one sweep."""
        results, points = source.results[0], source.points
        has = [getattr(results, name) is not None for name in ("samples", "t_rank", "exposed", "busy")]
        return (os.path.dirname(path), *has, len(list(source.panels())), *(tuple(sorted(set(points[column]))) for column in
                ("method", "bytes", "collective", "dtype", "place", "status", "launch", "grade", "oversubscribed", "data", "compute_percent")))

    def test_every_plot_draws_every_file_to_which_it_applies(self):
        seen = set()
        for path in FILES:
            source = self.select(path)
            shape = self.shape(path, source)
            if shape in seen:  # it differs from another one in numbers alone
                continue
            seen.add(shape)
            for name, function in PLOTS.items():
                if function.takes == "results" and function.applies(source):
                    with self.subTest(file=os.path.relpath(path, ROOT), plot=name):
                        self.drawn(function, source)
        self.assertGreater(len(seen), 10)

    def test_figures_of_the_reference_can_be_read(self):
        """Nothing collides, is cut off or covered, and legends are in the order of the curves."""
        folder = os.path.join(ROOT, "results", "reference")
        sources = source_files.read(sorted(path for path in committed("*.*") if os.path.dirname(path) == folder
                                           and re.search(r"\.h5$|kernels\.json$|(mnist-.*|quality)\.csv$", path)),
                                    lambda results: Selection(results, [], "", BEST_DENSE))
        for name, function in PLOTS.items():
            if function.takes in sources and function.applies(sources[function.takes]):
                with self.subTest(name):
                    figure, _ = function(sources[function.takes])
                    look.lay_out(figure)
                    self.assertEqual(figure_checks.problems(figure), [])
                    plt.close(figure)


class Both(Drawn):
    """Measured and simulated files of one network in one figure, by the plots that keep them apart."""

    def files(self, **changes):
        """onebit at 2 and 4 measured and 4 and 8 simulated ranks. At 4 both have a point, and the simulated one is 100 times slower."""
        slow, more = (("mpi", 0.2), ("onebit", 2.5e-2)), {"wire_bytes_max": MIB // 4, "link": "lab-1gbit", **changes}
        simulated = rows_over([4, 8], "ranks", slow, **{**more, "status": "simulated", "sync": "none", "reps": 1, "link": "sim:lab-1gbit"})
        for i, row in enumerate(simulated):
            row["key"] = f"sim-{i}"
        return self.file(rows_over([2, 4], "ranks", **more), name="m.h5"), self.file(simulated, name="s.h5")

    def lines(self, name, *paths):
        """The figure, and label -> (filled, ranks, values) of the curves of its only panel."""
        figure, _ = PLOTS[name](Selection([reader.read(path) for path in paths], [], "", both=True))
        self.addCleanup(plt.close, figure)
        axis, = figure.axes
        return figure, {line.get_label(): (line.get_markerfacecolor() != "white", *map(list, line.get_data())) for line in axis.lines}

    def test_both_are_in_the_panel_of_their_network(self):
        found = self.columns(self.draw("scaling", *self.files()), "link", "method", "ranks", "launches", "drawn", "t_median_s")
        self.assertEqual([f for f in found if f[1] == "onebit"],
                         [("lab-1gbit", "onebit", ranks, 1, "line", 2.5e-4) for ranks in (2, 4)]
                         + [("sim:lab-1gbit", "onebit", ranks, 1, "simulated", 2.5e-2) for ranks in (4, 8)])
        found = self.columns(self.draw("scaling-sent", *self.files()), "link", "method", "ranks", "drawn")
        self.assertEqual([f for f in found if f[1] == "onebit"], [("lab-1gbit", "onebit", 2, "line"), ("lab-1gbit", "onebit", 4, "line"),
                         ("sim:lab-1gbit", "onebit", 4, "simulated"), ("sim:lab-1gbit", "onebit", 8, "simulated")])

    def test_the_dense_line_is_the_fastest_algorithm_of_each_point(self):
        def rows(*dense, slower=1.0):
            out = rows_over([4, 8], "ranks", (*((m, t * (slower if r else 1)) for r, (m, t) in enumerate(dense)), ("onebit", 2e-3)), status="simulated",
                            sync="none", reps=1, link="sim:lab-1gbit", wire_bytes_max=MIB)
            for row in out:
                row["compressor"] = row["method"].partition(b"/")[0].replace(b"mpi", b"none")
            return self.file(out, name="dense.h5")
        for dense in ((("raw/recursive_doubling", 8e-3),), (("raw/ring", 8e-3), ("raw/grid", 8e-3))):
            for name in ("scaling", "scaling-sent"):
                self.refused(name, "alone is no baseline", rows(*dense))
        for name, method in (("scaling", "t_median_s"), ("scaling-sent", "wire_bytes_max")):
            found = self.columns(self.draw(name, rows(("mpi", 8e-3), ("raw/grid", 5e-3))), "method", "ranks", method)
            self.assertEqual({f[:2] for f in found}, {(m, r) for m in ("dense/fastest", "onebit") for r in (4, 8)})
        found = self.columns(self.draw("scaling", rows(("mpi", 8e-3), ("raw/grid", 5e-3))), "method", "algorithm", "t_median_s")
        self.assertEqual(set(found), {("dense/fastest", "raw/grid", 5e-3), ("onebit", "", 2e-3)})
        three = [(f"raw/{name}", 8e-3) for name in ("recursive_doubling", "halving_doubling", "ring")]
        self.assertTrue(self.draw("scaling", rows(*three)))

    def test_a_figure_of_a_simulation_says_so_and_names_no_host(self):
        _, path = self.files()
        figure, _ = PLOTS["scaling"](Selection([reader.read(path)], [], "", both=True))
        self.addCleanup(plt.close, figure)
        said = " ".join(figure.words[1])
        self.assertIn("4 to 8 ranks were simulated over sim:lab-1gbit, by mpiq-simulate at commit", said)
        self.assertNotIn("ran on host", said)
        self.assertNotIn("1 repetitions", said)
        labels = {line.get_label() for line in figure.axes[0].lines}
        self.assertEqual(SCALED in said, SCALED in labels)

    def test_no_line_joins_them(self):
        _, lines = self.lines("scaling", *self.files())
        self.assertEqual(lines["onebit"], (True, [2, 4], [2.5e-4] * 2))
        self.assertEqual(lines["onebit, simulated"], (False, [4, 8], [2.5e-2] * 2))
        self.assertEqual(lines[SCALED][1], [2, 4], "of the measured MPI_Allreduce, and as far as measured points go")

    def test_the_legend_and_the_footnote_tell_them_apart(self):
        for name in ("scaling", "scaling-sent"):
            figure, _ = self.lines(name, *self.files())
            look.lay_out(figure)  # looks at the figure, see Drawn
            upper, lower = ([text.get_text().replace("\n", " ") for text in legend.get_texts()]
                            for legend in look.legends(figure.axes[0]))
            self.assertEqual(set(upper) - {SCALED}, {"MPI_Allreduce fp32", "onebit"})
            self.assertEqual(set(lower), {"fastest dense algorithm, simulated", "onebit, simulated"})
            _, measured, simulated = figure.words[1]
            self.assertIn("Measured (filled markers): 4 rows of m.h5, 2 to 4 ranks on host host (cpu), over lab-1gbit,", measured)
            self.assertIn("4 rows of s.h5, 4 to 8 ranks over sim:lab-1gbit,", simulated)
            self.assertTrue(simulated.startswith("Simulated (hollow markers, thin lines; times are virtual): "), simulated)

    def test_the_legends_do_not_meet(self):
        """Many curves make the figure higher."""
        many = [(f"topk(k=0.{i:03},select=sample)", 1e-3 + 1e-5 * i) for i in range(20)]
        rows = rows_over([2, 4], "ranks", many, link="lab-1gbit")
        figure, _ = self.lines("scaling", self.file(rows, name="many.h5"), self.files()[1])
        look.lay_out(figure)
        one, other = (legend.get_window_extent(figure.canvas.get_renderer()) for legend in look.legends(figure.axes[0]))
        self.assertFalse(one.overlaps(other))
        self.assertLess(max(one.x1, other.x1), figure.bbox.width)

    def test_measured_points_that_are_not_good_are_half_filled(self):
        figure, _ = self.lines("scaling", *self.files(oversubscribed=1))
        fills = {line.get_label(): line.get_fillstyle() for line in figure.axes[0].lines}
        self.assertEqual((fills["onebit, simulated"], fills[look.HOLLOW]), ("full", "bottom"))

    def test_a_figure_with_one_kind_only_is_refused(self):
        measured, simulated = self.files()
        other = self.file(rows_over([2], "ranks", link="shm"), name="shm.h5")
        self.refused("scaling", "no measured row has a panel", other, simulated)
        self.refused("scaling", "rows differ in place (in, out)", self.file(rows_over([2], "ranks", link="lab-1gbit", place="in")), simulated)

    def test_committed_files(self):
        results = os.path.join(ROOT, "results")
        for rate in (1, 10):
            found = self.draw("scaling", os.path.join(results, "reference", f"lab-2x{rate}gbit.h5"),
                              os.path.join(results, "2026-11-25-scale", f"simulated-lab-{rate}gbit.h5"), "--baseline", "best-dense")
            ranks = {drawn: {int(r["ranks"]) for r in found if r["drawn"] == drawn} for drawn in ("line", "simulated")}
            self.assertEqual(ranks, {"line": {2}, "simulated": {2**i for i in range(1, 11)}})
            self.assertEqual({(r["link"], r["drawn"]) for r in found}, {(f"lab-{rate}gbit", "line"), (f"sim:lab-{rate}gbit", "simulated")})


class Figures(Drawn):
    """What a figure says of itself."""

    def test_the_user_s_settings_of_matplotlib_change_nothing(self):
        def drawn(name, **env):
            done = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "plot"), "speedup", SMALL, "-o", self.path(name), "--format", "png",
                                   "--title", "a $\\frac{ b$"], env={**os.environ, **env}, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            (path,) = [os.path.join(self.path(name), file) for file in os.listdir(self.path(name)) if file.endswith(".png")]
            with open(path, "rb") as file:
                return file.read()
        with open(self.path("matplotlibrc"), "w", encoding="utf-8") as file:
            file.write("axes.labelsize: 20\ntext.usetex: True\nbackend: TkAgg\n")
        plain = drawn("plain")
        self.assertEqual(drawn("notebook", MPLBACKEND="module://matplotlib_inline.backend_inline"), plain)
        self.assertEqual(drawn("own", MATPLOTLIBRC=self.path("matplotlibrc")), plain)

    def test_one_late_call_does_not_hide_the_others_in_the_colours_of_ranks(self):
        times = np.full((1, 50, 2), 1e-3)
        for latest, darkest in ((2e-3, 2), (1.0, 5)):
            times[0, 7, 1] = latest
            figure, _ = PLOTS["ranks"](Selection([reader.read(self.with_dataset(self.file([point("mpi", MIB, 1e-3)]), "samples/t_rank_s", times))], [], ""))
            image, = figure.axes[0].images
            self.assertAlmostEqual(image.norm.vmax, darkest)
            self.assertEqual(image.colorbar.extend, "max" if latest == 1 else "neither", "an arrow says that some are beyond")
            look.plt.close(figure)

    def test_the_titles_of_scaling_say_what_normal_is(self):
        figure, _ = PLOTS["scaling"](Selection([reader.read(self.file(rows_over([2, 4], "ranks", link="a")))], [], "", both=True))
        self.addCleanup(look.plt.close, figure)
        self.assertEqual(figure.axes[0].get_title().split(), ["vector", "of", "1", "MiB,", "a,", "normal", "input"])

    def test_ranks_draws_every_method_or_says_which_not(self):
        for many in (8, 14):
            rows = [point(f"topk(k=0.{i:02})", MIB, 1e-3) for i in range(1, many + 1)]
            path = self.with_dataset(self.file(rows, name=f"{many}.h5"), "samples/t_rank_s", np.full((many, 3, 2), 1e-3))
            figure, found = PLOTS["ranks"](Selection([reader.read(path)], [], ""))
            self.addCleanup(look.plt.close, figure)
            panels = [axis.get_title() for axis in figure.axes if axis.get_title().startswith("topk")]
            said = " ".join(figure.words[1])
            self.assertEqual(len({row["method"] for row in found}), many, "the CSV has all")
            self.assertEqual(len(panels), min(many, 12))
            self.assertEqual(said.count("topk"), many - len(panels), said)
            self.assertIn("time /\nmedian", [axis.get_title() for axis in figure.axes])

    def test_no_codec_is_above_the_roof_and_each_mark_has_the_number_of_its_codec(self):
        for folder in ("reference", "2026-11-24-epyc-codecs"):
            figure, found = PLOTS["roofline"](kernel_rates.read([os.path.join(ROOT, "results", folder, "kernels.json")]))
            self.addCleanup(look.plt.close, figure)
            for axis, size in zip(figure.axes, sorted({row["bytes"] for row in found}, reverse=True)):
                rows = sorted((row["method"], row["elements_per_B"], row["elements_per_s"]) for row in found if row["bytes"] == size)
                x, y = next(line.get_xydata()[0] for line in axis.lines if line.get_label().startswith("roof: "))
                self.assertEqual([row for row in rows if row[2] > row[1] * y / x * (1 + 1e-9)], [])
                named = dict(text.get_text().replace("\n", "").split(": ", 1) for text in axis.get_legend().get_texts() if ": " in text.get_text())
                self.assertEqual(sorted((named[text.get_text()], *text.xy) for text in axis.texts), rows)

    def drawn(self, name, source):
        figure, _ = PLOTS[name](source)
        self.addCleanup(look.plt.close, figure)
        look.lay_out(figure)  # looks at the figure, see Drawn
        return figure, " ".join(figure.words[1])

    def test_lines_that_are_no_method_are_in_the_legend(self):
        frontier_files.write(self.path(), {"onebit": (100, 0.2, 1e-3), "int8": (1000, 0.01, 2e-3), "topk": (1200, 0.3, 3e-3)})
        figure, said = self.drawn("frontier", frontier.read(self.path()))
        self.assertTrue(all("frontier: no method is better in both" in {line.get_label() for line in axis.lines} for axis in figure.axes))
        for words in ("Lower is more accurate and further left is cheaper", "Large marks are preset", "A hollow mark is on no frontier"):
            self.assertIn(words, said)
        figure, _ = self.drawn("adacomp", training_runs.read([os.path.join(ROOT, "results", "2026-11-26-xeon-training", "mnist-cnn-adacomp.csv")]))
        self.assertLessEqual({"paper: convolutions, bins of 50", "paper: dense layers, bins of 500"}, {line.get_label() for line in figure.axes[0].lines})

    def test_markers_are_whole(self):
        rows = [point("mpi", MIB, 1e-3, err_rel_l2=3e-8), point("topk", MIB, 1e-3, err_rel_l2=1.0)]
        figure, _ = self.drawn("error", Selection([reader.read(self.file(rows))], [], ""))
        box = figure.axes[0].get_window_extent()
        for line in figure.axes[0].lines:
            half = (line.get_markersize() + line.get_markeredgewidth()) / 2 * figure.dpi / 72
            self.assertTrue(all(box.y0 + half <= y <= box.y1 - half for _, y in line.get_transform().transform(line.get_xydata())))

    def test_launches_are_below_the_names_of_their_methods(self):
        figure, _ = self.drawn("launches", Selection([reader.read(os.path.join(ROOT, "results", "2026-11-24-epyc-codecs", "shm.h5"))], [], ""))
        self.assertLessEqual({"mpi", "mpi/smp", "qsgd(bits=8)"}, {text.get_text() for text in figure.axes[0].get_xticklabels()})

    def test_a_dense_call_is_a_bar_beside_the_phases(self):
        figure, said = self.drawn("phases", Selection([reader.read(os.path.join(ROOT, "results", "reference", "shm.h5"))], [], ""))
        left, right = figure.axes
        self.assertEqual("fastest dense: MPI_Allreduce fp32, 54.340 ms", left.get_yticklabels()[0].get_text().replace("\n", " "))
        self.assertAlmostEqual(left.patches[0].get_width(), 0.05434, 5)
        self.assertEqual([text.get_text() for text in right.get_legend().get_texts()], ["whole call", "encode", "wait", "decode", "other"])
        self.assertIn('"Other" is the rest of its time', said)


class Interpreter(Drawn):
    """The Python of an active environment runs the scripts, and a missing or broken module is one line."""

    def check(self, **env):
        clean = {name: value for name, value in os.environ.items() if name not in ("CONDA_PREFIX", "PYTHONPATH", "VIRTUAL_ENV")}
        return subprocess.run([os.path.join(ROOT, "scripts", "check_results"), SMALL], env={**clean, **env}, capture_output=True, text=True,
                              check=False)

    def environment(self, *words):
        folder = self.path("venv")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", *words, folder], check=True)
        return folder, os.pathsep.join((os.path.join(folder, "bin"), os.environ["PATH"]))

    def test_an_active_environment_is_used(self):
        folder, path = self.environment("--system-site-packages")
        (packages,) = glob.glob(os.path.join(folder, "lib", "python3*", "site-packages"))
        with open(os.path.join(packages, "mark.pth"), "w", encoding="utf-8") as file:
            file.write("import sys; sys.stderr.write('of the environment')\n")
        done = self.check(PATH=path)
        self.assertEqual((done.returncode, done.stderr.replace("of the environment", "")), (0, ""), done.stdout)
        self.assertIn("of the environment", done.stderr)

    def test_a_missing_module_is_one_line_that_names_the_python(self):
        folder, path = self.environment()
        done = self.check(PATH=path)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f"scripts/check_results: {folder}/bin/python3 has no module numpy, h5py: run scripts/setup plot, or activate "
                         "an environment that has them\n")

    def test_debian_s_python_goes_on_for_one_that_nobody_has_chosen(self):
        for chosen in (False, True):
            with mock.patch.object(sys, "executable", "/elsewhere/bin/python3"), mock.patch.object(sys, "argv", ["scripts/plot", "x"]), \
                    mock.patch.object(_python, "is_environment", lambda chosen=chosen: chosen), mock.patch("os.access", return_value=True), \
                    mock.patch("os.execv", side_effect=OSError("this program has ended")) as other:
                self.assertRaises(SystemExit if chosen else OSError, _python.settle, "scripts/plot", ("no_such_module",))
            self.assertEqual([call.args for call in other.call_args_list], [] if chosen else [("/usr/bin/python3", ["/usr/bin/python3", "scripts/plot", "x"])])
        with mock.patch("os.execv") as other:
            _python.settle("scripts/plot", ("numpy", "h5py"))
        other.assert_not_called()

    def test_modules_for_another_numpy_are_one_line_that_names_both(self):
        with open(self.path("h5py.py"), "w", encoding="utf-8") as file:
            file.write("import sys\nsys.stderr.write('A module that was compiled for NumPy 1\\n' * 40)\n"
                       "raise ImportError('numpy.core.multiarray failed to import')\n")
        done = self.check(PATH=os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"])), PYTHONPATH=self.path())
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1), done.stderr)
        self.assertRegex(done.stderr, r"scripts/check_results: h5py \(.*/h5py\.py\) cannot be imported, with numpy [0-9.]+ \(.*numpy.*\): "
                         r"numpy\.core\.multiarray failed to import\. .*PYTHONNOUSERSITE=1")


if __name__ == "__main__":
    unittest.main()
