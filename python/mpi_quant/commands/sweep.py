"""Runs a sweep: the launches that a sweep file (bench/sweeps/*.toml) asks for, in shuffled order, over shared memory and in labs
(networks of namespaces on this machine, root only). Each launch writes a result file DIR/cells/*.h5. The files of a link become
DIR/<link>.h5, which mpiq check then checks. What was cut off goes on with the same command; what is there already is left as it
is. With several files each has a folder of its own in DIR. Builds nothing.

Exits 0, 1 (a launch or a point failed, or a result file breaks a rule), 2 (usage) or 75 (points are left).
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from mpi_quant import _places
from mpi_quant.commands import command_line, progress
from mpi_quant.sweep import launching, sweep_files as sweeps
from mpi_quant.sweep.launching import DONE, FAILED, LEFT, NO_LAB, USAGE
from mpi_quant.sweep.sweep_files import SweepError

PLAN = re.compile(r"^# (\d+) points of .*about (\S+) bytes on each rank; about ([\d.]+) (us|ms|s|min)", re.M)
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60}
LAUNCH_S = 2  # time of a launch besides its points


def parse_arguments(words):
    parser = argparse.ArgumentParser(prog=command_line.program(), description=command_line.named(__doc__.split("\n\n", maxsplit=1)[0]),
                                     epilog=__doc__.split("\n\n", maxsplit=1)[1],
                                     usage="%(prog)s FILE.toml... --out DIR [options] [-- options of mpiq-bench...]")
    command_line.add_version(parser)
    parser.add_argument("files", nargs="+", metavar="FILE.toml")
    parser.add_argument("--out", metavar="DIR", help="where results go; needless with --dry-run")
    parser.add_argument("--launches", type=int, metavar="N", help="of every cell, in place of the file's")
    parser.add_argument("--labs", metavar="LIST", help="links, such as shm,2x1gbit,4x10gbit, in place of the file's")
    parser.add_argument("--ranks", type=int, metavar="N", help="over shared memory, in place of the file's")
    parser.add_argument("--dry-run", action="store_true", help="print each launch's points, memory and time, run nothing")
    parser.add_argument("--bin", default=_places.programs(), metavar="DIR",
                        help="where mpiq-bench is [build/release/bin, or where it is installed]")
    parser.add_argument("--mpiexec", default=launching.launcher(), metavar="CMD", help="[mpiexec.mpich, or mpiexec]")
    parser.add_argument("--deadline", type=float, metavar="SEC", help="start no launch or point after so many seconds, exit 75")
    parser.add_argument("--order-seed", type=int, default=1, metavar="N", help="of the order of launches [1]")
    parser.add_argument("--patience", type=float, default=20, metavar="SEC",
                        help="end a launch whose file is complete but that has not ended so long after [20]")
    parser.add_argument("--limit", type=float, metavar="SEC",
                        help="end a launch by force after so long [ten times what was planned, and ten minutes]")
    own, extra = (words[:words.index("--")], words[words.index("--") + 1:]) if "--" in words else (words, [])
    options = parser.parse_args(own)
    options.extra = extra
    if not options.out and not options.dry_run:
        parser.error("--out: where to?")
    if not options.mpiexec or not shutil.which(options.mpiexec):
        parser.error(f"--mpiexec: no {options.mpiexec or 'mpiexec'} here: run scripts/setup run")
    options.bench = os.path.join(".", sweeps.near(os.path.join(options.bin, "mpiq-bench")))
    if not os.access(options.bench, os.X_OK):
        parser.error(f"--bin: no mpiq-bench in {options.bin}: build it, or let scripts/run do so")
    return options, parser


def read_sweep(path, options):
    """The sweep file, with the options that the command line overrides."""
    sweep = sweeps.read(path)
    if options.launches is not None:
        sweep.launches = sweeps.positive(options.launches, "--launches")
    if options.ranks is not None:
        sweep.ranks = sweeps.positive(options.ranks, "--ranks")
    if options.labs is not None:
        sweep.links = sweeps.check_links([word for word in options.labs.split(",") if word], "--labs")
    return sweep


def without_labs(sweep):
    """Leaves out labs that cannot be made here, and prints why."""
    labs = [link for link in sweep.links if link != sweeps.SHARED_MEMORY]
    if not labs:
        return
    check = subprocess.run([launching.LAB, "check"], capture_output=True, text=True, check=False)
    if check.returncode != 0:
        print(f"left out: {', '.join(labs)}: {check.stderr.strip()}", flush=True)
        sweep.links = tuple(link for link in sweep.links if link not in labs)


def planned(sweep, cell, options):
    """Points, memory and seconds of a cell, as mpiq-bench itself states them. Usage errors show here, before anything is
    measured."""
    words = [options.mpiexec, "-n", str(cell.ranks), options.bench, *sweeps.bench_words(sweep, cell, options.extra), "--dry-run"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    found = PLAN.search(done.stdout)
    if done.returncode != 0 or not found:
        raise SweepError(f"{sweep.path}: {cell.name}: {(done.stderr or done.stdout).strip()}")
    return int(found[1]), found[2], float(found[3]) * SECONDS[found[4]] + LAUNCH_S


def plans(sweep, cells, options):
    """name -> plan. Repetitions of a launch share one."""
    known, out = {}, {}
    with progress.Line() as line:
        for cell in line.each("plan of launch", cells, lambda cell: cell.name):
            key = (cell.link, *cell.options)
            if key not in known:
                known[key] = planned(sweep, cell, options)
            out[cell.name] = known[key]
    return out


class Progress:
    """Shows how much of all launches is done: in plain lines, and on a terminal also in a line that changes."""

    def __init__(self, plan, line):
        self.plan, self.line, self.left_s = plan, line, sum(seconds for _, _, seconds in plan.values())
        self.spent_s = self.spent_plan_s = 0.0

    def pace(self):
        """The real seconds per planned second."""
        return self.spent_s / self.spent_plan_s if self.spent_plan_s else 1.0

    def begin(self, cell, number, total):
        self.cell, self.began = cell, time.monotonic()
        points, _, seconds = self.plan[cell.name]
        self.text = f"[{number}/{total}] {cell.name}"
        self.line.print(f"== {self.text}: {points} points, {cell.ranks} ranks, about {progress.clock(seconds * self.pace())}; "
                        f"{progress.clock(self.left_s * self.pace())} left")
        self.line.now(self.state)

    def state(self):
        """What the line that changes says."""
        took = time.monotonic() - self.began
        return f"{self.text}, {progress.clock(took)}; {progress.clock(max(0.0, self.left_s * self.pace() - took))} left"

    def end(self, measured):
        """One cell less. What was not measured does not change the pace."""
        seconds = self.plan[self.cell.name][2]
        self.left_s -= seconds
        if measured:
            self.spent_s += time.monotonic() - self.began
            self.spent_plan_s += seconds


def check_record(folder, sweep, cells, options):
    """Refuses a folder that holds cells of another sweep, then records what these are made with. More launches may come
    later."""
    path = os.path.join(folder, "sweep.json")
    version = subprocess.run([options.bench, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    try:
        with open(path, encoding="utf-8") as file:
            old = json.load(file)
        old = {"version": str(old["version"]), "cells": dict(old["cells"])}
    except FileNotFoundError:
        old = {"version": version, "cells": {}}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise SweepError(f"{path}: not what {command_line.program()} writes: choose another --out") from error
    new = {cell.name: sweeps.record(sweep, cell, options.extra) for cell in cells}
    other = [name for name in new if old["cells"].get(name, new[name]) != new[name]]
    if other or old["version"] != version:
        why = f"{other[0]} was made with other options" if other else f"it was made by {old['version']}, this is {version}"
        raise SweepError(f"--out: {os.path.dirname(path)} holds another sweep ({why}): choose another folder")
    content = {"version": version, "order_seed": options.order_seed,
               "order": [cell.name for cell in sweeps.shuffled(cells, options.order_seed)], "cells": {**old["cells"], **new}}
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")
    os.replace(path + ".tmp", path)


def run_cell(sweep, cell, path, options, shown, deadline_s):
    limit_s = options.limit or 10 * shown.plan[cell.name][2] + 600
    words = [*sweeps.bench_words(sweep, cell, options.extra), "-O", path]
    if deadline_s is not None:
        words += ["--deadline", f"{deadline_s:.0f}"]
    command = launching.command(sweep, cell, options.bench, words, options.mpiexec)
    prefix = "" if cell.link == sweeps.SHARED_MEMORY else f"s{os.getpid()}"
    launch = launching.Launch(command, sweep.env, path.removesuffix(".h5") + ".log", prefix)
    return launching.run(launch, launching.Patience(path, options.patience, limit_s), shown.line.print)


def run_cells(sweep, cells, folder, options, end):
    """The statuses of all launches. A usage error ends the sweep, because the next launch would have it too."""
    plan = plans(sweep, cells, options)
    check_record(folder, sweep, cells, options)
    with progress.Line() as line:
        return run_planned(sweep, cells, folder, options, end, Progress(plan, line))


def run_planned(sweep, cells, folder, options, end, shown):
    statuses = []
    for number, cell in enumerate(sweeps.shuffled(cells, options.order_seed), 1):
        path = os.path.join(folder, cell.name + ".h5")
        shown.begin(cell, number, len(cells))
        measure = not launching.is_complete(path)
        left_s = None if end is None else end - time.monotonic()
        if not measure:
            shown.line.print(f"{path} is complete")
            status = DONE
        elif left_s is not None and left_s <= 0:
            measure, status = False, LEFT
        else:
            status = run_cell(sweep, cell, path, options, shown, left_s)
        shown.end(measure)
        if status == NO_LAB and cell.link != sweeps.SHARED_MEMORY:
            shown.line.print(f"left out: {cell.name}: no lab here")
            status = DONE
        elif status not in (DONE, LEFT):
            shown.line.print(f"{command_line.program()}: {cell.name}: ended with {status}", file=sys.stderr)
        statuses.append(status if status in (DONE, LEFT, USAGE) else FAILED)
        if status == USAGE:
            break
    return statuses


def collect(cells, folder, out):
    """Makes DIR/<link>.h5 from the existing cells; returns the files and whether all went well."""
    files, good = [], True
    for group in dict.fromkeys(cell.group for cell in cells):
        parts = [os.path.join(folder, cell.name + ".h5") for cell in cells if cell.group == group]
        parts = [part for part in parts if os.path.exists(part)]
        target = os.path.join(out, group + ".h5")
        if len(parts) > 1:
            good &= command_line.run_other("merge", "--replace", "-o", target, *parts) == 0
        elif parts:
            shutil.copyfile(parts[0], target + ".tmp")
            os.replace(target + ".tmp", target)
        if os.path.exists(target):
            files.append(target)
    if files:
        good &= command_line.run_other("check", *files) == 0
    return good


def dry_run(sweep, cells, options):
    """Prints what each launch would do; returns the seconds of all."""
    plan = plans(sweep, cells, options)
    for cell in sweeps.shuffled(cells, options.order_seed):
        points, memory, seconds = plan[cell.name]
        print(f"{cell.name:<32} {points:>4} points  {cell.ranks:>3} ranks  {memory:>8}B each  about {progress.clock(seconds)}")
    total_s = sum(seconds for _, _, seconds in plan.values())
    print(f"# {sweep.path}: {len(cells)} launches, about {progress.clock(total_s)} if the stop rule is met in time")
    return total_s


def worst(statuses):
    return next((status for status in (USAGE, LEFT, FAILED) if status in statuses), DONE)


def run_sweep(sweep, out, options, end):
    without_labs(sweep)
    cells = sweeps.cells(sweep)
    if not cells:
        return FAILED
    if options.dry_run:
        dry_run(sweep, cells, options)
        return DONE
    folder = os.path.join(out, "cells")
    os.makedirs(folder, exist_ok=True)
    status = worst(run_cells(sweep, cells, folder, options, end))
    good = collect(cells, folder, out)
    return status if good or status == USAGE else FAILED


def stop_on_signals():
    def stop(number, _):
        for again in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(again, signal.SIG_IGN)  # so that the launch is ended in order
        sys.exit(128 + number)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def main(words):
    options, parser = parse_arguments(words)
    stop_on_signals()
    end = None if options.deadline is None else time.monotonic() + options.deadline
    statuses = []
    try:
        all_sweeps = [read_sweep(path, options) for path in options.files]
        names = [os.path.splitext(os.path.basename(sweep.path))[0] for sweep in all_sweeps]
        if len(set(names)) != len(names):
            raise SweepError("two files of one name")
        for sweep, name in zip(all_sweeps, names):
            out = "" if options.dry_run else sweeps.near(options.out)
            statuses.append(run_sweep(sweep, os.path.join(out, name) if len(names) > 1 else out, options, end))
    except SweepError as problem:
        parser.error(str(problem))
    except OSError as problem:
        print(f"{command_line.program()}: {problem}", file=sys.stderr)
        return USAGE
    return worst(statuses)
