#!/usr/bin/python3
"""Does error feedback by address do what a stated key does, and no harm where a buffer holds different data? Replays 50 steps of
each sequence through one buffer of an unmodified program under the preload library, by turns without feedback, with a key that
the program states, and by address; writes the relative error of the sum of the results as a table (CSV), and exits 1 where

    one tensor a buffer    the error by address is more than 1.2 times the error with the stated key
    different data         the error by address is more than 1.05 times the error without feedback

    tests/preload/identity.py [--build DIR] [--mpiexec CMD] [--mnist DIR] [--methods M,...] [--only NAME,...] [-o FILE]

The gradients are recorded while PyTorch (Debian's python3-torch) trains small networks, see mpi_quant/results/recordings.py.
"""
import argparse
import csv
import os
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../python"))
from mpi_quant.results import recordings  # noqa: E402

METHODS = "onebit,adaptive,topk,threshold(quantile=0.99)"
STEPS = 50
WAYS = ("off", "key", "address")
COLUMNS = ("case", "one_tensor", "method", *(f"error_{way}" for way in WAYS), "limit", "passed")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog=__doc__.split("\n\n", 1)[1])
    parser.add_argument("--build", default=os.path.join(HERE, "../../build/dev"), help="folder of the build [build/dev]")
    parser.add_argument("--mpiexec", default="mpiexec.mpich", help="launcher with its options [mpiexec.mpich]")
    parser.add_argument("--family", default="mpich", choices=("mpich", "openmpi"), help="of the launcher [mpich]")
    parser.add_argument("--mnist", default=os.path.join(HERE, "../data/mnist"), help="folder of MNIST [tests/data/mnist]")
    parser.add_argument("--only", default="", help="sequences whose names begin so, between commas [all]")
    parser.add_argument("--methods", default=METHODS, help=f"between commas [{METHODS}]")
    parser.add_argument("-o", "--output", help="file of the table [standard output]")
    return parser.parse_args()


def split(methods):
    """"a,b(c=1,d=2)" -> "a", "b(c=1,d=2)"."""
    words, depth = [""], 0
    for c in methods:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            words.append("")
        else:
            words[-1] += c
    return words


def replay(arguments, lines, methods, folder):
    """The errors by (case, policy)."""
    cases = os.path.join(folder, "cases")
    with open(cases, "w", encoding="utf-8") as file:
        file.writelines(lines)
    policies = [f"{method} feedback={way}" for method in methods for way in WAYS]
    library = os.path.join(arguments.build, "lib/libmpi_quant_pmpi.so")
    command = [*shlex.split(arguments.mpiexec), "-n", str(recordings.RANKS), "env", f"LD_PRELOAD={library}",
               os.path.join(arguments.build, f"tests/preload/replay_{arguments.family}"), cases, *policies]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"tests/preload/identity.py: the replay failed ({done.returncode}): {done.stderr.strip() or done.stdout.strip()}")
    # Parameters contain commas too. The case is before the first comma, the error after the last.
    rows = [line.split(",", 1) for line in done.stdout.splitlines()[1:]]
    return {(case, rest.rpartition(",")[0]): float(rest.rpartition(",")[2]) for case, rest in rows}


def sequences(arguments):
    """Yields the name, whether it is one tensor, and the steps."""
    def is_wanted(name):
        return name.startswith(tuple(arguments.only.split(",")))  # every name begins with ""

    for name, steps in recordings.gradients(arguments.mnist, STEPS, is_wanted):
        yield name, True, steps
    for name, steps in recordings.tensors(STEPS):
        if is_wanted(name):
            yield name, True, steps
    for name, steps in recordings.strangers(STEPS):
        if is_wanted(name):
            yield name, False, steps


def table(arguments, folder):
    methods, rows = split(arguments.methods), []
    for name, one_tensor, steps in sequences(arguments):
        path = os.path.join(folder, "steps")
        count, number, tensors = recordings.write(path, steps)
        errors = replay(arguments, [f"{name} {count} {number} {tensors} {path}\n"], methods, folder)
        for method in methods:
            off, key, address = (errors[name, f"{method} feedback={way}"] for way in WAYS)
            limit = 1.2 * key if one_tensor else 1.05 * off
            rows.append(dict(zip(COLUMNS, (name, int(one_tensor), method, *(f"{e:.4f}" for e in (off, key, address)),
                                           f"{limit:.4f}", int(address <= limit)))))
    return rows


def main():
    arguments = parse_arguments()
    if not recordings.has_torch("tests/preload/identity.py"):
        return 3
    with tempfile.TemporaryDirectory() as folder:
        rows = table(arguments, folder)
    output = open(arguments.output, "w", encoding="utf-8", newline="") if arguments.output else sys.stdout
    with output:
        writer = csv.DictWriter(output, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    failed = [row for row in rows if not row["passed"]]
    for row in failed:
        print(f"tests/preload/identity.py: {row['case']}, {row['method']}: {row['error_address']}, more than {row['limit']}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
