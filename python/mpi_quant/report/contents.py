"""The contents of a report: verdicts, cautions, figures, tables, and how it was measured."""
import json
import os

import numpy as np

from mpi_quant.figures.look import DTYPES, order
from mpi_quant.figures.register import PLOTS, good, summarise
from mpi_quant.figures.selection import PLACES, commit, mpi_version, span, words
from mpi_quant.report import counters_part, html_parts as h, paste, training_part, verdicts
from mpi_quant.results import reader
from mpi_quant.results.schema import ALLREDUCE, noun_of

# The plots that answer the question come first, then those that explain the answer. Plots that are not named
# here come last.
READING = ("speedup", "time", "overlap", "pareto", "error", "busbw", "data", "layers", "paper", "scaling", "phases",
           "distribution", "launches", "ranks", "roofline")


MOST_DETOUR = 0.05  # of its time that a rank may lose to other work without a word


def base_words(selection):
    return f"the fastest {selection.function}" if selection.baseline == "best-dense" else selection.base_words()


def verdict_part(selection):
    """Yields a box for each panel."""
    out = []
    for key, points in selection.panels():
        files = [r.attrs for r in selection.results if np.isin(r.points["key"], points["key"]).any()]
        found = verdicts.of_panel(points, selection.base_methods(), files)
        said = verdicts.sentences(found, base_words(selection))
        box = [f'<div class="verdict{"" if found.kind == "wins" else " none"}">',
               h.paragraph(place(selection, key), "soft"), f"<p><strong>{h.text(said[0])}</strong></p>"]
        box += [h.paragraph(" ".join(said[1:]))] if said[1:] else []
        out += box + [h.paragraph(more) for more in alternatives(found, base_words(selection))] + ["</div>"]
    return out


def place(selection, key):
    link, _, _, dtype, data = key
    title = selection.panel_title(key)
    more = [said for said, short in ((DTYPES.get(dtype, dtype),) * 2, (f"{data} input", data)) if short not in title]
    return "On " + ", ".join([title, *more]) + ("" if link else ", link not named")


def alternatives(verdict, base):
    """Names winners with a smaller error than the recommended method, and says what to do if its error is too large."""
    if verdict.kind != "wins" or not verdict.best.errors:
        return
    most = max(verdict.best.errors)
    found = []
    for c in sorted((c for c in verdict.others if c.errors), key=lambda c: (max(c.errors), -c.points[-1]["value"])):
        slower_than_a_better_one = any(c.points[-1]["value"] <= other.points[-1]["value"] for other in found)
        if most > verdicts.ROUNDING and max(c.errors) < 0.9 * most and not slower_than_a_better_one:
            found.append(c)
    large = verdicts.LARGE_ERROR
    if most >= large:
        yield ("Training may want a lower learning rate then. Where each sum counts alone, "
               + ("take a more accurate method." if found and max(found[0].errors) < large else f"keep {base}."))
    if found:
        yield "More accurate, and faster than the baseline too: " + "; ".join(
            f"{c.method} {verdicts.range_words(verdict, c)}, speed-up {verdicts.gain_words(c)}, "
            f"{verdicts.error_words(c)}" for c in found) + "."


