"""Markdown tables made from results. scripts/readme_tables writes them into pages."""
import csv
import json

import numpy as np

from mpi_quant.results import reader as results, schema


def markdown(head, rows):
    """A table; all cells are texts."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows])


def ratio(rows):
    """The speed-up of the launches of one method and size."""
    return "{:.2f} [{:.2f}, {:.2f}]".format(*results.over_launches(rows, "speedup", "speedup_lo", "speedup_hi"))


def conditions(points):
    """'2 ranks, lab-1gbit, f32, normal input' of a file's rows; 'reduce-scatter, 2 ranks, ...' if they are of no allreduce."""
    first = points[0]
    what = f"{schema.noun_of(first['collective'])}, " if str(first["collective"]) in schema.PARTED else ""
    return f"{what}{first['ranks']} ranks, {first['link'] or 'no link named'}, {first['dtype']}, {first['data']} input"


def over_dense(run):
    """The good rows, with speed-ups over the fastest of the MPI library's own algorithms if more than one was measured."""
    if len(parts := results.by_collective(run.points)) > 1:
        raise results.ResultsError(f"{run.attrs['file']}: rows of {' and '.join(name for name, _ in parts)}: a table is of one collective")
    dense = run.points[results.dense(run.points)]
    rebased = results.rebased(run, results.dense) if len(set(dense["method"])) > 1 else run
    return rebased.points[rebased.points["status"] == "ok"]


def _time(rows):
    return results.seconds_label(float(np.median(rows["t_median_s"])))


def _base_cell(points, rows):
    """rows: one method's, of all launches. The fastest algorithm may differ from launch to launch."""
    bases = points[np.isin(points["key"], rows["base_key"])]
    names = sorted({"" if base["method"] == "mpi" else str(base["algorithm"]) for base in bases})
    return _time(bases) + (f" ({' or '.join(name or 'default' for name in names)})" if names != [""] else "")


def times(points, column, label, title):
    """A line for each size: the time of the baseline, then time and speed-up of every compressed method; medians over launches."""
    compressed = points[~results.dense(points) & (points["base_key"] != "")]
    methods = list(dict.fromkeys(compressed["method"]))
    rows = []
    for size in sorted(set(compressed[column])):
        here = compressed[compressed[column] == size]
        of = {m: here[here["method"] == m] for m in methods}
        cells = [f"{_time(of[m])}, {ratio(of[m])}" if len(of[m]) else "" for m in methods]
        rows.append([label(size), _base_cell(points, here[here["method"] == here["method"][0]]), *cells])
    return markdown([title, schema.function_of(points["collective"][0]), *(f"{m}: time, speed-up [95 %]" for m in methods)], rows)


def errors(points):
    """'rel_err: bf16 1.7e-03, onebit 6.0e-01 to 6.1e-01'."""
    words = []
    compressed = points[~results.dense(points)]
    for method in dict.fromkeys(compressed["method"]):
        values = compressed["err_rel_l2"][compressed["method"] == method]
        ends = dict.fromkeys(f"{v:.1e}" for v in (values.min(), values.max()))
        words.append(f"{method} {' to '.join(ends)}")
    return "rel_err: " + ", ".join(words)


ISAS = ("scalar", "avx2", "avx512")


def kernels(path):
    """The codecs alone at 64 MiB of floats, as a fraction of the triad of the same run. Codecs are lines, instruction sets are
    columns."""
    with open(path, encoding="utf-8") as file:
        benchmarks = json.load(file)["benchmarks"]
    of_triad = {}
    for row in benchmarks:
        codec, work, element, isa, size = row["name"].split("/")[:5]
        if size == "65536KiB" and element == "f32":
            of_triad[codec, work, isa] = row["of_triad"]
    measured = {isa for _, _, isa in of_triad}
    columns = [(work, isa) for work in ("encode+feedback", "decode+add") for isa in ISAS if isa in measured]
    rows = [[codec] + [f"{of_triad[codec, *c]:.2f}" if (codec, *c) in of_triad else "" for c in columns]
            for codec in dict.fromkeys(codec for codec, _, _ in of_triad)]
    return markdown(["64 MiB of floats, one core, of the triad's rate", *(f"{work}: {isa}" for work, isa in columns)], rows)


