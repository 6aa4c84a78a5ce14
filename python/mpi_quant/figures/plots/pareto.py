"""Error against speed-up: what can be had for what."""
import numpy as np
from matplotlib import ticker

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import at_largest, named, one_size, plot, series
from mpi_quant.figures.selection import PlotError, names_of
from mpi_quant.results.reader import dense


def known(points):
    return points[np.isfinite(points["speedup"]) & (points["err_rel_l2"] > 0)]


def applies(selection):
    mine = known(selection.points)
    return len(set(mine["method"][~dense(mine)])) > 1


def efficient(entries):
    """The methods that no other beats in both error and speed, the most accurate first."""
    front = []
    for entry in sorted(entries, key=lambda e: (e["err_rel_l2"], -e["speedup"])):
        if entry["drawn"] == "line" and (not front or entry["speedup"] > front[-1]["speedup"]):
            front.append(entry)
    return front


def entries_of(selection):
    """The rows of the CSV of each panel, at the largest size."""
    errors = {(key, m): p[0]["value"] for key, _, rows in selection.largest()
              for m, p in series(known(rows), *["err_rel_l2"] * 3, "bytes").items()}
    for key, size, found in at_largest(selection, ("speedup", "speedup_lo", "speedup_hi"), known):
        yield key, size, [{**named(key), "method": m, "bytes": size, "launches": p["launches"], "reps": p["reps"],
                           "drawn": p["drawn"], "err_rel_l2": errors[key, m], "speedup": p["value"], "speedup_lo": p["low"],
                           "speedup_hi": p["high"]} for m, p in found.items()]


@plot("pareto", applies, read="""Up is faster, left is more accurate. The grey steps are the front: a method below them is beaten
in both by another one. The error is measured in one call, before feedback.""")
def pareto(selection, ax=None):
    """The error against the speed-up of each method, at the largest size, with the front of the best."""
    panels = list(entries_of(selection))
    if not panels:
        raise PlotError(f"{names_of(selection.results)}: no row has a speed-up and an error above 0")
    figure, axes = fig.panels([one_size(selection, key, size) for key, size, _ in panels],
                              f"speed-up over\n{selection.base_words()}", "relative L2 error, |x − sum| / |sum|", ax=ax)
    rows = [row for _, _, entries in panels for row in entries]
    looks = selection.looks(row["method"] for row in rows)
    for axis, (_, _, entries) in zip(axes, panels):
        front = efficient(entries)
        if front:
            axis.step([e["err_rel_l2"] for e in front], [e["speedup"] for e in front], where="post", color="#bbbbbb", zorder=1)
        for e in entries:
            e["efficient"] = int(e in front)
            fig.mark(axis, e["err_rel_l2"], {"value": e["speedup"], "low": e["speedup_lo"], "high": e["speedup_hi"],
                                             "drawn": e["drawn"]}, looks[e["method"]])
        axis.axhline(1, color="black", linewidth=0.8)
    ends = [row["err_rel_l2"] for row in rows]
    fig.log_x_axis(axes[0], 10, ticker.LogFormatterSciNotation(), min(ends) / 3, max(ends) * 3)
    low, high = ([row[c] for row in rows if np.isfinite(row[c])] for c in ("speedup_lo", "speedup_hi"))
    fig.log_axis(axes[0], 2, fig.PLAIN, min([0.6, *low]), max([2, *high]))
    fig.finish(figure, selection.title or "Error and speed-up", selection.footer(
        "Markers are medians of paired ratios with their 95 % intervals, and the error of the first call."), ax)
    return figure, rows
