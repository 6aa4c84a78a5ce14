"""Checks the rows of a result file against each other: keys, order of the calls, paired speed-ups, launches behind a grade.
Every check yields (row, what, expected, found)."""
import re

import numpy as np

import mpiq_recompute as recompute
import mpiq_results
import mpiq_schema as schema
from mpiq_check_rows import resumed


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
            if start != 0 or restarts[run] > resumed(file, run):
                yield members[0], "order", f"from {end[run]} on, after the point before it", start
        end[run] = int(orders.max()) + 1


def _base(file, group):
    """The row of the baseline among rows measured together; None if the baseline was not measured."""
    baseline = file.runs[file.run_of[group[0]]].config().get("baseline")
    if baseline == schema.BEST_DENSE:
        dense = [i for i in group if _is_dense(file, i) and len(recompute.sample_of(file, i))]
        return min(dense, key=lambda i: file.points["t_median_s"][i], default=None)
    for i in group:
        if "method" in file.points.dtype.names and file.text(i, "method") == baseline and len(recompute.sample_of(file, i)):
            return i
    return None


def _is_dense(file, i):
    """As mpiq_results.dense, for one row."""
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


def _speedups(file, groups):
    for group in groups:
        base = _base(file, group)
        if base is None and "method" not in file.points.dtype.names:
            continue
        for i in group:
            mine = recompute.times_of(file, i)
            paired = base is not None and file.text(i, "mode") == "interleaved" and len(recompute.sample_of(file, i)) > 0
            key = file.text(base, "key") if paired else ""
            if file.text(i, "base_key") != key:
                yield i, "base_key", key or "''", file.text(i, "base_key") or "''"
            ratios = (np.nan,) * 3
            if paired:
                other = recompute.times_of(file, base)
                n = min(len(mine), len(other))
                ratios = mpiq_results.paired_speedup(other[:n], mine[:n], len(group) - 1)
            for column, expected in zip(("speedup", "speedup_lo", "speedup_hi"), ratios):
                if not recompute.same(float(expected), file.points[column][i]):
                    yield i, column, float(expected), file.points[column][i]


def _duration(file, groups):
    """A point took as long as its calls. A point that ran out of time took all of its time."""
    for group in groups:
        if file.text(group[0], "status") == schema.SIMULATED:
            continue  # wall_s is what the simulation took, not the calls
        calls = sum(float(np.nansum(recompute.times_of(file, i))) * int(file.points["batch"][i]) for i in group)
        for i in group:
            if not file.points["wall_s"][i] >= calls:
                yield i, "wall_s", f"at least {calls:.6g} s, the time of the point's calls", file.points["wall_s"][i]
        config = file.runs[file.run_of[group[0]]].config()
        living = [i for i in group if len(recompute.times_of(file, i))]
        for i in living:
            least = float(config.get("point_time_s", 0)) * len(living)
            if file.text(i, "stop_reason") == "budget" and not file.points["wall_s"][i] >= least:
                yield i, "wall_s", f"at least {least:g} s, the point's time, as stop_reason is budget", file.points["wall_s"][i]


def _grades(file):
    what = schema.identities(file.points)
    for i, row in enumerate(file.points):
        if file.text(i, "grade") not in (schema.PUBLICATION, schema.PUBLICATION_CUT):
            continue
        if row["oversubscribed"] or file.text(i, "status") != "ok":
            yield i, "grade", "a good timing behind a publication", f"{file.text(i, 'status')}, oversubscribed {row['oversubscribed']}"
        run = file.runs[file.run_of[i]]
        if run.attrs.get("git_dirty", 1) or not re.fullmatch(r"[0-9a-f]{40}", run.text("git_commit")):
            yield i, "grade", "a clean commit behind a publication", f"{run.text('git_commit') or 'none'}" + \
                ("+changes" if run.attrs.get("git_dirty", 1) else "")
        launches = {int(other["launch"]) for j, other in enumerate(file.points) if what[j] == what[i]}
        if len(launches) < schema.PUBLICATION_LAUNCHES:
            yield i, "grade", f"{schema.PUBLICATION_LAUNCHES} launches behind a publication", len(launches)


def _simulated(file):
    """Simulated rows and measured ones are in different files."""
    simulated = [file.text(i, "status") == schema.SIMULATED for i in range(len(file.points))]
    if any("simulation" in run.config() for run in file.runs) and not all("simulation" in run.config() for run in file.runs):
        yield simulated.index(True) if any(simulated) else 0, "status", "measured rows alone, or simulated rows alone", "both"


def check(file):
    yield from _simulated(file)
    yield from _dense_algorithms(file)
    groups = file.together()
    yield from _keys(file)
    yield from _order(file, groups)
    yield from _speedups(file, groups)
    yield from _duration(file, groups)
    yield from _grades(file)
