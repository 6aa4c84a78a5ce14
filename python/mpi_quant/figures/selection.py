"""The rows of a figure or a report. They are chosen from result files; rows that must not be compared are refused."""
import os
import re

import numpy as np

from mpi_quant.figures import look as fig
from mpi_quant.results import reader, training_step
from mpi_quant.results.schema import BEST_DENSE, COLLECTIVES, SIMULATED, SIMULATED_FASTEST, function_of, lone_algorithm

FASTEST = "mpi/fastest"  # the name of the fastest of the MPI library's algorithms in figures
PANEL = ("link", "nodes", "ranks", "dtype", "data")  # a panel has one value of each
ALIKE = ("collective", "op", "memory", "place", "buffers", "sync", "mode", "model", "compute_percent", "test_interval_us", "arrival", "form", "window")  # rows that differ in these must not be joined by a line
TIMED = ("ok", "invalid", SIMULATED)  # rows with a time
# What mpiq-simulate tries for mpi, by collective.
TRIED = {**dict.fromkeys(COLLECTIVES, "recursive doubling, halving and doubling, and a ring"),
         "reduce_scatter": "recursive halving and a ring", "allgather": "recursive doubling, Bruck's algorithm and a ring",
         "bcast": "a binomial tree, and a scatter with an allgather", "reduce": "a binomial tree, and halving with a gather"}
TOGETHER = {"allgather": "gathered", "bcast": "broadcast"}  # what becomes of the vectors; of all others: summed
PLACES = {"in": "in place", "out": "out of place"}


class PlotError(Exception):
    """There is nothing sensible to draw; the message says why."""


LINK_METHODS = {"mpi/single", "mpi/burst"}


