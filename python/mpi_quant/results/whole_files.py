"""A whole result file in memory, with every row as it was written, and how to write one. mpiq check, merge and
export use it. To get only the rows that count, use reader.read."""
import dataclasses
import json
import math
import os
import tempfile

import h5py
import numpy as np

from mpi_quant.results import reader, schema
from mpi_quant.results.reader import ResultsError, hdf5


def known(value, kind):
    """A Python number or text. None if the schema marks the value as unknown: NaN, -1 in a column of integers, no
    repetition."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if kind == "f" and math.isnan(value) or kind == "i" and value == -1:
        return None
    return value


def attribute(value):
    return known(value, getattr(getattr(value, "dtype", None), "kind", ""))


@dataclasses.dataclass
class Run:
    """The facts of one launch: the attributes of / and /run as name -> value, with text as bytes, and the tables of /run."""

    attrs: dict
    tables: dict

    def text(self, name):
        value = self.attrs.get(name, b"")
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def config(self):
        """The options as a dict; {} if they cannot be read."""
        try:
            config = json.loads(self.text("config_json"))
        except ValueError:
            return {}
        return config if isinstance(config, dict) else {}

    def facts(self):
        """All of it as numbers, texts, lists and dicts; None for what is not known."""
        tables = {name: [{c: known(line[c], table.dtype[c].kind) for c in table.dtype.names} for line in table]
                  for name, table in sorted(self.tables.items())}
        return {**{name: attribute(value) for name, value in sorted(self.attrs.items())}, "config": self.config(), **tables}


@dataclasses.dataclass
class File:
    """attrs: of /, run_attrs: of /run, points_attrs: of /points; tables as in the file; samples and phases: name -> array;
    runs: one, or all runs of a merged file; run_of: for each row the position of its run."""

    path: str
    attrs: dict
    run_attrs: dict
    points_attrs: dict
    points: np.ndarray
    inputs: np.ndarray
    events: np.ndarray
    counters: np.ndarray  # empty where the file has none
    samples: dict
    phases: dict
    runs: list
    run_of: np.ndarray
    merged: bool = False
    # For /samples and /phases: name -> its texts, and `scaled`, whether its axes have scales.
    labels: dict = dataclasses.field(default_factory=dict)

    def text(self, row, column):
        return self.points[column][row].decode("utf-8", "replace")

    def together(self):
        """Lists of rows that were measured together, as one point: they follow each other, and no key occurs twice."""
        columns = [c for c in ("start_utc", "block_order_seed", "collective", "ranks", "dtype", "count", "input_id")
                   if c in self.points.dtype.names]
        groups, last, keys = [], None, set()
        for i, row in enumerate(self.points):
            mark = (self.run_of[i], *(row[c] for c in columns))
            if mark != last or row["key"] in keys:
                groups.append([])
                keys = set()
            groups[-1].append(i)
            keys.add(row["key"])
            last = mark
        return groups

    def done(self):
        """For each row, whether mpiq-bench would not measure its point again, because all of its methods are ok or skipped."""
        good = np.isin(self.points["status"], [word.encode() for word in schema.DONE])
        out = np.zeros(len(self.points), dtype=bool)
        for group in self.together():
            out[group] = good[group].all()
        return out


def _bytes(value):
    return value.encode() if isinstance(value, str) else value


def _attributes(node):
    return {name: _bytes(value) for name, value in node.attrs.items()}


def _table(file, path):
    if path not in file or not isinstance(file[path], h5py.Dataset) or file[path].dtype.names is None:
        raise ResultsError(f"{file.filename}: has no table /{path}")
    return file[path][...]


def _matrices(file, group, scales):
    if group not in file:
        return {}
    found = {name: data[...] for name, data in file[group].items() if isinstance(data, h5py.Dataset)}  # scales, too: HDF5 checks them
    return {name: values for name, values in found.items() if name not in scales}


def _labels(file):
    found = {}
    for group in ("samples", "phases"):
        for name, data in file.get(group, {}).items():
            if isinstance(data, h5py.Dataset):
                texts = {key: _bytes(data.attrs[key]) for key in ("units", "long_name") if key in data.attrs}
                found[name] = {**texts, "scaled": all(len(axis) > 0 for axis in data.dims)}
    return found


def _run(file, path, attrs):
    group = file[path]
    tables = {name: _table(file, f"{path}/{name}") for name in schema.RUN_TABLES if name in group}
    return Run({**attrs, **_attributes(group)}, tables)


def _runs(file, points):
    if "runs" not in file:
        attrs = {name: _bytes(value) for name, value in file.attrs.items()}
        return [_run(file, "run", attrs) if "run" in file else Run(attrs, {})], np.zeros(len(points), dtype=int)
    runs = [_run(file, f"runs/{name}", {}) for name in sorted(file["runs"], key=int)]
    if "run" not in points.dtype.names or not np.isin(points["run"], range(len(runs))).all():
        raise ResultsError(f"{file.filename}: has /runs, but rows of /points do not say to which they belong")
    return runs, points["run"].astype(int)


def load(path):
    """Raises ResultsError if the file is not a result file of this schema, or cannot be read to its end."""
    path = os.fspath(path)
    with reader.opened(path) as file:
        reader.check_schema_name(path, file)
        points = _table(file, "points")
        try:
            runs, run_of = _runs(file, points)
            return File(path, _attributes(file), _attributes(file["run"]) if "run" in file else {}, _attributes(file["points"]),
                        points, _table(file, "inputs"), _table(file, "events"),
                        _table(file, "counters") if "counters" in file else schema.empty_table(schema.COUNTERS, 0),
                        _matrices(file, "samples", ("point", "rep", "rank")), _matrices(file, "phases", ("phase",)),
                        runs, run_of, "runs" in file, _labels(file))
        except (TypeError, ValueError, AttributeError, IndexError) as error:  # for example groups where tables should be
            raise ResultsError(f"{path}: not laid out as a result file ({error})") from error


def _write_table(group, name, rows):
    """Rows in chunks that carry checksums, as bench/hdf5.cpp writes them. HDF5 has no checksum for a dataset in one piece."""
    return group.create_dataset(name, data=rows, maxshape=(None,), chunks=(64,), fletcher32=True)


def _write_matrix(group, name, values, fill, text, scales=()):
    rows, columns = values.shape[0], max(1, values.shape[1])
    data = group.create_dataset(name, data=values, maxshape=(None,) * values.ndim, fillvalue=fill, shuffle=True, compression=1, fletcher32=True,
                                chunks=(1, min(columns, 1024), *values.shape[2:])) if rows else \
        group.create_dataset(name, data=values)
    data.attrs.update(_stored({key: value for key, value in text.items() if key in ("units", "long_name")}))
    for axis, scale in enumerate(scales):
        data.dims[axis].attach_scale(scale)


def _write_samples(file, samples, labels):
    group = file.create_group("samples")
    if not samples:
        return
    shape = samples.get("t_max_s", next(iter(samples.values()))).shape[:2]
    scales = []
    ranks = [values.shape[2] for values in samples.values() if values.ndim == 3]
    for name, size in zip(("point", "rep", "rank"), (*shape, *ranks)):
        scales.append(_write_table(group, name, np.arange(size, dtype="i8")))
        scales[-1].make_scale(name)
    for name, values in samples.items():
        kind, fill, _ = {**schema.SAMPLES, **schema.RANK_SAMPLES}[name]
        _write_matrix(group, name, values.astype(kind), fill, labels.get(name, {}), scales[:values.ndim])


def _write(file, content):
    """content: a File whose runs go to /runs/<position>."""
    file.attrs.update(_stored(content.attrs))
    file.create_group("run").attrs.update(_stored(content.run_attrs))
    for i, run in enumerate(content.runs):
        group = file.create_group(f"runs/{i}")
        group.attrs.update(_stored(run.attrs))
        for name, table in run.tables.items():
            _write_table(group, name, table)
    _write_table(file, "points", content.points).attrs.update(_stored(content.points_attrs))
    _write_table(file, "inputs", content.inputs)
    _write_table(file, "events", content.events)
    if len(content.counters):
        _write_table(file, "counters", content.counters)
    _write_samples(file, content.samples, content.labels)
    phases = file.create_group("phases")
    if content.phases:
        _write_table(phases, "phase", np.array([(b"encode",), (b"wait",), (b"decode",), (b"other",)], dtype=[("name", "S24")]))
    for name, values in content.phases.items():
        _write_matrix(phases, name, values, np.nan, content.labels.get(name, {}))


def _stored(attrs):
    return {name: np.bytes_(value) if isinstance(value, bytes) else value for name, value in attrs.items()}


def save(content, path):
    """Writes the file beside its place and renames it, so that a reader finds either the old file or the new one, complete."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", suffix=".tmp", dir=folder)
    os.close(handle)
    try:
        with hdf5(temporary, "w") as file:
            _write(file, content)
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        mask = os.umask(0)  # mkstemp makes files that only the owner can read
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
