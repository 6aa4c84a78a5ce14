"""How much of a call that does not block is hidden behind computation."""
from matplotlib import ticker

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import good, named, one_size, plot, series
from mpi_quant.figures.selection import PANEL, PlotError, names_of


def panels(selection):
    """Key, largest size, and method -> points by length of the computation, in times of the baseline's call without any."""
    rows = selection.overlapped[good(selection.overlapped)] if "overlap" in selection.overlapped.dtype.names else selection.overlapped[:0]
    for key in sorted({tuple(row[c].item() for c in PANEL) for row in rows}, key=str):
        mine = rows[[tuple(row[c].item() for c in PANEL) == key for row in rows]]
        size = int(mine["bytes"].max())
        lines = series(mine[mine["bytes"] == size], "overlap", "overlap_lo", "overlap_hi", "compute_percent")
        yield key, size, {method: [{"computation": p.pop("compute_percent") / 100, **p} for p in points] for method, points in lines.items()}


@plot("overlap", lambda selection: next(panels(selection), None) is not None, read="""Higher is better. 100 % means that the shorter of call and
computation costs nothing. A program gains only as much as it can compute meanwhile: at 1 the computation takes as long as the baseline's call.""")
def overlap(selection):
    """The part of a call that is hidden behind computation between its start and its end, against the length of that computation, at the
    largest size."""
    found = list(panels(selection))
    if not found:
        raise PlotError(f"{names_of(selection.results)}: no row has an overlap: mpiq-bench allreduce --overlap measures it")
    figure, axes = fig.panels([one_size(selection, key, size) for key, size, _ in found], "overlap",
                              "computation, in times of the baseline's call without any")
    looks, rows = selection.looks(method for _, _, lines in found for method in lines), []
    for axis, (key, size, lines) in zip(axes, found):
        for method, points in lines.items():
            fig.draw_series(axis, points, looks[method], "computation")
            rows += [{**named(key), "bytes": size, "method": method, "computation": p["computation"], "overlap": p["value"], "overlap_lo": p["low"],
                      "overlap_hi": p["high"]} for p in points]
    ends = [row["computation"] for row in rows]
    fig.log_x_axis(axes[0], 2, fig.PLAIN, min(ends), max(ends))
    axes[0].set_ylim(-3, 103)
    axes[0].yaxis.set_major_formatter(ticker.PercentFormatter())
    interval = int(selection.overlapped["test_interval_us"].max())
    tests = f"The program tested the request every {interval} us of computation." if interval > 0 else "The program did not test the request."
    fig.finish(figure, selection.title or "Overlap of calls that do not block", selection.footer(
        f"Overlap is (pure + compute - total) / min(pure, compute), of calls that take turns. {tests} Bands are 95 % intervals.",
        selection.overlapped))
    return figure, rows
