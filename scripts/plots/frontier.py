"""From which link rate and size on a compressed call is as fast as a dense one: where the model says both take the same time."""
import numpy as np
from matplotlib import ticker

import mpiq_figure as fig
import mpiq_model
import mpiq_predict
from mpiq_plots import named, plot
from mpiq_results import bytes_label
from mpiq_selection import PlotError, names_of

GBIT = 1e9 / 8  # B/s
RATES = np.geomspace(0.1, 400, 49)  # Gbit/s
SIZES = 2.0 ** np.arange(10, 30.01, 0.25)
DENSE_BF16 = "bf16"  # half the bytes, no more error than rounding: what a user would try without compression


def fits(selection):
    """(key, B/s of the link, fit) of the panels whose link has a rate in its name."""
    for key, _ in selection.panels():
        rate = mpiq_predict.wire_limit(key[0])
        fitted = mpiq_model.panel(selection, key) if rate else None
        if fitted and len(fitted) > 1:
            yield key, rate, fitted


def applies(selection):
    return next(fits(selection), None) is not None


def surfaces(found):
    """For each panel, the seconds of the fits by rate and size, and of each draw. The host's part of beta is that of the links
    with the same ranks, type and input."""
    for key, rate, fitted in found:
        alike = [(r, f["dense"].beta) for k, r, f in found if k[1:] == key[1:]]
        host = mpiq_predict.host_seconds(alike)
        yield key, {m: mpiq_predict.on_links(f, SIZES, key[2], rate, host, RATES * GBIT) for m, f in fitted.items()}


def crossing(faster):
    """By rate: the smallest size from which on a method is faster at all larger sizes; NaN if there is none, 0 if it is every
    size."""
    lasting = np.logical_and.accumulate(faster[:, ::-1], axis=1)[:, ::-1]
    first = lasting.argmax(axis=1)
    return np.where(lasting.any(axis=1), np.where(first == 0, 0.0, SIZES[first]), np.nan)


def draw_panel(axis, key, base, seconds, looks):
    """The rows of the CSV. It draws a line where base and method take the same time, and a thin one where the method is
    certainly faster."""
    everywhere, rows = {}, []
    for method in (m for m in seconds if m in looks and m != base):
        gain = np.log(seconds[base][0] / seconds[method][0])
        sure = (seconds[base][1] > seconds[method][1]).mean(axis=-1)
        colour, _, dashes = looks[method]
        if (gain > 0).all() or (gain < 0).all():
            everywhere[method] = "faster" if gain[0, 0] > 0 else "slower"
        for values, level, width in ((gain, 0, 1.7), (sure, mpiq_predict.ENDS[1], 0.6)):
            if values.min() < level < values.max():
                for line in axis.contour(RATES, SIZES, values.T, levels=[level], colors=[colour], linewidths=width).collections:
                    line.set_linestyle(dashes)
        likely, never = crossing(sure > mpiq_predict.ENDS[1]), crossing(sure > mpiq_predict.ENDS[0])
        rows += [{**named(key), "baseline": "mpi/fastest" if base == "dense" else base, "method": method, "link_gbit": rate,
                  "bytes_from": size, "bytes_from_lo": low, "bytes_from_hi": high}
                 for rate, size, low, high in zip(RATES, crossing(gain > 0), never, likely)]
    fig.note(axis, "no crossing here", {m: f"{m}: {where} everywhere" for m, where in everywhere.items()}, looks)
    return rows


def dress(axis, measured):
    axis.set_xscale("log")
    axis.set_xlim(RATES[0], RATES[-1])
    axis.set_xticks([0.1, 1, 10, 100, 400])
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}"))
    axis.xaxis.set_minor_locator(ticker.NullLocator())
    axis.set_yscale("log", base=2)
    axis.set_ylim(SIZES[0], SIZES[-1])
    axis.set_yticks(SIZES[::16])
    axis.yaxis.set_major_formatter(ticker.FuncFormatter(bytes_label))
    axis.yaxis.set_minor_locator(ticker.NullLocator())
    for rate, here in measured:
        axis.axvline(rate / GBIT, color="#444444", linewidth=1.2 if here else 0.7, linestyle=(0, (6, 3)))
        if here:
            axis.text(rate / GBIT, 0.985, " measured", transform=axis.get_xaxis_transform(), fontsize=7, color="#444444", va="top")
    axis.text(0.012, 0.03, "top left of its line a method is faster", transform=axis.transAxes, fontsize=7, color="#444444",
              bbox={"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8})


@plot("frontier", applies, read="""Modelled, not measured, except on the dashed vertical that is called measured. On its line a method
and the baseline take the same time; slower links and larger vectors (top left) are where compression pays. Up to its thin line
97.5 % of the draws of the bootstrap say that it is faster: between the two nobody knows before it is measured. A method without
a line is on the same side everywhere.""")
def frontier(selection):
    """Link rate and size at which a compressed call takes as long as a dense one, by the model."""
    found = list(fits(selection))
    if not found:
        raise PlotError(f"{names_of(selection.results)}: the model needs a link with a rate in its name (such as lab-1gbit), and good "
                        f"rows of a dense and a compressed method of at least {mpiq_model.MIN_SIZES} sizes")
    panels = [(key, base, seconds) for key, seconds in surfaces(found)
              for base in ("dense", DENSE_BF16) if base == "dense" or base in seconds and len(seconds) > 2]
    titles = [f"over {'MPI_Allreduce' if base == 'dense' else 'bf16 (ours)'}\n{selection.panel_title(key)}" for key, base, _ in panels]
    figure, axes = fig.panels(titles, "vector per rank (bytes), log scale", "link of a host (Gbit/s), log scale", height=3.7)
    looks = fig.looks(sorted({m for _, _, f in found for m in f if m != "dense"}, key=fig.order))
    rows = []
    for axis, (key, base, seconds) in zip(axes, panels):
        rows += draw_panel(axis, key, base, seconds, looks)
        dress(axis, sorted((rate, k == key) for k, rate, _ in found if k[1:] == key[1:]))
    fig.legend(figure, looks, selection.dtypes)
    fig.finish(figure, selection.title or "Modelled frontier: where compressed and dense take the same time", selection.footer(
        "Thick: equal time by the fitted model; thin: 97.5 % of the draws of the bootstrap say that the method is faster. Of the fitted "
        "seconds per byte sent, what the links leave above their nominal rate stays (the host's), the rest is the link's. "
        "Assumed: full bisection, latency and codec as measured at every rate. Outside of the measured sizes lines are "
        "extrapolated."))
    return figure, rows
