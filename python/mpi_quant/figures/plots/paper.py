"""Square matrices as in Dryden et al. 2016."""
import numpy as np
from matplotlib import ticker

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import draw, extent, plot
from mpi_quant.figures.selection import PANEL, PlotError, names_of, words
from mpi_quant.results import reader

PUBLISHED = 1.76  # Dryden et al. 2016, abstract: adaptive over the next best quantizer, largest layers


def has_matrices(selection):
    return (selection.points["matrix_side"] > 0).any()


def against_earlier(results, panel):
    """(method, side, ratio, low, high, method it is compared with) of the adaptive rows of one panel at its largest side."""
    out = []
    for result in results:
        rebased = reader.rebased(result, reader.earlier).points
        mine = rebased[np.logical_and.reduce([rebased[c] == v for c, v in zip(PANEL, panel)])]
        rows = mine[(mine["matrix_side"] == mine["matrix_side"].max()) & (mine["compressor"] == "adaptive")] if len(mine) else mine
        for row in rows[np.isfinite(rows["speedup"])]:
            base = rebased["method"][rebased["key"] == row["base_key"]][0]
            out.append((row["method"], row["matrix_side"], row["speedup"], row["speedup_lo"], row["speedup_hi"], base))
    return sorted(out, key=lambda found: -found[2])


@plot("paper", has_matrices, read="""Lower is better. Each rank adds a square matrix, as layers of a network are. The numbers in the legend are
what the adaptive quantizer gains over the best quantizer before it, at the largest side.""")
def paper(selection):
    """The time of a call against the side of a square matrix, as in Dryden et al. 2016."""
    if not has_matrices(selection):
        raise PlotError(f"{names_of(selection.results)}: no row is of a matrix (mpiq-bench --matrix)")
    figure, axes, rows = draw(selection, ("t_median_s", "t_ci_lo_s", "t_ci_hi_s"), "time of a call",
                              lambda points: points[points["matrix_side"] > 0], x="matrix_side",
                              xlabel="side of the square matrix each rank adds")
    fig.log_axis(axes[0], 10, ticker.EngFormatter(unit="s"), *extent(rows, "t_median_s", "t_ci_lo_s", "t_ci_hi_s"))
    found, looks = [], selection.looks(row["method"] for row in rows)
    for axis, panel in zip(axes, [key for key, points in selection.panels() if (points["matrix_side"] > 0).any()]):
        lines = against_earlier(selection.results, panel)
        gains = {looks[method][3]: f" {ratio:.2f} [{low:.2f}, {high:.2f}]" for method, _, ratio, low, high, _ in lines}
        for line in axis.lines:
            line.set_label(line.get_label() + gains.get(line.get_label(), ""))
        found += lines
    comparison = ("" if not found else
                  f" The legends have the paired speed-ups of the adaptive methods over the fastest of onebit and threshold, here "
                  f"{words(line[5] for line in found)}, with their 95 % intervals. The published speed-up is {PUBLISHED}, for the "
                  "largest layers.")
    fig.finish(figure, selection.title or "Allreduce of square matrices, after Dryden et al. 2016",
               selection.footer("Times are medians of the slowest rank's time, and bands are their 95 % intervals." + comparison))
    return figure, rows
