"""The table "What to use" of README.md, by the rule of mpiq report (verdicts): method, size from which on, error and gain come from
the committed results."""
import dataclasses
import os

from mpi_quant.figures.selection import BEST_DENSE, Selection
from mpi_quant.report import tables, verdicts
from mpi_quant.results import frontier, reader

HEAD = ["need", "method", "policy line", "error of a call", "measured gain"]


@dataclasses.dataclass
class Use:
    """A need, the results that answer it, and the method. words: of the policy line, after the codec. more: what else is to be said of the
    error and of the gain."""

    need: str
    path: str
    method: str
    words: str = ""
    error_more: str = ""
    gain_more: str = ""


OWED = ", made good over calls"
USES = (
    Use("training over 1 Gbit/s", "results/2026-11-29-epyc/lab-2x1gbit.h5", "onebit", " feedback=address", OWED,
        " for a call; 3.5 for a training step, same accuracy (MNIST)"),
    Use("training over 10 Gbit/s", "results/2026-11-29-epyc/lab-2x10gbit.h5", "onebit", " feedback=address", OWED, " for a call"),
    Use("training on one node", "results/2026-11-29-epyc/shm.h5", "onebit", " feedback=address", OWED, " for a call"),
    Use("every result right to 1 %, 1 Gbit/s", "results/2026-11-29-epyc/lab-2x1gbit.h5", "bf16"),
    Use("the same, with fewer bytes", "results/2026-11-24-epyc-codecs/lab-2x1gbit.h5", "int8"),
    Use("every result right to 1 %, 10 Gbit/s", "results/2026-11-29-epyc/lab-2x10gbit.h5", "bf16"),
    Use("every result right to 1 %, one node", "results/2026-11-29-epyc/shm.h5", "bf16", "", "", "; below that size it is not certain (0.92 to 1.42 at 1 MiB)"),
)
# What is not measured with vectors, or not advised at all.
OTHERS = (
    ["physics that needs 1e-6", "**do not use**", "none, or `: mpi`", "", "lossless `zerorun` gains nothing on dense data"],
    ["sparse embeddings, graphs", "[sparse functions](docs/sparse.md)", "none: call `MPIQ_Sparse_allreduce`", "rounding only",
     "1 % of 16 MiB over 1 Gbit/s: 93"],
    ["vectors on GPUs that ranks share", "`onebit` with feedback", "`4M-: onebit feedback=address`", "as above",
     "2 ranks on an H200: [1.8 at 4 MiB, 12.9 at 64 MiB](results/2026-11-27-h200/README.md); below keep MPI"],
    ["a GPU for each rank", "**do not use** without measuring", "", "as above", "none measured"],
    ["100 Gbit/s and more", "**do not use**", "", "", "0.3 to 0.7 ([simulated](results/2026-11-25-scale/README.md))"],
    ["sums below 64 KiB, integers, minimum, maximum", "**do not use**", "stay with MPI", "", ""],
)


def candidate_of(path, method):
    """What the verdict on a file's only panel says of a method: a Candidate, or None."""
    selection = Selection([reader.read(path)], [], "", BEST_DENSE)
    (_, points), = selection.panels()
    found = verdicts.of_panel(points, selection.base_methods(), [r.attrs for r in selection.results])
    return next((c for c in [found.best, *found.others] if c and c.method == method), None)


def _number(value):
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"


def row(use, root):
    found = candidate_of(os.path.join(root, use.path), use.method)
    if found is None:
        return [use.need, "**do not use**", "", "", ""]
    unit, size = next((u, found.first // s) for u, s in (("M", 1 << 20), ("K", 1 << 10)) if found.first >= s)
    gains = [p["value"] for p in found.points]
    error = f"{100 * max(found.errors):.2g} %"
    feedback = " with feedback" if use.words else ""
    return [use.need, f"`{use.method}`{feedback}", f"`{size}{unit}-: {use.method}{use.words}`", error + use.error_more,
            " to ".join(dict.fromkeys(_number(g) for g in (min(gains), max(gains)))) + use.gain_more]


# Training nearer to the exact sum than with onebit, from the recorded gradients of scripts/frontier.
FRONTIER, MOST_ERROR = "results/2026-11-27-epyc-frontier", 0.1
NEARER = (("training, nearer to the exact sum, 1 Gbit/s", "lab-1gbit"), ("the same, 10 Gbit/s", "lab-10gbit"), ("the same, one node", "shm"))


def nearer_row(need, link, points):
    """A method with feedback whose sum of 50 steps is off by 10 % at most on every recording."""
    method = frontier.fastest(points, link, MOST_ERROR)
    by_size = frontier.gains(points, method, link) if method else {}
    first = frontier.first_size(by_size)
    if first is None:
        return [need, "**do not use**", "", "", ""]
    size = 1 << (first - 1).bit_length()  # rounded up
    text = f"{size >> 20}M" if size >= 1 << 20 else f"{size >> 10}K"
    found = [gain for at, gain in by_size.items() if at >= first]
    errors = [p.error for p in points if p.method == method]
    return [need, f"`{method}` with feedback", f"`{text}-: {method} feedback=address`", f"of the sum of 50 steps: {100 * max(errors):.1g} % at most",
            " to ".join(dict.fromkeys(_number(g) for g in (min(found), max(found)))) + f" for a call of {reader.bytes_label(min(by_size))} to "
            f"{reader.bytes_label(max(by_size))} of recorded gradients"]


def table(root):
    points = frontier.read(os.path.join(root, FRONTIER))
    training = [row(use, root) for use in USES[:3]]
    nearer = [nearer_row(need, link, points) for need, link in NEARER if any(link in p.times for p in points)]
    return tables.markdown(HEAD, [*training, *nearer, *(row(use, root) for use in USES[3:]), *OTHERS])