def cautions(selection):
    """What a careful reader would object to the numbers."""
    p, out = selection.points, []
    launches = len(set(p["launch"]))
    if launches < 6:
        out.append(f"Intervals are within {launches} launch{'es' if launches > 1 else ''}: they say how steady the calls were, "
                   "not how much a new launch would differ, which is often several times more. Publish from at least ten.")
    bad = {"more ranks than cores": (p["oversubscribed"] == 1).sum(), "invalid results": (p["status"] != "ok").sum()}
    out += [f"{n} of {len(p)} rows have {what}: hollow in figures, in no verdict." for what, n in bad.items() if n]
    if selection.left_out:
        out.append(f"{selection.left_out} rows failed or were skipped.")
    if "lag1" in p.dtype.names and (p["lag1"][good(p)] > 0.3).any():
        out.append(f"In {(p['lag1'][good(p)] > 0.3).sum()} of {good(p).sum()} good rows a slow call is often followed by a slow one (lag-1 "
                   "autocorrelation above 0.3): their intervals of times are too narrow.")
    if "throttled" in p.dtype.names and (p["throttled"] == 1).any():
        out.append(f"The clock was lowered in {(p['throttled'] == 1).sum()} rows.")
    if "detour" in p.dtype.names and (p["detour"][good(p)] > MOST_DETOUR).any():
        out.append(f"Other work took more than {MOST_DETOUR:.0%} of a processor from some rank before {(p['detour'][good(p)] > MOST_DETOUR).sum()} of "
                   f"{good(p).sum()} good rows were measured.")
    if any(len(r.attrs["hosts"]) == 1 and r.points["nodes"].max() > 1 for r in selection.results):
        out.append("Several nodes were one machine (network namespaces): wire and latency are emulated, the cores are shared.")
    if any(r.attrs.get("git_dirty") for r in selection.results):
        out.append("The program was built from a tree with uncommitted changes.")
    if (p["data"] == "zeros").any() or (p["data"] == "const").any():
        out.append("Zeros and constants compress like nothing else: not an input to decide by.")
    return out


def figures(sources):
    """Every plot that applies, in the order of reading. The plot of training has a section of its own."""
    names = [n for n in READING if n in PLOTS] + [n for n in PLOTS if n not in READING]
    for name in names:
        function = PLOTS[name]
        if function.takes in sources and function.takes != "training" and function.applies(sources[function.takes]):
            yield h.figure(function(sources[function.takes])[0], function, name)


HEAD = ("size", "method", "time", "95 %", "p95", "speed-up", "95 %", "rel. L2 error", "ratio", "n", "remarks")


def tables(selection):
    """Yields the times, speed-ups and errors of every panel."""
    for key, points in selection.panels():
        rows, classes = [], []
        for size in sorted(set(points["bytes"])):
            here = points[points["bytes"] == size]
            for i, method in enumerate(sorted(set(here["method"]), key=order)):
                classes.append("" if i else "first")
                rows.append(("" if i else reader.bytes_label(size), *table_cells(here[here["method"] == method])))
        shown = len(HEAD) if any(row[-1][0] for row in rows) else len(HEAD) - 1
        yield h.heading(3, place(selection, key))
        yield h.table(HEAD[:shown], [row[:shown] for row in rows], left=2, classes=classes)


def _median(rows, name):
    known = rows[name][np.isfinite(rows[name])] if name in rows.dtype.names else ()
    return float(np.median(known)) if len(known) else np.nan


def table_cells(rows):
    """A row of the table for a method at one size. It uses the same launches as the figures: the good ones, if there are
    any."""
    quoted = rows[good(rows)] if good(rows).any() else rows
    time = summarise(rows, "t_median_s", "t_ci_lo_s", "t_ci_hi_s")
    gain = summarise(rows, "speedup", "speedup_lo", "speedup_hi")
    remarks = sorted(set(rows["status"][rows["status"] != "ok"]))
    remarks += ["more ranks than cores"] * bool((rows["oversubscribed"] == 1).any())
    remarks += [f"{time['launches']} launches"] * (time["launches"] > 1)
    seconds, known = reader.seconds_label, np.isfinite(gain["low"])
    faster = rows["compressor"][0] != "none" and verdicts.wins(gain)
    error, achieved = _median(quoted, "err_rel_l2"), _median(quoted, "ratio_achieved")
    return ((str(rows["method"][0]), "words"), seconds(time["value"]), reader.seconds_span(time["low"], time["high"]),
            seconds(_median(quoted, "t_p95_s")),
            (f"{gain['value']:.2f}" if np.isfinite(gain["value"]) else "", "faster" if faster else ""),
            f"{gain['low']:.2f} .. {gain['high']:.2f}" if known else "", f"{error:.2e}" if np.isfinite(error) else "",
            f"{achieved:.3g}" if np.isfinite(achieved) else "", str(time["reps"]), (", ".join(map(str, remarks)), "words"))


