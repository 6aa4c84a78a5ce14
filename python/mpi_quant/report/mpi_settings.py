"""What mpiq policy --mpi makes of result files: the settings by which the MPI library itself takes the fastest of its algorithms of MPI_Allreduce.

Open MPI reads rules from a file: for each number of ranks, from how many bytes on which algorithm. MPICH has a variable for all calls of a
program. Its file of rules (MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE) takes the place of all rules that MPICH has, also for the other collectives,
so none is written. Where an algorithm is worth it is decided as for policies (rules.py, verdicts.py), with the speed-up over MPI's own choice.
"""
import dataclasses
import re

import numpy as np

from mpi_quant.figures.selection import PlotError, Selection, mpi_version, names_of
from mpi_quant.report import rules
from mpi_quant.report import verdicts as verdict
from mpi_quant.results import reader
from mpi_quant.results.schema import ALLREDUCE, SIMULATED

DEFAULT, PREFIX = "mpi", "mpi/"  # MPI's own choice; its algorithms, by name
# Of Open MPI 4.0 to 5.0: the value of coll_tuned_allreduce_algorithm by its name.
NUMBERS = {"basic_linear": 1, "nonoverlapping": 2, "recursive_doubling": 3, "ring": 4, "segmented_ring": 5, "rabenseifner": 6, "allgather_reduce": 7}
OWN_CHOICE = 0
ORDERED = ("ring", "segmented_ring")  # they add in another order than the ranks have
HAN = "OMPI_MCA_coll_han_allreduce_dynamic_global_communicator_module=3"  # coll/han hands MPI_Allreduce on to coll/tuned
SEGMENTS = {"segmented_ring": 1 << 20}  # bytes, as mpiq-bench measures it (bench/mpi_algorithm.hpp)
COLLECTIVE = 2  # MPI_Allreduce, in Open MPI's numbers
MPICH_SMALLEST = 1 << 10  # bytes: a variable is for all sizes, so small ones must have been measured
MPICH_LOSS = 0.95  # MPICH has one variable for all calls: at no size may the lower end of the speed-up be below this


@dataclasses.dataclass
class Measured:
    """What is known of one MPI library. groups: by number of ranks. dtype: of all rows."""

    library: str
    dtype: str
    groups: list
    judged: dict  # ranks -> verdicts.Judged
    results: list


def read(paths, where, ranks=None):
    """Measured of result files. ranks: only these numbers. Raises PlotError, and ResultsError."""
    results = [reader.read(path) for path in paths]
    if any((r.points["status"] == SIMULATED).any() for r in results):
        raise PlotError(f"{names_of(results)}: an MPI library is set by what it was measured to do, and there are simulated rows")
    if busy := verdict.load_words([r.attrs for r in results]):
        raise PlotError(f"nothing is concluded: {busy}")
    libraries = sorted({mpi_version(r.attrs) for r in results})
    if len(libraries) > 1:
        raise PlotError(f"{names_of(results)}: of several MPI libraries ({', '.join(libraries)}): one at a time")
    where = [*where, f"collective={ALLREDUCE}", "memory=host"]
    selection = Selection(results, where, "", DEFAULT if all(r.samples is not None for r in results) else None)
    points = selection.points
    if not np.char.startswith(points["method"].astype(str), PREFIX).any():
        raise PlotError(f"{names_of(results)}: no row of one of MPI's algorithms: measure with --methods 'mpi,mpi/*'")
    if selection.base_methods() != [DEFAULT]:
        raise PlotError(f"{names_of(results)}: speed-ups are not over {DEFAULT}, which is MPI's own choice")
    rules.only(points, "dtype", "rows")
    groups, judged = [], {}
    for (number, dtype), rows in rules.groups_of(points, "rows"):
        if ranks and number not in ranks:
            continue
        judged[number] = judge(rows)
        groups.append(rules.Group("", number, dtype, rows, judged[number].sizes, chosen(judged[number]), wide=judged[number].wide(), why=judged[number].why))
    rules.refuse_missing(ranks, groups, results)
    return Measured(libraries[0], str(points["dtype"][0]), groups, judged, results)


