"""Checks each row of a result file by itself: every number that follows from others is computed again. Every check yields
(what, expected, found)."""
import math
import operator
import re

import numpy as np

import mpiq_check_layout as layout
import mpiq_recompute as recompute
import mpiq_schema as schema

FEWEST = 6  # repetitions; with fewer, the median has no 95 % interval
FEWEST_UNASKED = 20  # the least number without -n, where the file does not say what --min-reps or the sweep asked for
# Options that ask for less than the harness does by itself: name -> its preset, and whether a value is less.
_PRESETS = {"iters": (0, operator.gt), "rel_ci": (0.02, operator.gt), "min_reps": (20, operator.lt),
            "max_reps": (10000, operator.lt), "point_time_s": (2, operator.lt), "check": (True, operator.lt)}
_CLOCK_SLACK_S = 1e-9  # rounding of differences of times since boot
_LAG1_SLACK = 1e-9


def _differences(wanted, row, slack=0.0):
    for name, value in wanted.items():
        if name in row.dtype.names and not recompute.same(value, row[name], slack):
            yield name, value, row[name]


def resumed(file, run):
    """How often a run continued its file."""
    mine = [file.run_of[p] == run if 0 <= p < len(file.points) else True for p in file.events["point_id"]]
    return sum(b.startswith(b"resumed") for b in file.events["text"][mine])


def _words(file, i, row):
    for column, known in (("status", schema.STATUSES), ("grade", schema.GRADES), ("dtype", tuple(schema.ELEMENT_BYTES)),
                          ("op", ("sum",)), ("place", ("in", "out")), ("mode", ("isolated", "interleaved")),
                          ("sync", schema.SYNCS), ("buffers", schema.BUFFERS), ("memory", schema.MEMORIES)):
        if file.text(i, column) not in known:
            yield column, " or ".join(known), file.text(i, column) or "''"
    for column in row.dtype.names:
        try:
            row[column].decode() if row.dtype[column].kind == "S" else None
        except UnicodeDecodeError:
            yield column, "UTF-8", row[column]
    if not layout.UTC.fullmatch(file.text(i, "start_utc")):
        yield "start_utc", "like 2026-01-31T23:59:59Z", file.text(i, "start_utc") or "''"
    run = file.runs[file.run_of[i]]
    if not run.text("created_utc") <= file.text(i, "start_utc") <= run.text("updated_utc"):
        yield "start_utc", f"from {run.text('created_utc')} to {run.text('updated_utc')}", file.text(i, "start_utc")
    if file.text(i, "status") != "ok" and not file.text(i, "note"):
        yield "note", f"why the row is {file.text(i, 'status')}", "''"


def _identity(file, i, row):
    if row["point_id"] != i:
        yield "point_id", i, row["point_id"]
    if not re.fullmatch(r"[0-9a-f]{32}", file.text(i, "key")):
        yield "key", "32 hexadecimal digits", file.text(i, "key") or "''"
    key = recompute.row_key(row, file.runs[file.run_of[i]])
    if key is not None and key != file.text(i, "key"):
        yield "key", f"{key}, the hash of the row's variables", file.text(i, "key")
    if row["input_id"] not in file.inputs["input_id"]:
        yield "input_id", "a row of /inputs", row["input_id"]
    width = recompute.element_bytes(row)
    if width and row["bytes"] != row["count"] * width:
        yield "bytes", int(row["count"] * width), row["bytes"]
    side = int(row["matrix_side"]) if "matrix_side" in row.dtype.names else -1
    if side >= 0 and side * side != row["count"]:
        yield "matrix_side", f"the root of {row['count']} elements", side


def _params(text):
    return dict(word.split("=", 1) for word in text.split(",") if "=" in word)


