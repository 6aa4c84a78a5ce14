"""Measured times against a model of latency, wire and codec, and what it leaves."""
from matplotlib import ticker

import mpiq_figure as fig
import mpiq_model
from mpiq_plots import extent, named, plot
from mpiq_selection import PlotError, names_of


def fits(selection):
    for key, _ in selection.panels():
        fitted = mpiq_model.panel(selection, key)
        if fitted:
            yield key, {("mpi/fastest" if m == "dense" else m): f for m, f in fitted.items()}


def applies(selection):
    return next(fits(selection), None) is not None


def rows_of(key, fitted):
    for method, f in fitted.items():
        for p in f.points:
            yield {**named(key), "method": method, "bytes": p.bytes, "t_median_s": p.measured, "model_s": p.model,
                   "residual": p.measured / p.model - 1 if p.model > 0 else float("nan"), "alpha_s": f.alpha,
                   "beta_s_per_B": f.beta, "gamma_s_per_B": f.gamma, "encode_share": f.encode_share, "spread": f.spread}


def draw_pair(left, right, fitted, looks):
    """Draws the measured values as markers with the model as a line, and the deviations from it."""
    for method, f in fitted.items():
        colour, marker, dashes, name = looks[method]
        sizes = [p.bytes for p in f.points]
        left.plot(sizes, [p.model for p in f.points], color=colour, linestyle=dashes, linewidth=1.2, label=name)
        for p in f.points:
            fig.mark(left, p.bytes, {"value": p.measured, "low": p.low, "high": p.high, "drawn": "line"}, looks[method])
        right.plot(sizes, [100 * (p.measured / p.model - 1) for p in f.points], color=colour, marker=marker, linestyle=dashes,
                   linewidth=0.8, markersize=5, label=name)
    right.axhline(0, color="black", linewidth=0.8)
    right.yaxis.set_major_formatter(ticker.PercentFormatter())
    beta = next(iter(fitted.values())).beta
    right.set_title("measured over model − 1" + (f", wire {ticker.EngFormatter(unit='B/s', places=0)(1 / beta)}" if beta > 0 else ""))


@plot("model", applies, read="""On the left, markers are measured and lines are the model. On the right is how much longer than the
model the measured call took. A deviation that grows with size is something the model does not know, such as a cache that
overflows.""")
def model(selection):
    """The measured times and the fitted model of latency, wire and codec, and the deviations between them."""
    found = list(fits(selection))
    if not found:
        raise PlotError(f"{names_of(selection.results)}: the model needs good dense rows of at least {mpiq_model.MIN_SIZES} "
                        "sizes on two or more ranks")
    figure, axes = fig.panels([title for key, _ in found for title in (selection.panel_title(key), "")], "time of a call", share=False)
    looks = fig.looks((m for _, fitted in found for m in fitted), selection.dtypes)
    rows = [row for key, fitted in found for row in rows_of(key, fitted)]
    ends = [row[c] for row in rows for c in ("t_median_s", "model_s") if row[c] > 0]
    for left, right, (_, fitted) in zip(axes[::2], axes[1::2], found):
        draw_pair(left, right, fitted, looks)
        for axis in (left, right):
            fig.log_x_axis(axis, 2, fig.BYTES, *extent(rows, "bytes"))
        fig.log_axis(left, 10, ticker.EngFormatter(unit="s"), min(ends), max(ends))
    fig.finish(figure, selection.title or "Measured and modelled time", selection.footer(
        "A dense call takes alpha (messages) + beta (bytes sent), by its best algorithm. A compressed call takes alpha' (messages) + "
        "the longer of wire and codec + what it does not hide of one segment of the shorter. The wire takes beta (bytes sent by the busiest rank), the codec "
        "gamma (bytes). The coefficients are fitted to these points, relatively and robustly; the CSV has them."))
    return figure, rows
