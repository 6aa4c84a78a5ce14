"""Checks the rows of a result file: the words of columns, and what the samples are: as many as the columns say, of calls that were made in turns. What
mpiq-bench computes from them is not computed again; its own tests do that. Every check yields (row, what, expected, found)."""
import re

import numpy as np

from mpi_quant.results import schema

_CLOCK_SLACK_S = 1e-9  # rounding of differences of times since boot


def _resumed(file, run):
    """How often a run continued its file."""
    mine = [file.run_of[p] == run if 0 <= p < len(file.points) else True for p in file.events["point_id"]]
    return sum(b.startswith(b"resumed") for b in file.events["text"][mine])


def _words(file, i, row):
    for column, known in (("status", schema.STATUSES), ("grade", schema.GRADES), ("collective", schema.COLLECTIVES), ("dtype", tuple(schema.ELEMENT_BYTES)),
                          ("op", ("sum",)), ("place", ("in", "out")), ("mode", ("isolated", "interleaved")),
                          ("sync", schema.SYNCS), ("buffers", schema.BUFFERS), ("memory", schema.MEMORIES), ("form", schema.FORMS)):
        if column == "form" and column not in row.dtype.names:
            continue  # of an older file
        if file.text(i, column) not in known:
            yield column, " or ".join(known), file.text(i, column) or "''"
    for column in row.dtype.names:
        try:
            row[column].decode() if row.dtype[column].kind == "S" else None
        except UnicodeDecodeError:
            yield column, "UTF-8", row[column]
    if file.text(i, "status") != "ok" and not file.text(i, "note"):
        yield "note", f"why the row is {file.text(i, 'status')}", "''"


def _identity(file, i, row):
    if row["point_id"] != i:
        yield "point_id", i, row["point_id"]
    if not re.fullmatch(r"[0-9a-f]{32}", file.text(i, "key")):
        yield "key", "32 hexadecimal digits", file.text(i, "key") or "''"
    if row["input_id"] not in file.inputs["input_id"]:
        yield "input_id", "a row of /inputs", row["input_id"]
    if row["invalid_reps"] > 0 and row["sync"] != b"round":
        yield "invalid_reps", "0: only a start that was agreed on can be missed", row["invalid_reps"]


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


def _keys(file):
    """A key may occur twice only if its point was measured again, on demand or because something in it had failed."""
    forced = {int(p) for p, text in zip(file.events["point_id"], file.events["text"]) if b"replaces" in text}
    done, seen = file.done(), {}
    for i, key in enumerate(file.points["key"]):
        if key in seen and done[seen[key]] and i not in forced:
            yield i, "key", "one row of each key", f"row {seen[key]} has it too, and all of its point is done"
        seen[key] = i


def _latin_squares(members, order):
    """Every method occurs once in each block, and in every full square once at each place of a block. order: a line for each
    member."""
    methods, n = order.shape
    first = order.min()
    expected = first + np.arange(n * methods).reshape(n, methods)
    wrong = np.sort(order, axis=0).T != expected
    if wrong.any():
        block = int(np.nonzero(wrong.any(axis=1))[0][0])
        yield members[0], "order", f"block {block}: a permutation of {expected[block][0]} .. {expected[block][-1]}", \
            " ".join(str(v) for v in order[:, block])
        return
    place = order - expected[:, 0]
    for square in range(0, n - methods + 1, methods):
        wrong = np.sort(place[:, square:square + methods], axis=1) != np.arange(methods)
        if wrong.any():
            m = int(np.nonzero(wrong.any(axis=1))[0][0])
            yield members[m], "order", f"blocks {square} to {square + methods - 1}: once at each place (Latin square)", \
                " ".join(str(v) for v in place[m, square:square + methods])
            return


def _order(file, groups):
    """The calls of a point are interleaved in whole blocks, and points follow each other."""
    end, restarts = {}, {}
    for group in groups:
        counts = {i: int((file.samples["order"][i] != schema.NO_ORDER).sum()) for i in group}
        members = [i for i in group if counts[i]]
        if not members:
            continue
        if len({counts[i] for i in members}) > 1:
            yield members[0], "reps", "as many of each method of a point", " ".join(str(counts[i]) for i in members)
            continue
        batches = sorted({int(b) for b in file.points["batch"][members] if b > 0})  # other values break a rule of their row
        if len(batches) > 1:
            yield members[0], "batch", "the same for all methods of a point", " ".join(map(str, batches))
        wanted = b"interleaved" if len(group) > 1 else b"isolated"
        for i in members:
            if file.points["mode"][i] != wanted:
                yield i, "mode", wanted.decode(), file.text(i, "mode")
        orders = file.samples["order"][members][:, :counts[members[0]]].astype(np.int64)
        yield from _latin_squares(members, orders)
        run, start = file.run_of[group[0]], int(orders.min())
        if start < end.get(run, 0):
            restarts[run] = restarts.get(run, 0) + 1
            if start != 0 or restarts[run] > _resumed(file, run):
                yield members[0], "order", f"from {end[run]} on, after the point before it", start
        end[run] = int(orders.max()) + 1


def _is_dense(file, i):
    """As reader.dense, for one row."""
    return file.text(i, "compressor") == "none" or file.text(i, "compressor") == "raw" and file.text(i, "status") == schema.SIMULATED


def _dense_algorithms(file):
    """Compressed methods are compared with the best dense one, so a point has MPI's own choice, or all algorithms."""
    if "method" not in file.points.dtype.names:
        return
    points = {}
    columns = [c for c in ("collective", "link", "ranks", "nodes", "dtype", "place", "count", "input_id", "layer", "model")
               if c in file.points.dtype.names]
    for i, row in enumerate(file.points):
        points.setdefault(tuple(row[c].item() for c in columns), []).append(i)
    for rows in points.values():
        dense = [i for i in rows if _is_dense(file, i)]
        lone = schema.lone_algorithm({file.text(i, "method") for i in dense})
        if lone and len(dense) < len(rows):
            yield dense[0], "dense methods of the point", \
                f"mpi, which chooses; or all of {', '.join('raw/' + name for name in schema.DENSE_ALGORITHMS)}" if lone.startswith("raw") else \
                "mpi, which chooses; or several algorithms", lone


def _simulated(file):
    """Simulated rows and measured ones are in different files."""
    simulated = [file.text(i, "status") == schema.SIMULATED for i in range(len(file.points))]
    if any("simulation" in run.config() for run in file.runs) and not all("simulation" in run.config() for run in file.runs):
        yield simulated.index(True) if any(simulated) else 0, "status", "measured rows alone, or simulated rows alone", "both"
    for i, is_simulated in enumerate(simulated):
        by_simulation = "simulation" in file.runs[file.run_of[i]].config()
        if by_simulation != is_simulated and file.text(i, "status") != "failed":
            yield i, "status", schema.SIMULATED if by_simulation else "the status of a measured row", file.text(i, "status")


def check(file):
    for i, row in enumerate(file.points):
        for part in (_words, _identity, _repetitions):
            for what, expected, found in part(file, i, row):
                yield i, what, expected, found
    for part in (_simulated, _dense_algorithms, _keys):
        yield from part(file)
    yield from _order(file, file.together())
