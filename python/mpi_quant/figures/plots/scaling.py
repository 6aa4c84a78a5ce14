"""Time against the number of ranks."""
import numpy as np
from matplotlib import ticker

from mpi_quant.figures import look as fig, printed
from mpi_quant.figures.register import extent, plot, series
from mpi_quant.figures.selection import PlotError, best_dense_of, dense_words, is_simulated, kinds, names_of, natural
from mpi_quant.results.reader import bytes_label
from mpi_quant.results.schema import SIMULATED

GROUP = ("link", "dtype", "data")
MOST = 3  # panels of each kind
SCALED = "first dense point, scaled by bytes"


def networks(points):
    """The link of each row without sim:, so that a network that was measured and simulated has one panel."""
    return np.array([link.removeprefix("sim:") if simulated else link for link, simulated in zip(points["link"], is_simulated(points))])


def groups(points):
    """(kind, size, key, rows) of what has more than one number of ranks. Either the vector is fixed, or the share of a rank."""
    columns = (networks(points), points["dtype"], points["data"])
    for key in sorted(set(zip(*(column.tolist() for column in columns))), key=lambda k: [natural(v) for v in k]):
        mine = points[np.logical_and.reduce([column == v for column, v in zip(columns, key)])]
        least = 2  # numbers of ranks; a sweep of vectors has some shares by chance
        for kind, value in (("vector", mine["bytes"]), ("share", mine["bytes"] // np.maximum(mine["ranks"], 1))):
            several = [s for s in sorted(set(value)) if len(set(mine["ranks"][value == s])) >= least]
            for size in several[-MOST:]:
                rows = mine[value == size]
                links = set(rows["link"].tolist())
                yield kind, int(size), ((*links,) if len(links) == 1 else key[:1]) + key[1:], rows
            least = 4 if several else 2


def applies(selection):
    return next(groups(selection.points), None) is not None


def title(kind, size, key):
    what = "vector of" if kind == "vector" else "vector / ranks ="
    return ", ".join([f"{what} {bytes_label(size)}", *filter(None, [key[0]]), f"{key[2]}\u00a0input"])


def curves(rows, *columns):
    """(link, method, points) of each curve of a panel. A curve is measured or simulated, never both."""
    return [(part["link"][0].item(), method, points) for part in kinds(rows) for method, points in series(part, *columns, "ranks").items()]


def refuse_half(selection, rows):
    """Of measured and simulated files, a figure must show both."""
    if selection.mixed and len(kinds(rows)) == 1:
        missing = "measured" if is_simulated(rows).all() else "simulated"
        raise PlotError(f"no {missing} row has a panel: its network, element type, input and size must have more than one number of ranks")


def dense_times(lines):
    """(link, ranks) -> the seconds of the fastest dense algorithm, measured or simulated as the link says."""
    found = {}
    for at, seconds in ((((link, p["ranks"]), p["value"]) for link, method, points in lines if fig.is_dense(method) for p in points)):
        found[at] = min(seconds, found.get(at, seconds))
    return found


def speedups(points, link, dense):
    """The points of a curve with how many times as fast they are. The ratio of two medians has no interval."""
    return [{**p, "value": dense[link, p["ranks"]] / p["value"], "low": np.nan, "high": np.nan} for p in points if (link, p["ranks"]) in dense]


def prepare(selection, found, what, label, *columns, below=""):
    """The figure, its axes by row, the curves of each, their looks, and all points. found: what groups gives. columns: the value and its interval.
    below: what a second row is for, in a paper."""
    if not found:
        raise PlotError(f"{names_of(selection.results)}: no {what} was measured with more than one number of ranks")
    drawn = np.concatenate([points for *_, points in found])
    refuse_half(selection, drawn)
    shown = [curves(points, *columns) for *_, points in found]
    titles = [title(*group[:3]) for group in found]
    if below and printed.width() is not None and not all(fig.is_dense(method) for lines in shown for _, method, _ in lines):
        figure, axes = fig.panels_in_pairs(titles, label, below, "ranks")
    else:
        figure, axes = fig.panels(titles, label, "ranks")
        axes = [axes]
    return figure, axes, shown, selection.looks(m for lines in shown for _, m, _ in lines), drawn


def scaled(axis, lines, kind):
    """The first dense point, scaled by the bytes on the wire: 2 (ranks - 1) / ranks of the vector. It is taken to spend all of its time on bytes,
    so measured points may be faster. It goes as far as points of its kind: measured or simulated."""
    dense = next((p for _, m, p in lines if fig.is_dense(m)), None)
    if not dense or dense[0]["ranks"] < 2:
        return []
    simulated = dense[0]["drawn"] == SIMULATED
    ranks = np.array(sorted({p["ranks"] for *_, points in lines for p in points if (p["drawn"] == SIMULATED) == simulated}), float)
    if len(ranks) < 2:
        return []
    moved = (ranks - 1) / ranks * (ranks if kind == "share" else 1)
    first = dense[0]["ranks"]
    t = dense[0]["value"] * moved / ((first - 1) / first * (first if kind == "share" else 1))
    axis.plot(ranks, t, color="#888888", linewidth=1, linestyle=(0, (6, 3)), zorder=1, label=SCALED)
    return list(t)


def algorithm_at(rows, link, method, ranks):
    """What a dense point was made by, for the CSV; '' for a compressed one."""
    found = rows["algorithm"][(rows["link"] == link) & (rows["method"] == method) & (rows["ranks"] == ranks)]
    return str(found[0]) if fig.is_dense(method) and len(found) else ""


@plot("scaling", applies, both=True, read="""Ranks grow from left to right. The black line is the fastest dense algorithm at each point. The grey line,
if it is there, is its first point, scaled by the bytes on the wire. Hollow points share cores among ranks and are joined to nothing: they say nothing of speed.""")
def scaling(selection):
    """The time of a call against the number of ranks, at a fixed vector and at a fixed share of a rank."""
    found = list(groups(best_dense_of(selection.points)))
    figure, (axes, *below), shown, looks, drawn = prepare(selection, found, "size", "time of a call", "t_median_s", "t_ci_lo_s", "t_ci_hi_s", below="speed-up")
    rows, ends = [], []
    for column, ((kind, size, key, points_of), lines) in enumerate(zip(found, shown)):
        ends += scaled(axes[column], lines, kind)
        dense, alone = dense_times(lines), all(fig.is_dense(method) for _, method, _ in lines)
        for link, method, points in lines:
            is_base = fig.is_dense(method) and not alone
            fig.draw_series(axes[column], points, looks[method], "ranks", selection.mixed, thick=is_base and not (selection.mixed and points[0]["drawn"] == SIMULATED))
            rows += [{**dict(zip(GROUP, (link, *key[1:]))), "fixed": kind, "fixed_bytes": size, "method": method, "ranks": p["ranks"],
                      "algorithm": algorithm_at(points_of, link, method, p["ranks"]), "launches": p["launches"], "reps": p["reps"], "drawn": p["drawn"], "t_median_s": p["value"],
                      "t_ci_lo_s": p["low"], "t_ci_hi_s": p["high"], "speedup": dense.get((link, p["ranks"]), np.nan) / p["value"]} for p in points]
            if below and not is_base and (faster := speedups(points, link, dense)):
                fig.draw_series(below[0][column], faster, looks[method], "ranks", selection.mixed)
    fig.log_x_axis(axes[0], 2, fig.PLAIN, *extent(rows, "ranks"))
    low, high = extent(rows, "t_median_s", "t_ci_lo_s", "t_ci_hi_s")
    fig.log_axis(axes[0], 10, ticker.EngFormatter(unit="s"), min([low, *ends]), max([high, *ends]))
    meaning = "Times are medians of the slowest rank's time, and bands are their 95 % intervals."
    if ends:
        meaning += f" The line \"{SCALED}\" grows with (ranks - 1) / ranks" + (", and with ranks - 1 at a fixed share." if any(kind == "share" for kind, *_ in found) else ".")
    if below:
        finish_below(below[0], rows)
        meaning += " Speed-ups are over the fastest dense algorithm of the same ranks: ratios of medians, without intervals."
    fig.finish(figure, selection.title or "Time by number of ranks", selection.footer(meaning + dense_words(drawn), drawn))
    return figure, rows


def finish_below(axes, rows):
    """The lower row of panels: its scale, and the line of the dense algorithm."""
    fig.log_axis(axes[0], 2, fig.PLAIN, *extent(rows, "speedup"))
    for axis in axes:
        axis.axhline(1, color="black", linewidth=0.8, zorder=1)
