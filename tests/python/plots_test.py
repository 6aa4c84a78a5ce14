"""The figures of a notebook, without MPI: they show what the command shows, and leave the user's settings and axes alone."""
import csv
import os
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec

import numpy as np

from mpi_quant import plots, results

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
PATH = os.path.join(ROOT, "results", "reference", "shm.h5")
MISSING = [name for name in ("h5py", "matplotlib") if not find_spec(name)]
NAMES = {"speedup": "speedup", "time": "t_median_s", "error": "err_rel_l2"}  # and the column of the CSV that is drawn


@unittest.skipIf(MISSING, f"no {', '.join(MISSING)}")
class Plots(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import matplotlib
        matplotlib.use("svg")  # not what the command draws with
        import matplotlib.pyplot
        cls.plt, cls.file = matplotlib.pyplot, results.open(PATH)

    def tearDown(self):
        self.plt.close("all")

    def curve(self, axes, colour):
        """x and y of the line of a colour."""
        (line,) = [line for line in axes.lines if line.get_color() == colour and len(line.get_xdata()) > 1 and line.get_marker() != "None"]
        return line.get_xydata()

    def test_they_show_what_the_command_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, column in NAMES.items():
                subprocess.run([sys.executable, "-m", "mpi_quant", "plot", name, PATH, "-o", folder, "--name", "f", "--format", "png"], check=True,
                               stdout=subprocess.DEVNULL)
                with open(f"{folder}/f-{name}.csv", encoding="utf-8") as file:
                    rows = [(float(row["bytes"]), float(row[column])) for row in csv.DictReader(file) if row["method"] == "onebit"]
                axes = getattr(plots, name)(self.file.points, self.plt.figure().subplots()).axes[0]
                self.assertGreater(len(rows), 3)
                np.testing.assert_allclose(self.curve(axes, "#D55E00"), rows, rtol=1e-8)

    def test_records_and_some_rows(self):
        records = self.file.records
        some = records[np.isin(records["method"], ("mpi", "bf16"))]
        names = [text.get_text() for text in plots.time(some).axes[0].get_legend().get_texts()]
        self.assertEqual(sorted(names), ["MPI_Allreduce fp32", "bf16"])

    def test_axes_of_the_user(self):
        figure, (left, right) = self.plt.subplots(1, 2)
        right.plot([1, 2], label="mine")
        size = tuple(figure.get_size_inches())
        self.assertIs(plots.pareto(self.file.points, ax=left), figure)
        self.assertEqual((left.get_xscale(), right.get_xscale(), len(right.lines), right.get_legend()), ("log", "linear", 1, None))
        self.assertIsNotNone(left.get_legend())
        self.assertEqual((len(figure.axes), figure.texts, tuple(figure.get_size_inches())), (2, [], size))

    def test_settings_and_backend_of_the_user(self):
        import matplotlib
        with matplotlib.rc_context({"font.size": 17, "axes.grid": False}):
            before, environment = dict(matplotlib.rcParams), dict(os.environ)
            for name in (*NAMES, "pareto"):
                axes = getattr(plots, name)(self.file.points).axes[0]
                self.assertAlmostEqual(axes.xaxis.label.get_fontsize(), 17)
            self.assertEqual((dict(matplotlib.rcParams), dict(os.environ)), (before, environment))
        self.assertEqual(matplotlib.get_backend().lower(), "svg")
        self.assertNotIn("plots", sys.modules)  # a name for modules of the user

    def test_points_that_cannot_be_drawn(self):
        records = self.file.records
        two = np.concatenate([records, records])
        two["ranks"][len(records):] += 1
        two["key"][len(records):] = range(len(records))
        self.assertEqual(len([axes for axes in plots.time(two).axes if axes.get_visible()]), 2)
        for points, why in ((two, "one axes has room for one panel, and these points make 2"), (records[:0], "there are no points"),
                            (records[["key", "status"]], "lack the columns grade, algorithm")):
            with self.assertRaisesRegex(ValueError, why):
                plots.time(points, self.plt.figure().subplots())
        with self.assertRaisesRegex(TypeError, "not list"):
            plots.time([1, 2])
        with self.assertRaisesRegex(ValueError, "mpi_quant.plots: points: no row has a value of speedup"):
            plots.speedup(records[records["method"] == "mpi"])


class Alone(unittest.TestCase):
    def test_without_matplotlib_a_call_says_so(self):
        code = "import sys; sys.modules['matplotlib'] = None; from mpi_quant import plots\ntry: plots.time(None)\nexcept ImportError as error: print(error)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"^mpi_quant\.plots needs (matplotlib|h5py)")


if __name__ == "__main__":
    unittest.main(verbosity=2)
