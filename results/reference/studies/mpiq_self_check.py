"""Is the harness honest? These functions compute the answer of scripts/self_check from result files and from the times of the
bare loop."""
import dataclasses
import math
import statistics

import mpiq_file
from mpiq_results import ResultsError

BASE, AGAIN = b"mpi", b"mpi#2"
LEAST_GOOD = 0.95  # share of the intervals of equal things that must contain 1
MOST_CLOCK = 0.01  # share of a median that reading the clock may take


@dataclasses.dataclass
class Verdict:
    """A line of the table."""

    what: str
    found: str
    wanted: str
    good: bool


def same_against_same(files):
    """Whether intervals contain 1 where a call was compared with itself. A point without an interval counts as bad."""
    inside, outside = 0, []
    for file in files:
        for row in file.points:
            if row["method"] != AGAIN:
                continue
            if row["status"] == b"ok" and row["speedup_lo"] <= 1 <= row["speedup_hi"]:
                inside += 1
            else:
                outside.append(f"{row['bytes']} B: [{row['speedup_lo']:.4f}, {row['speedup_hi']:.4f}]")
    total = inside + len(outside)
    if total == 0:
        raise ResultsError(f"no rows of {AGAIN.decode()}: was it among the methods?")
    return Verdict("intervals of `mpi` against itself that contain 1", f"{inside} of {total}",
                   f"at least {math.ceil(LEAST_GOOD * total)}", inside >= LEAST_GOOD * total), outside


def clock_share(files):
    """The largest share of a row's median that is reading the clock: twice for each timed batch of calls."""
    shares = []
    for file in files:
        for row, run in zip(file.points, file.run_of):
            if row["status"] != b"ok":
                continue
            batch = max(1, int(row["batch"]))
            shares.append(2 * float(file.runs[run].attrs["clock_cost_s"]) / (batch * row["t_median_s"]))
    largest = max(shares, default=math.nan)
    return Verdict("reading the clock, of the median of a row, at most", f"{100 * largest:.2f} %", f"less than {100 * MOST_CLOCK:.0f} %",
                   largest < MOST_CLOCK)


def against_bare(bytes_, pairs):
    """pairs: medians of launches, (mpiq-bench, bare loop). There is no bound, because launches themselves differ by some per
    cent."""
    ratios = sorted(harness / bare for harness, bare in pairs)
    return Verdict(f"`mpi` by mpiq-bench over the bare loop, {bytes_} B, {len(ratios)} pairs of launches",
                   f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})", "to be looked at", True)


def median_of(path):
    """The median seconds of MPI_Allreduce in a file of one point."""
    rows = [row for row in mpiq_file.load(path).points if row["method"] == BASE and row["status"] == b"ok"]
    if len(rows) != 1:
        raise ResultsError(f"{path}: {len(rows)} rows of {BASE.decode()} where one was expected")
    return float(rows[0]["t_median_s"])


def table(verdicts, outside):
    lines = ["| what | found | wanted | |", "|---|---|---|---|"]
    lines += [f"| {v.what} | {v.found} | {v.wanted} | {'' if v.wanted == 'to be looked at' else 'ok' if v.good else '**not ok**'} |"
              for v in verdicts]
    if outside:
        lines += ["", "Intervals without 1:", "", *(f"- {text}" for text in outside)]
    return "\n".join(lines) + "\n"
