"""What the commands of slurm/ share: the folder of a run (slurm/README.md lists its files), and what becomes of an error."""
import argparse
import json
import pathlib
import re
import shlex
import shutil
import signal
import sys
import typing

from mpi_quant.commands import command_line
from mpi_quant.sweep.sweep_files import SweepError

# What may be different in record.json when a run goes on: results do not depend on it.
MAY_CHANGE = {"job_name", "go_on", "root", "package", "bin", "python", "modules", "srun_options", "max_restarts", "program_folder"}


class Refused(Exception):
    """What the user asks for, or the folder that is named, cannot be used. Exit code 2."""


class Failed(Exception):
    """Slurm is not there or refuses, or files do not become results. Exit code 1."""


class Cell(typing.NamedTuple):
    """A task of an array: one launch of one shape. Task k is line k + 1 of plan.tsv, which jobs read."""

    name: str
    nodes: int
    ranks_per_node: int
    launch: int
    options: tuple


class Folder:
    """The folder of a run, which may not exist yet."""

    def __init__(self, path):
        self.path = pathlib.Path(path).absolute()
        # Slurm replaces % in the names of logs; the others would break a line of our files.
        if re.search(r"[%\\\x00-\x1f\x7f]", str(self.path)):
            raise Refused(f"--out: {str(self.path)!r} has a %, a backslash or a control character in it")

    def read(self, name):
        try:
            return (self.path / name).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise Refused(f"{self.path} is no folder of a run: {error}") from error

    def exists(self):
        return (self.path / "record.json").exists()

    def record(self):
        """What was asked for, the name of all jobs of the run, and the command that goes on with it."""
        try:
            record = json.loads(self.read("record.json"))
        except ValueError as error:
            raise Refused(f"{self.path} is no folder of a run: record.json: {error}") from error
        if "job_name" not in record:
            raise Refused(f"{self.path} is a run of an older version: choose another folder")
        return record

    def refuse_another_run(self, record):
        """Refuses a folder that holds another run than this, or something else."""
        if self.exists():
            old = self.record()
            if other := sorted(key for key in {*record, *old} - MAY_CHANGE if record.get(key) != old.get(key)):
                raise Refused(f"--out: {self.path} holds another run (other {', '.join(other)}): choose another folder")
        elif self.path.is_dir() and any(self.path.iterdir()):
            raise Refused(f"--out: {self.path} has something else in it: choose another folder")

    def make(self, record, cells, copies):
        """Makes the folder. A folder is taken over if it is of a run that has no jobs left. copies: name -> file that it gets a copy of, or "" or
        None."""
        for name in ("cells", "log", "state"):
            (self.path / name).mkdir(parents=True, exist_ok=True)
        for path in [*self.path.glob("cells/*.lock"), *self.path.glob("outcome.txt")]:  # locks of cells that were killed
            path.unlink()
        for name, path in copies.items():
            if path:
                shutil.copyfile(path, self.path / name)
        plan = "".join("\t".join(map(str, [*cell[:4], *cell.options])) + "\n" for cell in cells)
        # record.json is written last: a folder that has it is the folder of a run
        for name, text in (("settings.sh", settings_text(record)), ("plan.tsv", plan), ("record.json", json.dumps(record, indent=1) + "\n")):
            (self.path / name).write_text(text, encoding="utf-8")

    def cells(self):
        rows = [line.split("\t") for line in self.read("plan.tsv").splitlines()]
        return [Cell(name, int(nodes), int(ranks), int(launch), tuple(options)) for name, nodes, ranks, launch, *options in rows]

    def state(self, name):
        """The last complete line that a job wrote of itself: running, left, failed or done; which job; why."""
        path = f"state/{name}.state"
        lines = self.read(path).split("\n") if (self.path / path).is_file() else []
        _, state, job, _, why = next((line.split("\t") for line in reversed(lines) if line.count("\t") == 4), [""] * 5)
        return state, job, why

    def is_done(self, name):
        return self.state(name)[0] == "done"

    def jobs(self):
        """Name of a cell, or "finish" -> its last job, as Slurm writes it: 101_0, 102."""
        rows = self.read("jobs.tsv").splitlines() if (self.path / "jobs.tsv").exists() else []
        return dict(row.split("\t") for row in rows if row.count("\t") == 1)


def settings_text(record):
    """The record as assignments for bash."""
    lines = ["# Written by mpiq submit; jobs source it.", 'if [ -f "$run/site.sh" ]; then source "$run/site.sh" >/dev/null; fi']
    lines += [f"{name}={shlex.quote(str(value))}" for name, value in record.items() if isinstance(value, (str, int))]
    lines += [f"{name}=({shlex.join(value)})" for name, value in record.items() if isinstance(value, list)]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in record.get("env", {}).items()]
    return "\n".join([*lines, ""])


def parser_of(text, **options):
    """text: of the script; its first paragraph comes before the options, the others come after them."""
    summary, more = command_line.named(text).split("\n\n", maxsplit=1)
    parser = argparse.ArgumentParser(prog=command_line.program(), description=summary, epilog=more, allow_abbrev=False, **options)
    command_line.add_version(parser)
    return parser


def run(parser, command, *words):
    """Ends this process as command(*words) says, which returns an exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as `| head` expects
    try:
        sys.exit(command(*words))
    except (Refused, SweepError) as problem:
        parser.error(str(problem))
    except (Failed, OSError) as problem:
        sys.exit(f"{parser.prog}: {problem}")
    except KeyboardInterrupt:
        print(f"\n{parser.prog}: stopped; what was submitted runs on", file=sys.stderr)
        sys.exit(130)
