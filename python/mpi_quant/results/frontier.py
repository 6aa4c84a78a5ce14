"""What scripts/frontier measures, and which methods are on a frontier: no other method has both a smaller error and a smaller cost. The
results of all recorded steps are added; the error is relative to the exact sum. The cost is the bytes of a call, or its time on a link.
It needs only Python itself."""
import csv
import dataclasses
import itertools
import math
import os
import re

LINKS = ("shm", "lab-10gbit", "lab-1gbit")
BYTES = "bytes"
COSTS = (BYTES, *LINKS)
EQUAL = 1.02  # costs whose ratio is nearer to 1 count as equal
ERRORS, TIMES, RATES = "errors.csv", "times.csv", "rates.csv"
ERROR_COLUMNS = ("method", "data", "elements", "row", "ranks", "calls", "bytes", "error", "debt", "first_error")
RATE_COLUMNS = ("method", "encode_ns", "decode_ns")
TIME_COLUMNS = ("method", "data", "link", "launch", "calls", "t_median_s", "t_lo_s", "t_hi_s", "oversubscribed")


class FrontierError(Exception):
    """Files that cannot be used; the message names them and says why."""


def settings(codec, **params):
    """The words of a codec with all combinations of these values; None leaves a parameter out."""
    for values in itertools.product(*params.values()):
        given = [f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in zip(params, values) if value is not None]
        yield f"{codec}({','.join(given)})" if given else codec


SPLITS = (None, "zero")
# What is compared. A value that is a codec's preset is left out, because its text would be the codec's name
# alone.
VECTORS = (
    "mpi",
    *settings("onebit", block=(None, 32, 64, 128, 256, 512, 1024, 4096), split=SPLITS),
    *settings("onebit", means=("tensor",), split=SPLITS),
    *settings("threshold", quantile=(0.5, 0.75, 0.875, 0.9375, 0.96875, 0.984375, 0.99, 0.995, 0.999, 0.9999)),
    *settings("adaptive", pi=(2, 3, 4, 6, 8, 12, 16, 24, None, 48, 64, 128, 256, 512, 1024, 4096), signs=(None, "separate")),
    *settings("adaptive", pi=(4, 8, 16, None, 128), block=(256, 1024, 4096, 65536)),
    *settings("adaptive", pi=(8, None, 128), search=("approx", "dryden2016")),
    *settings("topk", k=(0.0001, 0.0003, 0.001, 0.003, None, 0.03, 0.1, 0.2)),
    *settings("topk", k=(0.001, None, 0.03), block=(4096,)),
    *settings("adacomp", bin=(8, 12, 16, 25, None, 100, 200, 500, 1000, 4000)),
    *settings("fft", keep=(0.01, 0.02, 0.05, 0.1, None, 0.3, 0.5)),
    *settings("fft", keep=(0.02, 0.05, None, 0.3), bits=(5, 6), man=(2,)),
    *settings("int8", block=(None, 32, 64, 1024), scale=(None, "minmax")), "int8(round=stochastic)",
    *settings("int4", block=(None, 32, 64, 1024), scale=(None, "minmax")), "int4(round=stochastic)",
    *settings("qsgd", bits=(2, 3, None, 5, 6, 7, 8)),
    *settings("qsgd", bits=(2, 3, None), block=(32, 128)), *settings("qsgd", bits=(3, None, 8), norm=("l2",)),
    *settings("terngrad", clip=(None, 1.0, 2.5)), *settings("terngrad", block=(64, 4096)),
    "natural", "mxfp8", "mxfp8(format=e5m2)", "mxfp6", "mxfp6(format=e3m2)", "mxfp4", "nvfp4",
    "minifloat", *(f"minifloat({words})" for words in ("exp=1,man=1", "exp=2,man=1", "man=1", "exp=2", "exp=2,man=3", "exp=4,man=1", "man=3",
                                                     "exp=2,man=4", "man=4")),
    "rangefloat", *(f"rangefloat({words})" for words in ("bits=4,man=1", "bits=5,man=1", "bits=5,man=2", "bits=6,man=1", "bits=6,man=2", "bits=6",
                                                       "bits=7,man=2", "bits=7", "man=4")),
    "bf16", "bf16(round=stochastic)", "f16", "f16(scale=block)", "zerorun",
    *settings("bound", rel=(1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.09, 0.06, 0.04, 0.02, 0.01, 0.003, 0.001, 0.0003, 0.0001, 0.00001)),
    *settings("bound", rel=(0.5, 0.12, 0.02, 0.001), growth=("sqrt",)),
    *(f"{method} memory=decay(beta=0.9)" for method in ("onebit", "adaptive", "topk", "int4", "bound(rel=0.12)")),
    *(f"{method} memory=ef21" for method in ("onebit", "adaptive", "topk", "int4")),
    *(f"{method} memory=none" for method in ("onebit", "adaptive", "int8", "int4", "qsgd", "mxfp8", "bf16", "f16", "bound(rel=0.01)")),
)
MATRICES = (
    *(f"lowrank(rank={rank})" for rank in (1, 3, 4, 6, 8, 12, 16, 24, 32)), "lowrank",
    *settings("onebit", means=("column",), split=SPLITS),
    *settings("meprop", k=(0.01, 0.02, None, 0.1, 0.2, 0.4)), *settings("meprop", k=(0.02, None, 0.2), lines=(512,)),
)


