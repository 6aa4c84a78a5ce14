"""Commit by commit, for a few fixed points: regressions."""
import numpy as np
from matplotlib import ticker

import mpiq_figure as fig
from mpiq_plots import named, plot, summarise
from mpiq_results import bytes_label
from mpiq_selection import BEST_DENSE, PANEL, PlotError, commit, names_of, one_dense

COLUMNS = ("t_median_s", "t_ci_lo_s", "t_ci_hi_s")


def commits(selection):
    """Commit -> its files. The commits are in the order of their first files."""
    out = {}
    for result in sorted(selection.results, key=lambda r: str(r.attrs.get("created_utc", ""))):
        out.setdefault(commit(result.attrs), []).append(result)
    return out


def tracked(selection):
    """(where, size, method) -> [(commit, date, rows)] of what more than one commit measured. `where` names processor and
    panel."""
    found = {}
    for name, results in commits(selection).items():
        for result in results:
            points = selection.rows_of(result)
            points = one_dense(points) if selection.baseline == BEST_DENSE and len(points) else points
            for key in sorted({tuple(row[c].item() for c in (*PANEL, "bytes", "method")) for row in points}):
                rows = points[np.logical_and.reduce([points[c] == v for c, v in zip((*PANEL, "bytes", "method"), key)])]
                where = ", ".join(result.attrs["cpus"] or result.attrs["hosts"]), *key[:len(PANEL)]
                found.setdefault((where, *key[len(PANEL):]), {}).setdefault(name, []).append((result, rows))
    return {key: per for key, per in found.items() if len(per) > 1}


def at_largest(selection):
    """The largest size of each panel: (where, size) -> method -> [(commit, date, summary)]."""
    found = tracked(selection)
    largest = {}
    for where, size, _ in found:
        largest[where] = max(size, largest.get(where, 0))
    out = {}
    for (where, size, method), per in sorted(found.items()):
        if size == largest[where]:
            columns = COLUMNS + ("status", "oversubscribed", "reps")
            out.setdefault((where, size), {})[method] = [
                (name, str(files[0][0].attrs.get("created_utc", ""))[:10],
                 summarise(np.concatenate([rows[list(columns)] for _, rows in files]), *COLUMNS)) for name, files in per.items()]
    return out


def applies(selection):
    return len(commits(selection)) > 1 and bool(at_largest(selection))


@plot("history", applies, read="""Each column is a commit, in the order of measurement. A method that steps up between two columns
by more than its bars got slower; if all methods step together, it was the machine.""")
def history(selection):
    """Median and interval by commit, at the largest size that several commits measured (several files)."""
    found = at_largest(selection)
    if not found:
        raise PlotError(f"{names_of(selection.results)}: no point was measured by more than one commit on the same kind of "
                        "processor")
    names = [n for n in commits(selection) if any(n == e[0] for methods in found.values() for es in methods.values() for e in es)]
    titles = [f"{ranks} ranks, {link or 'no link named'}, {bytes_label(size)}" for ((_, link, _, ranks, _, _), size) in found]
    figure, axes = fig.panels(titles, "time of a call, log scale", "", share=False)
    looks = fig.looks(sorted({m for methods in found.values() for m in methods}, key=fig.order))
    rows, dates = [], {}
    for axis, ((where, size), methods) in zip(axes, found.items()):
        offsets = np.linspace(-0.25, 0.25, len(methods)) if len(methods) > 1 else [0]
        for offset, (method, entries) in zip(offsets, methods.items()):
            for name, date, p in entries:
                fig.mark(axis, names.index(name) + offset, p, looks[method])
                dates[name] = date
                rows.append({"cpu": where[0], **named(where[1:]), "bytes": size, "method": method, "commit": name, "date": date,
                             "launches": p["launches"], "drawn": p["drawn"],
                             **dict(zip(COLUMNS, (p["value"], p["low"], p["high"])))})
        axis.set_xticks(range(len(names)), [f"{n}\n{dates.get(n, '')}" for n in names], fontsize=7.5)
        axis.set_xlim(-0.5, len(names) - 0.5)
        axis.grid(axis="x", visible=False)
        mine = [p for entries in methods.values() for _, _, p in entries]
        fig.log_axis(axis, 10, ticker.EngFormatter(unit="s"), min(p["low"] for p in mine), max(p["high"] for p in mine))
    fig.marks_legend(figure, looks, selection.dtypes, [fig.HOLLOW] if any(row["drawn"] != "line" for row in rows) else [])
    fig.finish(figure, selection.title or "Commit by commit", selection.footer(
        "Median of the slowest rank's time and its 95 % interval."))
    return figure, rows
