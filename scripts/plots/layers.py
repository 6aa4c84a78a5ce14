"""The layers of a model: what training sees."""
import numpy as np
from matplotlib import ticker

import mpiq_figure as fig
from mpiq_plots import extent, named, plot, series
from mpiq_selection import PlotError, names_of

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
        colour, marker, dashes = looks[method]
        axis.plot([r["bytes"] for r in mine], [r["cumulative_s"] for r in mine], color=colour, marker=marker, linestyle=dashes,
                  drawstyle="steps-post", markersize=5)


@plot("layers", applies, read="""Above: a call for each size of layer. Below: the sum of all layers up to that size, a step of
training in which nothing overlaps; the right end is the whole model.""")
def layers(selection):
    """Time by size of layer, and the sum over the layers of a model."""
    points = of_layers(selection.points)
    if not len(points):
        raise PlotError(f"{names_of(selection.results)}: no row is a layer of a model (mpiq-bench --model)")
    found = [(key, list(cumulative(key, mine))) for key, panel in selection.panels() if len(mine := of_layers(panel))]
    figure, grid = fig.plt.subplots(2, len(found), squeeze=False, sharex=True, sharey="row",
                                    figsize=(max(6.4, 4.2 * len(found)), 6.2))
    looks = fig.looks(sorted({row["method"] for _, rows in found for row in rows}, key=fig.order))
    out = [row for _, rows in found for row in rows]
    for (above, below), (key, rows) in zip(grid.T, found):
        above.set_title(selection.panel_title(key))
        for method in dict.fromkeys(row["method"] for row in rows):
            fig.draw_series(above, [{**dict(zip(("value", "low", "high"), (r[c] for c in COLUMNS))), **r} for r in rows
                                    if r["method"] == method], looks[method])
        draw_sums(below, rows, looks)
        below.set_xlabel("layer (bytes)")
        below.set_ylim(bottom=0)
    grid[0][0].set_ylabel("time of a layer, log scale")
    grid[1][0].set_ylabel("sum of layers up to this size")
    fig.bytes_axis(grid[0][0], [row["bytes"] for row in out])
    fig.log_axis(grid[0][0], 10, ticker.EngFormatter(unit="s"), *extent(out, *COLUMNS))
    grid[1][0].yaxis.set_major_formatter(ticker.EngFormatter(unit="s"))
    fig.legend(figure, looks, selection.dtypes, [fig.HOLLOW] if any(row["drawn"] != "line" for row in out) else [])
    fig.finish(figure, selection.title or f"Layers of {', '.join(sorted(set(points['model'])))}", selection.footer(
        "Medians of the slowest rank's time, band: 95 % interval; sums of medians, layers of one size counted as often as "
        "there are.",
        points))
    return figure, out
