"""Speed-up by what is reduced: why numbers that compress well mislead."""
import numpy as np

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import plot, summarise
from mpi_quant.figures.selection import PlotError, names_of, natural
from mpi_quant.results.reader import bytes_label

GROUP = ("link", "nodes", "ranks", "dtype", "bytes")
COLUMNS = ("speedup", "speedup_lo", "speedup_hi")


def groups(selection):
    """Key, distributions and rows of what was measured on several distributions, at the largest size only."""
    points = selection.points[np.isfinite(selection.points["speedup"])]
    points = points[~np.isin(points["method"], selection.base_methods())]
    found = {}
    for key in sorted({tuple(row[c].item() for c in GROUP) for row in points}, key=lambda k: [natural(v) for v in k]):
        mine = points[np.logical_and.reduce([points[c] == v for c, v in zip(GROUP, key)])]
        if len(set(mine["data"])) > 1:
            found[key[:-1]] = key, sorted(set(mine["data"]), key=natural), mine
    return list(found.values())


def applies(selection):
    return bool(groups(selection))


@plot("data", applies, read="""There is one group of markers for each distribution of the input. A method whose markers lie far
apart owes its speed to the input. Measure on data like your own.""")
def data(selection):
    """The speed-up for each distribution of the input, at the largest size."""
    found = groups(selection)
    if not found:
        raise PlotError(f"{names_of(selection.results)}: no size with speed-ups on more than one distribution of the input")
    figure, axes = fig.panels([f"{ranks} ranks on {nodes} node{'s' if nodes != 1 else ''}{', ' + link if link else ''}, "
                               f"{bytes_label(size)}" for (link, nodes, ranks, _, size), _, _ in found],
                              f"speed-up over {selection.base_words()}", "", share=False, height=4.2)
    looks = selection.looks(m for *_, rows in found for m in rows["method"])
    rows = []
    for axis, (key, names, points) in zip(axes, found):
        methods = sorted(set(points["method"]), key=fig.order)
        for method, offset in zip(methods, np.linspace(-0.32, 0.32, len(methods)) if len(methods) > 1 else [0.0]):
            for x, name in enumerate(names):
                mine = points[(points["method"] == method) & (points["data"] == name)]
                if len(mine):
                    p = summarise(mine, *COLUMNS)
                    fig.mark(axis, x + offset, p, looks[method])
                    rows.append({**dict(zip(GROUP, key)), "data": str(name), "method": str(method), "launches": p["launches"],
                                 "reps": p["reps"], "drawn": p["drawn"], **dict(zip(COLUMNS, (p["value"], p["low"], p["high"])))})
        axis.set_xticks(range(len(names)), [fig.in_lines(name, 14) for name in names], rotation=90 if len(names) > 3 else 0)
        axis.grid(axis="x", visible=False)
        for x in range(1, len(names)):
            axis.axvline(x - 0.5, color="#dddddd", linewidth=0.8)
        axis.axhline(1, color="black", linewidth=0.8)
        ends = [row[c] for row in rows for c in COLUMNS if np.isfinite(row[c])]
    for axis in axes:
        fig.log_axis(axis, 2, fig.PLAIN, min([0.6, *ends]), max([2, *ends]))
    fig.finish(figure, selection.title or "Speed-up by what is reduced", selection.footer(
        "Markers are medians of paired ratios with their 95 % intervals.", np.concatenate([points for *_, points in found])))
    return figure, rows
