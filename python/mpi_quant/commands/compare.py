"""Compares the times of two result files, row by row: B over A with an interval, and whether B is slower. A row of A is compared with the
row of B that has the same settings: method, size, ranks, network and all others. The commit and the number of the launch may differ.

A time is the median of a row; of at least six launches the median of their medians. The interval of the ratio goes from the lower
end of B's 95 % interval over the upper end of A's to the upper over the lower: a verdict needs intervals that do not overlap.
Exits 0 if no row is slower by more than --max-slower, 1 if one is, 2 if the files cannot be compared. --json writes the same for programs
that watch times from commit to commit. Its list `rows` has name, unit, value (the time of B) and range, as github-action-benchmark takes
them for customSmallerIsBetter.
"""
import argparse
import dataclasses
import json
import sys

import numpy as np

from mpi_quant.commands import command_line, progress, text_output
from mpi_quant.results import reader, schema, whole_files
from mpi_quant.results.reader import ResultsError

BROKEN_PIPE = 2  # exit code where the reader of the output has closed it: nothing is known
COLUMNS = (*schema.VARIABLES, "data", "input", "lists")
LAUNCHES = 6  # with this many, the median over launches has a 95 % interval
JSON_SCHEMA, JSON_VERSION = "mpi_quant.compare", 1
HEAD = ("method", "bytes", "ranks", "link", "A", "B", "B/A", "95 % interval", "verdict")


@dataclasses.dataclass
class Side:
    """The rows of one file by their settings. attrs: as in reader.Results."""

    attrs: dict
    rows: dict


def read(path, where):
    results = reader.read(path)
    inputs = {int(row["input_id"]): " ".join(str(row[c]) for c in ("params", "seed", "rho") if c in row.dtype.names)
              for row in reader.plain(whole_files.load(path).inputs)}
    rows = {}
    for row in reader.chosen(results.points, where):
        own = {"input": inputs.get(int(row["input_id"]), "?"), "lists": schema.lists_of(str(row["comp_params"]))}
        key = tuple(own[c] if c in own else row[c].item() if c in row.dtype.names else "" for c in COLUMNS)
        rows.setdefault(key, []).append(row)
    if not rows:
        raise ResultsError(f"{path}: no rows match {' '.join(where)}")
    return Side(results.attrs, {key: np.array(found, dtype=results.points.dtype) for key, found in rows.items()})


def timed(rows):
    """The rows that have a time, good or not."""
    return rows[np.isin(rows["status"], ("ok", "invalid")) & np.isfinite(rows["t_median_s"])]


def bad(rows):
    """The reason why the times of these rows must not be compared; '' if they may."""
    if (rows["status"] == "invalid").any():
        return "invalid: " + str(rows["note"][rows["status"] == "invalid"][0] if "note" in rows.dtype.names else "wrong results")
    return "more ranks than processors" if (rows["oversubscribed"] == 1).any() else ""


def name(key):
    """The name of a row, in as many words as the table has columns, and its other settings."""
    values = dict(zip(COLUMNS, key))
    computing = f"computing {values['compute_percent']} %" if values["compute_percent"] > 0 else ""
    arrival = "" if values["arrival"] == "together" else f"arrival {values['arrival']}"
    form = "" if values["form"] == "blocking" or computing else f"{values['form']}, window {values['window']}"
    method = " ".join(str(w) for w in (values["method"], values["dtype"], values["data"], values["layer"], computing, arrival, form) if w)
    return [method, "in" if values["place"] == "in" else "", str(values["ranks"]), values["link"]]


def ratio(a, b):
    """(B/A, low, high)."""
    (ta, lo_a, hi_a), (tb, lo_b, hi_b) = ((reader.over_launches(r, "t_median_s", "t_ci_lo_s", "t_ci_hi_s")) for r in (a, b))
    return tb / ta, lo_b / hi_a, hi_b / lo_a


def verdict(low, high):
    if not np.isfinite(low) or not np.isfinite(high):
        return "no interval"
    return "slower" if low > 1 else "faster" if high < 1 else "no difference"


def size_of(rows, place):
    return reader.bytes_label(int(rows["bytes"][0])) + (" in place" if place else "")


def cells(key, a, b):
    """A line of the table."""
    method, place, ranks, link = name(key)
    middle, low, high = ratio(a, b)
    size = size_of(a, place)
    times = [reader.seconds_label(float(np.median(rows["t_median_s"]))) +
             (f" ({len(rows)} launches)" if len(rows) > 1 else "") for rows in (a, b)]
    return (method, size, ranks, link, *times, f"{middle:.3f}", f"{low:.3f} .. {high:.3f}", verdict(low, high))


def number(value):
    """A number for JSON, which has no NaN."""
    return float(value) if np.isfinite(value) else None


def record(key, a, b, slowest):
    """The same as an object of the JSON file."""
    values = dict(zip(COLUMNS, key))
    method, place, ranks, link = name(key)
    (time_a, *_), (time_b, low_b, high_b) = ((reader.over_launches(r, "t_median_s", "t_ci_lo_s", "t_ci_hi_s")) for r in (a, b))
    middle, low, high = ratio(a, b)
    half = (high_b - low_b) / 2
    return {"name": ", ".join(w for w in (str(values["collective"]), method, size_of(a, place), f"{ranks} ranks", link) if w), "unit": "s",
            "value": number(time_b), "range": f"+- {half:.3g}" if np.isfinite(half) else "",
            "method": str(values["method"]), "bytes": int(a["bytes"][0]), "ranks": int(values["ranks"]), "link": link,
            "a_s": number(time_a), "ratio": number(middle), "ratio_low": number(low), "ratio_high": number(high), "launches_a": len(a), "launches_b": len(b),
            "verdict": verdict(low, high), "too_slow": bool(low > slowest)}


