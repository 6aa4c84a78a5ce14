"""What an algorithm has the busiest rank do: messages, bytes on the wire, encoding and decoding, in units of the vector.

The same numbers as mpi_quant/plan/plans.cpp makes steps of and mpi_quant/advisor/predict.cpp counts. P is the number of ranks.

    algorithm             messages   sent           encoded   decoded       source
    ring                  2 (P-1)    2 (P-1)/P                              Patarasuk and Yuan 2009
    recursive_doubling    log2 P     log2 P                                 Thakur, Rabenseifner and Gropp 2005
    halving_doubling      2 log2 P   2 (P-1)/P                              Rabenseifner 2004
    direct                2 (P-1)    2 (P-1)/P w    1         2 - 1/P       Seide et al. 2014
    allgather             P-1        (P-1) w        1         P
    recursive_doubling    log2 P     log2 P w       log2 P    2 log2 P
    ring                  2 (P-1)    2 (P-1)/P w    1         2 - 1/P
    halving_doubling      2 log2 P   2 (P-1)/P w    1         2 - 1/P       the first three are dense, these compressed

hierarchical depends on the ranks per node too, which models do not vary: its points are fitted, but not folded to other ranks.
w is the encoded vector over the vector. Logarithms are rounded up: what ranks beyond a power of two add is left out.
"""
import dataclasses

SEGMENT_BYTES = 256 << 10  # of one chunk: mpi_quant/plan/layout.hpp; twice that of long vectors, then a 64th of a call at most
LATENCY_BYTES = 16 << 10  # mpi_quant/plan/plans.cpp, kLatencyBytes


@dataclasses.dataclass(frozen=True)
class Work:
    """messages: counted one after the other; moved, encoded, decoded: vectors; chunks: pieces of the vector that are reduced
    at a time, each in segments of SEGMENT_BYTES, which is what coding and sending overlap by."""

    messages: float
    moved: float
    encoded: float = 0.0
    decoded: float = 0.0
    chunks: int = 1


def rounds(ranks):
    """log2, rounded up; at least one."""
    return max(1, (int(ranks) - 1).bit_length())


DENSE = {
    "recursive_doubling": lambda p: Work(rounds(p), rounds(p)),
    "halving_doubling": lambda p: Work(2 * rounds(p), 2 * (p - 1) / p),
    "ring": lambda p: Work(2 * (p - 1), 2 * (p - 1) / p),
}

PLANS = {
    "direct": lambda p: Work(2 * (p - 1), 2 * (p - 1) / p, 1, 2 - 1 / p, p),
    "allgather": lambda p: Work(p - 1, p - 1, 1, p),
    "recursive_doubling": lambda p: Work(rounds(p), rounds(p), rounds(p), 2 * rounds(p)),
    "ring": lambda p: Work(2 * (p - 1), 2 * (p - 1) / p, 1, 2 - 1 / p, p),
    "halving_doubling": lambda p: Work(2 * rounds(p), 2 * (p - 1) / p, 1, 2 - 1 / p, p),
}


def choose_plan(size, ranks):
    """The plan of a method that names none, as choose_plan of mpi_quant/plan/plans.cpp: by bytes of the vector and ranks."""
    if ranks <= 2:
        return "allgather"
    if ranks <= 4:
        bound = LATENCY_BYTES * ranks // (ranks - 2)
    else:
        bound = LATENCY_BYTES * (2 * (ranks - 1) - rounds(ranks)) // (2 * rounds(ranks))
    return "direct" if size >= bound else "allgather" if ranks <= 4 else "recursive_doubling"


def plan_of(method, size, ranks):
    """Of a method with other ranks or another size: the plan that its name fixes, else the library's choice."""
    fixed = method.rpartition("/")[2] if "/" in method else ""
    return fixed if fixed in PLANS else choose_plan(size, ranks)


def share_alone(work, size):
    """Share of a call in which coding and sending cannot overlap, since it has only one segment to work on at a time."""
    return min(1.0, SEGMENT_BYTES * work.chunks / size)
