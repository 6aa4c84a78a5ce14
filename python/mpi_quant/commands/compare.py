"""Compares the times of two result files, row by row: B over A with an interval, and whether B is slower. A row of A is compared with the
row of B that has the same settings: method, size, ranks, network and all others. The commit and the number of the launch may differ.

A time is the median of a row; of at least six launches the median of their medians. The interval of the ratio goes from the lower
end of B's 95 % interval over the upper end of A's to the upper over the lower: a verdict needs intervals that do not overlap.
Exits 0 if no row is slower by more than --max-slower, 1 if one is, 2 if the files cannot be compared.
"""
import argparse
import dataclasses
import sys

import numpy as np

from mpi_quant.commands import command_line
from mpi_quant.results import reader, schema, whole_files
from mpi_quant.results.reader import ResultsError

BROKEN_PIPE = 2  # exit code where the reader of the output has closed it: nothing is known
COLUMNS = (*schema.VARIABLES, "data", "input", "lists")
LAUNCHES = 6  # with this many, the median over launches has a 95 % interval
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
    method = " ".join(str(w) for w in (values["method"], values["dtype"], values["data"], values["layer"]) if w)
    return [method, "in" if values["place"] == "in" else "", str(values["ranks"]), values["link"]]


def ratio(a, b):
    """(B/A, low, high)."""
    (ta, lo_a, hi_a), (tb, lo_b, hi_b) = ((reader.over_launches(r, "t_median_s", "t_ci_lo_s", "t_ci_hi_s")) for r in (a, b))
    return tb / ta, lo_b / hi_a, hi_b / lo_a


def verdict(low, high):
    if not np.isfinite(low) or not np.isfinite(high):
        return "no interval"
    return "slower" if low > 1 else "faster" if high < 1 else "no difference"


def cells(key, a, b):
    """A line of the table, and the lower end of the interval of the ratio."""
    method, place, ranks, link = name(key)
    middle, low, high = ratio(a, b)
    size = reader.bytes_label(int(a["bytes"][0])) + (" in place" if place else "")
    times = [reader.seconds_label(float(np.median(rows["t_median_s"]))) +
             (f" ({len(rows)} launches)" if len(rows) > 1 else "") for rows in (a, b)]
    return (method, size, ranks, link, *times, f"{middle:.3f}", f"{low:.3f} .. {high:.3f}", verdict(low, high)), low


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
    size = reader.bytes_label(int(rows["bytes"][0])) + (" in place" if place else "")
    collective = key[COLUMNS.index("collective")]
    method = method if collective == schema.ALLREDUCE else f"{collective}, {method}"
    return f"only in {letter}{why}: {method}, {size}, {ranks} ranks, {link or 'no link named'}"


def compare(a, b, slowest):
    """Prints the table and returns the number of rows that are slower than allowed. Raises ResultsError if the times must not
    be compared."""
    times = [{key: timed(rows) for key, rows in side.rows.items() if len(timed(rows))} for side in (a, b)]
    both = sorted(set(times[0]) & set(times[1]), key=str)
    refused = [(key, why) for key in both for why in (bad(times[0][key]) or bad(times[1][key]),) if why]
    if refused:
        raise ResultsError(f"{len(refused)} rows have no times to be compared, for one {' '.join(name(refused[0][0]))}: "
                           f"{refused[0][1]}; choose others with --where")
    print(described("A", a.attrs), described("B", b.attrs), sep="\n")
    tables, over = {}, []
    first = [COLUMNS.index(column) for column in ("link", "ranks", "count")]
    for key in sorted(both, key=lambda k: (*(k[i] for i in first), str(k))):
        line, low = cells(key, times[0][key], times[1][key])
        tables.setdefault(key[COLUMNS.index("collective")], []).append(line)
        if low > slowest:
            over.append(line)
    for collective, lines in tables.items():
        print(*([collective + ":"] if list(tables) != [schema.ALLREDUCE] else []), aligned([HEAD, *lines]), sep="\n")
    for letter, mine, other, side in (("A", times[0], times[1], b), ("B", times[1], times[0], a)):
        for key in sorted(set(mine) - set(other), key=str):
            print(alone(letter, key, mine[key], side.rows.get(key)))
    if not both:
        raise ResultsError(f"{a.attrs['file']} and {b.attrs['file']}: no row is in both")
    if any(len(times[i][key]) < LAUNCHES for i in (0, 1) for key in both):
        print(f"Rows of fewer than {LAUNCHES} launches: what differs from launch to launch is not in their intervals.")
    print(f"{command_line.program()}: {len(both)} rows in both, {len(over)} slower than {slowest:g} times A")
    return len(over)


def main(arguments):
    parser = argparse.ArgumentParser(prog=command_line.program(), description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    command_line.add_version(parser)
    parser.add_argument("a", metavar="A.h5", type=command_line.existing_file, help="the times to compare with")
    parser.add_argument("b", metavar="B.h5", type=command_line.existing_file)
    parser.add_argument("--max-slower", type=float, default=0.0, metavar="PCT",
                        help="a row fails if the lower end of its ratio's interval is above 1 + PCT/100 [%(default)g]")
    parser.add_argument("--where", action="append", default=[], metavar="COLUMN=VALUE", help="only these rows; repeatable")
    options = parser.parse_args(arguments)
    if not options.max_slower >= 0:
        parser.error(f"--max-slower {options.max_slower}: a percentage, at least 0")
    try:
        sides = [read(path, options.where) for path in (options.a, options.b)]
        return 1 if compare(*sides, 1 + options.max_slower / 100) else 0
    except (ResultsError, OSError) as problem:
        print(f"{command_line.program()}: {problem}", file=sys.stderr)
        return 2