class Selection:
    """The rows to draw, of all files, and what figures say about their origin. With `both` there may be measured and simulated
    rows: the plot keeps them apart. Calls that compute between start and end are in `overlapped`, and in `points` only if all rows are."""

    def __init__(self, results, where, title, baseline=None, both=False):
        for result in results:
            if len(result.points) and set(result.points["method"]) <= LINK_METHODS:
                raise PlotError(f"{names_of([result])}: messages of mpiq-bench link, no reductions: there is nothing to draw")
        if baseline:
            results = [reader.rebased(r, _wanted(baseline)) for r in results]
        self.results, self.title, self.baseline, self.where = results, title, baseline, where
        self.kernels = None  # of kernels.json, if one is given
        self.flops = training_step.FLOPS  # of each rank, where the figure is of a training step
        self.points = _select(results, where)
        timed = np.isin(self.points["status"], TIMED) & np.isfinite(self.points["t_median_s"])
        self.left_out = int((~timed).sum())
        self.points = self.points[timed]
        computing = self.points["compute_percent"] > 0
        self.overlapped = self.points[computing]
        if not computing.all():
            self.points = self.points[~computing]
        if baseline == BEST_DENSE:
            self.points = one_dense(self.points)
        if len(self.points) == 0:
            raise PlotError(f"{names_of(results)}: no rows to draw: {self.left_out} selected rows have no time")
        _refuse_mixtures(self.points, both)
        self.mixed = len(kinds(self.points)) > 1
        self.dtypes = sorted(set(self.points["dtype"]))
        self.collective = str(self.points["collective"][0])
        self.function = function_of(self.collective)

    def looks(self, methods):
        """look.looks, with the names that the methods have for this collective and these types."""
        return fig.looks(methods, self.dtypes, self.function)

    def panels(self):
        """Key and rows of each panel, sorted so that 1gbit comes before 10gbit."""
        keys = sorted({tuple(row[c].item() for c in PANEL) for row in self.points},
                      key=lambda key: [natural(v) for v in key])
        for key in keys:
            yield key, self.points[np.logical_and.reduce([self.points[c] == v for c, v in zip(PANEL, key)])]

    def largest(self):
        """Key, size and rows of the largest size of each panel, for plots with room for only one point of it."""
        for key, points in self.panels():
            size = points["bytes"].max()
            yield key, int(size), points[points["bytes"] == size]

    def matrix(self, name):
        """key of a row -> its row of a dataset (samples, t_rank, exposed, busy) in the file of the row."""
        out = {}
        for result in self.results:
            values = getattr(result, name)
            for i, key in enumerate(result.points["key"]):
                out.pop(key, None)
                if values is not None:
                    out[key] = values[i]
        return out

    def rows_of(self, result):
        """The chosen rows of one file."""
        points = reader.chosen(result.points, self.where)
        return points[np.isin(points["status"], TIMED) & np.isfinite(points["t_median_s"])]

    def base_words(self):
        """The baseline of the speed-ups, for titles."""
        return " or ".join(fig.label(name, self.dtypes, self.function) for name in self.base_methods())

    def base_methods(self):
        """The methods that speed-ups are relative to. At their own points the speed-up is 1."""
        if self.baseline == BEST_DENSE:
            return sorted({FASTEST, SIMULATED_FASTEST} & set(self.points["method"]))
        bases = set(self.points["base_key"]) - {""}
        return sorted(set(self.points["method"][np.isin(self.points["key"], list(bases))])) or ["mpi"]

    def panel_title(self, key):
        """The title of a panel: ranks and nodes always; the rest if it tells panels apart or names the link."""
        link, nodes, ranks, dtype, data = key
        parts = [f"{ranks} ranks on {nodes} node{'s' if nodes != 1 else ''}"] + ([link] if link else [])
        for value, column in ((fig.DTYPES.get(dtype, dtype), "dtype"), (f"{data}\u00a0input", "data")):
            if len(set(self.points[column])) > 1:
                parts.append(value)
        return ", ".join(parts)

    def footer(self, meaning, points=None):
        """The conditions as sentences, for the points that are drawn (default: all)."""
        p = self.points if points is None else points
        parts = kinds(p)
        if len(parts) > 1:
            return [self._settings(meaning, p)] + [self._origin(part) for part in parts]
        attrs = [r.attrs for r in self.results]
        simulated = ["Simulated, not measured: times are virtual."] if is_simulated(p).any() else []
        over = f"over {links}" if (links := words(p["link"])) else "over a link that is not named"
        if simulated:
            return simulated + [self._settings(meaning, p), f"{span(p['ranks'])} ranks were simulated {over}, by mpiq-simulate at commit "
                                f"{commits(attrs)}."]
        return [self._settings(meaning, p),
                f"{span(p['ranks'])} ranks ran on host {hosts(attrs)}, {over}, "
                f"with {words(mpi_version(a) for a in attrs)}, at commit {commits(attrs)}."]

    def _settings(self, meaning, p):
        compressed = p[p["compressor"] != "none"]
        feedback = {0: "off", 1: "on"}.get(int(compressed["feedback"][0]), "?") if len(compressed) else "none"
        first = kinds(p)[0]  # the measured rows, if there are any
        launches = len(set(first["launch"]))
        many = "1 repetition" if span(first["reps"]) == "1" else f"{span(first['reps'])} repetitions"
        return (
            f"{meaning} A {'measured ' if len(first) < len(p) else ''}point has {many} "
            f"in {launches} launch{'es' if launches > 1 else ''}. The vectors hold "
            f"{words(fig.DTYPES.get(d, d) for d in p['dtype'])} numbers (input: {_data(p['data'])}) and are {TOGETHER.get(self.collective, 'summed')} "
            f"{words(PLACES.get(v, v) for v in p['place'])}. The settings were: buffers {words(p['buffers'])}, mode {words(p['mode'])}, "
            f"synchronisation {words(first['sync'])}, error feedback {feedback}."
            + (f" {self.left_out} failed or skipped points are left out." if self.left_out else ""))

    def _origin(self, p):
        """Where the rows of one kind come from, in a figure of both kinds."""
        attrs = [r.attrs for r in self.results if np.isin(self.rows_of(r)["key"], p["key"]).any()]
        rows = f"{len(p)} row{'s' if len(p) != 1 else ''} of {words(os.path.basename(a['file']) for a in attrs)}, {span(p['ranks'])} ranks"
        link, made_by = words(p["link"]) or "a link that is not named", commits(attrs)
        if is_simulated(p).all():
            return f"Simulated (hollow markers, thin lines; times are virtual): {rows} over {link}, at commit {made_by}."
        return (f"Measured (filled markers): {rows} on host {hosts(attrs)}, over {link}, "
                f"with {words(mpi_version(a) for a in attrs)}, at commit {made_by}.")


def _wanted(baseline):
    return reader.dense if baseline == BEST_DENSE else lambda points: points["method"] == baseline


def one_dense(points):
    """Keeps only the fastest dense method at each size, and calls it mpi/fastest, or dense/fastest if it is simulated."""
    dense = reader.dense(points)
    kept, sizes = ~dense, [tuple(row[c] for c in (*PANEL, "bytes")) for row in points]
    for size in set(sizes):
        rows = dense & np.array([other == size for other in sizes])
        if rows.any():
            kept |= rows & (points["method"] == reader.fastest_method(points[rows]))
    points = points.copy()
    points["algorithm"][dense] = [row["algorithm"] if row["method"] in (FASTEST, SIMULATED_FASTEST) else algorithm_of(row) for row in points[dense]]
    points["method"][dense] = np.where(is_simulated(points[dense]), SIMULATED_FASTEST, FASTEST)
    return points[kept]


def algorithm_of(row):
    """What a dense row was made by, for the CSV: its method; for a simulated mpi also the algorithm, which the note ends with."""
    note = str(row["note"]) if "note" in row.dtype.names else ""
    return str(row["method"]) + (note[note.rindex(":"):] if row["method"] == "mpi" and row["status"] == SIMULATED and ":" in note else "")