def _method(file, i, row):
    """Compares the parts of the method, `word(name=value,...)/plan memory=rule`, with the columns that repeat them: none repeats
    the memory rule. `#2` after the method means the same method measured again."""
    if "method" not in row.dtype.names:
        return
    parts = re.fullmatch(r"([^(/# ]+)(?:\(([^#)]*)\))?(?:/([^# ]*))?(?: memory=\w+(?:\([^#)]*\))?)?(?:#(?:[2-9]|[1-9][0-9]+))?",
                         file.text(i, "method"))
    if parts is None:
        yield "method", "like word(name=value)/plan", file.text(i, "method") or "''"
        return
    word, asked, plan = parts.group(1), _params(parts.group(2) or ""), parts.group(3)
    compressor, given = file.text(i, "compressor"), _params(file.text(i, "comp_params"))
    lists = compressor == "sparse" and file.text(i, "collective") == "sparse_allreduce"
    expected = "none" if word in schema.DENSE else word
    if compressor != expected and not lists:
        yield "compressor", expected, compressor or "''"
        return
    algorithm = asked.pop("algorithm", word) if lists else plan or (word if word in schema.DENSE else None)
    if algorithm is not None and file.text(i, "algorithm") != algorithm:
        yield "algorithm", algorithm, file.text(i, "algorithm") or "''"
    whole = len(row["comp_params"]) < row.dtype["comp_params"].itemsize
    for name, value in asked.items():
        if whole and "{" not in value and given.get(name, "0") != value:  # one that 0 switches off may be left out
            yield "comp_params", f"{name}={value}", file.text(i, "comp_params") or "''"
    config = file.runs[file.run_of[i]].config()
    if "feedback" in row.dtype.names and "feedback" in config:
        expected = int(config["feedback"] is True and compressor not in ("none", "sparse"))
        if row["feedback"] != expected:
            yield "feedback", expected, row["feedback"]
    target = 1.0 if compressor == "none" else float(given.get("density", "nan")) if lists else None
    if (target is not None and not recompute.same(target, row["ratio_target"])) or row["ratio_target"] <= 0:
        yield "ratio_target", "above 0" if target is None else target, row["ratio_target"]


def _ranges(file, i, row):
    """Checks columns that do not follow from anything in the file, but have limits."""
    measured = row["reps"] > 0
    warmup = int(file.runs[file.run_of[i]].config().get("warmup", 0))
    least = {"batch": int(measured), "invalid_reps": 0, "layers_alike": 1, "scratch_bytes": -1, "residual_bytes": -1,
             "throttled": -1, "replicas_equal": -1, "warmup": warmup if measured else 0}
    most = {"throttled": 1, "replicas_equal": 1}
    for column, value in least.items():
        if column in row.dtype.names and (row[column] < value or most.get(column) is not None and row[column] > most[column]):
            yield column, f"from {value} on" if most.get(column) is None else f"{value} to {most[column]}", row[column]
    batch = int(row["batch"])
    if batch > schema.MOST_BATCH or batch > 1 and row["place"] == b"in":
        yield "batch", f"1 in place, else at most {schema.MOST_BATCH}", batch
    if row["invalid_reps"] > 0 and row["sync"] != b"round":
        yield "invalid_reps", "0: only a start that was agreed on can be missed", row["invalid_reps"]
    config = file.runs[file.run_of[i]].config()
    less = [name for name, (preset, worse) in _PRESETS.items() if name in config and worse(config[name], preset)]
    if file.text(i, "grade") != "smoke" and (less or row["oversubscribed"] == 1):
        yield "grade", f"smoke: {', '.join(less) or 'oversubscribed'}", file.text(i, "grade")
    if measured and not row["t_first_s"] > 0:
        yield "t_first_s", "above 0", row["t_first_s"]
    if row["err_max_abs"] < 0:
        yield "err_max_abs", "at least 0", row["err_max_abs"]


