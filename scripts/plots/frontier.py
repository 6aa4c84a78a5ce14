"""From which link rate and size on a compressed call is as fast as a dense one: where the model says both take the same time."""
import numpy as np

import mpiq_figure as fig
import mpiq_model
import mpiq_predict
from mpiq_plots import named, plot
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


def side_of(gain):
    """On which side of its line a method is faster than the baseline. gain: by rate and size, above 0 where it is faster."""
    return f"faster {'left' if (gain[0] > 0).mean() > (gain[-1] > 0).mean() else 'right'} of it"


def draw_panel(axis, key, base, seconds, looks):
    """The rows of the CSV. It draws a line where base and method take the same time, and a thin one where the method is
    certainly faster."""
    rows = []
    for method in (m for m in seconds if m in looks and m != base):
        gain = np.log(seconds[base][0] / seconds[method][0])
        sure = (seconds[base][1] > seconds[method][1]).mean(axis=-1)
        colour, _, dashes, name = looks[method]
        if (gain > 0).all() or (gain < 0).all():
            axis.plot([], [], color=colour, linestyle=dashes, label=f"{name} ({'faster' if gain[0, 0] > 0 else 'slower'} everywhere)")
        else:
            name = f"{name} ({side_of(gain)})"
        for values, level, width in ((gain, 0, 1.7), (sure, mpiq_predict.ENDS[1], 0.6)):
            if values.min() < level < values.max():
                for line in axis.contour(RATES, SIZES, values.T, levels=[level], colors="none").allsegs[0]:
                    axis.plot(*line.T, color=colour, linestyle=dashes, linewidth=width, label=name if width > 1 else None)
        likely, never = crossing(sure > mpiq_predict.ENDS[1]), crossing(sure > mpiq_predict.ENDS[0])
        rows += [{**named(key), "baseline": "mpi/fastest" if base == "dense" else base, "method": method, "link_gbit": rate,
                  "bytes_from": size, "bytes_from_lo": low, "bytes_from_hi": high}
                 for rate, size, low, high in zip(RATES, crossing(gain > 0), never, likely)]
    return rows


def dress(axis, measured):
    fig.log_x_axis(axis, 10, fig.PLAIN, RATES[0], RATES[-1])
    fig.log_axis(axis, 2, fig.BYTES, SIZES[0], SIZES[-1])
    axis.plot([], [], color="#555555", linewidth=0.6, label="thin: surely faster")
    for rate, here in measured:
        if here:
            axis.axvline(rate / GBIT, color="#444444", linewidth=1.2, linestyle=(0, (6, 3)), label="the measured link")


@plot("frontier", applies, read="""All of it is modelled, not measured, except on the dashed vertical line, which is the measured link. On
its thick line a method and the baseline take the same time. The legend says on which side of it the method is faster: left, where links are slower, or right. Up to its thin line
97.5 % of the draws of the bootstrap say so: between the two nobody knows before it is measured.""")
def frontier(selection):
    """The link rate and the size at which a compressed call takes as long as a dense one, by the model."""
    found = list(fits(selection))
    if not found:
        raise PlotError(f"{names_of(selection.results)}: the model needs a link with a rate in its name (such as lab-1gbit), and good "
                        f"rows of a dense and a compressed method of at least {mpiq_model.MIN_SIZES} sizes")
    panels = [(key, base, seconds) for key, seconds in surfaces(found)
              for base in ("dense", DENSE_BF16) if base == "dense" or base in seconds and len(seconds) > 2]
    titles = [f"over {'MPI_Allreduce' if base == 'dense' else 'bf16'}, {selection.panel_title(key)}" for key, base, _ in panels]
    figure, axes = fig.panels(titles, "vector per rank (bytes)", "link of a host (Gbit/s)", height=3.3)
    looks = fig.looks((m for _, _, f in found for m in f if m != "dense"), selection.dtypes)
    rows = []
    for axis, (key, base, seconds) in zip(axes, panels):
        rows += draw_panel(axis, key, base, seconds, looks)
        dress(axis, sorted((rate, k == key) for k, rate, _ in found if k[1:] == key[1:]))
    fig.finish(figure, selection.title or "Modelled frontier: where compressed and dense take the same time", selection.footer(
        "On its thick line a method takes as long as the baseline, and the legend says on which side it is faster. Beyond its thin line "
        "97.5 % of the draws of the bootstrap say so. "
        "Of the fitted seconds per byte sent, what the links leave above their nominal rate stays, because it is the host's; the "
        "rest is the link's. The model assumes that no two ranks share a link, and the measured latency and codec at every rate. "
        "Outside of the measured sizes lines are extrapolated."))
    return figure, rows
