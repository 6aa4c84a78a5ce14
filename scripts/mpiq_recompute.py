"""Computes again what mpiq-bench computed for a row: the statistics of its samples, its rates and its key. The definitions are
in bench/stats.cpp, bench/tabulate.cpp and bench/points.cpp."""
import json
import math
import re

import numpy as np

import mpiq_results
import mpiq_schema as schema

_MASK = (1 << 64) - 1


def _nearest_rank(ordered, q):
    return float(ordered[min(max(math.ceil(q * len(ordered)), 1), len(ordered)) - 1])


def _median(ordered):
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else float(0.5 * (ordered[half - 1] + ordered[half]))


def _outliers(ordered):
    """(mild, severe): values more than 1.5 and more than 3 interquartile ranges beyond the quartiles."""
    low, high = _nearest_rank(ordered, 0.25), _nearest_rank(ordered, 0.75)
    beyond, spread = np.maximum(low - ordered, ordered - high), high - low
    severe = int((beyond > 3 * spread).sum())
    return int((beyond > 1.5 * spread).sum()) - severe, severe


def _lag1(sample):
    d = sample - math.fsum(sample) / len(sample)
    squares = math.fsum(d * d)
    return math.fsum(d[1:] * d[:-1]) / squares if squares > 0 else math.nan


def summary(sample):
    """column -> value for the statistics of one row. sample: its repetitions in the order in which they ran."""
    unknown = {name: math.nan for name in ("t_median_s", "t_ci_lo_s", "t_ci_hi_s", "t_min_s", "t_mean_s", "t_p5_s", "t_p95_s",
                                           "t_p99_s", "t_mad_s", "lag1")}
    if len(sample) == 0:
        return {"reps": 0, **unknown, "outliers_mild": 0, "outliers_severe": 0}
    ordered = np.sort(sample)
    median = _median(ordered)
    low, high = mpiq_results.median_interval(ordered)
    mild, severe = _outliers(ordered)
    return {"reps": len(sample), "t_median_s": median, "t_ci_lo_s": low, "t_ci_hi_s": high, "t_min_s": float(ordered[0]),
            "t_mean_s": math.fsum(sample) / len(sample), "t_p5_s": _nearest_rank(ordered, 0.05),
            "t_p95_s": _nearest_rank(ordered, 0.95),
            "t_p99_s": _nearest_rank(ordered, 0.99) if len(sample) >= 100 else math.nan,
            "t_mad_s": _median(np.sort(np.abs(ordered - median))), "outliers_mild": mild, "outliers_severe": severe,
            "lag1": _lag1(sample)}


def relative_half_width(stats):
    return 0.5 * (stats["t_ci_hi_s"] - stats["t_ci_lo_s"]) / stats["t_median_s"]


def rates(row, median):
    """column -> value for what follows from the median and from the columns that count bytes."""
    ranks, sent, most = int(row["ranks"]), int(row["wire_bytes_sum"]), int(row["wire_bytes_max"])
    algorithm = float(row["bytes"]) / median
    ratio = 1.0 if row["compressor"] == b"none" else \
        2.0 * (ranks - 1.0) * float(row["bytes"]) / sent if sent > 0 else math.nan
    return {"algbw_Bps": algorithm, "busbw_Bps": algorithm * 2.0 * (ranks - 1.0) / ranks,
            "wirebw_Bps": most / median if most >= 0 else math.nan, "ratio_achieved": ratio}


def same(expected, found, slack=0.0):
    """Whether two numbers are equal except for the last digits, in which sums and logarithms may differ between programs.
    slack: for sums of large terms that are close to zero."""
    if isinstance(expected, int):
        return expected == int(found)
    found = float(found)
    if math.isnan(expected) or math.isnan(found):
        return math.isnan(expected) and math.isnan(found)
    return math.isclose(expected, found, rel_tol=1e-11, abs_tol=slack)


