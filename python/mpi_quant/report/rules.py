"""What mpiq policy makes of result files: rules of a policy, or the lines of a file for `auto` (mpi_quant/automatic/knowledge.hpp).

Which method is worth it at a size is decided by verdicts.py, as for reports. Nothing is said of sizes outside of the measured ones, nor
of numbers of ranks and types that were not measured.
"""
import dataclasses

import numpy as np

from mpi_quant.figures.register import series
from mpi_quant.figures.selection import PlotError, Selection, best_dense_of, commits, hosts, mpi_version, names_of, natural, words
from mpi_quant.report import verdicts as verdict
from mpi_quant.results import reader
from mpi_quant.results.schema import BEST_DENSE, SIMULATED

FEEDBACK = "feedback"  # as an error limit: any method, with error feedback
SMALLEST, SMALL = 4 << 10, 64 << 10  # bytes: no rule may reach sums below the first, and only one that says `small` those below the second
SIMULATED_OFF = 1.4  # simulated times of calls are up to this factor off measured ones (docs/benchmarking.md)
SELECTORS = {"allreduce": "", "iallreduce": "", "reduce_scatter": "reduce_scatter ", "allgather": "allgather ", "bcast": "bcast ",
             "reduce": "reduce "}  # by the column collective
WITHOUT_FEEDBACK = ("allgather", "bcast")  # they carry parameters, as a rule; feedback would add what earlier calls left out
MARGIN = 1.25  # by which `auto` wants a sample to be better than its limit, before it has learnt more


@dataclasses.dataclass
class Window:
    """Neighbouring sizes at which one method is chosen. points: as in verdicts.Judged. end: the first bytes beyond it."""

    method: str
    points: list
    end: int

    def is_exact(self):
        """Whether results were right up to rounding, so that feedback would find nothing."""
        return all(p["error"] < verdict.ROUNDING for p in self.points)


@dataclasses.dataclass
class Group:
    """The rows that one set of rules is for. collective: as rules begin. sizes: that were measured. chosen: size -> (method, point). wide: what
    intervals are too wide for. why: what forbids to choose."""

    collective: str
    ranks: int
    dtype: str
    points: np.ndarray
    sizes: list
    chosen: dict
    wide: list = dataclasses.field(default_factory=list)
    why: str = ""
    is_simulated: bool = False

    def place(self):
        """What a knowledge file calls the ranks: "@16 nodes=4" where several share each of several nodes and the call is an allreduce, the only
        one with a plan for that; else "@16"."""
        nodes = int(self.points["nodes"].max(initial=0))  # groups_of: all rows have the same
        return f"@{self.ranks} nodes={nodes}" if 1 < nodes < self.ranks and not self.collective else f"@{self.ranks}"

    def ranks_words(self):
        """'8 ranks on 2 nodes'; the nodes are left out where the file does not know them."""
        nodes = int(self.points["nodes"].max(initial=0))
        return f"{self.ranks} ranks" + (f" on {nodes} node{'s' if nodes > 1 else ''}" if nodes > 0 else "")

    def windows(self):
        found = []
        for i, size in enumerate(self.sizes):
            if size not in self.chosen:
                continue
            method, point = self.chosen[size]
            if found and found[-1].method == method and found[-1].end == size:
                found[-1].points.append(point)
            else:
                found.append(Window(method, [point], size))
            following = self.sizes[i + 1] if i + 1 < len(self.sizes) else None
            found[-1].end = following if following in self.chosen else size + 1
        return found


def may_be_chosen(limit, method, point):
    """Whether the error of a method is known and within the limit. No second series of a method is chosen, and none with a memory rule,
    whose worth shows over many calls only."""
    if "#" in method or " memory=" in method or method.startswith("auto"):
        return False
    return limit == FEEDBACK or bool(point["error"] <= max(limit, verdict.ROUNDING))


def choose(judged, limit):
    """size -> (method, point): of the methods that are worth it there and keep the limit, the fastest; but the one of the size before as
    long as no interval of another lies above its own."""
    worth = {}
    for method, line in judged.lines.items():
        kept = [p for p in line if may_be_chosen(limit, method, p)]
        for points in verdict.ranges(kept, judged.sizes):
            for p in points:
                worth.setdefault(p["bytes"], {})[method] = p
    out, now = {}, None
    for size in judged.sizes:
        here = worth.get(size)
        if not here:
            now = None
            continue
        best = max(here, key=lambda method: here[method]["value"])
        if now not in here or here[best]["low"] > here[now]["high"]:
            now = best
        out[size] = (now, here[now])
    return out


