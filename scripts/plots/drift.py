"""Repetitions in the order in which they ran: drift, warm-up, throttling."""
import numpy as np
from matplotlib import ticker

import mpiq_figure as fig
from mpiq_plots import good, named, one_size, plot
from mpiq_results import NO_ORDER
from mpiq_selection import PlotError, names_of


def sequences(selection):
    """Key, size, and by method (place in the sequence, seconds), from the first launch of good rows at the largest size."""
    samples, order = selection.matrix("samples"), selection.matrix("order")
    for key, size, rows in selection.largest():
        rows = rows[good(rows) & np.isin(rows["key"], sorted(set(samples) & set(order)))]
        rows = rows[rows["launch"] == rows["launch"].min()] if len(rows) else rows
        found = {}
        for method in sorted(set(rows["method"]), key=fig.order):
            name = rows["key"][rows["method"] == method][0]
            t, place = samples[name], order[name]
            known = np.isfinite(t) & (place != NO_ORDER)
            if known.any():
                found[str(method)] = place[known].astype("i8"), t[known]
        if found:
            first = min(place.min() for place, _ in found.values())
            yield key, size, {m: (place - first, t) for m, (place, t) in found.items()}


def applies(selection):
    return next(sequences(selection), None) is not None


def ends(methods):
    ratios = np.concatenate([t / np.median(t) for _, t in methods.values()])
    return min(0.9, ratios.min()), max(1.1, ratios.max())


@plot("drift", applies, read="""One marker a call, in the order in which the calls ran, over the median of its method. A slope is
drift, a raised beginning a warm-up that was too short, a step the machine changing its speed. Good measurements look like
noise.""")
def drift(selection):
    """Time of every repetition in the order in which they ran, at the largest size (--where bytes=... for another)."""
    found = list(sequences(selection))
    if not found:
        raise PlotError(f"{names_of(selection.results)}: no good row has samples and their order (/samples/order)")
    figure, axes = fig.panels([one_size(selection, key, size) for key, size, _ in found],
                              "time / median of the method, log scale", "place in the sequence of calls", share=False)
    looks = fig.looks(sorted({m for *_, methods in found for m in methods}, key=fig.order))
    rows = []
    for axis, (key, size, methods) in zip(axes, found):
        for method, (place, t) in methods.items():
            colour, marker, _ = looks[method]
            ratio = t / np.median(t)
            axis.plot(place, ratio, color=colour, marker=marker, linestyle="none", markersize=3.2, alpha=0.75)
            rows += [{**named(key), "method": method, "bytes": size, "order": int(p), "t_max_s": float(v),
                      "over_median": float(r)}
                     for p, v, r in sorted(zip(place, t, ratio))]
        axis.axhline(1, color="black", linewidth=0.8)
        fig.log_axis(axis, 10, ticker.FuncFormatter(lambda y, _: f"{y:g}"), *ends(methods))
        axis.set_xlim(left=-0.5)
    fig.marks_legend(figure, looks, selection.dtypes)
    fig.finish(figure, selection.title or "Calls in the order in which they ran", selection.footer(
        "Each call of the first launch; methods take turns."))
    return figure, rows
