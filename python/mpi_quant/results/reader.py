"""Reads result files of mpiq-bench (HDF5, schema version 1; results/README.md says what the columns mean).

Everything that tabulates, draws or compares results uses this reader.
"""
import contextlib
import dataclasses
import math
import os

import h5py
import numpy as np

from mpi_quant.results import schema

SCHEMA_NAME = "mpi_quant.bench"
SCHEMA_VERSION = 1

# The columns that the readers here use. Files may have more columns, in any order.
NEEDED = (
    "key status grade algorithm compressor comp_params dtype op memory place ranks nodes count bytes input_id buffers sync "
    "mode launch reps t_median_s t_ci_lo_s t_ci_hi_s t_p95_s speedup speedup_lo speedup_hi err_rel_l2 oversubscribed"
).split()


DATASETS = {"samples": "samples/t_max_s", "t_rank": "samples/t_rank_s", "exposed": "phases/exposed_s",
            "busy": "phases/busy_s"}


class ResultsError(Exception):
    """A file that cannot be used; the message names it and says why."""


@dataclasses.dataclass
class Results:
    """The rows of one file, the last of each key, with text as str. A column `data` (the distribution of the input) is added;
    `collective` (allreduce), `link`, `method`, `feedback`, `matrix_side`, `compute_percent`, `test_interval_us`, `arrival`, `form` and `window` exist even if the file has none. attrs: the attributes of / and /run, and `hosts`,
    `cpus`, `commits` (each with whether it had changes), `loads` (host, load before the run, cores), `env`, `inputs`, `formulas`, `file`. samples: the repetitions of each row; NaN after the last and for those that are
    not valid. t_rank: samples of every rank. exposed, busy: seconds in each of phases,
    without and with what other work hides. counters: /counters with text as str. None if the file has none."""

    points: np.ndarray
    attrs: dict
    samples: np.ndarray | None = None
    t_rank: np.ndarray | None = None
    exposed: np.ndarray | None = None
    busy: np.ndarray | None = None
    phases: tuple = ()
    counters: np.ndarray | None = None


def _text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def plain(table):
    """A compound dataset as a structured array whose text columns are str."""
    fields = []
    for name in table.dtype.names:
        kind = table.dtype[name]
        fields.append((name, f"U{kind.itemsize}" if kind.kind == "S" else kind))
    out = np.empty(len(table), dtype=fields)
    for name in table.dtype.names:
        column = table[name]
        out[name] = np.char.decode(column, "utf-8", "replace") if column.dtype.kind == "S" else column
    return out


def with_columns(table, columns):
    """The table with more columns, given as name -> array."""
    extra = [(name, values.dtype) for name, values in columns.items()]
    out = np.empty(len(table), dtype=table.dtype.descr + extra)
    for name in table.dtype.names:
        out[name] = table[name]
    for name, values in columns.items():
        out[name] = values
    return out


def _last_of_each_key(points):
    """The positions of the rows that count, the last of each key."""
    return sorted({key: row for row, key in enumerate(points["key"])}.values())


def _sparsity(row):
    """' density=0.01 stride=4' for the input of a sparse reduction, '' for a dense one."""
    params = dict(word.split("=", 1) for word in str(row["params"]).split(",") if "=" in word) \
        if "params" in row.dtype.names else {}
    stride = f" stride={params['stride']}" if params.get("stride", "1") != "1" else ""
    return f" density={params['density']}{stride}" if "density" in params else ""


def _distributions(file, input_ids):
    """What was reduced, for each row: 'normal', 'normal rho=0.9', 'powerlaw:1.1 density=0.01'; '?' if the file does not say
    it."""
    names = {}
    if "inputs" in file:
        for row in plain(file["inputs"][...]):
            rho = f" rho={row['rho']:g}" if "rho" in row.dtype.names and row["rho"] > 0 else ""
            names[int(row["input_id"])] = str(row["distribution"]) + rho + _sparsity(row)
    return np.array([names.get(int(i), "?") for i in input_ids], dtype="U80")


def check_schema_name(path, file):
    """Raises ResultsError for a file of another schema or version."""
    name, version = _text(file.attrs.get("schema_name", "")), file.attrs.get("schema_version", None)
    if name != SCHEMA_NAME:
        raise ResultsError(f"{path}: not a result file of mpiq-bench (schema_name is '{name}', not '{SCHEMA_NAME}')")
    if version != SCHEMA_VERSION:
        raise ResultsError(f"{path}: schema version {version}, this program reads version {SCHEMA_VERSION}")


