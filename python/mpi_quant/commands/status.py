"""Says how far a run is that mpiq submit started: cells done, running, waiting and failed, with reasons.

Exits 0 (all is well so far), 1 (something failed or was cut off), 2 (usage).
"""
import collections
import shlex

from mpi_quant.commands import command_line
from mpi_quant.slurm import batch
from mpi_quant.slurm.run_folder import Failed, Folder, parser_of, run

DONE, RUNNING, WAITING, FAILED, ENDED, UNKNOWN = "done", "running", "waiting", "failed", "cut off", "unknown"


def part(folder, name, job, queue, job_name):
    """State and reason of a cell, or of the job after the cells. Slurm's word counts for a job that waits, then the job's own, then
    Slurm's again. queue: None if Slurm does not answer."""
    if not job:
        return WAITING, "not submitted"
    said, by, why = folder.state(name)
    said = said if by == job else ""  # the word of an earlier submission does not explain this one
    if queue is None:
        return (said, why) if said in (DONE, FAILED) else (UNKNOWN, f"its last word: {said or 'none'}")
    state, reason, left, nodes = queue.get(job, ("", "", "", ""))
    if state == "PENDING":
        return WAITING, f"{why} (Slurm: {reason})" if said == "left" else reason
    if said in (DONE, FAILED):
        return said, why
    return (RUNNING, f"on {nodes}, {left} left") if state else (ENDED, batch.fate(job, job_name))


def details(cells, jobs, all_cells):
    """A line for each cell that runs or is in trouble, and one for each reason to wait; or a line for each cell."""
    yield from (f"  {name:<28} {state:<8} {jobs.get(name, ''):<12} {why}".rstrip() for name, (state, why) in cells.items()
                if all_cells or state not in (DONE, WAITING))
    reasons = collections.Counter(why for state, why in cells.values() if state == WAITING and not all_cells)
    yield from (f"  {number} waiting: {why}" for why, number in reasons.most_common())


def look(path, all_cells):
    """Prints how far a run is; returns 1 if it is in trouble."""
    folder = Folder(path)
    record, jobs = folder.record(), folder.jobs()
    silence = queue = None
    try:
        queue = batch.queue(record["job_name"])
    except Failed as problem:
        silence = problem
    found = {name: part(folder, name, jobs.get(name), queue, record["job_name"])
             for name in (*(cell.name for cell in folder.cells()), "finish")}
    states, (state, why) = {state for state, _ in found.values()}, found.pop("finish")
    counts = collections.Counter(state for state, _ in found.values())
    print(f"{folder.path}\ncells: {', '.join(f'{counts[s]} {s}' for s in (DONE, RUNNING, WAITING, FAILED, ENDED, UNKNOWN) if s in counts)}")
    print("".join(line + "\n" for line in details(found, jobs, all_cells)), end="")
    print(f"finish: {state}{f' ({why})' if why else ''}")
    if states & {FAILED, ENDED} or not jobs:
        print(f"logs: {folder.path / 'log'}\nto go on: {record['go_on']}")
    elif states == {DONE}:
        print(f"to fetch it: {command_line.other('collect')} {shlex.quote(str(folder.path))}")
    elif not silence:
        print("to stop it: " + shlex.join(batch.cancel_command(record["job_name"])))
    if silence and UNKNOWN in states:
        print(f"Slurm does not answer, so this is what the folder knows. {silence}")
    return int(bool(states & {FAILED, ENDED, UNKNOWN}))


def main(words):
    parser = parser_of(__doc__)
    parser.add_argument("run", metavar="RUN", help=command_line.named("folder that mpiq submit made"))
    parser.add_argument("--cells", action="store_true", help="a line for each cell, not only for those in trouble")
    options = parser.parse_args(words)
    run(parser, look, options.run, options.cells)
