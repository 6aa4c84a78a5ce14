"""What scripts/frontier measures, and which methods are on a frontier: no other method has both a smaller error and a smaller cost. The
error is that of the sum of the results of all recorded steps. The cost is the bytes of a call, or its time on a link. It needs only
Python itself."""
import csv
import dataclasses
import itertools
import math
import os

LINKS = ("shm", "lab-10gbit", "lab-1gbit")
BYTES = "bytes"
COSTS = (BYTES, *LINKS)
EQUAL = 1.02  # costs whose ratio is nearer to 1 count as equal
ERRORS, TIMES = "errors.csv", "times.csv"
ERROR_COLUMNS = ("method", "data", "elements", "row", "ranks", "calls", "bytes", "error", "debt", "first_error")
TIME_COLUMNS = ("method", "data", "link", "launch", "calls", "t_median_s", "t_lo_s", "t_hi_s", "oversubscribed")


class FrontierError(Exception):
    """Files that cannot be used; the message names them and says why."""


def settings(codec, **params):
    """The words of a codec with all combinations of these values; None leaves a parameter out."""
    for values in itertools.product(*params.values()):
        given = [f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in zip(params, values) if value is not None]
        yield f"{codec}({','.join(given)})" if given else codec


SPLITS = (None, "mean")
# What is compared. A value that is a codec's preset is left out, because its text would be that of the codec alone.
VECTORS = (
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
    *settings("lowrank", rank=(1, None, 3, 4, 6, 8, 12, 16, 24, 32)),
    *settings("onebit", means=("column",), split=SPLITS),
    *settings("meprop", k=(0.01, 0.02, None, 0.1, 0.2, 0.4)), *settings("meprop", k=(0.02, None, 0.2), lines=(512,)),
)


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
