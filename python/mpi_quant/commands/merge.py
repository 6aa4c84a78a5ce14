"""Makes one result file of several: array tasks, launches, parts of a sweep. Rows keep their order; what each file says of its
run stays in /runs/<number>, and the column `run` of /points refers to it. A point that failed in one file and is in a later one
stands twice, and the last counts, as in any result file; a point that was not to be measured again is refused.
"""
import argparse
import contextlib
import json
import os
import sys
import uuid

import numpy as np

from mpi_quant.commands import command_line, progress
from mpi_quant.results import schema, whole_files
from mpi_quant.results.reader import ResultsError


def joined(tables, more=None):
    """The rows of all tables, with the columns that any of them has and `more`. A column with several types is refused."""
    columns = {}
    for table in tables:
        for name in table.dtype.names:
            known, kind = columns.setdefault(name, table.dtype[name]), table.dtype[name]
            if known != kind and schema.NARROWER.get(name) not in (known, kind):
                raise ResultsError(f"column {name} is {known} in one file, {kind} in another")
            columns[name] = max(known, kind, key=lambda k: k.itemsize)
    out, at = schema.empty_table({**columns, **(more or {})}, sum(len(table) for table in tables)), 0
    for table in tables:
        for name in table.dtype.names:
            out[name][at:at + len(table)] = table[name]
        at += len(table)
    return out


def common_inputs(files):
    """The /inputs of all files, each once; and for each file old number -> new number."""
    tables, numbers, known = [], [], {}
    for file in files:
        mapping, kept = {}, []
        for row in file.inputs:
            content = tuple(repr(row[name]) for name in row.dtype.names if name != "input_id")
            if content not in known:
                known[content] = len(known)
                kept.append(row)
            mapping[int(row["input_id"])] = known[content]
        table = np.array(kept, dtype=file.inputs.dtype)
        table["input_id"] = [mapping[int(row["input_id"])] for row in kept]
        tables.append(table)
        numbers.append(mapping)
    return joined(tables), numbers


def padded(files, group, name):
    """The matrices of all files below each other, as wide as the widest. What was not measured gets the fill value."""
    kinds = {**schema.SAMPLES, **schema.RANK_SAMPLES} if group == "samples" else schema.PHASES
    present = [getattr(file, group).get(name) for file in files]
    shapes = [values.shape for values in present if values is not None]
    axes = 3 if name in schema.RANK_SAMPLES else 2
    if name not in kinds or any(len(shape) != axes for shape in shapes):
        raise ResultsError(f"/{group}/{name} is nothing that can be merged")
    widths = [max(sizes) for sizes in list(zip(*shapes))[1:]]
    out = np.full((sum(len(file.points) for file in files), *widths), kinds[name][1], dtype=kinds[name][0])
    at = 0
    for file, values in zip(files, present):
        if values is not None:
            if len(values) != len(file.points):
                raise ResultsError(f"{file.path}: /{group}/{name} has {len(values)} rows, /points {len(file.points)}")
            out[(slice(at, at + len(values)), *(slice(size) for size in values.shape[1:]))] = values
        at += len(file.points)
    return out


def matrices(files, group):
    names = sorted({name for file in files for name in getattr(file, group)})
    return {name: padded(files, group, name) for name in names}


def same_points(files):
    """(file, row, earlier file, earlier row) of keys that are in several files, if the earlier point needed no repetition."""
    seen, found = {}, []
    for file in files:
        done = file.done()
        for i, key in enumerate(file.points["key"]):
            earlier = seen.get(key)
            if earlier and earlier[0] is not file and earlier[2]:
                found.append((file, i, earlier[0], earlier[1]))
        for i, key in enumerate(file.points["key"]):
            seen[key] = (file, i, done[i])
    return found


def first_rows(files):
    """The number that the first row of each file gets."""
    return np.cumsum([0] + [len(file.points) for file in files[:-1]])


def renumbered(files, name):
    """The table of this name of each file, with the new numbers of the rows."""
    tables = []
    for file, first in zip(files, first_rows(files)):
        table = getattr(file, name).copy()
        table["point_id"] += np.where(table["point_id"] >= 0, first, 0)
        tables.append(table)
    return tables


def events(files, forced):
    """The events of all files with new row numbers, and one event for each row that replaces another."""
    starts = {id(file): start for file, start in zip(files, first_rows(files))}
    more = schema.empty_table(schema.EVENTS, len(forced))
    for event, (file, row, earlier, _) in zip(more, forced):
        event["utc"], event["level"] = max(f.attrs["updated_utc"] for f in files), b"warning"
        event["point_id"] = starts[id(file)] + row
        event["text"] = f"merge --force: replaces the row of {os.path.basename(earlier.path)}".encode()[:256]
    return joined([*renumbered(files, "events"), more])


def common_attributes(runs, names):
    """The attributes that are equal in all runs. Texts that differ become `several`; numbers that differ are left out."""
    out = {}
    for name in names:
        values = [run.attrs.get(name) for run in runs]
        if any(value is None for value in values):
            continue
        if all(value == values[0] for value in values):
            out[name] = values[0]
        elif isinstance(values[0], bytes):
            out[name] = schema.SEVERAL.encode()
    return out


def head(files, runs):
    """The attributes of /. Equal files must give equal bytes, so they contain no time and nothing random."""
    attrs = common_attributes(runs, schema.ROOT_ATTRIBUTES)
    identity = " ".join(file.attrs["uuid"].decode() for file in files)
    attrs["uuid"] = str(uuid.uuid5(uuid.NAMESPACE_OID, identity)).encode()
    attrs["created_utc"] = min(file.attrs["created_utc"] for file in files)
    attrs["updated_utc"] = max(file.attrs["updated_utc"] for file in files)
    attrs["status"] = b"complete" if all(run.attrs["status"] == b"complete" for run in runs) else b"partial"
    attrs["git_dirty"] = np.uint8(any(run.attrs["git_dirty"] for run in runs))
    return attrs


