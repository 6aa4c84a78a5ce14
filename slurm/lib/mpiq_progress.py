"""How far a run is: what its jobs wrote, and what Slurm says about jobs that wrote nothing."""
import collections
import dataclasses
import re
import shlex

import mpiq_batch as batch

DONE, RUNNING, WAITING, FAILED, ENDED = "done", "running", "waiting", "failed", "cut off"
STEPS = ("merge", "report")
# Parts of those reasons of Slurm that waiting does not remove.
HOPELESS = ("PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints", "InvalidAccount", "InvalidQOS", "PartitionDown",
            "PartitionInactive", "DependencyNeverSatisfied", "JobHeld")
NEVER = ": does not begin unless something is changed"


@dataclasses.dataclass(frozen=True)
class Part:
    """A cell, or a job after the cells: its state, its last job, and why."""

    name: str
    state: str
    job: str
    why: str


@dataclasses.dataclass(frozen=True)
class Progress:
    """All parts of a run. link: the name of its result file."""

    cells: list
    steps: list

    def trouble(self):
        return [part for part in (*self.cells, *self.steps) if part.state in (FAILED, ENDED)]

    def finished(self):
        return all(part.state == DONE for part in (*self.cells, *self.steps))


def in_tasks(task, tasks):
    """Whether 5 is in '0-2,5'."""
    return any(int(first) <= task <= int(last or first) for first, last in re.findall(r"(\d+)(?:-(\d+))?", tasks))


def last_job(jobs, role, task=None):
    found = [job for job in jobs if job.role == role and (task is None or in_tasks(task, job.tasks))]
    return found[-1] if found else None


def part(name, job, task, state, queue):
    """Slurm's state counts for a queued job; the job's own word counts for one that has ended."""
    if job is None:
        return Part(name, DONE if state and state.state == "done" else WAITING, "", "not submitted")
    label = f"{job.number}_{task}" if task else job.number
    queued = queue.get((job.number, task))
    if queued:
        if queued.state == "PENDING":
            why = queued.reason + (f"; {state.why}" if state and state.state == "left" else "")
            return Part(name, WAITING, label, why)
        return Part(name, RUNNING, label, f"on {queued.nodes}, {queued.left} left")
    # A message of an earlier submission does not explain this one.
    current = state is not None and state.job == label
    if state and state.state == "done":
        return Part(name, DONE, label, "")
    if current and state.state == "failed":
        return Part(name, FAILED, label, state.why)
    return Part(name, ENDED, label, batch.fate(job, task))


def look(folder, ignore_job=""):
    """ignore_job: the outcome job itself, which asks."""
    folder.record()
    jobs = folder.jobs()
    queue = batch.queue([job for job in jobs if job.number != ignore_job])
    cells = [part(cell.name, last_job(jobs, "cells", i), str(i), folder.state(cell.name), queue)
             for i, cell in enumerate(folder.cells())]
    steps = [part(role, last_job(jobs, role), "", folder.state(role), queue) for role in STEPS]
    return Progress(cells, steps)


def summary(parts):
    counts = {state: sum(p.state == state for p in parts) for state in (DONE, RUNNING, WAITING, FAILED, ENDED)}
    return ", ".join(f"{number} {state}" for state, number in counts.items() if number) or "none"


def reasons(parts):
    """The reasons why cells wait, in Slurm's words, the most frequent first; [] if none waits."""
    found = collections.Counter(p.why for p in parts if p.state == WAITING)
    return [f"  {number} waiting: {why}{NEVER if any(word in why for word in HOPELESS) else ''}"
            for why, number in found.most_common()]


def line(p):
    return f"  {p.name:<28} {p.state:<8} {p.job:<12} {p.why}".rstrip()


def lines(folder, found, all_cells):
    """The text of slurm/status and of outcome.txt."""
    out = [f"{folder.path}", f"cells: {summary(found.cells)}"]
    shown = found.cells if all_cells else [p for p in found.cells if p.state not in (DONE, WAITING)]
    out += [line(p) for p in shown]
    out += [] if all_cells else reasons(found.cells)
    out += [f"{p.name}: {p.state}{f' ({p.why})' if p.why else ''}" for p in found.steps]
    if found.trouble() or not folder.jobs():
        out += ["logs: " + folder.at("log"), "to go on: " + go_on(folder)]
    elif not found.finished():
        numbers = " ".join(dict.fromkeys(job.number for job in folder.jobs()))
        out += [f"to stop it: scancel {numbers}"]
    else:
        out += [f"to fetch it: slurm/collect {shlex.quote(folder.path)}"]
    return out


def go_on(folder):
    try:
        with open(folder.at("go_on.txt"), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return "slurm/submit as before"
