"""Achieved against requested compression, by what was reduced: whether a ratio is what it says."""
import numpy as np

import mpiq_figure as fig
from mpiq_plots import plot
from mpiq_results import dense
from mpiq_selection import PlotError, names_of, span

COLUMNS = ("ratio_target", "ratio_achieved")


def asked(points):
    """The valid rows of methods that promise a ratio. Ratios do not depend on ranks that share cores."""
    if any(c not in points.dtype.names for c in COLUMNS):
        return points[:0]
    return points[~dense(points) & (points["status"] == "ok") & (points["ratio_target"] > 1) & (points["ratio_achieved"] > 0)]


def applies(selection):
    return len(asked(selection.points)) > 0


def entries(points):
    """A row of the CSV for each method and size of one distribution. It is the median over links and launches, which send the
    same."""
    for method in sorted(set(points["method"]), key=fig.order):
        for size in sorted(set(points["bytes"])):
            rows = points[(points["method"] == method) & (points["bytes"] == size)]
            if len(rows):
                yield {"data": str(rows["data"][0]), "dtype": str(rows["dtype"][0]), "method": str(method), "bytes": int(size),
                       **{c: float(np.median(rows[c])) for c in COLUMNS}}


@plot("ratio", applies, read="""Points on the diagonal send exactly what was asked for. Above it a method sends less: its bound is
for the worst input. One marker for each size of a method.""")
def ratio(selection):
    """Achieved against requested compression ratio, a panel for each distribution."""
    points = asked(selection.points)
    if not len(points):
        raise PlotError(f"{names_of(selection.results)}: no valid row of a method that is asked for a ratio")
    panels = [(dtype, data, list(entries(points[(points["data"] == data) & (points["dtype"] == dtype)])))
              for dtype, data in sorted({(str(row["dtype"]), str(row["data"])) for row in points})]
    figure, axes = fig.panels([f"{fig.DTYPES.get(t, t)}, {d}" for t, d, _ in panels],
                              "achieved ratio, log scale", "requested ratio, log scale")
    rows = [row for _, _, found in panels for row in found]
    looks = fig.looks(sorted({row["method"] for row in rows}, key=fig.order))
    ends = [row[c] for row in rows for c in COLUMNS]
    low, high = min(ends) / 1.5, max(ends) * 1.5
    for axis, (_, _, found) in zip(axes, panels):
        axis.plot([low, high], [low, high], color="#888888", linewidth=0.8)
        for row in found:
            colour, marker, _ = looks[row["method"]]
            axis.plot(row["ratio_target"], row["ratio_achieved"], color=colour, marker=marker, linestyle="none",
                      markerfacecolor="none", markersize=7)
    ticks = [2.0**e for e in range(int(np.floor(np.log2(low))), int(np.ceil(np.log2(high))) + 1)]
    fig.values_axis(axes[0], ticks, low, max(row["ratio_target"] for row in rows) * 1.5)
    axes[0].set_yscale("log", base=2)
    axes[0].set_ylim(low, high)
    axes[0].set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes[0].yaxis.set_minor_locator(fig.ticker.NullLocator())
    axes[0].set_xlim(low, max(row["ratio_target"] for row in rows) * 1.5)
    fig.marks_legend(figure, looks, selection.dtypes)
    fig.finish(figure, selection.title or "Compression ratio: asked for and achieved", selection.footer(
        f"Uncompressed over sent bytes of all ranks, headers included; {span(points['bytes'])} bytes a rank.", points))
    return figure, rows