def only(points, column, of):
    """The one value of a column; PlotError if there are more, because no rule can tell them apart."""
    values = sorted({row.item() for row in points[column]}, key=natural)
    if len(values) > 1:
        raise PlotError(f"{of} differ in {column} ({', '.join(map(str, values))}), which no rule can tell apart: choose with "
                        f"--where {column}={values[0]}")


def _selections(results, where, baseline=None):
    """A Selection for each collective that rules can name. Matrices are left out: programs under the preload library have none."""
    found = {}
    for result in results:
        for name in set(reader.chosen(result.points, where)["collective"]) & set(SELECTORS):
            found.setdefault(str(name), []).append(result)
    if len(found) > len({SELECTORS[name] for name in found}):
        raise PlotError("rows are of allreduce and of iallreduce: choose with --where collective=allreduce")
    for name, files in sorted(found.items()):
        selection = Selection(files, [*where, f"collective={name}"], "", baseline)
        selection.points = selection.points[selection.points["matrix_side"] <= 0]
        if len(selection.points):
            yield SELECTORS[name], selection


def groups_of(points, of):
    """((ranks, type), rows), sorted. A rule cannot tell links, inputs and nodes apart, so there is one of each."""
    for column in ("link", "data"):
        only(points, column, of)
    for ranks in sorted(set(points["ranks"].tolist())):
        only(points[points["ranks"] == ranks], "nodes", f"{of} of {ranks} ranks")
        for dtype in sorted(set(points["dtype"])):
            rows = points[(points["ranks"] == ranks) & (points["dtype"] == dtype)]
            if len(rows):
                yield (ranks, str(dtype)), rows


def judged_group(collective, ranks, dtype, rows, baselines, limit, files=()):
    """The group of rows that were measured with one number of ranks and one type. Parameters as in verdicts.judge."""
    judged = verdict.judge(rows, baselines, files)
    if not judged.why:  # also those at which no method has a good row
        judged.sizes = sorted(set(rows["bytes"].tolist()))
    wide = [(method, p) for method, p in judged.wide() if may_be_chosen(limit, method, p)]
    return Group(collective, ranks, dtype, rows, judged.sizes, {} if judged.why else choose(judged, limit), wide, judged.why)


def without_feedback(rows):
    """Whether a compressed method was measured without feedback, so that what it takes with it is not known."""
    return bool((rows["feedback"][~reader.dense(rows)] == 0).any())


def measured_groups(results, where, limit):
    """The groups of measured files."""
    baseline = BEST_DENSE if all(r.samples is not None for r in results) else None
    for collective, selection in _selections(results, where, baseline):
        for key, rows in groups_of(selection.points, "rows"):
            if limit == FEEDBACK and without_feedback(rows):
                raise PlotError("methods were measured without feedback, so what they take with it is not known")
            yield judged_group(collective, *key, rows, selection.base_methods(), limit)


def simulated_groups(results, where, limit, errors):
    """The groups of simulated files. errors: from measured_errors. A simulation has no intervals: the interval
    of a speed-up is SIMULATED_OFF times less and more."""
    for collective, selection in _selections(results, where):
        for key, rows in groups_of(best_dense_of(selection.points), "simulated rows"):
            dense = reader.dense(rows)
            base = {int(row["bytes"]): float(row["t_median_s"]) for row in rows[dense]}
            judged = verdict.Judged()
            for method, line in series(rows[~dense], *["t_median_s"] * 3, "bytes").items():
                gains = [(p["bytes"], base[p["bytes"]] / p["value"]) for p in line if p["bytes"] in base]
                if gains and not verdict.needs_earlier_calls(method):
                    judged.lines[method] = [{"bytes": size, "drawn": "line", "value": gain, "low": gain / SIMULATED_OFF, "high": gain * SIMULATED_OFF,
                                             "error": errors.get((collective, method), np.nan)} for size, gain in gains]
            judged.sizes = sorted({p["bytes"] for line in judged.lines.values() for p in line})
            judged.why = "" if judged.sizes else "no point has a compressed method and a dense one"
            yield Group(collective, *key, rows, judged.sizes, choose(judged, limit), why=judged.why, is_simulated=True)


