"""Every plot over every committed result file that can feed it.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/plots_files_test.py
"""
import math
import os
import re
import unittest

import figure_checks
from result_files import OTHER, OVER, SMALL
from scripts_common import ROOT, committed  # finds scripts/ for the next ones

import matplotlib.pyplot as plt

import mpiq_figure
import mpiq_results
import mpiq_sources
import plots  # noqa: F401  registers them
from mpiq_plots import PLOTS
from mpiq_selection import BEST_DENSE, Selection

FILES = [*(path for path in committed("*.h5") if not os.path.basename(path).startswith("link-")), SMALL, OTHER, OVER]


class CommittedFiles(unittest.TestCase):
    def drawn(self, function, source):
        figure, rows = function(source)
        plt.close(figure)
        self.assertGreater(len(rows), 0)
        self.assertEqual({tuple(row) for row in rows}, {tuple(rows[0])}, "all rows of a CSV have the same columns")
        return rows

    def select(self, *paths):
        results = [mpiq_results.read(path) for path in paths]
        return Selection(results, [], "", BEST_DENSE if all(r.samples is not None for r in results) else None)

    def test_every_plot_draws_every_file_to_which_it_applies(self):
        self.assertGreater(len(FILES), 10)
        for path in FILES:
            source = self.select(path)
            for name, function in PLOTS.items():
                if function.takes == "results" and function.applies(source):
                    with self.subTest(file=os.path.relpath(path, ROOT), plot=name):
                        self.drawn(function, source)

    def test_figures_of_the_reference_can_be_read(self):
        """Nothing collides, is cut off or covered, and legends are in the order of the curves."""
        folder = os.path.join(ROOT, "results", "reference")
        sources = mpiq_sources.read(sorted(path for path in committed("*.*") if os.path.dirname(path) == folder
                                           and re.search(r"\.h5$|kernels\.json$|(mnist-.*|quality)\.csv$", path)),
                                    lambda results: Selection(results, [], "", BEST_DENSE))
        for name, function in PLOTS.items():
            if function.applies(sources[function.takes]):
                with self.subTest(name):
                    figure, _ = function(sources[function.takes])
                    mpiq_figure.lay_out(figure)
                    self.assertEqual(figure_checks.problems(figure), [])
                    plt.close(figure)

    def test_two_links_of_one_host(self):
        """What the model says of the codec must not depend on the link behind which it hides."""
        folder = os.path.join(ROOT, "results", "reference")
        source = self.select(*(os.path.join(folder, f"lab-2x{rate}gbit.h5") for rate in (1, 10)))
        gamma = {}
        for row in self.drawn(PLOTS["model"], source):
            gamma.setdefault(row["method"], {})[row["link"]] = row["gamma_s_per_B"]
        for method in ("onebit", "adaptive"):
            slow, fast = gamma[method]["lab-1gbit"], gamma[method]["lab-10gbit"]
            self.assertLess(abs(math.log(slow / fast)), 0.1, method)
        for name in ("extrapolate", "frontier"):
            self.drawn(PLOTS[name], source)

    def test_the_same_numbers_again(self):
        """Bands come from random numbers, which are the same every time."""
        for name in ("extrapolate", "frontier"):
            again = [self.drawn(PLOTS[name], self.select(SMALL))
                     for _ in range(2)]
            self.assertEqual(*map(repr, again))


if __name__ == "__main__":
    unittest.main()
