"""Speed-up by number of ranks, far beyond those that were measured: what the model makes of the fitted link and codecs."""
import numpy as np

import mpiq_figure as fig
import mpiq_model
import mpiq_predict
from mpiq_plots import plot, series
from mpiq_results import bytes_label, dense
from mpiq_selection import PlotError, names_of

RANKS = tuple(2**i for i in range(1, 11))
CLASSES = 3  # sizes of each link: the smallest, one between, the largest
DASHES = (0, (4, 2))  # of everything that is modelled
ASSUMED = ("The model assumes that no two ranks share a link or a host, that the fitted link and codec hold for every number of ranks, "
           "that latencies of a round overlap, and that the time of messages at processors does not. Where points do not tell the two "
           "apart, the bands hold every share. The best of ring, recursive doubling and halving-doubling stands for the dense "
           "call. A method without a plan in its name takes the library's.")


def classes(rows):
    """Up to three of the measured sizes."""
    sizes = sorted(set(int(s) for s in rows["bytes"]))
    return [sizes[i] for i in sorted({round(i) for i in np.linspace(0, len(sizes) - 1, CLASSES)})]


def measured(rows, size):
    """(method, ranks) -> the point, with the speed-up over the fastest dense call, from the ends of both intervals."""
    lines = series(rows[rows["bytes"] == size], "t_median_s", "t_ci_lo_s", "t_ci_hi_s", "ranks")
    is_dense = set(rows["method"][dense(rows)])
    best = {}
    for p in (p for method in is_dense & set(lines) for p in lines[method]):
        best[p["ranks"]] = min(best.get(p["ranks"], p), p, key=lambda q: q["value"])
    for method in (m for m in lines if m not in is_dense):
        for p in lines[method]:
            if p["ranks"] in best:
                b = best[p["ranks"]]
                yield method, {"ranks": p["ranks"], "t": tuple(p[n] for n in ("value", "low", "high")), "drawn": p["drawn"],
                               "speedup": (b["value"] / p["value"], b["low"] / p["high"], b["high"] / p["low"])}


def csv_row(where, method, source, ranks, seconds, speedup):
    names = [f"{what}{end}" for what in ("t", "speedup") for end in ("", "_lo", "_hi")]
    return {**where, "method": method, "source": source, "ranks": ranks, **dict(zip(names, (*seconds, *speedup)))}


def draw_panel(axis, where, rows, fitted, looks):
    """Rows of the CSV: a line with its band for each method, and what was measured as markers."""
    out, size, base = [], where["bytes"], fitted["dense"]
    for method, fit in fitted.items():
        if method not in looks:
            continue
        found = [mpiq_predict.call(fit, base, size, ranks) for ranks in RANKS]
        value, low, high = np.array([speedup for _, speedup in found]).T
        axis.plot(RANKS, value, color=looks[method][0], linestyle=DASHES, linewidth=1.4, label=looks[method][3])
        axis.fill_between(RANKS, low, high, color=looks[method][0], alpha=0.12, linewidth=0)
        out += [csv_row(where, method, "modelled", r, *both) for r, both in zip(RANKS, found)]
    for method, p in measured(rows, size):
        if method in looks:
            value, low, high = p["speedup"]
            fig.mark(axis, p["ranks"], {"value": value, "low": low, "high": high, "drawn": p["drawn"]}, looks[method])
            source = "measured" if p["drawn"] == "line" else f"measured, {p['drawn']}"
            out.append(csv_row(where, method, source, p["ranks"], p["t"], p["speedup"]))
    return out


def applies(selection):
    return next(mpiq_predict.groups(selection), None) is not None


def methods_of(found):
    return {m for _, _, fitted in found for m, f in fitted.items() if m != "dense" and f.folds()}


@plot("extrapolate", applies, read="""Dashed lines are modelled, not measured: they are what the model makes of coefficients that were
fitted at few ranks. Bands hold 95 % of what the points allow the lines to be. Markers are measured; hollow ones had more ranks than
cores. A line that falls below 1 on the right loses to messages: a compressed call sends more of them than the best dense algorithm of
short vectors, which sends as many as the logarithm of the ranks.""")
def extrapolate(selection):
    """The modelled speed-up over dense reduction up to 1024 ranks, with error bands; measured points as markers."""
    found = list(mpiq_predict.groups(selection))
    if not methods_of(found):
        raise PlotError(f"{names_of(selection.results)}: the model needs good rows of a dense and a compressed method, a rank a "
                        f"host, of at least {mpiq_model.MIN_SIZES} sizes")
    panels = [(dict(zip(mpiq_predict.GROUP, key), bytes=size), rows, fitted) for key, rows, fitted in found
              for size in classes(rows[dense(rows)])]
    told = [c for c in ("dtype", "data") if len({w[c] for w, _, _ in panels}) > 1]
    titles = [", ".join(part for part in ("modelled", bytes_label(w["bytes"]), w["link"], *(str(w[c]) for c in told)) if part)
              for w, _, _ in panels]
    figure, axes = fig.panels(titles, "speed-up", "ranks")
    looks = fig.looks(methods_of(found), selection.dtypes)
    out = [row for axis, panel in zip(axes, panels) for row in draw_panel(axis, *panel, looks)]
    fig.log_x_axis(axes[0], 2, fig.PLAIN, RANKS[0], RANKS[-1])
    values = [row["speedup"] for row in out] + [1]
    fig.log_axis(axes[0], 2, fig.PLAIN, max(min(values), 2**-10) / 1.2, max(values) * 1.2)
    for axis in axes:
        axis.axhline(1, color="black", linewidth=1)
    fig.finish(figure, selection.title or "Modelled speed-up over the fastest MPI_Allreduce by ranks", selection.footer(
        "The bands are 95 % intervals, by bootstrap over the points and the spread of residuals. " + ASSUMED))
    return figure, out