def _config(attrs):
    try:
        found = json.loads(attrs.get("config_json", "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _command(attrs):
    """The command line without folders, because folders belong to the machine, not to the measurement."""
    given = str(attrs.get("command_line", "")).split()
    return " ".join(os.path.basename(word) if word.startswith(("/", "./", "../")) else word for word in given)


def _seconds(attrs, name):
    value = attrs.get(name)
    return reader.seconds_label(float(value)) if isinstance(value, (float, np.floating)) and np.isfinite(value) else ""


def _column(points, name):
    return words(points[name]) if name in points.dtype.names else ""


def _stop_rule(attrs):
    c = _config(attrs)
    if c.get("iters"):
        return f"exactly {c['iters']} repetitions"
    parts = [f"half-width of the 95 % interval of the median at most {100 * c['rel_ci']:g} % of it"] if "rel_ci" in c else []
    parts += [f"{c['point_time_s']} s a method"] if "point_time_s" in c else []
    parts += [f"{c['max_reps']} repetitions"] if "max_reps" in c else []
    least = f"at least {c['min_reps']} repetitions, then until: " if "min_reps" in c else ""
    return least + ", or ".join(parts) if parts else ""


def _inputs(attrs):
    out = []
    for row in attrs["inputs"]:
        params = f" ({row['params']})" if row.get("params") else ""
        seed = f", seed {row['seed']}" if "seed" in row else ""
        rho = f", rank correlation {row['rho']:g}" if row.get("rho") else ""
        known = "entropy_bits" in row and np.isfinite(row["entropy_bits"])
        out.append(f"{row.get('distribution', '?')}{params}{seed}{rho}"
                   + (f", {row['entropy_bits']:.3g} bits of entropy a byte" if known else ""))
    return "; ".join(out)


def _of_file(result):
    a, p = result.attrs, result.points
    clock = ", ".join(part for part in (str(a.get("clock", "")), _seconds(a, "clock_resolution_s") and
                                        f"resolution {_seconds(a, 'clock_resolution_s')}",
                                        _seconds(a, "clock_cost_s") and f"a reading costs {_seconds(a, 'clock_cost_s')}") if part)
    skew = _seconds(a, "barrier_skew_s")
    return [
        ("command", _command(a)), ("measured", f"{a.get('created_utc', '')}, file {a.get('status', 'of unknown state')}"),
        ("MPI library", mpi_version(a)), ("hosts", ", ".join(a["hosts"])), ("processors", ", ".join(a["cpus"])),
        ("commit", commit(a)), ("compiler", a.get("build", "")), ("instruction set", a.get("isa", "")),
        ("synchronisation", str(a.get("sync_method", "")) + (f", exit skew {skew}" if skew else "")), ("clock", clock),
        ("stop rule", _stop_rule(a)), ("stopped by", _column(p, "stop_reason")),
        ("warm-up", f"{span(p['warmup'])} calls" if "warmup" in p.dtype.names else ""),
        ("repetitions", span(p["reps"])), ("calls timed together", _column(p, "batch")),
        ("launches", str(len(set(p["launch"])))), ("grade", _column(p, "grade")),
        ("order", "methods " + _column(p, "mode") + (", points shuffled" if _config(a).get("shuffle") else "")),
        ("buffers", f"{_column(p, 'buffers')}, {_column(p, 'memory')}, {words(PLACES.get(v, v) for v in p['place'])}"),
        ("data", _inputs(a)), ("environment", "; ".join(f"{name}={value}" for name, value in a["env"])),
    ]


def methods_section(selection):
    """How it was measured, as the files state it."""
    yield h.paragraph(f"Speed-ups are over {base_words(selection)}, paired within a launch. A method is called faster only where "
                      f"the 95 % interval of its speed-up lies above 1 and is no wider than a factor of {verdicts.MOST_WIDTH:g}. It is advised from the size on "
                      f"from which the lower end is at least {verdicts.LEAST_GAIN:g} at all measured sizes. Outliers are kept in all statistics.")
    for result in selection.results:
        yield h.heading(3, os.path.basename(result.attrs["file"]))
        yield h.terms(_of_file(result))
    formulas = {name: said for r in selection.results for name, said in r.attrs["formulas"].items()}
    if formulas:
        yield h.heading(3, "Formulas")
        yield h.terms(sorted(formulas.items()))


# What a call of each collective does.
CALLS = {
    ALLREDUCE: "every rank (process) gives a vector and gets the sum of all",
    "reduce_scatter": "every rank (process) gives a vector and gets a part of the sum of all, the one that belongs to it. Sizes are of the whole vector",
    "allgather": "every rank (process) gives its part of a vector and gets the whole vector. Sizes are of the whole vector",
    "bcast": "one rank (process), the root, gives a vector, and all get it",
    "reduce": "every rank (process) gives a vector, and one of them, the root, gets the sum of all",
}
WORDS = [
    ("method", "who does it: mpi is the MPI library's own, mpi/NAME one of its algorithms; the others are ours, a codec with its parameters: "
     "bf16 rounds to 16 bits, onebit sends a sign for each number and means for each block, threshold and adaptive send only large "
     "numbers; a word after / is the plan by which messages are sent"),
    ("cuda", "vectors in the memory of GPUs: mpi copies them to the host and back in its time, mpi-direct is an MPI that takes them as they "
     "are, nccl is NCCL"),
    ("speed-up 2 [1.9, 2.1]", "takes half the time of the baseline; in brackets the 95 % interval: above 1 faster, below 1 slower, "
     "around 1 not told apart"),
    ("relative L2 error", "|result - exact result| / |exact result| of one call; 0.0017 is rounding to bf16, 0.6 is coarse. With feedback what one "
     "call drops is added to the next"),
    ("p95, n", "95 % of the calls took no longer; number of calls"),
    ("ratio", "bytes that an uncompressed call sends over bytes that were sent"),
    ("link", "between hosts: lab-1gbit is an emulated link of 1 Gbit/s; shm is the shared memory of one host"),
    ("input", "what the vectors held: normal and uniform are random numbers of that distribution"),
]


def all_words(selection):
    """WORDS, after what a call does."""
    return [(noun_of(selection.collective), f"{CALLS.get(selection.collective, CALLS[ALLREDUCE])}; {selection.function} is the MPI library's own"), *WORDS]


def build(sources, title):
    """The page."""
    selection = sources["results"]
    hosts = words(host for r in selection.results for host in r.attrs["hosts"])
    commits = words(commit(r.attrs) for r in selection.results)
    head = [f"<h1>{h.text(title)}</h1>", h.paragraph(", ".join(part for part in (
        hosts and f"host {hosts}", words(mpi_version(r.attrs) for r in selection.results), f"commit {commits}",
        words(str(r.attrs.get("created_utc", ""))[:10] for r in selection.results)) if part), "soft"), *paste.part(selection)]
    body = [h.heading(2, "Verdict"), *verdict_part(selection)]
    doubts = cautions(selection)
    if doubts:
        body += [h.heading(3, "Before you rely on it"), "<ul>", *(f"<li>{h.text(d)}</li>" for d in doubts), "</ul>"]
    body += [h.heading(3, "Words"), h.terms(all_words(selection)), h.heading(2, "Figures"), *figures(sources),
             h.heading(2, "Tables"), *tables(selection), *counters_part.section(selection)]
    if "training" in sources:
        body += training_part.section(sources["training"], selection)
    body += [h.heading(2, "How it was measured"), *methods_section(selection)]
    return h.page(title, head + h.contents(body))
