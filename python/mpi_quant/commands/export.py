"""Writes a result file as text. csv: a line for each row of /points that counts, every number with all its digits, empty where
the value is not known; with --samples a line for each repetition instead. json: one object with the attributes of the run and the
rows, null where the value is not known, and with --samples the repetitions in each row.
"""
import argparse
import csv
import json
import math
import sys

import numpy as np

from mpi_quant.commands import command_line, progress, text_output
from mpi_quant.results import counted, schema, whole_files
from mpi_quant.results.reader import ResultsError
from mpi_quant.results.whole_files import attribute, known

SAMPLES = ("t_max_s", "t_span_s", "skew_in_s", "valid", "order")
ABOUT = ("point_id", "key", "collective", "method", "link", "ranks", "bytes", "launch")  # of the row, before each of its repetitions


def rows_of(file):
    """The positions of the rows that count (the last of each key), and name -> text or number of each."""
    last = sorted({key: i for i, key in enumerate(file.points["key"])}.values())
    return [(i, {name: known(file.points[name][i], file.points.dtype[name].kind) for name in file.points.dtype.names})
            for i in last]


def complete(file, row):
    """A row with a description of its input, because an input_id means nothing outside of the file, and with what was counted in its calls."""
    for given in file.inputs[file.inputs["input_id"] == row.get("input_id")][:1]:
        row = {**row, **{f"input_{name}": known(given[name], given.dtype[name].kind)
                         for name in schema.GIVEN if name in given.dtype.names}}
    return {**row, **counted.counts_of(file.counters, row["point_id"])} if len(file.counters) else row


def repetitions(file, i):
    """name -> the values of row i."""
    measured = ~np.isnan(file.samples["t_max_s"][i]) if "t_max_s" in file.samples else np.zeros(0, dtype=bool)
    return {name: [None if name == "order" and v == schema.NO_ORDER else known(v, file.samples[name].dtype.kind)
                   for v in file.samples[name][i][measured]] for name in SAMPLES if name in file.samples}


def csv_lines(file, samples):
    """The head, then the cells."""
    rows = rows_of(file)
    if not samples:
        rows = [(i, complete(file, row)) for i, row in rows]
        names = list(rows[0][1]) if rows else list(file.points.dtype.names)
        yield names
        yield from ([row.get(name) for name in names] for _, row in rows)
        return
    about, names = [name for name in ABOUT if name in file.points.dtype.names], [n for n in SAMPLES if n in file.samples]
    yield [*about, "rep", *names]
    for i, row in rows:
        columns = repetitions(file, i)
        for k, values in enumerate(zip(*columns.values())):
            yield [*(row[name] for name in about), k, *values]


def cell(value):
    return "" if value is None else repr(value) if isinstance(value, float) else value


def write_csv(file, samples, out):
    writer = csv.writer(out)  # quotes and line ends of RFC 4180
    for line in csv_lines(file, samples):
        writer.writerow([cell(value) for value in line])


def write_json(file, samples, out):
    rows = []
    for i, row in rows_of(file):
        row = complete(file, row)
        if samples:
            row["samples"] = repetitions(file, i)
        rows.append(row)
    content = {
        **{name: attribute(value) for name, value in sorted(file.attrs.items())},
        "units": {name: schema.unit(name) for name in file.points.dtype.names if schema.unit(name)},
        "runs": [run.facts() for run in file.runs],
        "rows": rows}
    # JSON has no infinity, and the snr_db of an error of 0 is infinite.
    json.dump(finite(content), out, indent=None if samples else 1, allow_nan=False, ensure_ascii=False)
    out.write("\n")


def finite(value):
    """The content with the texts 'inf' and '-inf' in place of infinite numbers."""
    if isinstance(value, dict):
        return {name: finite(v) for name, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def main(arguments):
    parser = argparse.ArgumentParser(prog=command_line.program(), description=" ".join(__doc__.split()))
    command_line.add_version(parser)
    parser.add_argument("file", metavar="FILE.h5", type=command_line.existing_file)
    parser.add_argument("--format", choices=("csv", "json"), default="csv", help="[%(default)s]")
    parser.add_argument("-o", "--out", metavar="OUT", help="[standard output]")
    parser.add_argument("--samples", action="store_true", help="the repetitions of each row")
    options = parser.parse_args(arguments)
    try:
        with progress.Line(f"reads {options.file}"):
            file = whole_files.load(options.file)
        if "key" not in (file.points.dtype.names or ()) or len(file.points) == 0:
            raise ResultsError(f"{options.file}: has no rows with a key")
        with text_output.place(options.out) as out:
            (write_csv if options.format == "csv" else write_json)(file, options.samples, out)
    except BrokenPipeError:
        raise
    except (ResultsError, OSError) as problem:
        print(f"{command_line.program()}: {problem}", file=sys.stderr)
        return 1
    return 0