def judge(rows):
    """verdicts.Judged of MPI's own algorithms, with all sizes at which MPI's own choice or one of them was measured."""
    methods = rows["method"].astype(str)
    named = np.char.startswith(methods, PREFIX) & ~np.char.startswith(methods, PREFIX + "auto")
    judged = verdict.judge(rows, [DEFAULT], compared=named)
    if not judged.why:
        judged.sizes = sorted(set(rows["bytes"][named | (methods == DEFAULT)].tolist()))
    return judged


def chosen(judged):
    return {} if judged.why else rules.choose(judged, rules.FEEDBACK)


def name_of(method):
    """'mpi/ring' -> 'ring'."""
    return method.removeprefix(PREFIX)


def lines(measured, where):
    """The lines of the file for the library that was measured. Raises PlotError for a library that has no such settings."""
    family = measured.library.partition(" ")[0]
    makers = {"Open": openmpi_lines, "MPICH": mpich_lines}
    if family not in makers:
        raise PlotError(f"{measured.library}: neither Open MPI nor MPICH, and settings of other libraries are not known here")
    yield from rules.origin(measured.results, where)
    yield (f"# An algorithm is chosen where the lower end of the 95 % interval of its speed-up over {measured.library}'s own choice is at least "
           f"{verdict.LEAST_GAIN:g}, at two neighbouring sizes or more.")
    yield from makers[family](measured)


def group_words(group):
    what = group.ranks_words()
    if not group.sizes:
        return f"# {what}: none is chosen, because {group.why}."
    ends = " to ".join(dict.fromkeys(verdict.bytes_words(s) for s in (group.sizes[0], group.sizes[-1])))
    return f"# {what}, measured at {ends}." + ("" if group.chosen else " No algorithm is worth it: MPI's own choice stays.")


def wide_words(group):
    for method, point in group.wide:
        yield f"# Not judged, because the interval is too wide: {name_of(method)} at {verdict.bytes_words(point['bytes'])}, {verdict.ratio_words(point)}"


def window_words(window):
    found = verdict.Candidate(window.method, window.points, window.points[0]["bytes"], window.points[-1]["bytes"])
    return f"{name_of(window.method)}: speed-up {verdict.gain_words(found)}"


def openmpi_lines(measured):
    """A file for coll_tuned_dynamic_rules_filename. Open MPI takes the greatest number of ranks in it that is not above the ranks of a call,
    and then the greatest number of bytes that is not above the bytes of the call; below the first number of ranks, the first one. So what was
    not measured has rules of its own: Open MPI's choice."""
    with_rules = [g for g in measured.groups if g.chosen]
    if unknown := sorted({name_of(w.method) for g in with_rules for w in g.windows()} - set(NUMBERS)):
        raise PlotError(f"{', '.join(unknown)}: the numbers of these algorithms of Open MPI are not known here")
    yield "# Open MPI reads this file with"
    yield "#   OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_tuned_dynamic_rules_filename=/PATH/OF/THIS/FILE"
    yield "# in the environment of all ranks. It is about MPI_Allreduce in the component coll/tuned."
    yield (f"# Algorithm {OWN_CHOICE} is Open MPI's own choice: for sizes and numbers of ranks that were not measured, and where it is not known to be slower. "
           f"Sums of {measured.dtype} were measured; Open MPI applies a rule to every type and operation, and to every communicator of so many ranks, on whichever nodes they are.")
    if takes_han(measured):
        yield "# On several nodes with as many ranks each, Open MPI 5 gives MPI_Allreduce to the component coll/han, which does not read this file. So set there, too,"
        yield f"#   {HAN}"
        yield "# which hands MPI_Allreduce alone on to coll/tuned. Without it mpiq-bench measures coll/han under each algorithm's name."
    if any(name_of(w.method) in ORDERED for g in with_rules for w in g.windows()):
        yield "# Not for programs with operations of their own that do not commute: a ring adds in another order, and Open MPI 4.1 does not check that. Results would be wrong."
    for group in measured.groups:
        yield group_words(group)
        yield from wide_words(group)
    if not with_rules:
        yield "0  # collectives with rules"
        return
    blocks = {0: [f"0 {OWN_CHOICE} 0 0"]}  # ranks -> lines
    for group in with_rules:
        blocks[group.ranks] = list(openmpi_rules(group))
    for group in with_rules:
        blocks.setdefault(group.ranks + 1, [f"0 {OWN_CHOICE} 0 0"])
    yield "1  # collectives with rules"
    yield f"{COLLECTIVE}  # MPI_Allreduce"
    yield f"{len(blocks)}  # numbers of ranks, each from here on to the next one"
    for ranks, block in sorted(blocks.items()):
        yield f"{ranks}  # ranks"
        yield f"{len(block)}  # rules: bytes from here on to the next one, algorithm, fan in and out, bytes of a segment"
        yield from block


