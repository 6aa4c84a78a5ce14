"""All repetitions of one point, tails kept."""
import numpy as np
from matplotlib import ticker

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import good, named, one_size, plot
from mpi_quant.figures.selection import PlotError, names_of


def pooled(selection):
    """Key, size, and sorted samples of each method, from all launches of good rows at the largest size."""
    samples = selection.matrix("samples")
    for key, size, rows in selection.largest():
        rows, found = rows[good(rows)], {}
        for method in sorted(set(rows["method"]), key=fig.order):
            mine = [samples[k] for k in rows["key"][rows["method"] == method] if k in samples]
            values = np.sort(np.concatenate(mine)) if mine else np.array([])
            if np.isfinite(values).any():
                found[str(method)] = values[np.isfinite(values)]
        if found:
            yield key, size, found


def applies(selection):
    return next(pooled(selection), None) is not None


@plot("distribution", applies, read="""A point says which share of the calls took no longer than the time below it. A steep line is a
steady method. A step to the right is a second mode, and a long upper tail means rare slow calls. Nothing is cut off.""")
def distribution(selection):
    """The distribution of the time of all repetitions at the largest size (--where bytes=... for another)."""
    found = list(pooled(selection))
    if not found:
        raise PlotError(f"{names_of(selection.results)}: no samples of rows that are ok and without oversubscription")
    figure, axes = fig.panels([one_size(selection, key, size) for key, size, _ in found], "share of calls",
                              "time of a call", share=False)
    looks = selection.looks(m for *_, methods in found for m in methods)
    rows = []
    for axis, (key, size, methods) in zip(axes, found):
        for method, values in methods.items():
            colour, marker, dashes, name = looks[method]
            share = np.arange(1, len(values) + 1) / len(values)
            axis.step(np.r_[values[0], values], np.r_[0, share], where="post", color=colour, linestyle=dashes, linewidth=1.2,
                      marker=marker, markersize=4, markevery=max(1, len(values) // 6), label=name)
            rows += [{**named(key), "method": method, "bytes": size, "t_max_s": float(t), "share": float(s)}
                     for t, s in zip(values, share)]
        ends = np.concatenate(list(methods.values()))
        fig.log_x_axis(axis, 10, ticker.EngFormatter(unit="s"), ends.min(), ends.max())
        axis.set_ylim(0, 1.02)
        axis.yaxis.set_major_formatter(ticker.PercentFormatter(1))
    fig.finish(figure, selection.title or "Distribution of the time of a call", selection.footer(
        "A time is what the slowest rank took in one repetition. Launches are pooled, and outliers are kept."))
    return figure, rows
