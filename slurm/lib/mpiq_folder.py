"""The folder of a run: what slurm/submit writes into it and what jobs say of themselves.

    record.json   what results depend on: with something else in it, the folder is another run's
    settings.sh   the same and more, as jobs source it; site.sh: the site's own settings
    sweep.toml    a copy of the sweep file
    plan.tsv      a line for each cell: name, nodes, ranks per node, launch, options of mpiq-bench; task k has line k + 1
    jobs.tsv      a line for each job submitted: role, number, tasks, its name for Slurm, which no other job has
    state/        <name>.state: lines of time, state, job, node, why; the last one counts
    cells/        a result file, a log's worth of metadata (.ini) of each cell
    log/          what jobs printed
"""
import dataclasses
import json
import os
import re
import shlex


class FolderError(Exception):
    """A folder that does not belong to a run, or belongs to another one."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """A task of an array: one launch of one shape."""

    name: str
    nodes: int
    ranks_per_node: int
    launch: int
    options: tuple

    @property
    def line(self):
        """The line of plan.tsv, which jobs read."""
        return "\t".join([self.name, str(self.nodes), str(self.ranks_per_node), str(self.launch), *self.options])


@dataclasses.dataclass(frozen=True)
class State:
    """The last message of a job."""

    utc: str
    state: str
    job: str
    host: str
    why: str


@dataclasses.dataclass(frozen=True)
class Job:
    """role: cells, merge, report or outcome. tasks: in the form of --array, or empty. name: '' in folders of older versions. A
    controller that was set up anew gives the same numbers to other jobs, but not the same names."""

    role: str
    number: str
    tasks: str
    name: str = ""


def check_path(path):
    """Refuses paths with %, which Slurm replaces in the names of logs, and with characters that would break a line of our
    files."""
    if re.search(r"[%\\\x00-\x1f\x7f]", path):
        raise FolderError(f"--out: {path!r} has a %, a backslash or a control character in it")
    return path


def replace(path, text):
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


def settings_text(settings):
    """Assignments for bash."""
    lines = ["# Written by slurm/submit; jobs source it.",
             'if [ -f "$run/site.sh" ]; then source "$run/site.sh" >/dev/null; fi']
    for name, value in settings.items():
        if isinstance(value, (list, tuple)):
            lines.append(f"{name}=({' '.join(shlex.quote(str(word)) for word in value)})")
        else:
            lines.append(f"{name}={shlex.quote(str(value))}")
    return "\n".join([*lines, ""])


class Folder:
    """The folder of a run, which may not exist yet."""

    def __init__(self, path):
        self.path = check_path(os.path.abspath(path))

    def at(self, *parts):
        return os.path.join(self.path, *parts)

    def exists(self):
        return os.path.exists(self.at("record.json"))

    def make(self, record, settings, cells, copies):
        """Writes the folder, or refuses one with other contents. copies: name -> content."""
        if self.exists():
            old = self.record()
            other = sorted(key for key in {*record, *old} if record.get(key) != old.get(key))
            if other:
                raise FolderError(f"--out: {self.path} holds another run (other {', '.join(other)}): choose another folder")
        elif os.path.isdir(self.path) and os.listdir(self.path):
            raise FolderError(f"--out: {self.path} has something else in it: choose another folder")
        for name in ("cells", "log", "state"):
            os.makedirs(self.at(name), exist_ok=True)
        for name, content in copies.items():
            replace(self.at(name), content)
        replace(self.at("settings.sh"), settings_text(settings))
        replace(self.at("plan.tsv"), "".join(cell.line + "\n" for cell in cells))
        replace(self.at("record.json"), json.dumps(record, indent=1) + "\n")  # last, because it makes the folder that of a run

    def record(self):
        try:
            with open(self.at("record.json"), encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError) as error:
            raise FolderError(f"{self.path} is no folder of a run: {error}") from error

    def cells(self):
        out = []
        try:
            with open(self.at("plan.tsv"), encoding="utf-8") as file:
                for line in file.read().splitlines():
                    name, nodes, ranks, launch, *options = line.split("\t")
                    out.append(Cell(name, int(nodes), int(ranks), int(launch), tuple(options)))
        except (OSError, ValueError) as error:
            raise FolderError(f"{self.path} is no folder of a run: plan.tsv: {error}") from error
        return out

    def state(self, name):
        """The last complete line, or None."""
        try:
            with open(self.at("state", name + ".state"), encoding="utf-8", errors="replace") as file:
                lines = [line for line in file.read().split("\n") if line.count("\t") == 4]
        except OSError:
            return None
        return State(*lines[-1].split("\t")) if lines else None

    def jobs(self):
        """The jobs in the order in which they were submitted."""
        try:
            with open(self.at("jobs.tsv"), encoding="utf-8") as file:
                lines = [line.split("\t") for line in file.read().splitlines()]
        except OSError:
            return []
        return [Job(*line) for line in lines if len(line) in (3, 4)]

    def add_job(self, job):
        with open(self.at("jobs.tsv"), "a", encoding="utf-8") as file:
            file.write(f"{job.role}\t{job.number}\t{job.tasks}\t{job.name}\n")

    def todo(self, cells):
        """The numbers of the cells that are not done."""
        return [i for i, cell in enumerate(cells) if (state := self.state(cell.name)) is None or state.state != "done"]