def _repetitions(file, i, row):
    """Checks the samples themselves: there are `reps` of them without gaps, positive and consistent with each other."""
    t_max, valid, order = (file.samples[name][i] for name in ("t_max_s", "valid", "order"))
    good, n = int(row["reps"]), int(row["reps"]) + max(int(row["invalid_reps"]), 0)
    if not 0 <= good <= n <= len(t_max):
        yield "reps", f"from 0 to {len(t_max)}, the width of /samples", n
        return
    measured = np.arange(len(t_max)) < n
    if (np.isnan(t_max) == measured).any() or ((order == schema.NO_ORDER) == measured).any():
        yield "repetitions in /samples", f"{n} from the first on, as reps and invalid_reps say", int((~np.isnan(t_max)).sum())
        return
    if (valid > measured).any() or int(valid.sum()) != good:
        yield "samples valid", f"1 in {good} repetitions, as reps says, 0 elsewhere", int(valid.sum())
        return
    yield from _ranks(file, i, row, n)
    t_max = t_max[:n]
    if not ((t_max > 0) & np.isfinite(t_max)).all():
        yield "samples t_max_s", "positive and finite", float(t_max.min())
    span, skew = file.samples["t_span_s"][i][:n], file.samples["skew_in_s"][i][:n]
    if (np.isnan(span) != np.isnan(skew)).any():
        yield "samples t_span_s", "known where skew_in_s is", "not so"
    if (span < t_max - _CLOCK_SLACK_S).any():
        yield "samples t_span_s", "not below t_max_s", float(np.nanmin(span - t_max))
    if (span > t_max + skew + _CLOCK_SLACK_S).any() or (skew < 0).any():
        yield "samples t_span_s", "at most t_max_s + skew_in_s", float(np.nanmax(span - t_max - skew))


def _ranks(file, i, row, n):
    """If every rank's time was kept, the largest of a repetition must be the time of the repetition."""
    if "t_rank_s" not in file.samples:
        return
    times, ranks = file.samples["t_rank_s"], int(row["ranks"])
    if np.isnan(times[i]).all() and not file.runs[file.run_of[i]].config().get("keep_ranks"):
        return  # in a merged file: the row is of a run without these times
    known = ~np.isnan(times[i])
    if not known[:n, :ranks].all() or known[n:].any() or known[:, ranks:].any() or known.shape[0] < n or known.shape[1] < ranks:
        yield "samples t_rank_s", f"{n} repetitions of {ranks} ranks", f"{int(known.any(axis=1).sum())} of {int(known.any(axis=0).sum())}"
    elif n and (times[i][:n, :ranks].max(axis=1) != file.samples["t_max_s"][i][:n]).any():
        yield "samples t_rank_s", "t_max_s as the largest of each repetition", "another"


def _statistics(file, i, row):
    stats = recompute.summary(recompute.sample_of(file, i))
    lag1 = stats.pop("lag1")
    yield from _differences({name: value for name, value in stats.items() if name != "reps"}, row)
    yield from _differences({"lag1": lag1}, row, _LAG1_SLACK)
    # Computed from the samples, not from the column, so that one changed column is one violation, not five.
    yield from _differences(recompute.rates(row, stats["t_median_s"]), row)
    yield from _stop(file, i, row, stats)


def _stop(file, i, row, stats):
    """Checks how many repetitions there are, and why there are not more."""
    if file.text(i, "status") == schema.SIMULATED:
        if stats["reps"] != 1:
            yield "reps", "1: a simulation gives the same time again", stats["reps"]
        return
    run = file.runs[file.run_of[i]]
    config, reason, n = run.config(), file.text(i, "stop_reason"), stats["reps"]
    tried = n + max(int(row["invalid_reps"]), 0)
    if n == 0:
        if file.text(i, "status") == "ok":
            yield "reps", "repetitions of a row that is ok", 0
        return
    asked, late = int(config.get("iters", 0) or 0), reason == "deadline"
    fewest = FEWEST if asked or late else max(FEWEST, config.get("min_reps", FEWEST_UNASKED))
    given_up = not asked and tried >= schema.TRIES * fewest
    if (tried if asked or late or given_up else n) < fewest:
        yield "reps", f"at least {fewest}", n
    if reason not in schema.STOP_REASONS:
        yield "stop_reason", " or ".join(schema.STOP_REASONS), reason or "''"
    if "rel_ci" not in config or reason == "error":
        return
    narrow = recompute.relative_half_width(stats) <= config["rel_ci"]
    met = {"ci": not asked and narrow and n >= config["min_reps"],
           "max_reps": tried == asked if asked else not narrow and tried >= config["max_reps"],
           "budget": not asked and (not narrow or n < config["min_reps"]) and tried < config["max_reps"] and
           (n >= config["min_reps"] or given_up),
           "deadline": tried < asked if asked else not narrow or n < config["min_reps"]}
    if not met.get(reason, True):
        width = f"half of the interval is {100 * recompute.relative_half_width(stats):.3g} % of the median"
        yield "stop_reason", f"another: {n} repetitions, {width}, {100 * config['rel_ci']:g} % were asked for", reason


