"""Checks the layout of a result file: attributes, tables, columns and their types, units, shapes. Every check yields (row or
None, what, expected, found)."""
import json
import re

from mpi_quant.results import schema

UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_KINDS = {"S": "text", "i": "an integer", "u": "an unsigned integer", "f": "a number"}


def _kind(value):
    return "S" if isinstance(value, (bytes, str)) else getattr(getattr(value, "dtype", None), "kind", type(value).__name__)


def attributes(where, attrs, wanted, optional=False):
    for name, kind in wanted.items():
        if name not in attrs:
            if not optional:
                yield None, f"attribute {where} {name}", _KINDS[kind], "none"
        elif _kind(attrs[name]) != kind and not (kind in "iu" and _kind(attrs[name]) in "iu"):
            yield None, f"attribute {where} {name}", _KINDS[kind], repr(attrs[name])


def table(where, found, wanted, later=()):
    """Checks columns and their types. Columns in `later` may be missing."""
    for name, kind in wanted.items():
        if name not in (found.dtype.names or ()):
            if name not in later:
                yield None, f"column {where}.{name}", kind.str, "none"
        elif found.dtype[name] != kind and found.dtype[name] != schema.NARROWER.get(name):
            yield None, f"type of column {where}.{name}", kind.str, found.dtype[name].str


def _heads(file):
    """Checks the attributes of / and of every run."""
    yield from attributes("/", file.attrs, schema.ROOT_ATTRIBUTES)
    for i, run in enumerate(file.runs):
        where = f"/runs/{i}" if file.merged else "/run"
        yield from attributes(where, run.attrs, {**schema.RUN_ATTRIBUTES, **(schema.ROOT_ATTRIBUTES if file.merged else {})})
        if "config_json" in run.attrs and not run.config():
            yield None, f"attribute {where} config_json", "a JSON object", repr(run.text("config_json")[:40])
        for name, columns in schema.RUN_TABLES.items():
            if name in run.tables:
                yield from table(f"{where}/{name}", run.tables[name], columns, schema.LATER_OF.get(name, ()))
            elif name not in schema.OPTIONAL_TABLES:
                yield None, f"table {where}/{name}", "a table", "none"
        for name in ("created_utc", "updated_utc"):
            if name in run.attrs and not UTC.fullmatch(run.text(name)):
                yield None, f"attribute {name}", "like 2026-01-31T23:59:59Z", run.text(name)
        if "status" in run.attrs and run.text("status") not in schema.FILE_STATES:
            yield None, "attribute status", " or ".join(schema.FILE_STATES), run.text("status")
        for name in ("uuid", "mpi_library"):
            if name in run.attrs and not run.text(name):
                yield None, f"attribute {name}", "not empty", "''"


def _units(file):
    try:
        units = json.loads(file.points_attrs.get("units", b"").decode("utf-8", "replace"))
    except (ValueError, AttributeError):
        units = None
    if not isinstance(units, dict):
        yield None, "attribute units of /points", "a JSON object", repr(file.points_attrs.get("units"))[:60]
        return
    for name in file.points.dtype.names:
        if (name in schema.POINTS or name in schema.LATER) and units.get(name, "") != schema.unit(name):
            yield None, f"unit of column {name}", schema.unit(name) or "none", units.get(name, "none")


def _matrices(file):
    rows = len(file.points)
    if rows and "t_max_s" not in file.samples:
        yield None, "dataset /samples/t_max_s", "repetitions", "none"
        return
    widths = {name: values.shape for name, values in file.samples.items()}
    for name, (kind, _, unit) in schema.SAMPLES.items():
        if name not in file.samples:
            if rows:
                yield None, f"dataset /samples/{name}", kind, "none"
            continue
        values, label = file.samples[name], file.labels[name]
        units = label.get("units", b"").decode("utf-8", "replace")
        if values.dtype != kind:
            yield None, f"type of /samples/{name}", kind, values.dtype.str
        if values.ndim != 2 or values.shape != (rows, widths["t_max_s"][-1]):
            yield None, f"shape of /samples/{name}", f"({rows}, as /samples/t_max_s)", str(values.shape)
        if units != unit:
            yield None, f"units of /samples/{name}", unit or "none", units or "none"
        if not label["scaled"]:
            yield None, f"dimension scales of /samples/{name}", "point and rep", "none"
    for name, (kind, _, unit) in schema.RANK_SAMPLES.items():
        values = file.samples.get(name)
        if values is None:
            continue
        label = file.labels[name]
        if values.dtype != kind or values.ndim != 3 or values.shape[0] != rows or values.shape[1] > widths["t_max_s"][-1]:
            yield None, f"shape of /samples/{name}", f"({rows}, at most {widths['t_max_s'][-1]}, ranks) of {kind}", \
                f"{values.shape} of {values.dtype.str}"
        if label.get("units", b"") != unit.encode() or not label["scaled"]:
            yield None, f"units and dimension scales of /samples/{name}", f"{unit}; point, rep and rank", "not so"
    for name, (kind, _, _) in schema.PHASES.items():
        values = file.phases.get(name)
        if rows and (values is None or values.dtype != kind or values.shape != (rows, 4)):
            yield None, f"dataset /phases/{name}", f"({rows}, 4) of {kind}", "none" if values is None else str(values.shape)


def check(file):
    yield from _heads(file)
    wanted = {**schema.POINTS, **schema.LATER, **(schema.RUN_COLUMN if file.merged else {})}
    yield from table("/points", file.points, wanted, schema.LATER)
    yield from table("/inputs", file.inputs, schema.INPUTS)
    yield from table("/events", file.events, schema.EVENTS)
    yield from table("/counters", file.counters, schema.COUNTERS)
    yield from _units(file)
    yield from _matrices(file)
    if len(file.points) == 0:
        yield None, "rows of /points", "at least one", "none"


def remarks(file):
    """Yields facts that are no violation, but that a user should know."""
    names = file.points.dtype.names
    absent = [name for name in schema.LATER if name not in names]
    if absent:
        yield f"written before there were the columns {', '.join(absent)}"
    more = [name for name in names if name not in {**schema.POINTS, **schema.LATER, **schema.RUN_COLUMN}]
    if more:
        yield f"has columns that this program does not know: {', '.join(more)}"
    for i, run in enumerate(file.runs):
        if run.text("status") != "complete":
            yield f"run {i} is {run.text('status')}: points are missing"
        if not run.text("git_commit"):
            yield f"run {i} names no commit: its program was not built in a git work tree"
        if run.attrs.get("git_dirty"):
            yield f"run {i} was measured with changes that are in no commit ({run.text('git_commit')[:10]}+)"
    for event in file.events:
        yield f"event {event['utc'].decode('utf-8', 'replace')}: {event['text'].decode('utf-8', 'replace')}"
