"""Time of every rank in every repetition: stragglers."""
import numpy as np

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import good, named, plot
from mpi_quant.figures.selection import PlotError, names_of
from mpi_quant.results.reader import bytes_label

MOST = 12  # panels; the CSV has all
DARKEST = 5.0  # times the median: all beyond it is as dark, so that one late call does not make the others look alike


def by_rank(selection):
    """Panel key, size, method and (repetition, rank) -> seconds, from good rows of the first launch at the largest size."""
    times = selection.matrix("t_rank")
    for key, size, rows in selection.largest():
        rows = rows[good(rows) & np.isin(rows["key"], sorted(times))]
        for method in sorted(set(rows["method"]), key=fig.order):
            mine = rows[rows["method"] == method]
            t = times[mine["key"][np.argmin(mine["launch"])]]
            t = t[np.isfinite(t).all(axis=1)]
            if len(t):
                yield key, size, str(method), t


def applies(selection):
    return next(by_rank(selection), None) is not None


@plot("ranks", applies, read="""Dark is slow, compared with the median of the method. A dark row is a rank that is always late,
and a dark column is a call in which everybody waited.""")
def ranks(selection):
    """The time of each rank in each repetition, at the largest size."""
    found = list(by_rank(selection))
    if not found:
        raise PlotError(f"{names_of(selection.results)}: no times of single ranks: /samples/t_rank_s is missing or empty")
    names = [f"{method}, {key[0]} {bytes_label(size)}".replace(",  ", ", ") for key, size, method, _ in found]
    figure, axes = fig.panels(names[:MOST], "rank", "repetition", share=False, height=2.6)
    rows, slowest = [], max(1.1, max(float((t / np.median(t)).max()) for *_, t in found))
    most = min(slowest, DARKEST)
    for axis, (_, _, _, t) in zip(axes, found):
        ratio = t / np.median(t)
        image = axis.imshow(ratio.T, aspect="auto", cmap="cividis_r", vmin=min(0.9, 1 / most), vmax=most, interpolation="nearest")
        axis.set_yticks(range(t.shape[1]) if t.shape[1] <= 16 else range(0, t.shape[1], -(-t.shape[1] // 16)))
        axis.grid(False)
        figure.colorbar(image, ax=axis, extend="max" if slowest > most else "neither").ax.set_title("time /\nmedian", fontsize=7)
    for key, size, method, t in found:
        rows += [{**named(key), "method": method, "bytes": size, "repetition": k, "rank": r, "t_rank_s": float(t[k, r])}
                 for k in range(t.shape[0]) for r in range(t.shape[1])]
    fig.finish(figure, selection.title or "Time of each rank", selection.footer(
        "The colour is the time in the call over the median of its method, in the first launch."
        + (f" Not drawn, for want of room, but in the CSV: {'; '.join(names[MOST:])}." if names[MOST:] else "")))
    return figure, rows