def fits(method, elements, row):
    """Whether the two factors of a matrix are fewer elements than the matrix. A method of another kind fits."""
    rank = re.fullmatch(r"lowrank(?:\(rank=(\d+)\))?", method)
    return not rank or int(rank[1] or 2) * (row + elements // row) < elements


EXACT = ("mpi", "zerorun")  # nobody chooses among these by their error


@dataclasses.dataclass
class Point:
    """A method on one recording."""

    method: str
    data: str
    elements: int
    bytes: float
    error: float
    debt: float
    times: dict  # link -> seconds of a call

    def cost(self, name):
        """NaN if it is not known."""
        return self.bytes if name == BYTES else self.times.get(name, math.nan)


def is_errors(path):
    """Whether a CSV file is ERRORS of scripts/frontier, by its header."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return tuple(next(csv.reader(file), ())) == ERROR_COLUMNS
    except (OSError, UnicodeDecodeError, csv.Error):
        return False


def read_table(path, columns):
    """The rows of a file of scripts/frontier."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise FrontierError(f"{path}: not what scripts/frontier writes: lacks the columns {', '.join(missing)}")
            return list(reader)
    except OSError as error:
        raise FrontierError(f"{path}: {error.strerror}") from error


def middle(values):
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def read_times(path):
    """(method, data) -> link -> the median over launches of the median of a call, without launches of more ranks than cores."""
    found = {}
    for row in read_table(path, TIME_COLUMNS):
        if row["oversubscribed"] == "0":
            found.setdefault((row["method"], row["data"]), {}).setdefault(row["link"], []).append(float(row["t_median_s"]))
    return {key: {link: middle(seconds) for link, seconds in links.items()} for key, links in found.items()}


def read(folder):
    """The Points of a folder. Without TIMES in it they have no times."""
    times_path = os.path.join(folder, TIMES)
    times = read_times(times_path) if os.path.exists(times_path) else {}
    points = [Point(row["method"], row["data"], int(row["elements"]), float(row["bytes"] or math.nan), float(row["error"]), float(row["debt"]),
                    times.get((row["method"], row["data"]), {}))
              for row in read_table(os.path.join(folder, ERRORS), ERROR_COLUMNS)]
    if not points:
        raise FrontierError(f"{folder}: {ERRORS} has no rows: nothing was measured")
    return points


def by_data(points):
    """data -> its points, in the order of the file."""
    out = {}
    for point in points:
        out.setdefault(point.data, []).append(point)
    return out


def beats(a, b, cost):
    """Whether b should give way to a: at a cost that is equal or smaller its error is larger, or at an equal error its cost is."""
    if a.error == b.error:
        return a.cost(cost) * EQUAL < b.cost(cost)
    return a.error < b.error and a.cost(cost) <= b.cost(cost) * EQUAL


def frontier(points, cost):
    """The points of one recording that no other beats, by rising cost."""
    known = [p for p in points if math.isfinite(p.cost(cost)) and math.isfinite(p.error)]
    return sorted((p for p in known if not any(beats(other, p, cost) for other in known)), key=lambda p: (p.cost(cost), p.error))


def on_frontiers(points):
    """method -> cost -> the recordings on whose frontier it is."""
    out = {point.method: {cost: [] for cost in COSTS} for point in points}
    for data, here in by_data(points).items():
        for cost in COSTS:
            for point in frontier(here, cost):
                out[point.method][cost].append(data)
    return out


def is_preset(method):
    return method.isalnum()


def worth_timing(points, data):
    """The methods of a recording whose time is measured: presets, and what is on the frontier of bytes for any recording."""
    on = on_frontiers(points)
    return [p.method for p in points if p.data == data and p.method not in EXACT and (is_preset(p.method) or on[p.method][BYTES])]


MOST = 2 / 3  # of the recordings
APART = 1.6  # the bytes of a candidate, divided by the bytes of the one before it


@dataclasses.dataclass
class Candidate:
    """A method for vectors with a key. bytes: of an element, the geometric mean over the recordings, as are least and most. error and
    debt: the greatest."""

    method: str
    bytes: float
    least: float
    most: float
    error: float
    debt: float
    on: dict  # cost -> number of recordings

    @property
    def sized_by_data(self):
        return self.most > 1.3 * self.least


def is_candidate(method):
    """Whether `auto` may choose a method for any vector of a key: it needs no matrix and no other memory rule than carry, and it does not keep
    a threshold of the first call, which may be of another magnitude than the later ones."""
    return method not in EXACT and method not in MATRICES and "memory=" not in method and not method.startswith("threshold")


def summary(method, points, on):
    """What the points of a method have in common."""
    sizes = [p.bytes / p.elements for p in points]
    return Candidate(method, math.exp(sum(map(math.log, sizes)) / len(sizes)), min(sizes), max(sizes), max(p.error for p in points),
                     max(p.debt for p in points), {cost: len(found) for cost, found in on.items()})


def candidates(points):
    """The methods with memory that are on a frontier for most recordings, by increasing bytes. Of those that are on no frontier of time some are
    left out, because another one has nearly the same bytes."""
    mine = [p for p in points if is_candidate(p.method)]
    on, recordings = on_frontiers(mine), len(by_data(mine))
    found = sorted((summary(method, [p for p in mine if p.method == method], on[method]) for method in on), key=lambda c: (c.bytes, c.method))
    chosen = []
    for each in found:
        fast = any(each.on[link] >= MOST * recordings for link in LINKS)
        if fast or each.on[BYTES] >= MOST * recordings and (not chosen or each.bytes >= APART * chosen[-1].bytes):
            chosen.append(each)
    return chosen


CANDIDATES_HEAD = """// What `auto(error=feedback)` may choose from, by increasing bytes: methods with memory that no other method
// beats in the error of the sum of 50 recorded training steps at their bytes, or at their time, on most
// recordings (DIR). `scripts/frontier --only candidates` writes this
// file, and a test compares it with the results.
//
// MQ_FEEDBACK_CANDIDATE(method, encode_ns, decode_ns, bytes, sized_by_data, debt): nanoseconds and bytes of
// an element of a float vector; whether the bytes depend on the data by more than 1.3; and the vectors that
// are still owed after 50 calls, at most.
"""


def candidates_text(points, rates, folder):
    """The file that the library includes."""
    lines = CANDIDATES_HEAD.replace("DIR", folder).splitlines()
    for each in candidates(points):
        encode, decode = rates[each.method]
        lines.append(f'MQ_FEEDBACK_CANDIDATE("{each.method}", {encode:.2g}, {decode:.2g}, {each.bytes:.3g}, {str(each.sized_by_data).lower()}, '
                     f"{each.debt:.2g})")
    return "\n".join(lines) + "\n"


def read_rates(folder):
    """method -> nanoseconds of an element to encode with feedback, and to decode and add."""
    return {row["method"]: (float(row["encode_ns"]), float(row["decode_ns"])) for row in read_table(os.path.join(folder, RATES), RATE_COLUMNS)}


TABLE_HEAD = ("method", "bytes of an element", "error of the sum", "owed after 50 calls, vectors", *(f"on the frontier of {name}" for name in
              ("bytes", "shm", "10 Gbit/s", "1 Gbit/s")))


def span(low, high):
    """'0.02 to 0.1', or one number if both are printed alike."""
    return " to ".join(dict.fromkeys(f"{value:.2g}" for value in (low, high)))


def table_rows(points):
    """A line for each method that is on some frontier for most of the recordings that can take it, by increasing bytes. Low rank and other
    methods for matrices are compared on matrices only."""
    on, recordings = on_frontiers(points), by_data(points)
    matrices = {p.data for p in points if p.method in MATRICES}
    rows = []
    for method, found in on.items():
        if method in EXACT:
            continue
        mine = [p for p in points if p.method == method]
        total = len(matrices) if method in MATRICES else len(recordings)
        each = summary(method, mine, found)
        measured = {cost for cost in COSTS if any(p.cost(cost) == p.cost(cost) for p in mine)}
        if max(each.on.values()) >= MOST * total:
            rows.append((each.bytes, [f"`{method}`", span(each.least, each.most), span(min(p.error for p in mine), each.error), f"{each.debt:.2g}",
                                      *(f"{each.on[cost]} of {total}" if cost in measured else "" for cost in COSTS)]))
    return [row for _, row in sorted(rows)]


def beaten_presets(points):
    """The presets that are on no frontier."""
    return [method for method, found in on_frontiers(points).items() if is_preset(method) and method not in EXACT and not any(found.values())]


GAIN = 1.2  # as in report/verdicts.py: smaller gains are no advice


def mean_of(values):
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def gains(points, method, link):
    """Size of a vector in bytes -> the least time of MPI's own reduction over the time of a method, over recordings of this size."""
    out = {}
    for p in points:
        dense = next((q.cost(link) for q in points if q.data == p.data and q.method == "mpi"), math.nan)
        if p.method == method and p.cost(link) == p.cost(link):
            out[4 * p.elements] = min(dense / p.cost(link), out.get(4 * p.elements, math.inf))
    return out


def fastest(points, link, most_error):
    """Of the candidates whose error is at most this on all recordings, the one with the least mean time. None if none is faster than MPI."""
    found = []
    for method in dict.fromkeys(p.method for p in points if is_candidate(p.method)):
        mine = [p for p in points if p.method == method]
        if len(mine) == len(by_data(points)) and all(p.error <= most_error and p.cost(link) == p.cost(link) for p in mine):
            found.append((mean_of([p.cost(link) for p in mine]), method))
    return min(found)[1] if found else None


def first_size(by_size):
    """The least size from which on all gains are worth it, or None."""
    good = None
    for size in sorted(by_size, reverse=True):
        if by_size[size] < GAIN:
            break
        good = size
    return good
