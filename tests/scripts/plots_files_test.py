"""Every plot over every committed result file that can feed it.

Needs neither network, root nor a build: /usr/bin/python3 tests/scripts/plots_files_test.py
"""
import math
import os
import unittest
from unittest import mock

from scripts_common import ROOT, InTemporaryFolder, committed  # finds scripts/ for the next ones

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

import mpiq_figure
import mpiq_kernels
import mpiq_results
import plots  # noqa: F401  registers them
from mpiq_plots import PLOTS
from mpiq_selection import BEST_DENSE, Selection

FILES = committed("*.h5")


class CommittedFiles(InTemporaryFolder):
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
        # Margins take half of the time. Other tests have them.
        without_margins = mock.patch.object(Figure, "tight_layout")
        without_margins.start()
        self.addCleanup(without_margins.stop)
        for path in FILES:
            source = self.select(path)
            for name, function in PLOTS.items():
                if function.takes == "results" and function.applies(source):
                    with self.subTest(file=os.path.relpath(path, ROOT), plot=name):
                        self.drawn(function, source)

    def test_kernels(self):
        for path in committed("kernels.json"):
            self.drawn(PLOTS["roofline"], mpiq_kernels.read([path]))

    def test_two_links_of_one_host(self):
        """What the model says of the codec must not depend on the link behind which it hides."""
        folder = os.path.join(ROOT, "results", "2026-11-21-xeon")
        source = self.select(*(os.path.join(folder, f"lab-2x{rate}gbit.h5") for rate in (1, 10)))
        gamma = {}
        for row in self.drawn(PLOTS["model"], source):
            gamma.setdefault(row["method"], {})[row["link"]] = row["gamma_s_per_B"]
        for method in ("onebit", "adaptive"):
            slow, fast = gamma[method]["lab-1gbit"], gamma[method]["lab-10gbit"]
            self.assertLess(abs(math.log(slow / fast)), 0.1, method)
        for name in ("extrapolate", "frontier"):
            self.drawn(PLOTS[name], source)

    def test_the_same_bytes_again(self):
        for name in ("extrapolate", "frontier"):
            seen = []
            for _ in range(2):
                figure, rows = PLOTS[name](self.select(os.path.join(ROOT, "results", "2026-11-21-epyc", "lab-1gbit.h5")))
                written = mpiq_figure.save(figure, rows, self.path(name), ["png", "pdf"])
                seen.append([read(path) for path in written])
            self.assertEqual(seen[0], seen[1])


def read(path):
    with open(path, "rb") as file:
        return file.read()


if __name__ == "__main__":
    unittest.main()