def _correctness(file, i, row):
    error = float(row["err_rel_l2"])
    if error > 0 and not recompute.same(-20 * math.log10(error), row["snr_db"], 1e-9):
        yield "snr_db", -20 * math.log10(error), row["snr_db"]
    if error < 0 or abs(float(row["cosine"])) > 1 + 1e-9:
        yield "err_rel_l2, cosine", "at least 0, within 1", f"{error}, {row['cosine']}"
    if file.text(i, "status") == "ok":
        if row["n_wrong"] > 0:
            yield "n_wrong", "0 in a row that is ok", row["n_wrong"]
        if file.runs[file.run_of[i]].config().get("check") is True and row["n_wrong"] < 0:
            yield "n_wrong", "0: results were checked", row["n_wrong"]
        if row["replicas_equal"] == 0 and file.text(i, "compressor") != "none":
            yield "replicas_equal", "1 in a row that is ok", 0
        if row["replicas_equal"] < 0 <= row["n_wrong"]:
            yield "replicas_equal", "known, as n_wrong is", row["replicas_equal"]
    most, total, ranks = int(row["wire_bytes_max"]), int(row["wire_bytes_sum"]), int(row["ranks"])
    # Both are means over the repetitions, cut to a whole number.
    if (most < 0) != (total < 0) or most >= 0 and not most <= total <= ranks * (most + 1):
        yield "wire_bytes_sum", f"from {most} to {ranks} times that", total


def _placement(file, i, row):
    run = file.runs[file.run_of[i]]
    simulated = "simulation" in run.config()
    if simulated != (file.text(i, "status") == schema.SIMULATED) and file.text(i, "status") != "failed":
        yield "status", schema.SIMULATED if simulated else "that of a measured row", file.text(i, "status")
    if simulated:  # its nodes are not machines of /run
        if row["nodes"] * row["ranks_per_node"] != row["ranks"]:
            yield "nodes, ranks_per_node", f"{row['ranks']} ranks", f"{row['nodes']}, {row['ranks_per_node']}"
    elif resumed(file, file.run_of[i]) == 0:  # otherwise some rows are of another launch than /run describes
        where = recompute.placement(row, run)
        if where is None:
            yield "ranks", f"at most {len(run.tables.get('ranks', ()))}, those in /run/ranks", row["ranks"]
        elif where != (row["nodes"], row["ranks_per_node"]):
            yield "nodes, ranks_per_node", f"{where[0]}, {where[1]}", f"{row['nodes']}, {row['ranks_per_node']}"
        verdict = recompute.oversubscribed(row, run)
        if verdict is not None and verdict != row["oversubscribed"]:
            yield "oversubscribed", verdict, row["oversubscribed"]
    if row["oversubscribed"] not in (0, 1):
        yield "oversubscribed", "0 or 1", row["oversubscribed"]


def check(file):
    """(row, what, expected, found) of all rows."""
    for i, row in enumerate(file.points):
        for part in (_words, _identity, _method, _ranges, _repetitions, _statistics, _correctness, _placement):
            for what, expected, found in part(file, i, row):
                yield i, what, expected, found