def _next(state):
    """The first number of splitmix64 from this state (bench/random.hpp)."""
    z = (state + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def hash128(text):
    """The hash of bench/points.cpp."""
    a, b = 0xCBF29CE484222325, 0x6C62272E07BB0142
    for c in text.encode():
        a = ((a ^ c) * 0x100000001B3) & _MASK
        b = ((b ^ c) * 0x9E3779B97F4A7C15 + a) & _MASK
    return f"{_next(a):016x}{_next(b ^ ((a << 1) & _MASK)):016x}"


def _as_written(config_text, name):
    """The text of a number of config_json. Its digits are part of the key."""
    found = re.search(rf'"{name}":([^,{{}}\[\]"]+)', config_text)
    return found.group(1) if found else None


def row_key(row, run):
    """The key that mpiq-bench gives to such a row of such a run; None if the columns do not contain all of it."""
    if not {"method", "link"} <= set(row.dtype.names):
        return None
    text, config = run.text("config_json"), run.config()
    rho, seed = _as_written(text, "rho"), _as_written(text, "seed")
    words = {name: row[name].decode("utf-8", "replace") for name in row.dtype.names if row.dtype[name].kind == "S"}
    cut = any(len(row[name]) == row.dtype[name].itemsize for name in ("method", "link", "layer", "model", "comp_params"))
    if None in (rho, seed) or cut or not {"data", "feedback"} <= set(config):
        return None

    def quoted(value):
        return json.dumps(value, ensure_ascii=False)

    sparse = f'"lists":{quoted(schema.lists_of(words["comp_params"]))},' if "sparse" in config else ""
    return hash128(
        f'{{"buffers":"{words["buffers"]}","collective":"{words["collective"]}","count":{row["count"]},'
        f'"data":{quoted(config["data"])},"dtype":"{words["dtype"]}","feedback":{"true" if config["feedback"] else "false"},'
        f'"launch":{row["launch"]},"layer":{quoted(words["layer"])},"link":{quoted(words["link"])},{sparse}'
        f'"memory":"{words["memory"]}","method":{quoted(words["method"])},"mode":"{words["mode"]}",'
        f'"model":{quoted(words["model"])},"nodes":{row["nodes"]},"op":"{words["op"]}","place":"{words["place"]}",'
        f'"ranks":{row["ranks"]},"ranks_per_node":{row["ranks_per_node"]},"rho":{rho},"seed":{seed},'
        f'"sync":"{words["sync"]}"}}')


def _processors(ranks):
    """(fewest, most) processors that these ranks of one node may use together. The file contains the first one and the number
    of those of each rank, but not which they are."""
    return max(int(ranks["cpu_count"].max()), len(set(ranks["cpu_first"]))), int(ranks["cpu_count"].sum())


def oversubscribed(row, run):
    """1 if the first ranks of the launch have more ranks on one machine than it has processors for them; None if the file does
    not say. Nodes with the same name, kernel and memory are one machine: network namespaces, and ranks without shared
    memory."""
    nodes, ranks = run.tables.get("nodes"), run.tables.get("ranks")
    if nodes is None or ranks is None or len(ranks) < row["ranks"] or (ranks["cpu_count"] <= 0).any():
        return None
    machines = {}
    for node in nodes:
        machines.setdefault((node["host"], node["kernel"], int(node["mem_B"])), []).append(int(node["node_index"]))
    verdicts = []
    for indices in machines.values():
        used = int(np.isin(ranks["node_index"][:row["ranks"]], indices).sum())
        bounds = [_processors(ranks[ranks["node_index"] == i]) for i in indices if (ranks["node_index"] == i).any()]
        fewest, most = (max(column) for column in zip(*bounds)) if bounds else (0, 0)
        verdicts.append(1 if used > most else 0 if used <= fewest else None)
    return 1 if 1 in verdicts else None if None in verdicts else 0


def placement(row, run):
    """(nodes, ranks per node) of the first ranks of the launch; None if the file does not say."""
    ranks = run.tables.get("ranks")
    if ranks is None or len(ranks) < row["ranks"] or row["ranks"] < 1:
        return None
    counts = np.unique(ranks["node_index"][:row["ranks"]], return_counts=True)[1]
    return len(counts), int(counts.max())


def times_of(file, row):
    """The repetitions of one row, as many as were measured; NaN for a repetition that does not count."""
    if "t_max_s" not in file.samples:
        return np.empty(0)
    values = file.samples["t_max_s"][row]
    measured = ~np.isnan(values)
    valid = file.samples["valid"][row] == 1 if "valid" in file.samples else measured
    return np.where(valid, values, np.nan)[measured]


def sample_of(file, row):
    """The repetitions of one row that count."""
    values = times_of(file, row)
    return values[~np.isnan(values)]


def element_bytes(row):
    return schema.ELEMENT_BYTES.get(row["dtype"].decode("utf-8", "replace"))
