"""The form of figures for a paper, and the figures of a folder.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/plots_forms_test.py
"""
import os
import re
import unittest
from unittest import mock

import matplotlib.pyplot as plt

from plots_test import MIB, Drawn, rows_over
from result_files import SMALL
from results_test import point
from scripts_common import ROOT, call, script  # finds the package for the next ones

from mpi_quant.figures import look
from mpi_quant.figures.plots import scale
from mpi_quant.figures.register import PLOTS
from mpi_quant.figures.selection import Selection
from mpi_quant.results import reader, training_step


class Paper(Drawn):
    """Figures for a paper: as wide as asked, the words beside them, one legend below, letters that can be read in print."""

    FILES = [os.path.join(ROOT, "results", "2026-11-28-training-scale", f"training-{name}.h5") for name in
             ("ethernet-10gbit", "rdma-100gbit", "rdma-400gbit")]

    def draw_paper(self, name, *words):
        """The files of a plot by the end of their names. Each figure is looked at, see Drawn."""
        seen, lay_out = [], look.lay_out
        def looked(figure, *arguments):
            lay_out(figure, *arguments)
            seen.append((len(figure.legends), [legend for axis in figure.axes for legend in look.legends(axis)], len(figure.texts), figure.get_figwidth(),
                         min(text.get_fontsize() for text in figure.findobj(look.plt.Text) if text.get_visible() and text.get_text())))
        with mock.patch.object(look, "lay_out", looked), mock.patch.object(PLOTS["scale"], "variants", lambda _: ["bert-base-strong"]):
            status, out, problem = self.run_program("plot", name, *words, "-o", self.path("out"), "--name", "f", "--format", "png")
        self.addCleanup(look.use_style)
        self.assertEqual((status, problem), (0, ""))
        for below, beside, words_in_figure, _, letters in seen:
            self.assertEqual((below, beside, words_in_figure), (1, [], 0))
            self.assertGreaterEqual(letters, 7)
        return {width for *_, width, _ in seen}, [os.path.basename(path) for path in out.split()]

    def test_the_widths_are_those_of_a_column_and_a_page(self):
        for words, width in ((("--paper", "column"), 3.3), (("--paper", "page", "--width", "5"), 5)):
            widths, files = self.draw_paper("scale", *self.FILES, *words)
            self.assertEqual(widths, {width})
            self.assertIn("f-scale-bert-base-strong.txt", files)
            self.assertEqual(plt.imread(self.path("out", "f-scale-bert-base-strong.png")).shape[1], round(400 * width))

    def test_the_words_are_in_a_file_beside(self):
        self.draw_paper("scale", self.FILES[0], "--paper", "page", "--flops", "5e13")
        with open(self.path("out", "f-scale-bert-base-strong.txt"), encoding="utf-8") as file:
            said = " ".join(file.read().split())
        for words in ("A training step of bert-base, strong scaling. Simulated, not measured", "8192 sequences of 128 tokens in all, shared among the ranks",
                      "an accelerator that makes 5e+13 of them a second", "10 Gbit/s: latency 20 us, 1 us of a processor for each message",
                      "Command: ", "mpiq-simulate --ranks 16,64,256,1024"):
            self.assertIn(words, said)

    def test_other_plots_have_the_form_too(self):
        self.assertEqual(self.draw_paper("error", SMALL, "--paper", "page")[0], {7})

    def test_scaling_has_the_speed_up_below_and_a_thick_baseline(self):
        folder, seen, lay_out = os.path.join(ROOT, "results", "2026-11-25-scale"), [], look.lay_out
        with mock.patch.object(look, "lay_out", lambda figure: (lay_out(figure), seen.append(figure))):
            self.draw_paper("scaling", *(os.path.join(folder, f"simulated-ethernet-10gbit{more}.h5") for more in ("", "-4096")), "--paper", "page")
        figure, = seen
        above, below = figure.axes[:3], figure.axes[3:]
        self.assertEqual({axis.get_ylabel() for axis in (above[0], below[0])}, {"time of a call", "speed-up"})
        for upper, lower in zip(above, below):
            times, gains = ({line.get_label(): dict(zip(*line.get_data())) for line in axis.lines} for axis in (upper, lower))
            dense = times["fastest dense algorithm"]
            for method in ("bf16", "onebit", "onebit/direct"):
                self.assertEqual(set(gains[method]), set(times[method]))
                for ranks, gain in gains[method].items():
                    self.assertAlmostEqual(gain, dense[ranks] / times[method][ranks])
            widths = {line.get_label(): line.get_linewidth() for line in upper.lines}
            self.assertGreater(widths["fastest dense algorithm"], 2 * widths["onebit"])
            self.assertNotIn("fastest dense algorithm", gains)

    def test_too_many_panels_for_the_width_are_refused(self):
        many = [self.file([point("mpi", MIB, 1e-3, key=f"k{ranks}", ranks=ranks) for ranks in range(2, 7)])]
        self.refused("time", "5 panels in a row have no room in 3.3 inches", *many, "--paper", "column")
        self.addCleanup(look.use_style)
        for words, reason in ((("--width", "1"), "2 to 12 inches"), (("--paper", "poster"), "invalid choice"), (("--flops", "0"), "a positive number")):
            status, _, problem = self.run_program("plot", "time", *many, *words)
            self.assertEqual(status, 2)
            self.assertIn(reason, problem)

    def test_committed_steps(self):
        """The model's own promises: a step takes at least its computation and its calls, and auto is never slower than the others."""
        source = Selection([reader.read(path) for path in self.FILES], [], "")
        self.assertEqual(PLOTS["scale"].variants(source), [f"{net}-{kind}" for net in training_step.NETS for kind in training_step.SCALINGS])
        for name in training_step.NETS:
            both = {kind: {(r["link"], r["ranks"], r["method"]): r for r in scale.steps(source, name, kind)} for kind in training_step.SCALINGS}
            self.assertEqual({key[1] for key in both["weak"]}, {16, 64, 256, 1024})
            for rows in both.values():
                for (link, ranks, method), row in rows.items():
                    self.assertGreaterEqual(row["t_step_s"], max(row["compute_s"], row["calls_s"]))
                    self.assertLessEqual(row["t_step_s"], row["compute_s"] + row["calls_s"])
                    self.assertLessEqual(rows[link, ranks, "auto"]["t_step_s"], row["t_step_s"])
                    self.assertTrue(method != "dense/fastest" or row["speedup"] == 1)
            for key, row in both["weak"].items():
                self.assertEqual(row["t_step_s"] == both["strong"][key]["t_step_s"], key[1] == training_step.STRONG_RANKS, "alike at 256 ranks")

    def test_nets_are_those_of_the_benchmark(self):
        with open(os.path.join(ROOT, "bench", "models.cpp"), encoding="utf-8") as file:
            text = file.read()
        for name, net in training_step.NETS.items():
            published = re.search(rf"""Model{{"{name}", "[^"]*",\s*([\d']+),""", text)[1]
            self.assertEqual(net.parameters, int(published.replace("'", "")))
            self.assertEqual(sum(training_step.calls_of(net)), net.bytes)
            self.assertEqual(net.bytes, 4 * net.parameters)


class Folders(Drawn):
    def test_draw_makes_scaling_where_there_are_several_numbers_of_ranks(self):
        self.file(rows_over([2, 4], "ranks"), True, name="shm.h5")
        done = call(script("draw"), self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(name for name in os.listdir(self.folder) if name.endswith(".csv")),
                         ["shm-error.csv", "shm-scaling.csv", "shm-speedup.csv", "shm-time.csv"])

    def test_a_plot_that_need_not_be_drawn_is_no_error(self):
        path = self.file(rows_over([2], "ranks"), True)
        self.assertEqual(self.run_program("plot", "scaling", path, "--if-applies", "-o", self.path("out")), (0, "", ""))
        self.assertEqual(self.run_program("plot", "roofline", path, "--if-applies", "-o", self.path("out")), (0, "", ""))
        self.assertFalse(os.path.exists(self.path("out")))


if __name__ == "__main__":
    unittest.main()
