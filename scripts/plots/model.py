"""Measured times against a model of latency, wire and codec, and what it leaves."""
from matplotlib import ticker

import mpiq_figure as fig
import mpiq_model
from mpiq_plots import named, plot
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


def draw_column(above, below, fitted, looks):
    """Draws the measured values as markers with the model as a line, and the deviations from it."""
    for method, f in fitted.items():
        colour, marker, dashes = looks[method]
        sizes = [p.bytes for p in f.points]
        above.plot(sizes, [p.model for p in f.points], color=colour, linestyle=dashes, linewidth=1.2)
        for p in f.points:
            fig.mark(above, p.bytes, {"value": p.measured, "low": p.low, "high": p.high, "drawn": "line"},
                     looks[method])
        below.plot(sizes, [100 * (p.measured / p.model - 1) for p in f.points], color=colour, marker=marker,
                   linestyle=dashes, linewidth=0.8, markersize=5)
    below.axhline(0, color="black", linewidth=0.8)
    beta = next(iter(fitted.values())).beta
    above.text(0.98, 0.03, f"wire: {ticker.EngFormatter(unit='B/s', places=0)(1 / beta)}" if beta > 0 else "",
               transform=above.transAxes, ha="right", fontsize=7.5, color="#444444")


def pairs(columns, rows):
    """A figure with pairs of axes, (above, below), in reading order. All upper axes share their scales, and so do all lower
    ones."""
    figure = fig.plt.figure(figsize=(max(6.4, 4.2 * columns), 4.6 * rows + 1.4))
    outer, out = figure.add_gridspec(rows, columns), []
    for place in range(rows * columns):
        inner = outer[place // columns, place % columns].subgridspec(2, 1, height_ratios=(3, 2), hspace=0.12)
        first = out[0] if out else (None, None)
        above = figure.add_subplot(inner[0], sharex=first[0], sharey=first[0])
        below = figure.add_subplot(inner[1], sharex=above, sharey=first[1])
        above.tick_params(labelbottom=False, labelleft=place % columns == 0)
        below.tick_params(labelbottom=False, labelleft=place % columns == 0)
        out.append((above, below))
    return figure, out


@plot("model", applies, read="""Above, markers are measured and lines are the model; below, how much longer than the model the
measured call took. A residual that grows with size is something the model does not know, such as a cache that overflows.""")
def model(selection):
    """Measured times against the fitted model of latency, wire and codec, with residuals."""
    found = list(fits(selection))
    if not found:
        raise PlotError(f"{names_of(selection.results)}: the model needs good dense rows of at least {mpiq_model.MIN_SIZES} "
                        "sizes on two or more ranks")
    columns = fig.columns_of(len(found))
    figure, grid = pairs(columns, -(-len(found) // columns))
    looks = fig.looks(sorted({m for _, fitted in found for m in fitted}, key=fig.order))
    rows = []
    for (above, below), (key, fitted) in zip(grid, found):
        draw_column(above, below, fitted, looks)
        above.set_title(selection.panel_title(key))
        rows += rows_of(key, fitted)
    for above, below in grid[len(found):]:
        above.set_visible(False)
        below.set_visible(False)
    for above, below in grid[::columns]:
        above.set_ylabel("time of a call, log scale")
        below.set_ylabel("measured over\nmodel − 1")
    for _, below in grid[max(0, len(found) - columns):len(found)]:
        below.set_xlabel("vector per rank (bytes)")
        below.tick_params(labelbottom=True)
    grid[0][1].yaxis.set_major_formatter(ticker.PercentFormatter())
    fig.bytes_axis(grid[0][0], [row["bytes"] for row in rows])
    ends = [row[c] for row in rows for c in ("t_median_s", "model_s") if row[c] > 0]
    fig.log_axis(grid[0][0], 10, ticker.EngFormatter(unit="s"), min(ends), max(ends))
    fig.legend(figure, looks, selection.dtypes)
    fig.finish(figure, selection.title or "Measured and modelled time", selection.footer(
        "Dense: t = alpha (messages) + beta (bytes sent), of the best algorithm; compressed: t = alpha' (messages) + the longer of "
        "wire = beta (bytes sent by the busiest rank) and codec = gamma (bytes), and of the shorter what one segment takes; "
        "fitted to these points, relative deviations, robustly; the coefficients are in the CSV."))
    return figure, rows