def measured_errors(groups):
    """(collective, method) -> the greatest error of a call in any group. An allgather and a broadcast lose once, a sum more often."""
    found = {}
    for group in groups:
        for method, points in series(group.points, *["err_rel_l2"] * 3, "bytes").items():
            key = group.collective, method
            found[key] = max([found.get(key, 0.0), *(p["value"] for p in points)])
    return found


def read(paths, where, limit, with_simulated, ranks=None):
    """The groups of all files, and the files. ranks: only these numbers. Raises PlotError, and ResultsError."""
    results = [reader.read(path) for path in paths]
    simulated = [r for r in results if (r.points["status"] == SIMULATED).any()]
    measured = [r for r in results if all(r is not other for other in simulated)]
    if simulated and not with_simulated:
        raise PlotError(f"{names_of(simulated)}: simulated, not measured: --simulated takes such files for numbers of ranks that were not measured")
    if busy := verdict.load_words([r.attrs for r in measured]):
        raise PlotError(f"nothing is concluded: {busy}")
    groups = list(measured_groups(measured, where, limit)) if measured else []
    if simulated:
        known = {(g.collective, g.ranks, g.dtype) for g in groups}
        groups += [g for g in simulated_groups(simulated, where, limit, measured_errors(groups)) if (g.collective, g.ranks, g.dtype) not in known]
    if not groups:
        raise PlotError(f"{names_of(results)}: no rows of vectors that a rule can be about")
    refuse_missing(ranks, groups, results, "" if with_simulated else "; --simulated takes simulated files")
    return sorted((g for g in groups if not ranks or g.ranks in ranks), key=lambda g: (g.collective, g.ranks, g.dtype)), results


def refuse_missing(ranks, groups, results, more=""):
    """Refuses numbers of ranks of --ranks that no group has."""
    if missing := [str(n) for n in ranks or () if n not in {g.ranks for g in groups}]:
        raise PlotError(f"--ranks {','.join(missing)}: not in {names_of(results)}, and nothing is concluded from other numbers of ranks{more}")


def size_text(size):
    """64K, 1M, 67108865: as in policies."""
    for unit, factor in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if size % factor == 0 and size:
            return f"{size // factor}{unit}"
    return str(size)


def limit_words(limit):
    if limit == FEEDBACK:
        return "any error of a single call, because error feedback adds what is left out to later calls"
    return f"a relative L2 error of one call of at most {max(limit, verdict.ROUNDING):g}" + (", which is rounding" if limit == 0 else "")


def origin(results, where):
    """Comment lines: where the numbers are from."""
    for r in results:
        a, rows = r.attrs, reader.chosen(r.points, where)
        kind = "simulated" if (rows["status"] == SIMULATED).any() else f"host {hosts([a])}, {mpi_version(a)}"
        date = str(a.get("created_utc", ""))[:10]
        yield f"# From {a['file']}: {kind}, link {words(rows['link']) or 'not named'}, {words(rows['data'])} input, commit {commits([a])}" \
            + (f", {date}" if date else "") + "."


def head(results, where, limit):
    yield from origin(results, where)
    yield f"# The fastest method with {limit_words(limit)}."
    yield (f"# It is chosen where the lower end of the 95 % interval of its speed-up over the fastest of MPI's own is at least {verdict.LEAST_GAIN:g}, at "
           "two neighbouring sizes or more.")


def group_words(group):
    what = f"{group.collective}{group.ranks_words()}, {group.dtype}"
    if not group.sizes:
        return f"# {what}: no rule, because {group.why}."
    simulated = f" Simulated, not measured: times are taken to be off by a factor of {SIMULATED_OFF:g}." if group.is_simulated else ""
    lone = "" if group.chosen else " No method within the limit is worth it: MPI's own stays."
    ends = " to ".join(dict.fromkeys(verdict.bytes_words(s) for s in (group.sizes[0], group.sizes[-1])))
    return f"# {what}, {'simulated' if group.is_simulated else 'measured'} at {ends}.{simulated}{lone}"


def window_words(window, is_simulated):
    return "# " + gain_words(window, is_simulated)


