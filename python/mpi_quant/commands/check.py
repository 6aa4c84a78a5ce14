"""Checks result files against the rules of results/README.md: the layout, and the samples against the columns that count them. Prints a line for every violation, FILE: row KEY: what: expected ..., found ..., or one for several rows that it is the same for, and exits 1 if there are any.
"""
import argparse
import os
import sys

import numpy as np

from mpi_quant.commands import command_line, progress
from mpi_quant.results import layout_rules, reader, row_rules, whole_files


def violations(file):
    """(row or None, what, expected, found) of one file. Rows are checked only if the layout is correct."""
    found = list(layout_rules.check(file))
    if found:
        return found
    try:
        found.extend(row_rules.check(file))
    # a table or the options contain something unexpected
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        found.append((None, "contents", "what can be checked", f"{type(error).__name__}: {error}"))
    return found


def number(value):
    """All digits of a number, because a violation may be in the last one."""
    return repr(value.item()) if isinstance(value, np.generic) else str(value)


def lines(file, found):
    """A line for each violation. Of those that say the same of several rows the first alone, and how many more there are."""
    alike = {}
    for row, what, expected, seen in found:
        alike.setdefault(f"{what}: expected {number(expected)}, found {number(seen)}", []).append(row)
    for text, rows in alike.items():
        where = f"row {file.text(rows[0], 'key') or rows[0]}: " if rows[0] is not None else ""
        more = f" (and {len(rows) - 1} more row{'s' if len(rows) > 2 else ''})" if where and len(rows) > 1 else ""
        yield f"{file.path}: {where}{text}{more}"


def check(path, verbose):
    """The rows and violations of a file, after the violations were printed."""
    try:
        file = whole_files.load(path)
    except reader.ResultsError as error:
        print(error)
        return 0, 1
    found = violations(file)
    for line in lines(file, found):
        print(line)
    if verbose:
        for remark in layout_rules.remarks(file):
            print(f"{path}: remark: {remark}")
        print(f"{path}: {len(file.points)} rows, {len(found)} violations")
    return len(file.points), len(found)


UNEXPECTED = 3  # exit code of the process of isolated() where check() raised an exception


def isolated(path, verbose, shown):
    """Runs check() in a process of its own, because some damaged files crash the HDF5 library.

    The standard output of that process is a pipe, whose last line is the counts, or the exception that check() raised. This process prints the
    other lines: the child has no use of `shown`, whose lock the drawing thread may hold during the fork.
    """
    sys.stdout.flush()
    result, answer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.dup2(answer, 1)
            os.close(result)
            print(*check(path, verbose), flush=True)
            code = 0
        except Exception as error:  # the parent prints it
            print(" ".join(f"{type(error).__name__}: {error}".split()), flush=True)
            code = UNEXPECTED
        finally:  # the child must not repeat what the parent does at its end
            os._exit(code)
    os.close(answer)
    with os.fdopen(result, encoding=sys.stdout.encoding, errors=sys.stdout.errors) as pipe:
        *lines, counts = pipe.read().rstrip("\n").split("\n")
    status = os.waitpid(child, 0)[1]
    if status == 0:
        if lines:
            shown.print("\n".join(lines))
        rows, found = map(int, counts.split())
        return rows, found
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == UNEXPECTED:
        shown.print("\n".join([*lines, f"{path}: cannot be checked ({counts})"]))
    else:
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit code {os.WEXITSTATUS(status)}"
        shown.print(f"{path}: damaged HDF5 file (reading it ended with {how})")
    return 0, 1


def main(arguments):
    parser = argparse.ArgumentParser(prog=command_line.program(), description=" ".join(__doc__.split()))
    command_line.add_version(parser)
    parser.add_argument("files", nargs="+", metavar="FILE.h5", type=command_line.existing_file)
    parser.add_argument("-v", "--verbose", action="store_true",
                        help="say also what is no violation: columns that older files lack, changes in no commit, events")
    options = parser.parse_args(arguments)
    np.seterr(all="ignore")
    with progress.Line() as shown:
        counts = [isolated(path, options.verbose, shown) for path in shown.each("file", options.files)]
    rows, found = (sum(column) for column in zip(*counts))
    files = f"{len(counts)} file" + ("s" if len(counts) > 1 else "")
    print(f"{command_line.program()}: {files}, {rows} rows, {found} violation" + ("s" if found != 1 else ""))
    return 1 if found else 0
