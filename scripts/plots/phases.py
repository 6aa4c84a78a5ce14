"""Where the time of a compressed call goes, on the rank that took longest."""
import numpy as np
from matplotlib import ticker

import mpiq_figure as fig
from mpiq_plots import good, named, one_size, plot
from mpiq_results import seconds_label
from mpiq_selection import PlotError, names_of

# Each phase has a colour and a hatching of its own. The colours are not those of methods.
PHASES = {"encode": ("#4477AA", ""), "wait": ("#DDDDDD", "xx"), "decode": ("#CCBB44", "//"), "other": ("#AA3377", "..")}
SPARE = ("#66CCEE", "\\\\")


def phase_names(selection):
    return next((r.phases for r in selection.results if r.phases), ())


def panels(selection):
    """Key, size, time of the fastest dense method (NaN if there is none), and seconds by phase of each method, at the largest
    size."""
    exposed = selection.matrix("exposed")
    for key, size, rows in selection.largest():
        rows, found = rows[good(rows)], {}
        for method in sorted(set(rows["method"]), key=fig.order):
            mine = [exposed[k] for k in rows["key"][rows["method"] == method] if k in exposed]
            mine = [m for m in mine if np.isfinite(m).all() and m.sum() > 0]
            if mine:
                found[str(method)] = np.median(mine, axis=0)
        dense = rows["t_median_s"][rows["compressor"] == "none"]
        if found:
            yield key, size, float(dense.min()) if len(dense) else np.nan, found


def applies(selection):
    return bool(phase_names(selection)) and next(panels(selection), None) is not None


def bars(axis, found, names, share):
    """Draws a stacked bar for each method, from 0."""
    for y, seconds in enumerate(found.values()):
        scale = 100 / seconds.sum() if share else 1
        left = 0.0
        for name, value in zip(names, seconds):
            colour, hatch = PHASES.get(name, SPARE)
            axis.barh(y, value * scale, left=left, color=colour, hatch=hatch, edgecolor="#555555", linewidth=0.4, height=0.7)
            left += value * scale
    axis.set_yticks(range(len(found)), [fig.shorter(m) for m in found])
    axis.set_ylim(len(found) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    axis.xaxis.set_major_locator(ticker.MaxNLocator(5))
    axis.xaxis.set_major_formatter(ticker.PercentFormatter() if share else ticker.EngFormatter(unit="s"))


@plot("phases", applies, read="""Left in seconds, right as shares. Waiting that is hidden behind encoding and decoding does not
show; where there is no waiting left, the codec is the limit and a faster wire gains nothing.""")
def phases(selection):
    """Time in each phase of a compressed call, of the slowest rank, at the largest size."""
    names, found = phase_names(selection), list(panels(selection))
    if not found:
        raise PlotError(f"{names_of(selection.results)}: no row with phases: /phases/exposed_s is missing or empty")
    figure, grid = fig.plt.subplots(len(found), 2, squeeze=False, sharey="row", figsize=(
        9.2, sum(0.9 + 0.3 * len(methods) for *_, methods in found) + 1.3),
        gridspec_kw={"height_ratios": [0.9 + 0.3 * len(methods) for *_, methods in found]})
    rows = []
    for (left, right), (key, size, dense, methods) in zip(grid, found):
        bars(left, methods, names, share=False)
        bars(right, methods, names, share=True)
        left.set_title(one_size(selection, key, size))
        right.set_title("" if np.isnan(dense) else f"fastest MPI_Allreduce here: {seconds_label(dense)}", fontsize=8.5)
        for method, seconds in methods.items():
            rows += [{**named(key), "method": method, "bytes": size, "phase": name, "exposed_s": float(value),
                      "share": float(value / seconds.sum())} for name, value in zip(names, seconds)]
    grid[-1][0].set_xlabel("exposed time of the slowest rank")
    grid[-1][1].set_xlabel("share of that time")
    handles = [fig.plt.Rectangle((0, 0), 1, 1, facecolor=PHASES.get(n, SPARE)[0], hatch=PHASES.get(n, SPARE)[1],
                                 edgecolor="#555555", linewidth=0.4, label=n) for n in names]
    figure.legend(handles=handles, loc="upper center", ncol=len(handles))
    fig.finish(figure, selection.title or "Where the time of a compressed allreduce goes", selection.footer(
        "Medians over repetitions of what the slowest rank spends in each phase; work that overlaps counts once."))
    return figure, rows
