"""Where the time of a compressed call goes, on the rank that took longest."""
import numpy as np
from matplotlib import ticker

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import good, named, one_size, plot
from mpi_quant.figures.selection import PlotError, names_of
from mpi_quant.results.reader import seconds_label
from mpi_quant.results.schema import noun_of

# Each phase has a colour and a hatching of its own. No method has one of these colours.
PHASES = {"encode": ("#4477AA", ""), "wait": ("#DDDDDD", "xx"), "decode": ("#CCBB44", "//"), "other": ("#AA3377", "..")}
WHOLE = "#222222"  # of a dense call, which has no phases
SPARE = ("#66CCEE", "\\\\")


def phase_names(selection):
    return next((r.phases for r in selection.results if r.phases), ())


def parts(exposed, busy, time):
    """Seconds by phase. Of vectors on a GPU only the waiting is known as exposed; encode and decode are then the GPU's own time, and
    other is what is left of the call's."""
    if busy is None or not np.isfinite(exposed[1]) or np.isfinite(exposed).all():
        return exposed
    found = np.where(np.isfinite(exposed), exposed, busy)
    found[3] = max(0.0, time - found[:3].sum())
    return found


def panels(selection):
    """Key, size, the fastest dense method as {name: seconds} (empty if there is none), and seconds by phase of each method, at the
    largest size."""
    exposed, busy = selection.matrix("exposed"), selection.matrix("busy")
    for key, size, rows in selection.largest():
        rows, found = rows[good(rows)], {}
        for method in sorted(set(rows["method"]), key=fig.order):
            mine = [parts(exposed[row["key"]], busy.get(row["key"]), row["t_median_s"])
                    for row in rows[rows["method"] == method] if row["key"] in exposed]
            mine = [m for m in mine if np.isfinite(m).all() and m.sum() > 0]
            if mine:
                found[str(method)] = np.median(mine, axis=0)
        dense = rows[rows["compressor"] == "none"]
        fastest = dense[np.argsort(dense["t_median_s"])[:1]]
        if found:
            yield key, size, {str(row["method"]): float(row["t_median_s"]) for row in fastest}, found


def applies(selection):
    return bool(phase_names(selection)) and next(panels(selection), None) is not None


def bars(axis, dense, found, names, share):
    """Draws a bar of the fastest dense method, and below it a stacked bar for each compressed one, from 0. dense: label -> seconds."""
    for y, seconds in enumerate(dense.values()):
        axis.barh(y, 100 if share else seconds, color=WHOLE, height=0.7, label="whole call")
    for y, seconds in enumerate(found.values(), len(dense)):
        scale = 100 / seconds.sum() if share else 1
        left = 0.0
        for name, value in zip(names, seconds):
            colour, hatch = PHASES.get(name, SPARE)
            axis.barh(y, value * scale, left=left, color=colour, hatch=hatch, edgecolor="#555555", linewidth=0.4, height=0.7,
                      label=None if y > len(dense) else name)
            left += value * scale
    labels = [*dense, *found]
    axis.set_yticks(range(len(labels)), ["" if share else fig.in_lines(m, 36) for m in labels])
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    axis.xaxis.set_major_locator(ticker.MaxNLocator(5))
    axis.xaxis.set_major_formatter(ticker.PercentFormatter() if share else ticker.EngFormatter(unit="s"))


@plot("phases", applies, read="""The left panels are in seconds, the right ones are shares. Waiting that is hidden behind encoding
and decoding does not show. Where there is no waiting left, the codec is the limit and a faster wire gains nothing.""")
def phases(selection):
    """The time in each phase of a compressed call, of the slowest rank, at the largest size."""
    names, found = phase_names(selection), list(panels(selection))
    if not found:
        raise PlotError(f"{names_of(selection.results)}: no row with phases: /phases/exposed_s is missing or empty")
    titles = [title for key, size, *_ in found for title in (one_size(selection, key, size), "")]
    figure, axes = fig.panels(titles, "", "exposed time of the slowest rank", share=False,
                              height=max(2, *(1 + 0.36 * len(dense | methods) for *_, dense, methods in found)))
    rows = []
    for left, right, (key, size, dense, methods) in zip(axes[::2], axes[1::2], found):
        whole = {f"fastest dense: {fig.label(method, selection.dtypes, selection.function)}, {seconds_label(time)}": time for method, time in dense.items()}
        bars(left, whole, methods, names, share=False)
        bars(right, whole, methods, names, share=True)
        right.set_xlabel("share of that time")
        right.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        for method, seconds in methods.items():
            rows += [{**named(key), "method": method, "bytes": size, "phase": name, "exposed_s": float(value),
                      "share": float(value / seconds.sum())} for name, value in zip(names, seconds)]
    fig.finish(figure, selection.title or f"Where the time of a compressed {noun_of(selection.collective)} goes", selection.footer(
        "The bars are medians over repetitions of what the slowest rank spends in each phase. Work that overlaps counts once. "
        "\"Other\" is the rest of its time: what it does outside of encoding, decoding and waiting, such as starting messages and copying."
        + (" Of vectors on a GPU, encode and decode are the GPU's own time, which may overlap the waiting."
           if any((r.points["memory"] == "cuda").any() for r in selection.results) else "")))
    return figure, rows
