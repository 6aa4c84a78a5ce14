"""What the paired speed-ups of a panel recommend: which method from which size on, or none.

A method is worth it at a size where the lower end of its speed-up is at least LEAST_GAIN. The page of mpiq report and the table of
README.md (scripts/readme_tables) advise it from the size on from which it is worth it at all measured sizes. The rules of mpiq policy
have an upper end too. Of a method that is faster at a single size in between, or by less, nothing is advised: from launch to launch such
a gain may be gone. No verdict is made of a busy machine, and a wide interval wins nothing.
"""
import dataclasses
import re

import numpy as np

from mpi_quant.figures.register import good, series
from mpi_quant.results import reader
from mpi_quant.results.schema import SIMULATED

ROUNDING = 1e-6  # smaller relative errors come from sums of floats, not from a codec
LARGE_ERROR = 0.1  # from here on a single result is wrong: the advice names its condition
SUMMING_RULES = ("none", "carry", "decay")  # memory rules with which a result is the sum of its call, up to what is left out
LEAST_GAIN = 1.2  # the lower end of a speed-up that is advised
MOST_WIDTH = 2.0  # the upper end of an interval over the lower one
MOST_LOAD = 1.5  # load of a host before the run, over its cores. Launches of the benchmark one after the other make about 1
COLUMNS = ("speedup", "speedup_lo", "speedup_hi")


@dataclasses.dataclass
class Candidate:
    """A method that is faster than the baseline by LEAST_GAIN, with 95 % certainty, at every measured size from `first` on."""

    method: str
    points: list  # of these sizes, as summarise makes them, each with `error`
    first: int
    last: int

    @property
    def errors(self):
        return [p["error"] for p in self.points if np.isfinite(p["error"])]


@dataclasses.dataclass
class Verdict:
    """kind: 'wins' (best: the recommended Candidate), 'loses', or 'unknown' without rows that can be judged; `why` says what is wrong with
    them."""

    kind: str
    sizes: list
    best: Candidate | None = None
    others: list = dataclasses.field(default_factory=list)
    left_out: int = 0
    set_aside: list = dataclasses.field(default_factory=list)  # methods of which a single sum is not asked
    why: str = ""
    wide: list = dataclasses.field(default_factory=list)  # (method, point) that would win if its interval were not so wide
    smaller: list = dataclasses.field(default_factory=list)  # (method, points) of sizes at which no method is recommended, but is worth it


def needs_earlier_calls(method):
    """Whether a result is made of earlier calls, as with memory=momentum and memory=ef21. A sweep gives such a method the same
    vector in every call, which says nothing of its use."""
    rule = re.search(r" memory=(\w+)", method)
    return bool(rule) and rule[1] not in SUMMING_RULES


def wins(point):
    """Whether a point is called faster, in tables."""
    return point["drawn"] == "line" and point["low"] > 1 and not is_wide(point)


def is_wide(point):
    return not point["high"] <= MOST_WIDTH * point["low"]


def is_worth(point):
    """Whether a point speaks for advice."""
    return wins(point) and point["low"] >= LEAST_GAIN


def ranges(points, sizes):
    """The ranges of measured sizes at all of which a method is worth it, as lists of its points. A size without a good point of the
    method ends a range, and one size alone is no range if several were measured."""
    by_size, found = {p["bytes"]: p for p in points}, [[]]
    for size in sizes:
        if size in by_size and is_worth(by_size[size]):
            found[-1].append(by_size[size])
        else:
            found.append([])
    return [points for points in found if len(points) >= min(2, len(sizes))]


def candidate(method, points, sizes):
    """The method from the smallest size on from which it is worth it at all measured sizes; None if there is none."""
    for found in ranges(points, sizes):
        if found[-1]["bytes"] == sizes[-1]:
            return Candidate(method, found, found[0]["bytes"], found[-1]["bytes"])
    return None


def load_words(files):
    """Why nothing is concluded from files whose hosts had other work, by the load before the run; '' if they had none."""
    for attrs in files:
        for host, load, cores in attrs.get("loads", ()):
            if cores > 0 and load > MOST_LOAD * cores:
                return f"host {host} was busy: its load was {load:.3g} on {cores} cores when the measurement began"
    return ""


@dataclasses.dataclass
class Judged:
    """What the rows of one panel say of each method. lines: method -> its points by size, as summarise makes them, each with `error`. sizes:
    all that count. why: what forbids a verdict."""

    lines: dict = dataclasses.field(default_factory=dict)
    sizes: list = dataclasses.field(default_factory=list)
    left_out: int = 0
    set_aside: list = dataclasses.field(default_factory=list)
    why: str = ""

    def wide(self):
        """(method, point) that would win if its interval were not so wide."""
        return [(method, p) for method, line in self.lines.items() for p in line
                if p["drawn"] == "line" and np.isfinite(p["low"]) and is_wide(p) and p["value"] >= LEAST_GAIN]


def judge(points, baselines, files=(), compared=None):
    """Judged of the rows of one panel. baselines: the methods that speed-ups are relative to. files: the attributes of the files of the
    rows. compared: which rows are judged; if it is None, rows of compressed methods."""
    known = (~reader.dense(points) if compared is None else compared) & ~np.isin(points["method"], baselines) & np.isfinite(points["speedup"])
    aside = sorted({method for method in points["method"][known] if needs_earlier_calls(method)})
    mine = points[known & ~np.isin(points["method"], aside)]
    quotable = mine[good(mine)]
    left_out = len(mine) - len(quotable)
    if not len(quotable):
        virtual = len(mine) > 0 and (mine["status"] == SIMULATED).all()
        why = "all rows are simulated, and their times are virtual" if virtual else \
            f"all {left_out} compared rows are invalid or have more ranks than cores" if left_out else f"no row {'of a compressed method' if compared is None else 'that is compared'} has a speed-up"
        return Judged(left_out=left_out, set_aside=aside, why=why)
    errors = {(method, p["bytes"]): p["value"] for method, found in series(quotable, *["err_rel_l2"] * 3, "bytes").items() for p in found}
    lines = {method: [{**p, "error": errors.get((method, p["bytes"]), np.nan)} for p in line]
             for method, line in series(quotable, *COLUMNS, "bytes").items()}
    return Judged(lines, [int(size) for size in sorted(set(quotable["bytes"]))], left_out, aside, load_words(files))