def dense_words(points):
    """A sentence that says what the fastest dense method was chosen from; '' if there was no choice."""
    simulated = is_simulated(points)
    chosen = points["algorithm"][np.isin(points["method"], (FASTEST, SIMULATED_FASTEST))]
    names = sorted({str(name).partition(":")[0] for name in chosen})
    if not names:
        return ""
    best = f" mpi is the best of {TRIED[str(points['collective'][0])]}." if "mpi" in names and simulated.any() else ""
    return f" At each point the dense line is the fastest dense algorithm: {', '.join(names)}.{best}"


def best_dense_of(points):
    """The points with the fastest dense method alone, for figures of many ranks. Dense methods alone stay as they are: nothing is
    compared with them. A point with one named algorithm where several were possible is refused, because it would make the others look
    fast."""
    if len(kinds(points)) > 1:
        return np.concatenate([best_dense_of(part) for part in kinds(points)])
    dense = reader.dense(points)
    if dense.all() or not dense.any() or set(points["method"][dense]) == {"mpi"} and not is_simulated(points).any():
        return points
    at = [tuple(row[c].item() for c in (*PANEL, "bytes")) for row in points]
    for place in sorted(set(at)):
        here = np.array([other == place for other in at])
        lone = lone_algorithm(set(points["method"][here & dense].tolist()) - {FASTEST, SIMULATED_FASTEST})
        if lone and (here & ~dense).any():
            raise PlotError(f"{dict(zip(PANEL, place))['ranks']} ranks, {reader.bytes_label(place[-1])}: {lone} alone is no baseline, because "
                            "another dense algorithm may be faster: add rows of the method mpi")
    return one_dense(points)


def is_simulated(points):
    return points["status"] == SIMULATED


def kinds(points):
    """The measured rows and the simulated ones, those that there are. No line and no mean is made of both."""
    simulated = is_simulated(points)
    return [part for part in (points[~simulated], points[simulated]) if len(part)]


def natural(value):
    """Key to sort by, so that 1gbit comes before 10gbit and density=0.001 before density=0.01."""
    return [float(w) if i % 2 else w for i, w in enumerate(re.split(r"(\d+(?:\.\d+)?)", str(value)))]


def names_of(results):
    return ", ".join(r.attrs["file"] for r in results)


def words(values):
    return ", ".join(sorted({str(v) for v in values} - {""}))


def _data(values):
    names = sorted(set(values), key=natural)
    return words(names) if len(names) <= 4 else f"{len(names)} distributions"


def hosts(attrs):
    """'a, b (Intel Xeon)': the hosts of files and their processors."""
    names, cpus = (words(name for a in attrs for name in a[kind]) for kind in ("hosts", "cpus"))
    return (names or "?") + (f" ({cpus})" if cpus else "")


def span(values):
    return str(min(values)) if min(values) == max(values) else f"{min(values)} to {max(values)}"


def commit(attrs):
    """The commits of all runs of a file."""
    return ", ".join(name[:10] + ("+changes" if dirty else "") for name, dirty in attrs["commits"])


def commits(files):
    """The commits of all runs of some files, given by their attributes, each once."""
    return words(name for attrs in files for name in commit(attrs).split(", "))


def mpi_version(attrs):
    """'MPICH Version: 4.0.2 MPICH Release date: ...' -> 'MPICH 4.0.2'. Other libraries begin with name and version: 'Open MPI v4.1.4, ...'."""
    words = str(attrs.get("mpi_library", "?")).replace("Version:", " ").split()
    return " ".join(words[:3 if words[:2] == ["Open", "MPI"] else 2]).rstrip(",")


def _select(results, where):
    """The rows of all files, with the columns that all files have, filtered by column=value."""
    names = [n for n in results[0].points.dtype.names if all(n in r.points.dtype.names for r in results)]
    points = np.concatenate([_columns(r.points, names) for r in results])
    points = points[sorted({key: i for i, key in enumerate(points["key"])}.values())]
    points = reader.chosen(points, where)
    if len(points) == 0:
        raise PlotError(f"{names_of(results)}: no rows match {' '.join(where)}")
    return points


def _columns(points, names):
    """Widens text columns to one width, so that tables of several files can be joined."""
    out = np.empty(len(points), dtype=[(n, "U256" if points.dtype[n].kind == "U" else points.dtype[n]) for n in names])
    for name in names:
        out[name] = points[name]
    return out


def _refuse_mixtures(points, both):
    parts = kinds(points)
    if len(parts) > 1 and not both:
        raise PlotError("some rows are measured and some are simulated: draw them apart")
    compressed = points[points["compressor"] != "none"]
    # Simulated ranks begin together, so they are never synchronised as measured ones are.
    alike = [(c, rows) for c in ALIKE for rows in (parts if c == "sync" else [points])]
    for column, rows in alike + [("feedback", compressed)]:
        values = sorted({str(v) for v in rows[column]})
        if len(values) > 1:
            raise PlotError(f"rows differ in {column} ({', '.join(values)}): choose with --where {column}={values[0]}")


