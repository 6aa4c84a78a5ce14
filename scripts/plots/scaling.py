"""Time against the number of ranks."""
import numpy as np
from matplotlib import ticker

import mpiq_figure as fig
from mpiq_plots import extent, plot, series
from mpiq_results import bytes_label
from mpiq_selection import PlotError, names_of, natural

GROUP = ("link", "dtype", "data")
MOST = 3  # panels of each kind


def groups(selection):
    """(kind, size, key, rows) of what has more than one number of ranks. Either the vector is fixed, or the share of a rank."""
    points = selection.points
    for key in sorted({tuple(row[c].item() for c in GROUP) for row in points}, key=lambda k: [natural(v) for v in k]):
        mine = points[np.logical_and.reduce([points[c] == v for c, v in zip(GROUP, key)])]
        least = 2  # numbers of ranks; a sweep of vectors has some shares by chance
        for kind, value in (("vector", mine["bytes"]), ("share", mine["bytes"] // np.maximum(mine["ranks"], 1))):
            several = [s for s in sorted(set(value)) if len(set(mine["ranks"][value == s])) >= least]
            for size in several[-MOST:]:
                yield kind, int(size), key, mine[value == size]
            least = 4 if several else 2


def applies(selection):
    return next(groups(selection), None) is not None


def title(kind, size, key):
    what = "vector of" if kind == "vector" else "vector / ranks ="
    return f"{what} {bytes_label(size)}" + "".join(f", {part}" for part in (key[0], key[2]) if part)


def ideal(axis, lines, kind):
    """What the bandwidth alone predicts from the first dense point: 2 (ranks - 1) / ranks of the vector on the wire."""
    dense = next((p for m, p in lines.items() if fig.is_dense(m)), None)
    if not dense or dense[0]["ranks"] < 2:
        return []
    ranks = np.array(sorted({p["ranks"] for points in lines.values() for p in points}), float)
    moved = (ranks - 1) / ranks * (ranks if kind == "share" else 1)
    first = dense[0]["ranks"]
    t = dense[0]["value"] * moved / ((first - 1) / first * (first if kind == "share" else 1))
    axis.plot(ranks, t, color="#888888", linewidth=1, linestyle=(0, (6, 3)), zorder=1, label="bandwidth alone")
    return list(t)


@plot("scaling", applies, read="""Ranks grow from left to right. The dashed line is what the bandwidth of the wire alone makes of the
first point of MPI_Allreduce. Hollow points share cores among ranks and are joined to nothing: they say nothing of speed.""")
def scaling(selection):
    """The time of a call against the number of ranks, at a fixed vector and at a fixed share of a rank."""
    found = list(groups(selection))
    if not found:
        raise PlotError(f"{names_of(selection.results)}: no size was measured with more than one number of ranks")
    figure, axes = fig.panels([title(*group[:3]) for group in found], "time of a call", "ranks")
    shown = [series(points, "t_median_s", "t_ci_lo_s", "t_ci_hi_s", "ranks") for *_, points in found]
    looks = fig.looks((m for lines in shown for m in lines), selection.dtypes)
    rows, ends = [], []
    for axis, (kind, size, key, _), lines in zip(axes, found, shown):
        ends += ideal(axis, lines, kind)
        for method, points in lines.items():
            fig.draw_series(axis, points, looks[method], "ranks")
            rows += [{**dict(zip(GROUP, key)), "fixed": kind, "fixed_bytes": size, "method": method, "ranks": p["ranks"],
                      "launches": p["launches"], "reps": p["reps"], "drawn": p["drawn"], "t_median_s": p["value"],
                      "t_ci_lo_s": p["low"], "t_ci_hi_s": p["high"]} for p in points]
    fig.log_x_axis(axes[0], 2, fig.PLAIN, *extent(rows, "ranks"))
    low, high = extent(rows, "t_median_s", "t_ci_lo_s", "t_ci_hi_s")
    fig.log_axis(axes[0], 10, ticker.EngFormatter(unit="s"), min([low, *ends]), max([high, *ends]))
    fig.finish(figure, selection.title or "Time by number of ranks", selection.footer(
        "Times are medians of the slowest rank's time, and bands are their 95 % intervals. The dashed line grows with (ranks - 1) / ranks.",
        np.concatenate([points for *_, points in found])))
    return figure, rows
