"""Speedup by what is asked of the compressor and size: where the frontier to MPI_Allreduce runs."""
import numpy as np

import mpiq_figure as fig
import mpiq_model
from mpiq_plots import good, named, plot, series
from mpiq_results import bytes_label, dense
from mpiq_selection import PlotError, names_of

COLUMNS = ("speedup", "speedup_lo", "speedup_hi")


def compressed(points):
    """The good rows with a speedup, of methods that are given a ratio."""
    return points[~dense(points) & good(points) & np.isfinite(points["speedup_lo"]) & (points["ratio_target"] > 1)]


def applies(selection):
    if "ratio_target" not in selection.points.dtype.names:
        return False
    mine = compressed(selection.points)
    return len(set(mine["method"])) > 1 and len(set(mine["bytes"])) > 1


def colour(speedup):
    """Blue if slower, orange if faster; white at 1, the full colour at 8 times."""
    depth = float(np.clip(np.log2(speedup) / 3, -1, 1))
    return fig.tint("#D55E00" if depth > 0 else "#0072B2", 0.85 * abs(depth))


def rows_of(points):
    """Methods and their ratios, sorted by ratio: the rows of a map."""
    pairs = {str(m): float(np.median(points["ratio_target"][points["method"] == m])) for m in set(points["method"])}
    return sorted(pairs.items(), key=lambda pair: (pair[1], pair[0]))


def map_rows(key, points, predict):
    """The rows of the CSV of one panel, one per cell."""
    found = series(points, *COLUMNS, "bytes")
    for y, (method, ratio) in enumerate(rows_of(points)):
        for p in found[method]:
            yield y, {**named(key), "method": method, "ratio_target": ratio, "bytes": p["bytes"], "launches": p["launches"],
                      "speedup": p["value"], "speedup_lo": p["low"], "speedup_hi": p["high"],
                      "model_speedup": predict(method, p["bytes"])}


def frontier(axis, cells):
    """Draws a line wherever the model says that one of two neighbours is faster than the baseline and the other is not."""
    side = {where: row["model_speedup"] > 1 for where, row in cells.items() if np.isfinite(row["model_speedup"])}
    for y, x in side:
        if side.get((y, x + 1), side[y, x]) != side[y, x]:
            axis.plot([x + 0.5] * 2, [y - 0.5, y + 0.5], color="black", linewidth=2.5)
        if side.get((y + 1, x), side[y, x]) != side[y, x]:
            axis.plot([x - 0.5, x + 0.5], [y + 0.5] * 2, color="black", linewidth=2.5)
    return len(set(side.values())) > 1


@plot("ratio-size", applies, read="""Orange cells are faster than the baseline, blue ones slower, white is equal. Hatched: the
95 % interval includes 1. Where a fitted model is at hand, a thick line is its frontier between faster and slower.""")
def ratio_size(selection):
    """Speedup for each requested ratio and size, with the frontier of the model."""
    panels = [(key, mine) for key, points in selection.panels() if len(mine := compressed(points))]
    if not panels:
        raise PlotError(f"{names_of(selection.results)}: no good row of a compressed method has a speedup")
    tallest = max(len(rows_of(points)) for _, points in panels)
    figure, axes = fig.panels([selection.panel_title(key) for key, _ in panels], "method, requested ratio", share=False,
                              height=0.9 + 0.42 * tallest)
    rows, crossed = [], False
    for axis, (key, points) in zip(axes, panels):
        sizes = sorted(set(points["bytes"]))
        predict = mpiq_model.speedups(mpiq_model.panel(selection, key))
        cells = {(y, sizes.index(row["bytes"])): row for y, row in map_rows(key, points, predict)}
        fig.heat(axis, [bytes_label(s) for s in sizes], [f"{fig.shorter(m)}, {r:.3g}" for m, r in rows_of(points)],
                 {where: (colour(row["speedup"]), f"{row['speedup']:.3g}", row["speedup_lo"] <= 1 <= row["speedup_hi"])
                  for where, row in cells.items()})
        crossed |= frontier(axis, cells)
        rows += cells.values()
    figure.set_figwidth(figure.get_figwidth() + 1.0 * fig.columns_of(len(panels)))
    fig.finish(figure, selection.title or f"Speedup over {selection.base_words()} by requested ratio", selection.footer(
        "Median of paired ratios; orange is faster, blue slower; hatched: the 95 % interval includes 1."
        + (" Thick line: the frontier of the fitted model." if crossed else ""), selection.points))
    return figure, rows