def _check_schema(path, file):
    check_schema_name(path, file)
    if "points" not in file or file["points"].dtype.names is None:
        raise ResultsError(f"{path}: has no table /points")
    missing = [column for column in NEEDED if column not in file["points"].dtype.names]
    if missing:
        raise ResultsError(f"{path}: /points lacks the columns {', '.join(missing)}")
    if len(file["points"]) == 0:
        raise ResultsError(f"{path}: has no rows: nothing was measured")


def _attributes(path, file):
    attrs = {key: _text(value) for key, value in file.attrs.items()}
    run = file.get("run")
    if run is not None:
        attrs.update({key: _text(value) for key, value in run.attrs.items()})
    # A file made by mpiq merge has a group for each file that it was made of.
    groups = [run] if run is not None else []
    groups += list(file["runs"].values()) if "runs" in file else []
    commits = {(_text(group.attrs["git_commit"]), bool(group.attrs.get("git_dirty", 0))) for group in groups if "git_commit" in group.attrs}
    attrs["commits"] = sorted(commits) or [(str(attrs.get("git_commit", "?")), bool(attrs.get("git_dirty")))]
    for name, column in (("hosts", "host"), ("cpus", "cpu_model")):
        known = [group["nodes"][column] for group in groups if "nodes" in group and column in group["nodes"].dtype.names]
        attrs[name] = sorted({_text(value) for values in known for value in values})
    attrs["loads"] = sorted({(_text(row["host"]), float(row["load1"]), int(row["cores"])) for group in groups if "nodes" in group
                             for row in group["nodes"][...] if {"host", "load1", "cores"} <= set(row.dtype.names)})
    attrs["env"] = [(_text(row["name"]), _text(row["value"])) for row in run["env"]] if run is not None and "env" in run else []
    attrs["inputs"] = [dict(zip(row.dtype.names, map(_text, row.item()))) for row in file["inputs"][...]] if "inputs" in file else []
    attrs["formulas"] = {name.removesuffix(".formula"): _text(text) for name, text in sorted(file["points"].attrs.items())
                         if name.endswith(".formula")}
    attrs["file"] = path
    return attrs


def _load(path, file):
    _check_schema(path, file)
    points = plain(file["points"][...])
    extra = {"data": _distributions(file, points["input_id"])}
    made_up = {
        "collective": lambda: np.full(len(points), schema.ALLREDUCE, dtype="U32"),
        "link": lambda: np.full(len(points), "", dtype="U48"),
        "method": lambda: np.array([method_words(row) for row in points], dtype="U128"),
        "feedback": lambda: np.full(len(points), -1, dtype="i1"),
        "matrix_side": lambda: np.full(len(points), -1, dtype="i8"),
        "compute_percent": lambda: np.full(len(points), -1, dtype="i4"),
        "test_interval_us": lambda: np.full(len(points), -1, dtype="i4"),
        "arrival": lambda: np.full(len(points), "together", dtype="U32"),
        "form": lambda: np.full(len(points), "blocking", dtype="U16"),
        "window": lambda: np.full(len(points), 1, dtype="i4"),
    }
    extra.update({name: make() for name, make in made_up.items() if name not in points.dtype.names})
    rows = _last_of_each_key(points)
    phases = tuple(_text(name) for name in file["phases/phase"]["name"]) if "phases/phase" in file else ()
    data = {name: file[dataset][...][rows] if dataset in file else None for name, dataset in DATASETS.items()}
    if data["samples"] is not None and "samples/valid" in file:
        data["samples"][file["samples/valid"][...][rows] != 1] = np.nan
    counters = plain(file["counters"][...]) if "counters" in file else None
    return Results(with_columns(points, extra)[rows], _attributes(path, file), phases=phases, counters=counters, **data)


def hdf5(path, mode="r"):
    """The file without a lock. Locks fail on NFS without its lock daemon, and on Lustre without flock; and none is needed: whoever
    writes a result file renames it when it is complete."""
    try:
        return h5py.File(path, mode, locking=False)
    except (TypeError, ValueError):  # h5py before 3.5, or HDF5 before 1.10.7: HDF5_USE_FILE_LOCKING=FALSE does it there
        return h5py.File(path, mode)


