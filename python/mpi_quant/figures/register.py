"""The register of plots, and what plots share besides their look (figures/look.py): series with intervals, panels of them, points.

A plot is a file of figures/plots/ with a function (source) -> (figure, rows of the CSV) below one line @plot.
"""
from typing import Any

import numpy as np

from mpi_quant.figures import look as fig
from mpi_quant.figures.selection import PANEL, PlotError, names_of
from mpi_quant.results import reader
from mpi_quant.results.schema import SIMULATED

PLOTS: dict[str, Any] = {}  # name -> function


def always(_source):
    return True


def one(_source):
    return [""]


def plot(name, applies=always, read="", takes="results", both=False, variants=one):
    """Registers a function as `mpiq plot NAME`. `all` draws it if applies(source) is true. read: how to read the figure, for
    the report. takes: the kind of its source: a Selection of result files (results), the Kernels of files of mpiq-kernels
    (kernels), a Training of files of mpiq-train (training), a Quality of files of mpiq-quality (quality) or the Points of a
    folder of scripts/frontier (frontier). both: whether it takes measured and simulated rows together, and keeps them apart. variants(source):
    the figures that it makes of a source; the function takes one of these texts as its second argument, if there are any."""

    def register(function):
        PLOTS[name] = function
        function.applies, function.read, function.takes, function.both, function.variants = applies, " ".join(read.split()), takes, both, variants
        return function

    return register


def measured(source):
    """Whether rows are of calls that were made: simulated ones have no error and no paired speed-up."""
    return (source.points["status"] != SIMULATED).any()


def good(rows):
    """Whether each row may be quoted as a timing."""
    return (rows["status"] == "ok") & (rows["oversubscribed"] != 1)


def named(key):
    """The columns of the CSV that name the panel."""
    return dict(zip(PANEL, key))


def summarise(rows, value, low, high):
    """One point of a series from its launches. Bad rows count only if there are no others. Files are simulated or measured."""
    good = rows[(rows["status"] == "ok") & (rows["oversubscribed"] != 1)]
    drawn = "line" if len(good) else SIMULATED if (rows["status"] == SIMULATED).all() else "invalid" if (rows["status"] != "ok").any() else "oversubscribed"
    rows = good if len(good) else rows
    return {"launches": len(rows), "reps": int(rows["reps"].sum()), "drawn": drawn,
            **dict(zip(("value", "low", "high"), reader.over_launches(rows, value, low, high)))}


def series(points, value, low, high, x):
    """method -> its points by size. Methods of the MPI library come first."""
    known = points[np.isfinite(points[value])]
    out = {}
    for method in sorted(set(known["method"]), key=fig.order):
        mine = known[known["method"] == method]
        out[str(method)] = [{x: int(size), **summarise(mine[mine[x] == size], value, low, high)}
                            for size in sorted(set(mine[x]))]
    return out


def draw(selection, columns, ylabel, keep=lambda points: points, x="bytes", **options):
    """Draws panels with a series for every method from (value, low, high) columns; returns figure, axes and rows of the CSV.
    options: as in figures/look.py.panels."""
    shown = [(key, series(keep(points), *columns, x)) for key, points in selection.panels()]
    shown = [(key, lines) for key, lines in shown if lines]
    if not shown:
        raise PlotError(f"{names_of(selection.results)}: no row has a value of {columns[0]}")
    figure, axes = fig.panels([selection.panel_title(key) for key, _ in shown], ylabel, **options)
    rows, looks = [], selection.looks(method for _, lines in shown for method in lines)
    for axis, (key, lines) in zip(axes, shown):
        for method, points in lines.items():
            fig.draw_series(axis, points, looks[method], x)
            for p in points:
                named = dict(zip(("value", "low", "high"), columns))
                rows.append({**dict(zip(PANEL, key)), "method": method, **{named.get(k, k): v for k, v in p.items()}})
    fig.log_x_axis(axes[0], 2, fig.BYTES if x == "bytes" else fig.PLAIN, *extent(rows, x))
    return figure, axes, rows


def extent(rows, *columns):
    """The smallest and the largest value that is drawn. Intervals count too, but a point with few repetitions has none."""
    found = [row[column] for row in rows for column in columns if np.isfinite(row[column])]
    return min(found), max(found)


def at_largest(selection, columns, keep=lambda points: points):
    """Key, size, and the point of each method (as of summarise), at the largest size of each panel whose columns have
    values."""
    for key, size, rows in selection.largest():
        found = series(keep(rows), *columns, "bytes")
        if found:
            yield key, size, {method: points[0] for method, points in found.items()}


def one_size(selection, key, size):
    return f"{selection.panel_title(key)}, {reader.bytes_label(size)}"
