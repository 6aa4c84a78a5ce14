"""The layers of a model: what training sees."""
import numpy as np
from matplotlib import ticker

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import extent, named, plot, series
from mpi_quant.figures.selection import PlotError, names_of

COLUMNS = ("t_median_s", "t_ci_lo_s", "t_ci_hi_s")


def of_layers(points):
    if not {"layer", "layers_alike"} <= set(points.dtype.names):
        return points[:0]
    return points[points["layer"] != ""]


def applies(selection):
    return len(of_layers(selection.points)) > 0


def cumulative(key, points):
    """The rows of the CSV of a panel: each size once, with the number of layers of that size, and the sum up to it."""
    alike = {int(size): int(points["layers_alike"][points["bytes"] == size].max()) for size in set(points["bytes"])}
    layer = {int(size): str(points["layer"][points["bytes"] == size][0]) for size in alike}
    for method, measured in series(points, *COLUMNS, "bytes").items():
        total, whole = 0.0, {p["bytes"] for p in measured if p["drawn"] == "line"} == set(alike)
        for p in measured:
            total += max(1, alike[p["bytes"]]) * p["value"]
            yield {**named(key), "method": method, "layer": layer[p["bytes"]], "bytes": p["bytes"],
                   "layers_alike": alike[p["bytes"]], "launches": p["launches"], "drawn": p["drawn"],
                   **dict(zip(COLUMNS, (p["value"], p["low"], p["high"]))),
                   "cumulative_s": total if whole else np.nan}


def draw_sums(axis, rows, looks):
    """Draws a step for each layer size. If a layer has no good measurement, there is no sum."""
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method and np.isfinite(row["cumulative_s"])]
        colour, marker, dashes, name = looks[method]
        axis.plot([r["bytes"] for r in mine], [r["cumulative_s"] for r in mine], color=colour, marker=marker, linestyle=dashes,
                  drawstyle="steps-post", markersize=5, label=name)


@plot("layers", applies, read="""On the left is a call for each size of layer. On the right is the sum of all layers up to that
size, a step of training in which nothing overlaps: its right end is the whole model.""")
def layers(selection):
    """The time by size of layer, and the sum over the layers of a model."""
    points = of_layers(selection.points)
    if not len(points):
        raise PlotError(f"{names_of(selection.results)}: no row is a layer of a model (mpiq-bench --model)")
    found = [(key, list(cumulative(key, mine))) for key, panel in selection.panels() if len(mine := of_layers(panel))]
    figure, axes = fig.panels([title for key, _ in found for title in (selection.panel_title(key), "sum of layers up to this size")],
                              "time", "layer (bytes)", share=False)
    out = [row for _, rows in found for row in rows]
    looks = selection.looks(row["method"] for row in out)
    for left, right, (_, rows) in zip(axes[::2], axes[1::2], found):
        for method in dict.fromkeys(row["method"] for row in rows):
            fig.draw_series(left, [{**dict(zip(("value", "low", "high"), (r[c] for c in COLUMNS))), **r} for r in rows
                                   if r["method"] == method], looks[method])
        draw_sums(right, rows, looks)
        for axis in (left, right):
            fig.log_x_axis(axis, 2, fig.BYTES, *extent(out, "bytes"))
        fig.log_axis(left, 10, ticker.EngFormatter(unit="s"), *extent(out, *COLUMNS))
        right.set_ylim(bottom=0)
        right.yaxis.set_major_formatter(ticker.EngFormatter(unit="s"))
    fig.finish(figure, selection.title or f"Layers of {', '.join(sorted(set(points['model'])))}", selection.footer(
        "Times are medians of the slowest rank's time, and bands are their 95 % intervals. In the sums a size counts as often as "
        "the model has layers of it.", points))
    return figure, out