@contextlib.contextmanager
def opened(path):
    """Opens the HDF5 file for reading. Raises ResultsError for other files, also if damage shows only later, while it is
    read."""
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise ResultsError(f"{path}: no such file")
    if os.path.getsize(path) == 0:
        raise ResultsError(f"{path}: is empty")
    if not h5py.is_hdf5(path):
        raise ResultsError(f"{path}: not an HDF5 file")
    try:
        with hdf5(path) as file:
            yield file
    except (OSError, RuntimeError, KeyError) as error:  # h5py raises these for truncated and damaged files
        if "unable to lock file" in str(error):
            raise ResultsError(f"{path}: its file system has no locks ({error}): set HDF5_USE_FILE_LOCKING=FALSE") from error
        raise ResultsError(f"{path}: damaged HDF5 file ({error})") from error


def read(path):
    """The results of one file. Raises ResultsError."""
    with opened(path) as file:
        return _load(os.fspath(path), file)


def median_interval(values, confidence=0.95):
    """The interval of the median by order statistics (exact binomial, as in bench/stats.hpp). NaN if the sample is too small:
    for 95 %, below six."""
    n, j, total, log_term = len(values), 0, 0.0, -len(values) * math.log(2)
    while 2 * (j + 1) <= n:
        total += math.exp(log_term)
        if total > (1 - confidence) / 2:
            break
        log_term += math.log((n - j) / (j + 1))
        j += 1
    if j == 0:
        return math.nan, math.nan
    ordered = np.sort(values)
    return float(ordered[j - 1]), float(ordered[n - j])


def over_launches(rows, value, low, high):
    """(median, low, high) over the launches of one thing. For one launch it is the launch's interval; for six or more it comes
    from order statistics; otherwise it spans the intervals of the launches."""
    interval = median_interval(rows[value]) if len(rows) >= 6 else (rows[low].min(), rows[high].max())
    return float(np.median(rows[value])), float(interval[0]), float(interval[1])


def paired_speedup(base, variant, comparisons):
    """(ratio, low, high): the median of the ratios of samples of one block, with a sign test and Bonferroni, as in
    bench/stats.hpp."""
    log_ratio = np.log(base) - np.log(variant)
    log_ratio = log_ratio[np.isfinite(log_ratio)]
    if len(log_ratio) == 0:
        return math.nan, math.nan, math.nan
    low, high = median_interval(log_ratio, 1 - 0.05 / max(1, comparisons))
    return math.exp(np.median(log_ratio)), math.exp(low), math.exp(high)


def chosen(points, where):
    """The rows for which every condition COLUMN=VALUE holds."""
    for condition in where:
        column, equals, value = condition.partition("=")
        if not equals or column not in points.dtype.names:
            raise ResultsError(f"--where {condition}: expected COLUMN=VALUE with one of: {', '.join(sorted(points.dtype.names))}")
        points = points[points[column].astype(str) == value]
    return points


def dense(points):
    """Which rows reduce without compression: the MPI library's own reduction, with any algorithm. Among simulated rows also raw, over any
    plan: there is no MPI library whose choice would be better."""
    return (points["compressor"] == "none") | ((points["compressor"] == "raw") & (points["status"] == schema.SIMULATED))


EARLIER = ("onebit", "threshold")  # quantizers before the adaptive one (Dryden et al. 2016)


def earlier(points):
    """Which rows are quantizers that the adaptive one was compared with."""
    return np.isin(points["compressor"], EARLIER)


def fastest(points):
    """The position of the fastest good row; None if there is none. Simulated rows are good: they are never among measured ones."""
    times = np.where(np.isin(points["status"], ("ok", schema.SIMULATED)), points["t_median_s"], np.nan)
    return int(np.nanargmin(times)) if np.isfinite(times).any() else None


def fastest_method(points):
    """The method whose good rows, one per launch, have the smallest median. If no row is good, all rows are used."""
    good = points[points["status"] == "ok"]
    good = good if len(good) else points
    return min(sorted(set(good["method"])), key=lambda m: np.median(good["t_median_s"][good["method"] == m]))


