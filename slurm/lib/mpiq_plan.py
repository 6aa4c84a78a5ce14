"""What slurm/submit would start: shapes (nodes x ranks per node), cells, their order, time and cost. It starts nothing."""
import dataclasses
import itertools
import math
import re

import mpiq_sweep as sweeps
from mpiq_folder import Cell

MOST_CELLS = 100000


class PlanError(Exception):
    """No plan can be made from the request."""


@dataclasses.dataclass(frozen=True)
class Array:
    """Cells first to last of the plan, all with the same number of nodes."""

    nodes: int
    ranks_per_node: int  # the largest of its cells
    first: int
    last: int


def numbers(text, where):
    """'1-64': 1, 2, 4, ..., 64, and the end if it is not a power of two times the beginning. '2,3,8-32': the numbers of all
    parts. They come in order, each once."""
    found = set()
    for word in text.split(","):
        match = re.fullmatch(r"([1-9][0-9]{0,5})(?:-([1-9][0-9]{0,5}))?", word.strip())
        if not match or match[2] and int(match[2]) < int(match[1]):
            raise PlanError(f"{where}: '{word}' is neither a positive number nor a range such as 1-64")
        first, last = int(match[1]), int(match[2] or match[1])
        found |= {first << i for i in range((last // first).bit_length())} | {last}
    return sorted(found)


def seconds(text, where):
    """A time limit as Slurm writes it: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S."""
    match = re.fullmatch(r"(?:(\d{1,3})-)?(\d{1,5})(?::(\d{1,2}))?(?::(\d{1,2}))?", text)
    if not match:
        raise PlanError(f"{where}: '{text}' is no time such as 30, 1:30:00 or 2-12:00")
    days, parts = match[1], [int(part) for part in match.groups()[1:] if part is not None]
    if days is not None:
        hours, minutes, rest = (parts + [0, 0])[:3]
    elif len(parts) == 3:
        hours, minutes, rest = parts
    else:
        hours, minutes, rest = 0, *(parts + [0])[:2]
    total = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + rest
    if total < 60:
        raise PlanError(f"{where}: '{text}': a minute at least")
    return total


def limit_for(estimate_s):
    """The time limit of a cell that is planned to take this many seconds: half as much again, plus the harness's margin of a
    minute, in steps of five minutes."""
    return math.ceil((1.5 * estimate_s + 120) / 300) * 300


def words_of(varied):
    """The options of [launch.vary]. Each cell has one value of each."""
    return list(itertools.product(*[[(key, value) for value in values] for key, values in varied.items()]))


def cells(nodes, ranks_per_node, launches, varied, seed, least_ranks):
    """The cells in the order of the plan: sorted by nodes, and shuffled within, so that drift over time does not look like a
    difference."""
    out, names = [], set()
    for n in nodes:
        group = []
        for m in ranks_per_node:
            if n * m < least_ranks:
                continue
            for combination in words_of(varied):
                words = [re.sub(r"[^\w.]+", "_", str(value)) for _, value in combination]
                stem = sweeps.unused("-".join([f"{n}x{m}", *words])[:80], names)
                options = tuple(f"--{key}={value}" for key, value in combination)
                group += [Cell(f"{stem}-{i}", n, m, i, options) for i in range(launches)]
        out += sweeps.shuffled(group, f"{seed} {n}")
        if len(out) > MOST_CELLS:
            raise PlanError(f"more than {MOST_CELLS} cells")
    if not out:
        raise PlanError(f"no shape has {least_ranks} ranks or more: --nodes, --ranks-per-node")
    for cell in out:
        if any(re.search(r"[\x00-\x1f\x7f]", option) for option in cell.options):
            raise PlanError(f"{cell.name}: a control character in its options")
    return out


def arrays(planned):
    """One array for each number of nodes. The tasks of an array are line numbers of the plan."""
    out, first = [], 0
    for nodes, group in itertools.groupby(planned, lambda cell: cell.nodes):
        group = list(group)
        out.append(Array(nodes, max(cell.ranks_per_node for cell in group), first, first + len(group) - 1))
        first += len(group)
    return out


def task_list(tasks):
    """[0, 1, 2, 5] -> '0-2,5', the form of --array."""
    out = []
    for _, run in itertools.groupby(enumerate(sorted(tasks)), lambda pair: pair[1] - pair[0]):
        run = [task for _, task in run]
        out.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]))
    return ",".join(out)


def node_hours(todo, seconds_each):
    return sum(cell.nodes for cell in todo) * seconds_each / 3600