def described(letter, attrs):
    changes = "+changes" if attrs.get("git_dirty") else ""
    return (f"{letter}: {attrs['file']}, commit {str(attrs.get('git_commit', '?'))[:10]}{changes}, "
            f"host {', '.join(attrs['hosts']) or '?'}")


def aligned(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(w) if i in (0, 3, 8) else cell.rjust(w)
                               for i, (cell, w) in enumerate(zip(line, widths))).rstrip() for line in lines)


def alone(letter, key, rows, others):
    """A line for rows without a time in the other file."""
    method, place, ranks, link = name(key)
    why = ""
    if others is not None:
        status = str(others["status"][0])
        note = others["note"][0] if "note" in others.dtype.names else ""
        why = f", {status} in the other" + (f" ({note})" if note else "")
    size = size_of(rows, place)
    collective = key[COLUMNS.index("collective")]
    method = method if collective == schema.ALLREDUCE else f"{collective}, {method}"
    return f"only in {letter}{why}: {method}, {size}, {ranks} ranks, {link or 'no link named'}"


def compare(a, b, slowest):
    """Prints the table and returns the rows as record makes them. Raises ResultsError if the times must not be compared."""
    times = [{key: timed(rows) for key, rows in side.rows.items() if len(timed(rows))} for side in (a, b)]
    both = sorted(set(times[0]) & set(times[1]), key=str)
    refused = [(key, why) for key in both for why in (bad(times[0][key]) or bad(times[1][key]),) if why]
    if refused:
        raise ResultsError(f"{len(refused)} rows have no times to be compared, for one {' '.join(name(refused[0][0]))}: "
                           f"{refused[0][1]}; choose others with --where")
    print(described("A", a.attrs), described("B", b.attrs), sep="\n")
    tables, records = {}, []
    first = [COLUMNS.index(column) for column in ("link", "ranks", "count")]
    for key in sorted(both, key=lambda k: (*(k[i] for i in first), str(k))):
        tables.setdefault(key[COLUMNS.index("collective")], []).append(cells(key, times[0][key], times[1][key]))
        records.append(record(key, times[0][key], times[1][key], slowest))
    for collective, lines in tables.items():
        print(*([collective + ":"] if list(tables) != [schema.ALLREDUCE] else []), aligned([HEAD, *lines]), sep="\n")
    for letter, mine, other, side in (("A", times[0], times[1], b), ("B", times[1], times[0], a)):
        for key in sorted(set(mine) - set(other), key=str):
            print(alone(letter, key, mine[key], side.rows.get(key)))
    if not both:
        raise ResultsError(f"{a.attrs['file']} and {b.attrs['file']}: no row is in both")
    if any(len(times[i][key]) < LAUNCHES for i in (0, 1) for key in both):
        print(f"Rows of fewer than {LAUNCHES} launches: what differs from launch to launch is not in their intervals.")
    print(f"{command_line.program()}: {len(both)} rows in both, {sum(r['too_slow'] for r in records)} slower in B"
          + (f" by more than {100 * (slowest - 1):.3g} %" if slowest > 1 else ""))
    return records


def write_json(path, letters, options, code, records, problem):
    """The JSON file; nothing without a path. letters: A and B as described says them, as far as the files could be read."""
    if path is None:
        return
    with text_output.place(path) as out:
        json.dump({"schema": JSON_SCHEMA, "version": JSON_VERSION, "files": letters, "max_slower_percent": options.max_slower, "where": options.where,
                   "exit_code": code, "problem": problem, "rows": records}, out, indent=1, allow_nan=False, ensure_ascii=False)
        out.write("\n")


def main(arguments):
    parser = argparse.ArgumentParser(prog=command_line.program(), description=__doc__,
                                     formatter_class=command_line.Paragraphs)
    command_line.add_version(parser)
    parser.add_argument("a", metavar="A.h5", type=command_line.existing_file, help="the times to compare with")
    parser.add_argument("b", metavar="B.h5", type=command_line.existing_file)
    parser.add_argument("--max-slower", type=float, default=0.0, metavar="PCT",
                        help="a row fails if the lower end of its ratio's interval is above 1 + PCT/100 [%(default)g]")
    parser.add_argument("--where", action="append", default=[], metavar="COLUMN=VALUE", help="only these rows; repeatable")
    parser.add_argument("--json", metavar="OUT.json", help="write it for programs, too, with what the exit code says; also where it is 2")
    options = parser.parse_args(arguments)
    if not options.max_slower >= 0:
        parser.error(f"--max-slower {options.max_slower}: a percentage, at least 0")
    try:
        return judged(options)
    except BrokenPipeError:
        raise
    except OSError as problem:
        print(f"{command_line.program()}: {problem}", file=sys.stderr)
        return 2


def judged(options):
    """Compares, writes the JSON file and returns the exit code."""
    letters, records, problem, closed = [], [], "", None
    try:
        with progress.Line() as shown:
            sides = [read(path, options.where) for path in shown.each("file", (options.a, options.b))]
        letters = [described(letter, side.attrs) for letter, side in zip("AB", sides)]
        with command_line.output():
            records = compare(*sides, 1 + options.max_slower / 100)
            sys.stdout.flush()  # a full disk shows here
        code = 1 if any(r["too_slow"] for r in records) else 0
    except BrokenPipeError as found:
        problem, code, closed = str(found), BROKEN_PIPE, found
    except (ResultsError, OSError) as found:
        problem, code = str(found), 2
        print(f"{command_line.program()}: {problem}", file=sys.stderr)
    write_json(options.json, letters, options, code, records, problem)
    if closed is not None:
        raise closed
    return code