def sources(file):
    """The runs of a file, each with the name of the file that it came from."""
    for run in file.runs:
        yield whole_files.Run({"file": os.path.basename(file.path).encode(), **run.attrs}, run.tables)


def graded(points, runs, run_of):
    """The grades. A publication is what ten launches measured, all of them normal, good and of a clean commit. A row that
    already was a publication stays one. Rows without the needed columns keep their grade."""
    if not {"oversubscribed", "launch", "comp_params"} <= set(points.dtype.names):
        return points["grade"]
    grades = points["grade"].astype(schema.POINTS["grade"])
    grades[grades == schema.PUBLICATION_CUT.encode()] = schema.PUBLICATION.encode()
    clean = np.array([not runs[run].attrs.get("git_dirty", 1) and len(runs[run].text("git_commit")) == 40 for run in run_of],
                     dtype=bool)
    good = clean & (points["status"] == b"ok") & (points["oversubscribed"] == 0) & (grades != b"smoke")
    launches = {}
    for i, what in enumerate(schema.identities(points)):
        launches.setdefault(what, []).append(i)
    for rows in launches.values():
        fit = [i for i in rows if good[i]]
        if len({int(points["launch"][i]) for i in fit}) >= schema.PUBLICATION_LAUNCHES:
            grades[fit] = schema.PUBLICATION.encode()
    return grades


def merged(files, force):
    """Raises ResultsError if files cannot be merged."""
    for file in files:
        lacking = [name for name in schema.ROOT_ATTRIBUTES if any(name not in run.attrs for run in file.runs)]
        if lacking or not {"key", "status", "input_id", "point_id"} <= set(file.points.dtype.names):
            raise ResultsError(f"{file.path}: lacks attributes or columns: see {command_line.other('check')}")
    simulated = [any("simulation" in run.config() for run in file.runs) for file in files]
    if any(simulated) and not all(simulated):
        raise ResultsError(f"{files[simulated.index(True)].path} is simulated and {files[simulated.index(False)].path} is measured: "
                           "they are never mixed in one file")
    forced = same_points(files)
    if forced and not force:
        file, row, earlier, _ = forced[0]
        raise ResultsError(f"{file.path} and {earlier.path} have {len(forced)} rows of the same key, for one "
                           f"{file.text(row, 'key')}; give --force if the last is to count")
    inputs, numbers = common_inputs(files)
    points = joined([file.points for file in files], schema.RUN_COLUMN)
    points["point_id"] = np.arange(len(points))
    points["input_id"] = [mapping.get(int(old), -1) for file, mapping in zip(files, numbers) for old in file.points["input_id"]]
    first_run = np.cumsum([0] + [len(file.runs) for file in files])
    run_of = np.concatenate([file.run_of + first for file, first in zip(files, first_run)])
    points["run"] = run_of
    runs = [run for file in files for run in sources(file)]
    grades = graded(points, runs, run_of) if "grade" in points.dtype.names else None
    if grades is not None and (grades != points["grade"]).any():
        columns = [(name, schema.POINTS[name] if name == "grade" else points.dtype[name]) for name in points.dtype.names]
        points = points.astype(columns)
        points["grade"] = grades
    return whole_files.File("", head(files, runs), common_attributes(runs, [n for n in runs[0].attrs if n not in
                                                                          {*schema.ROOT_ATTRIBUTES, "file"}]),
                          attributes_of_points(files), points, inputs, events(files, forced),
                          joined(renumbered(files, "counters")), matrices(files, "samples"),
                          matrices(files, "phases"), runs, run_of, True,
                          {name: label for file in reversed(files) for name, label in file.labels.items()})


def attributes_of_points(files):
    """The units and formulas of all columns of all files."""
    attrs, units = {}, {}
    for file in files:
        attrs = {**file.points_attrs, **attrs}
        with contextlib.suppress(ValueError):
            units = {**json.loads(file.points_attrs.get("units", b"{}")), **units}
    return {**attrs, "units": json.dumps(units, separators=(",", ":")).encode()}


def main(arguments):
    parser = argparse.ArgumentParser(prog=command_line.program(), description=" ".join(__doc__.split()))
    command_line.add_version(parser)
    parser.add_argument("files", nargs="+", metavar="FILE.h5", type=command_line.existing_file)
    parser.add_argument("-o", "--out", required=True, metavar="OUT.h5", help="written beside its place, then renamed")
    parser.add_argument("--replace", action="store_true", help="replace OUT.h5 if it exists")
    parser.add_argument("--force", action="store_true", help="as --replace; and let a later file's row replace one that was good; both "
                        "stay, and /events says so")
    options = parser.parse_args(arguments)
    if os.path.exists(options.out) and not (options.replace or options.force):
        parser.error(f"{options.out} exists: --replace or --force replaces it")
    try:
        with progress.Line() as shown:
            files = [whole_files.load(path) for path in shown.each("reads file", options.files)]
            shown.now(f"makes {options.out}")
            content = merged(files, options.force)
            whole_files.save(content, options.out)
    except (ResultsError, OSError) as problem:
        print(f"{command_line.program()}: {problem}", file=sys.stderr)
        return 1
    print(f"{options.out}: {len(content.points)} rows of {len(content.runs)} runs, {len(content.inputs)} inputs")
    return 0