def takes_han(measured):
    """Whether Open MPI prefers coll/han to coll/tuned somewhere: from version 5 on, on several nodes."""
    version = re.search(r"v(\d+)", measured.library)
    return version is not None and int(version[1]) >= 5 and any(group.points["nodes"].max(initial=0) > 1 for group in measured.groups)


def openmpi_rules(group):
    """The rules of one number of ranks. The first one begins with 0 bytes, as Open MPI demands."""
    windows = group.windows()
    begins = {w.points[0]["bytes"] for w in windows}
    if 0 not in begins:
        yield f"0 {OWN_CHOICE} 0 0"
    for window in windows:
        name = name_of(window.method)
        yield f"{window.points[0]['bytes']} {NUMBERS[name]} 0 {SEGMENTS.get(name, 0)}  # {window_words(window)}"
        if window.end not in begins:
            yield f"{window.end} {OWN_CHOICE} 0 0"


def mpich_lines(measured):
    """Lines for a shell. MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM holds for all calls, so it is set only to an algorithm that is worth it somewhere and
    nowhere slower. MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE is no help: blocking calls of MPICH 4 do not look at it."""
    yield "# A shell reads this file before it starts the program: . FILE. MPICH's variable holds for all sizes and numbers of ranks, also for those that were not measured."
    for group in measured.groups:
        yield group_words(group)
        yield from wide_words(group)
        for window in group.windows():
            yield f"# {window_words(window)}"
    winners = sorted({method for g in measured.groups for method, _ in g.chosen.values()})
    if not winners:
        return
    smallest = max(min(g.sizes, default=np.inf) for g in measured.groups)
    if smallest > MPICH_SMALLEST:
        yield f"# Nothing is set: not all numbers of ranks were measured at {verdict.bytes_words(MPICH_SMALLEST)} or below, and the variable holds for small sums too."
        return
    fit = {method: np.mean([np.log(p["value"]) for line in mpich_points(measured, method) for p in line]) for method in winners if fits_everywhere(measured, method)}
    if not fit:
        yield f"# Nothing is set: each of {', '.join(map(name_of, winners))} may be slower than MPICH's own choice somewhere else, where the lower end of its speed-up is below {MPICH_LOSS:g} or not known."
        return
    best = max(sorted(fit), key=fit.__getitem__)
    yield f"# {name_of(best)} was measured to lose nowhere more than {1 - MPICH_LOSS:.0%}, with 95 % certainty."
    yield f"export MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM={name_of(best)}"


def mpich_points(measured, method):
    return [measured.judged[g.ranks].lines.get(method, []) for g in measured.groups]


def fits_everywhere(measured, method):
    """Whether the algorithm has a good point at each size of each number of ranks, none of which may be slower than MPICH's own choice."""
    for group, line in zip(measured.groups, mpich_points(measured, method)):
        kept = {p["bytes"] for p in line if p["drawn"] == "line" and p["low"] >= MPICH_LOSS}
        if not group.sizes or set(group.sizes) - kept:
            return False
    return True
