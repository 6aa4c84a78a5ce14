"""Launch by launch: how much more than one launch's interval the truth may vary."""
import numpy as np
from matplotlib import ticker

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import good, named, one_size, plot
from mpi_quant.figures.selection import PlotError, names_of
from mpi_quant.results.reader import median_interval


MOST_NAMES = 20  # methods with room for their names below a panel


def strips(selection):
    """Key, size and rows of the panels that have more than one launch at their largest size."""
    for key, size, rows in selection.largest():
        if len(set(rows["launch"])) > 1:
            yield key, size, np.sort(rows, order=["method", "launch"])


def applies(selection):
    return next(strips(selection), None) is not None


def strip(axis, x, rows, look):
    """Draws the launches of one method side by side and, if there are at least six good ones, their median with its
    interval."""
    places = x + np.linspace(-0.3, 0.3, len(rows))
    for place, row in zip(places, rows):
        fig.mark(axis, place, {"value": row["t_median_s"], "low": row["t_ci_lo_s"], "high": row["t_ci_hi_s"],
                               "drawn": "line" if good(row) else "invalid"}, look)
    times = rows["t_median_s"][good(rows)]
    if len(times):
        low, high = median_interval(times)
        axis.hlines(np.median(times), x - 0.38, x + 0.38, color=look[0], linewidth=1)
        if np.isfinite(low):
            axis.fill_between([x - 0.38, x + 0.38], low, high, color=look[0], alpha=0.15, linewidth=0)


@plot("launches", applies, read="""Each marker is one start of the program with the 95 % interval of its own repetitions. Where
markers lie further apart than their bars, the interval of one launch is too narrow to be believed. The band is the interval over
launches.""")
def launches(selection):
    """The medians of single launches with their own intervals, at the largest size."""
    found = list(strips(selection))
    if not found:
        raise PlotError(f"{names_of(selection.results)}: no point was measured in more than one launch (mpiq-bench --launch)")
    looks = selection.looks(m for *_, rows in found for m in rows["method"])
    names = list(looks)
    figure, axes = fig.panels([one_size(selection, key, size) for key, size, _ in found], "time of a call", "method",
                              height=3 + 0.05 * max(map(len, names)))
    out = []
    for axis, (key, size, rows) in zip(axes, found):
        for x, method in enumerate(names):
            strip(axis, x, rows[rows["method"] == method], looks[method])
        out += [{**named(key), "method": str(row["method"]), "bytes": size, "launch": int(row["launch"]),
                 "reps": int(row["reps"]),
                 "drawn": "line" if good(row) else str(row["status"]) if row["status"] != "ok" else "oversubscribed",
                 **{c: float(row[c]) for c in ("t_median_s", "t_ci_lo_s", "t_ci_hi_s")}} for row in rows]
        axis.set_xticks(range(len(names)), names if len(names) <= MOST_NAMES else [""] * len(names), rotation=90)
        axis.tick_params(axis="x", length=0, labelbottom=True)
        axis.grid(axis="x", visible=False)
    fig.log_axis(axes[0], 10, ticker.EngFormatter(unit="s"), min(r["t_ci_lo_s"] for r in out), max(r["t_ci_hi_s"] for r in out))
    fig.finish(figure, selection.title or "Launch to launch", selection.footer(
        "Each marker is a launch, in their order from left to right within a method. "
        "A line is the median of the launches. Its band, from six launches on, is the 95 % interval of that median.",
        np.concatenate([rows for *_, rows in found])))
    return figure, out
