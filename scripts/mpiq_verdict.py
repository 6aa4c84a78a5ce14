"""What the paired speed-ups of a panel recommend: which method from which size on, or none."""
import dataclasses
import re

import numpy as np

import mpiq_results
from mpiq_plots import good, series

ROUNDING = 1e-6  # smaller relative errors come from sums of floats, not from a codec
LARGE_ERROR = 0.1  # from here on a result by itself is wrong: the advice names its condition
SUMMING_RULES = ("none", "carry", "decay")  # memory rules with which a result is the sum of its call, up to what is left out
COLUMNS = ("speedup", "speedup_lo", "speedup_hi")


@dataclasses.dataclass
class Candidate:
    """A method that is faster than the baseline, with 95 % certainty, at every measured size of a run of sizes."""

    method: str
    points: list  # the points of the run as summarise makes them, each with `error`
    first: int
    last: int
    elsewhere: list  # sizes outside of the run at which it wins too

    @property
    def errors(self):
        return [p["error"] for p in self.points if np.isfinite(p["error"])]


@dataclasses.dataclass
class Verdict:
    """kind: 'wins' (best: the recommended Candidate, which may or may not win up to the largest size), 'loses', or 'unknown'
    without good rows."""

    kind: str
    sizes: list
    best: Candidate = None
    others: list = dataclasses.field(default_factory=list)
    left_out: int = 0
    set_aside: list = dataclasses.field(default_factory=list)  # methods of which a single sum is not asked

    @property
    def reaches_the_largest(self):
        return self.best is not None and self.best.last == self.sizes[-1]


def needs_earlier_calls(method):
    """Whether a result is made of earlier calls, as with memory=momentum and memory=ef21. A sweep gives such a method the same
    vector in every call, which says nothing of its use."""
    rule = re.search(r" memory=(\w+)", method)
    return bool(rule) and rule[1] not in SUMMING_RULES


def wins(point):
    return point["drawn"] == "line" and point["low"] > 1


def runs(points, sizes):
    """The runs of neighbouring measured sizes at which a method wins. A size without a good point of the method ends a run."""
    by_size, run = {p["bytes"]: p for p in points}, []
    for size in sizes:
        if size in by_size and wins(by_size[size]):
            run.append(by_size[size])
        elif run:
            yield run
            run = []
    if run:
        yield run


def candidate(method, points, sizes, errors):
    """The best run of a method: the one that ends at the largest size, otherwise the longest; None if the method never wins."""
    found = list(runs(points, sizes))
    if not found:
        return None
    run = max(found, key=lambda r: (r[-1]["bytes"] == sizes[-1], len(r), r[-1]["bytes"]))
    inside = [p["bytes"] for p in run]
    elsewhere = [p["bytes"] for r in found for p in r if p["bytes"] not in inside]
    return Candidate(method, [{**p, "error": errors.get((method, p["bytes"]), np.nan)} for p in run], inside[0], inside[-1],
                     elsewhere)


def of_panel(points, baselines):
    """The verdict on the rows of one panel. baselines: the methods that speed-ups are relative to."""
    compared = ~mpiq_results.dense(points) & ~np.isin(points["method"], baselines) & np.isfinite(points["speedup"])
    aside = sorted({method for method in points["method"][compared] if needs_earlier_calls(method)})
    mine = points[compared & ~np.isin(points["method"], aside)]
    quotable = mine[good(mine)]
    left_out = len(mine) - len(quotable)
    if not len(quotable):
        return Verdict("unknown", [], left_out=left_out, set_aside=aside)
    sizes = [int(size) for size in sorted(set(quotable["bytes"]))]
    errors = {(method, p["bytes"]): p["value"] for method, found in series(quotable, *["err_rel_l2"] * 3, "bytes").items()
              for p in found}
    found = [candidate(method, found, sizes, errors) for method, found in series(quotable, *COLUMNS, "bytes").items()]
    found = [c for c in found if c]
    if not found:
        return Verdict("loses", sizes, left_out=left_out, set_aside=aside)
    found.sort(key=lambda c: (-c.last, -c.points[-1]["value"]))
    return Verdict("wins", sizes, found[0], found[1:], left_out, aside)


def bytes_words(size):
    return mpiq_results.bytes_label(size)


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


def range_words(verdict, found):
    """'from 1 MiB on'; if it ends before the largest size, 'from 1 MiB to 4 MiB' or 'at 1 MiB'."""
    if len(verdict.sizes) == 1:
        return f"at {bytes_words(found.first)}, the only size measured"
    if found.last == verdict.sizes[-1]:
        return f"from {bytes_words(found.first)} on"
    if found.first == found.last:
        return f"at {bytes_words(found.first)} only"
    return f"from {bytes_words(found.first)} to {bytes_words(found.last)} only"


def sentences(verdict, base):
    """The verdict in words: the first sentence is the advice."""
    out = advice(verdict, base)
    if verdict.set_aside:
        out.append(f"This is about single sums. Not judged: {', '.join(verdict.set_aside)}. Their results are made of earlier calls too, "
                   "and all calls here have the same vector. Compare them by training, with mpiq-train.")
    return out


def advice(verdict, base):
    if verdict.kind == "unknown":
        why = (f"all {verdict.left_out} compared rows are invalid or have more ranks than cores" if verdict.left_out else
               "no row of a compressed method has a speed-up")
        return [f"No verdict: {why}.", f"Until it is measured, keep {base}."]
    span = " to ".join(dict.fromkeys(bytes_words(s) for s in (verdict.sizes[0], verdict.sizes[-1])))
    if verdict.kind == "loses":
        return [f"Keep {base}: at no measured size ({span}) is a compressed method faster with 95 % certainty."]
    best = verdict.best
    out = [f"{condition_words(best)} {best.method} {range_words(verdict, best)}: expected speed-up {gain_words(best)} [95 %], "
           f"{error_words(best)}."]
    if best.first > verdict.sizes[0]:
        out.append(f"Below that keep {base}.")
    if not verdict.reaches_the_largest:
        out.append(f"Above {bytes_words(best.last)} keep {base}.")
    if best.elsewhere:
        out.append(f"It is faster at {', '.join(bytes_words(s) for s in best.elsewhere)} too, but not in between.")
    if len(verdict.sizes) > 1:
        out.append(f"Nothing was measured below {bytes_words(verdict.sizes[0])} or above {bytes_words(verdict.sizes[-1])}.")
    return out
