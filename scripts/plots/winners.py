"""Which method is the fastest where: a map of ranks and sizes."""
import numpy as np

import mpiq_figure as fig
from mpiq_plots import good, plot, sizes_and_methods, summarise
from mpiq_results import bytes_label, paired_speedup
from mpiq_selection import PlotError, names_of, natural

MAP = ("link", "dtype", "data")  # one map for each value of these


def by_time(points):
    """(method, summary of its time) of the good rows of one cell, the fastest first."""
    points = points[good(points)]
    found = [(str(m), summarise(points[points["method"] == m], "t_median_s", "t_ci_lo_s", "t_ci_hi_s"))
             for m in sorted(set(points["method"]))]
    return sorted(found, key=lambda entry: entry[1]["value"])


def lead(points, winner, second, samples):
    """(ratio, low, high) of the winner over the runner-up. It is paired if both were measured together in one launch; otherwise
    it comes from the ends of their intervals, which is wider."""
    rows = [points[(points["method"] == name) & good(points)] for name, _ in (winner, second)]
    keys = [str(r["key"][0]) for r in rows]
    if all(len(r) == 1 for r in rows) and all(k in samples for k in keys) and rows[0]["base_key"][0] == rows[1]["base_key"][0]:
        return paired_speedup(samples[keys[1]], samples[keys[0]], 1)
    a, b = winner[1], second[1]
    return b["value"] / a["value"], b["low"] / a["high"], b["high"] / a["low"]


def cell_row(points, samples):
    """The contents of one cell in the map and the CSV; None if no row is good."""
    ranking = by_time(points)
    if not ranking:
        return None
    winner = ranking[0]
    mine = points[(points["method"] == winner[0]) & good(points)]
    row = {"method": winner[0], "t_median_s": winner[1]["value"], "speedup": float(np.median(mine["speedup"])),
           "runner_up": "", "lead": np.nan, "lead_lo": np.nan, "lead_hi": np.nan}
    if len(ranking) > 1:
        row["runner_up"] = ranking[1][0]
        row["lead"], row["lead_lo"], row["lead_hi"] = lead(points, winner, ranking[1], samples)
    row["certain"] = int(row["lead_lo"] > 1)
    return row


def applies(selection):
    return sizes_and_methods(selection, sizes=2, methods=2)


def maps(selection):
    """The key of each map, its sizes, its rows (ranks, nodes), and the rows of its cells by (row, column)."""
    samples, points = selection.matrix("samples"), selection.points
    for key in sorted({tuple(row[c].item() for c in MAP) for row in points}, key=lambda k: [natural(v) for v in k]):
        mine = points[np.logical_and.reduce([points[c] == v for c, v in zip(MAP, key)])]
        sizes, places = sorted(set(mine["bytes"])), sorted({(int(r["ranks"]), int(r["nodes"])) for r in mine})
        cells = {}
        for y, (ranks, nodes) in enumerate(places):
            for x, size in enumerate(sizes):
                here = mine[(mine["bytes"] == size) & (mine["ranks"] == ranks) & (mine["nodes"] == nodes)]
                cell = cell_row(here, samples) if len(here) else None
                if cell:
                    cells[y, x] = {**dict(zip(MAP, key)), "nodes": nodes, "ranks": ranks, "bytes": int(size), **cell}
        if cells:
            yield key, sizes, places, cells


@plot("winners", applies, read="""Each cell names the fastest method there and what it gains over the
baseline. Where a cell is hatched, the 95 % interval of its lead over the second includes 1: the two cannot be told apart. Cells
without a good measurement are empty.""")
def winners(selection):
    """The fastest method for each number of ranks and size, hatched where the second could be it."""
    found = list(maps(selection))
    if not found:
        raise PlotError(f"{names_of(selection.results)}: no row is ok and without oversubscription: nothing can win")
    titles = [" ".join(p for p in (link, fig.DTYPES.get(dtype, dtype), data) if p) for link, dtype, data in
              (key for key, _, _, _ in found)]
    tallest, widest = max(len(places) for _, _, places, _ in found), max(len(sizes) for _, sizes, _, _ in found)
    figure, axes = fig.panels(titles, "ranks on nodes", share=False, height=0.9 + 0.5 * tallest)
    figure.set_figwidth(max(figure.get_figwidth(), fig.columns_of(len(found)) * (1.2 + 0.78 * widest)))
    used = fig.looks(sorted({c["method"] for _, _, _, cells in found for c in cells.values()}, key=fig.order))
    rows = []
    for axis, (_, sizes, places, cells) in zip(axes, found):
        shown = {}
        for where, cell in cells.items():
            gain = "" if np.isnan(cell["speedup"]) else f"\n{cell['speedup']:.3g}x"
            shown[where] = fig.tint(used[cell["method"]][0]), short(cell["method"]) + gain, not cell["certain"]
            rows.append(cell)
        fig.heat(axis, [bytes_label(s) for s in sizes], [f"{r} on {n}" for r, n in places], shown)
    fig.patch_legend(figure, used, selection.dtypes, "the second could be the fastest")
    fig.finish(figure, selection.title or f"Fastest method, and its speedup over {selection.base_words()}", selection.footer(
        "Smallest median time; hatched: the 95 % interval of the paired ratio to the second includes 1."))
    return figure, rows


def short(method):
    """The name without its parameters; 'MPI' for the library's own."""
    return "MPI" if fig.is_dense(method) else method.partition("(")[0] + ("(...)" if "(" in method else "")