def bound(path):
    """A line for each field and error of results/reference/bound.csv: bytes of an encoded element, and nanoseconds that a rank encodes and
    decodes for each element."""
    with open(path, encoding="utf-8", newline="") as file:
        numbers = {(row["data"], float(row["abs"]), row["method"]): row for row in csv.DictReader(file)}
    methods = list(dict.fromkeys(method for _, _, method in numbers))

    def cell(row):
        return f"{float(row['bytes_per_element']):.2f}, {float(row['encode_ns']) + float(row['decode_ns']):.1f}" if row else ""

    rows = [[data, f"{error:.0e}", *(cell(numbers.get((data, error, method))) for method in methods)]
            for data, error in dict.fromkeys(key[:2] for key in numbers)]
    return markdown(["field", "error of the sum", *(f"{method}: bytes, ns" for method in methods)], rows)


LINKS = (0.1, 1, 10)  # Gbit/s


def entropy(path):
    """A line for each method of results/reference/entropy.csv: bytes of an element, on each recorded tensor how much less code=entropy takes,
    the nanoseconds that it costs, and what that makes of the time of an element: encode, wire, decode, one after the other."""
    with open(path, encoding="utf-8", newline="") as file:
        numbers = {(row["method"], row["data"]): {key: float(value) for key, value in row.items() if key not in ("method", "data")}
                   for row in csv.DictReader(file)}
    data = list(dict.fromkeys(key[1] for key in numbers))

    def coding(row, code):
        return row[f"{code}_encode_ns"] + row[f"{code}_decode_ns"]

    def gain(row, gbit):
        return (8 * row["fixed_bytes"] / gbit + coding(row, "fixed")) / (8 * row["entropy_bytes"] / gbit + coding(row, "entropy"))

    def between(values, form):
        texts = list(dict.fromkeys(form.format(value) for value in (min(values), max(values))))
        return " to ".join(texts)

    rows = []
    for method in dict.fromkeys(method for method, _ in numbers):
        mine = [numbers[method, d] for d in data]
        one = mine[0]
        more = coding(one, "entropy") - coding(one, "fixed")
        rows.append([f"`{method}`", f"{one['fixed_bytes']:.3g}",
                     *(f"{100 * (1 - row['entropy_bytes'] / row['fixed_bytes']):.0f} %" for row in mine),
                     *(f"{one[f'fixed_{work}_ns']:.2f} → {one[f'entropy_{work}_ns']:.2f}" for work in ("encode", "decode")),
                     *(between([gain(row, gbit) for row in mine], "{:.2f}") for gbit in LINKS),
                     between([8 * (row["fixed_bytes"] - row["entropy_bytes"]) / more for row in mine], "{:.1f}")])
    return markdown(["codec", "bytes", *(f"less on {d}" for d in data), "encode, ns", "decode, ns", *(f"faster at {gbit} Gbit/s" for gbit in LINKS),
                     "pays below, Gbit/s"], rows)


QUALITY_DATA = ("normal", "laplace", "gradient", "sparse:0.01", "uniform")


def quality(path):
    """A line for each method: bytes per element, the error of one encode on each distribution with its ratio to the optimum's
    in brackets, and the residual. It leaves out lossless codecs, and variants whose errors equal the errors of their codec's
    preset."""
    with open(path, encoding="utf-8", newline="") as file:
        numbers = {(row["method"], row["data"]): row for row in csv.DictReader(file)}
    data = [d for d in QUALITY_DATA if any(d == key[1] for key in numbers)]
    rows, seen = [], set()
    for method in dict.fromkeys(method for method, _ in numbers):
        mine = [numbers[method, d] for d in data]
        cells = [f"{float(row['rel_err']):.3g}" + (f" ({float(row['over_optimum']):.2f})" if row["over_optimum"] else "")
                 for row in mine]
        if all(float(row["rel_err"]) == 0 for row in mine) or (method.split("(")[0], *cells) in seen:
            continue
        seen.add((method.split("(")[0], *cells))
        rows.append([method, f"{float(mine[0]['bytes_per_element']):.4g}", *cells, f"{float(mine[0]['residual']):.3g}"])
    calls = next(iter(numbers.values()))["calls"]
    return markdown(["rel_err of one encode (over the optimum's)", f"bytes/element, {data[0]}", *data,
                     f"residual after {calls} calls, {data[0]}"], rows)