def rebased(results, wanted):
    """The results with speed-ups over the fastest good row for which wanted(points) holds, at each point, paired sample by
    sample. base_key names that row. If there is none, speed-ups are NaN and base_key is empty."""
    if results.samples is None:
        raise ResultsError(f"{results.attrs['file']}: has no samples, so there is no other baseline than its own")
    points = results.points.copy()
    for name, value in (("speedup", np.nan), ("speedup_lo", np.nan), ("speedup_hi", np.nan), ("base_key", "")):
        points[name] = value
    # Rows that were measured together have the same base and began at the same time.
    old = results.points
    together = [(row["base_key"], row["start_utc"] if "start_utc" in old.dtype.names else "") for row in old]
    for point in sorted(set(together)):
        members = np.array([i for i, other in enumerate(together) if other == point])
        candidates = members[wanted(old[members])]
        base = fastest(old[candidates]) if len(candidates) else None
        if base is None or point[0] == "":
            continue
        base = candidates[base]
        for i in members:
            ratios = paired_speedup(results.samples[base], results.samples[i], len(members) - 1)
            points["speedup"][i], points["speedup_lo"][i], points["speedup_hi"][i] = ratios
            points["base_key"][i] = old["key"][base]
    return dataclasses.replace(results, points=points)


def bytes_label(n, _position=None):
    """65536 -> '64 KiB'. matplotlib passes the second parameter to a tick formatter."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n / size:.4g} {unit}"
    return f"{n:.4g} B"


# Parameters of a codec that a method may not name together. Older files have both.
EXCLUSIVE = {"bound": (("rel", "abs"),), "rangefloat": (("eps", "range"),), "threshold": (("quantile", "tau"),)}


def method_words(row):
    """The name of the method in --methods, from columns that every file has: mpi, mpi/ring, onebit/direct,
    onebit(block=512)/direct. Of two parameters that exclude each other it has the one that counts: 0 switches the first one off."""
    if row["compressor"] == "auto":
        return str(row["method"])  # files with auto have this column, and no other one has its limit
    if row["compressor"] in ("none", ""):
        return row["algorithm"] if row["algorithm"] in schema.DENSE else f"mpi/{row['algorithm']}"
    params = dict(pair.split("=", 1) for pair in row["comp_params"].split(",") if "=" in pair)
    for one, other in EXCLUSIVE.get(row["compressor"], ()):
        if one in params and other in params:
            del params[one if float(params[one]) == 0 else other]
    params = f"({','.join(map('='.join, params.items()))})" if params else ""
    plan = f"/{row['algorithm']}" if row["algorithm"] else ""
    return f"{row['compressor']}{params}{plan}"


def seconds_label(t):
    """0.00123 -> '1.230 ms'."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if t >= size:
            return f"{t / size:.3f} {unit}"
    return f"{t * 1e6:.3f} us"


def seconds_span(low, high):
    """0.00123, 0.00125 -> '1.230 .. 1.250 ms'."""
    ends = [seconds_label(t) for t in (low, high)]
    number, _, unit = ends[0].partition(" ")
    return " .. ".join([number if ends[1].endswith(" " + unit) else ends[0], ends[1]])


def by_collective(points):
    """(collective, its rows): no table and no figure has rows of two."""
    return [(str(name), points[points["collective"] == name]) for name in sorted(set(points["collective"]))]


def table(results):
    """Aligned tables of all rows, one line each, for a terminal: one for each collective, with its name if it is not allreduce alone."""
    parts = by_collective(results.points)
    named = len(parts) > 1 or parts[0][0] != schema.ALLREDUCE
    return "\n\n".join((f"{name}:\n" if named else "") + _table(points) for name, points in parts)


def _table(points):
    head = ("link", "dtype", "ranks", "size", "data", "method", "time", "95 % interval", "speed-up", "95 % interval",
            "rel. L2 error", "")
    lines = []
    for row in np.sort(points, order=["link", "ranks", "dtype", "bytes", "data", "method"]):
        remarks = [] if row["status"] == "ok" else [str(row["status"])]
        if row["oversubscribed"] == 1:
            remarks.append("more ranks than cores")
        known = np.isfinite(row["speedup_lo"])
        lines.append((
            str(row["link"]), str(row["dtype"]), str(row["ranks"]), bytes_label(row["bytes"]), str(row["data"]),
            str(row["method"]), seconds_label(row["t_median_s"]), f"{seconds_label(row['t_ci_lo_s'])} .. {seconds_label(row['t_ci_hi_s'])}",
            f"{row['speedup']:.2f}" if np.isfinite(row["speedup"]) else "",
            f"{row['speedup_lo']:.2f} .. {row['speedup_hi']:.2f}" if known else "",
            f"{row['err_rel_l2']:.2e}" if np.isfinite(row["err_rel_l2"]) else "", ", ".join(remarks)))
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)).rstrip() for line in [head, *lines])