def gain_words(window, is_simulated=False):
    """'bf16: speed-up 1.9 [1.9, 2] at 64 KiB to 2.1 [2, 2.1] at 64 MiB, relative L2 error of one call 0.0017'."""
    found = verdict.Candidate(window.method, window.points, window.points[0]["bytes"], window.points[-1]["bytes"])
    measured_elsewhere = " (measured with other ranks)" if is_simulated and found.errors else ""
    return f"{window.method}: speed-up {verdict.gain_words(found)}, {verdict.error_words(found)}{measured_elsewhere}"


def rule_text(group, window, limit):
    """The rule for a window, as policies have it; '' if all its sums are below the least that a rule may reach."""
    first = max(window.points[0]["bytes"], SMALLEST)
    if window.end <= first:
        return ""
    small = " small" if first < SMALL else ""
    feedback = " feedback=address" if limit == FEEDBACK and not window.is_exact() else ""
    return f"{group.collective}{size_text(first)}-{size_text(window.end)} @{group.ranks} {group.dtype}{small}: {window.method}{feedback}"


def end_words(groups):
    """What the ends of rules mean. A rule includes the last measured size, so its end is one byte more."""
    ends = [window.end for group in groups for window in group.windows() if window.end == window.points[-1]["bytes"] + 1]
    example = f": {ends[-1]} lets {size_text(ends[-1] - 1)} in, and nothing above it" if ends else ""
    return f"# The upper end of a rule is excluded{example}. Sizes, numbers of ranks and types without a rule were not measured, or are MPI's own."


def policy_lines(groups, results, where, limit):
    """The text of a policy file."""
    yield from head(results, where, limit)
    yield end_words(groups)
    for group in groups:
        yield ""
        yield group_words(group)
        for method, point in group.wide:
            yield f"# Not judged, because the interval is too wide: {method} at {verdict.bytes_words(point['bytes'])}, {verdict.ratio_words(point)}"
        for window in group.windows():
            yield window_words(window, group.is_simulated)
            rule = rule_text(group, window, limit)
            if rule.endswith(" feedback=address") and group.collective.strip() in WITHOUT_FEEDBACK:
                yield "# For vectors that hold changes only, not for parameters: feedback adds what earlier calls left out."
            yield rule or f"# No rule: sums below {verdict.bytes_words(SMALLEST)} are MPI's own."


def _seconds(rows, method, size):
    return float(np.median(rows["t_median_s"][(rows["method"] == method) & (rows["bytes"] == size)]))


def asked_of(limit):
    """The method that asks for what a knowledge file with this limit has."""
    return "auto" if limit == 0 else f"auto(error={limit})"


def has_knowledge(group, limit):
    """Whether `auto` takes this limit for the collective: auto(error=feedback) serves sums."""
    return limit != FEEDBACK or group.collective.strip() not in WITHOUT_FEEDBACK


def knowledge_lines(groups, results, where, limit):
    """The text of a file for MPIQ_KNOWLEDGE. A line with mpi says that MPI's own reduction was the fastest."""
    asked = asked_of(limit)
    yield from head(results, where, limit)
    yield f"# For calls with {asked}. A size that has no line takes the nearest one, up to a factor of four away."
    for group in groups:
        if not has_knowledge(group, limit):
            continue
        yield ""
        yield group_words(group)
        dense = group.points[reader.dense(group.points)]
        for size in group.sizes:
            here = dense[dense["bytes"] == size]
            if len(here) == 0:
                raise PlotError(f"{verdict.bytes_words(size)}, {group.ranks} ranks: no row of a dense method, so MPI's time is not known")
            base = _seconds(here, reader.fastest_method(here), size)
            name, seconds, calls, remark = "mpi", base, int(here["reps"].max()), ""
            if size in group.chosen:
                method, point = group.chosen[size]
                rows = group.points[(group.points["method"] == method) & (group.points["bytes"] == size)]
                name = method if "/" in method or group.collective else f"{method}/{rows['algorithm'][0]}"
                seconds, calls = _seconds(rows, method, size), int(rows["reps"].sum())
                remark = f"  # speed-up {verdict.ratio_words(point)}, {verdict.error_words(verdict.Candidate(method, [point], size, size))}"
            yield f"{group.collective}{size} {group.dtype} {group.place()} {asked}: {name} seconds={seconds:.6g} mpi={base:.6g} margin={MARGIN:g} calls={calls}{remark}"