def of_panel(points, baselines, files=()):
    """The verdict on the rows of one panel; parameters as in judge."""
    judged = judge(points, baselines, files)
    if judged.why:
        return Verdict("unknown", [], left_out=judged.left_out, set_aside=judged.set_aside, why=judged.why)
    rest = {"left_out": judged.left_out, "set_aside": judged.set_aside, "wide": judged.wide()}
    found = [c for c in (candidate(method, line, judged.sizes) for method, line in judged.lines.items()) if c]
    found.sort(key=lambda c: -c.points[-1]["value"])
    ends = [(method, [p for p in part if not found or p["bytes"] < found[0].first]) for method, line in judged.lines.items() for part in ranges(line, judged.sizes)]
    rest["smaller"] = [(method, part) for method, part in ends if part]
    if found:
        return Verdict("wins", judged.sizes, found[0], found[1:], **rest)
    return Verdict("unknown" if rest["wide"] else "loses", judged.sizes, why=wide_words(rest["wide"]), **rest)


def wide_words(wide):
    """Why nothing is concluded where intervals are wide; '' if none is."""
    if not wide:
        return ""
    method, p = max(wide, key=lambda pair: pair[1]["value"])
    return (f"intervals are too wide, such as {ratio_words(p)} of {method} at {bytes_words(p['bytes'])}: more repetitions, or a machine without "
            "other work")


def bytes_words(size):
    return reader.bytes_label(size)


def number(value):
    """Three digits, without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def ratio_words(point):
    return f"{number(point['value'])} [{number(point['low'])}, {number(point['high'])}]"


def error_words(candidate):
    """'relative L2 error of one call 0.60' or '0.0017 to 0.0018'."""
    ends = list(dict.fromkeys(f"{e:.2g}" for e in (min(candidate.errors), max(candidate.errors)))) if candidate.errors else []
    exact = ", no more than rounding" if ends and max(candidate.errors) < ROUNDING else ""
    return f"relative L2 error of one call {' to '.join(ends)}{exact}" if ends else "error not measured"


def condition_words(candidate):
    """'Use'; or for what use alone, if a single result may be that wrong or nothing is known of its error."""
    if not candidate.errors:
        return "Where errors are known to do no harm, use"
    if max(candidate.errors) < LARGE_ERROR:
        return "Use"
    return "Only where what one call leaves out is added to the next (error feedback, as for gradients), use"


def gain_words(candidate):
    """'2 [1.9, 2.1] at 64 KiB to 27 [26, 28] at 64 MiB'."""
    ends = [candidate.points[0], candidate.points[-1]][:len(candidate.points)]
    return " to ".join(f"{ratio_words(p)} at {bytes_words(p['bytes'])}" for p in ends)


def smaller_words(verdict):
    """'onebit at 64 KiB to 256 KiB, bf16 at 1 MiB': the rules of mpiq policy have these sizes too."""
    return ", ".join(f"{method} at " + " to ".join(dict.fromkeys(bytes_words(p["bytes"]) for p in (points[0], points[-1]))) for method, points in verdict.smaller)


def range_words(verdict, found):
    """'from 1 MiB on'."""
    if len(verdict.sizes) == 1:
        return f"at {bytes_words(found.first)}, the only size measured"
    return f"from {bytes_words(found.first)} on"


def sentences(verdict, base):
    """The verdict in words: the first sentence is the advice."""
    out = advice(verdict, base)
    if verdict.set_aside:
        out.append(f"This is about single sums. Not judged: {', '.join(verdict.set_aside)}. Their results are made of earlier calls too, "
                   "and all calls here have the same vector. Compare them by training, with mpiq-train.")
    return out


def advice(verdict, base):
    if verdict.kind == "unknown":
        return [f"No verdict: {verdict.why}.", f"Until it is measured, keep {base}."]
    span = " to ".join(dict.fromkeys(bytes_words(s) for s in (verdict.sizes[0], verdict.sizes[-1])))
    if verdict.kind == "loses":
        return [f"Keep {base}: from no measured size on ({span}) is a compressed method at least {LEAST_GAIN:g} times as fast with 95 % certainty.",
                *([f"At some sizes it is: {smaller_words(verdict)}."] if verdict.smaller else [])]
    best = verdict.best
    out = [f"{condition_words(best)} {best.method} {range_words(verdict, best)}: expected speed-up {gain_words(best)} [95 %], "
           f"{error_words(best)}."]
    if best.first > verdict.sizes[0]:
        out.append(f"Below that keep {base}" + (f", except where this is worth it: {smaller_words(verdict)}." if verdict.smaller else "."))
    if verdict.wide:
        named = sorted({f"{method} at {bytes_words(p['bytes'])}" for method, p in verdict.wide})
        out.append(f"Not judged, because their intervals are too wide: {', '.join(named)}.")
    if len(verdict.sizes) > 1:
        out.append(f"Nothing was measured below {bytes_words(verdict.sizes[0])} or above {bytes_words(verdict.sizes[-1])}.")
    return out
