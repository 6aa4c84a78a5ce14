"""What an algorithm has the busiest rank do: rounds, messages, bytes on the wire, encoding and decoding, in units of the vector.

The numbers of the library's plans, and the rule that chooses one, are those of the library's model (mpi_quant/plan/cost.hpp).
mpiq_schedules.json has them for some numbers of ranks; between these they are interpolated. The dense algorithms of MPI are these:

    algorithm             rounds     sent
    ring                  2 (P-1)    2 (P-1)/P    Patarasuk and Yuan 2009
    recursive_doubling    log2 P     log2 P       Thakur, Rabenseifner and Gropp 2005
    halving_doubling      2 log2 P   2 (P-1)/P    Rabenseifner 2004

They send a message in each round. Logarithms are rounded up: what ranks beyond a power of two add is left out. hierarchical
depends on the ranks per node too, which models do not vary: its points are fitted, but not folded to other ranks.
"""
import dataclasses
import functools
import json
import os

import numpy as np

from mpiq_selection import PlotError

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpiq_schedules.json"), encoding="utf-8") as _file:
    _TABLE = json.load(_file)
SEGMENT_BYTES = _TABLE["segment_bytes"]  # of one chunk; twice that of long vectors, then a 64th of a call at most


@dataclasses.dataclass(frozen=True)
class Work:
    """rounds: of messages one after the other; messages: those of a rank; moved, encoded, decoded: vectors; chunks: pieces of
    the vector that are reduced at a time, each in segments of SEGMENT_BYTES; alone: what coding and sending do not hide of each other
    within such a piece, if both take as long. Between pieces they overlap."""

    rounds: float
    messages: float
    moved: float
    encoded: float = 0.0
    decoded: float = 0.0
    chunks: float = 1
    alone: float = 1

    def turns(self, share):
        """How many messages one after the other take as long, if `share` of the time of one is spent by the processors at its
        ends. Latencies of a round overlap, and the work of processors does not."""
        return (1 - share) * self.rounds + share * self.messages


def rounds(ranks):
    """log2, rounded up; at least one."""
    return max(1, (int(ranks) - 1).bit_length())


DENSE = {
    "recursive_doubling": lambda p: Work(rounds(p), rounds(p), rounds(p)),
    "halving_doubling": lambda p: Work(2 * rounds(p), 2 * rounds(p), 2 * (p - 1) / p),
    "ring": lambda p: Work(2 * (p - 1), 2 * (p - 1), 2 * (p - 1) / p),
}


@functools.lru_cache(maxsize=None)
def _work(plan, ranks):
    known = {int(p): row for p, row in _TABLE[plan].items()}
    if ranks > max(known):
        raise PlotError(f"{ranks} ranks: the table of what plans do ends at {max(known)}")
    return Work(*(float(np.interp(ranks, list(known), column)) for column in zip(*known.values())))


PLANS = {plan: functools.partial(_work, plan) for plan in _TABLE if plan not in ("columns", "segment_bytes", "choices")}


def choose_plan(size, ranks):
    """The plan of a method that names none: by bytes of the vector and ranks, those of the next smaller number in the table."""
    known = max((int(p) for p in _TABLE["choices"] if int(p) <= ranks), default=2)
    return next(plan for least, plan in reversed(_TABLE["choices"][str(known)]) if size >= least)


def plan_of(method, size, ranks):
    """Of a method with other ranks or another size: the plan that its name fixes, else the library's choice."""
    fixed = method.rpartition("/")[2] if "/" in method else ""
    return fixed if fixed in PLANS else choose_plan(size, ranks)


def share_alone(work, size):
    """Share of coding or sending, whichever is shorter, that the other does not hide: that of one piece of the vector among all. The
    library's model (cost_of) is the first piece, and for all others coding or sending, whichever takes longer: the same."""
    return work.alone * min(1.0, SEGMENT_BYTES * work.chunks / size)
