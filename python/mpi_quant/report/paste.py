"""The first lines of a report: for each network the policy to paste, and what its rules rest on; or why there is none.

The rules are those that mpiq policy makes of the same rows (rules.py): one line for programs whose every result counts, and one for training
where more error, made good by feedback, is worth more.
"""
import dataclasses
import shlex

import numpy as np

from mpi_quant.report import html_parts as h, rules, verdicts

EXACT = 0.01  # the largest relative L2 error of one call in the line for programs of any kind, as mpiq policy has it without --error
NEEDS = {EXACT: f"For any program: every result right to {100 * EXACT:g} %", rules.FEEDBACK: "For training, with error feedback: single results are coarse, "
         "and what a call leaves out is added to the next one"}


@dataclasses.dataclass
class Line:
    """What to paste for one network. where: its name. limit: as in rules.choose. rules: of the policy, [] if there are none. why: sentences."""

    where: str
    limit: float | str
    rules: list
    why: list

    @property
    def text(self):
        return "mpiq-run --policy " + shlex.quote("; ".join(self.rules)) + " ./app"


def places(selection):
    """((link, input, nodes), panels): what no rule can tell apart is apart here. nodes: None where the number of ranks says it."""
    found = list(selection.panels())
    ranks = [(link, dtype, data, n) for (link, _, n, dtype, data), _ in found]
    with_nodes = len(set(ranks)) < len(ranks)
    out = {}
    for key, points in found:
        link, nodes, _, _, data = key
        out.setdefault((link, data, nodes if with_nodes else None), []).append((key, points))
    return out.items()


def groups_of(selection, panels, limit):
    """A rules.Group for each panel; None where methods were measured without the feedback that the limit asks for."""
    collective = rules.SELECTORS[selection.collective]
    out = []
    for (_, _, ranks, dtype, _), points in panels:
        rows = points[points["matrix_side"] <= 0]
        files = [r.attrs for r in selection.results if np.isin(r.points["key"], rows["key"]).any()]
        if not len(rows):
            continue
        if limit == rules.FEEDBACK and rules.without_feedback(rows):
            return None
        out.append(rules.judged_group(collective, ranks, dtype, rows, selection.base_methods(), limit, files))
    return out


def reasons(groups, written):
    """Why there are these rules, or none, as sentences."""
    for group in groups:
        what = f"{group.collective}{group.ranks_words()}, {group.dtype}"
        windows = group.windows()
        if windows:
            yield f"{what}: " + "; ".join(rules.gain_words(window) for window in windows) + "."
        else:
            why = group.why or verdicts.wide_words(group.wide) or "no method within this error is worth it at two neighbouring sizes"
            yield f"{what}: no rule, because {why}."
    if written:
        yield "Calls of other sizes, numbers of ranks and types stay with MPI: they were not measured, or MPI is as fast there."


def line(selection, where, panels, limit):
    """The Line for one network, or None where nothing of it is known."""
    groups = groups_of(selection, panels, limit)
    if not groups:
        return None
    written = [rule for group in groups for window in group.windows() for rule in [rules.rule_text(group, window, limit)] if rule]
    return Line(where, limit, written, list(reasons(groups, written)))


def lines(selection):
    """The lines of all networks. That for training is left out where it has no other rules than the first, or carries parameters."""
    if selection.collective not in rules.SELECTORS or "matrix_side" not in selection.points.dtype.names:
        return
    for (link, data, nodes), panels in places(selection):
        where = ", ".join([f"On {link}" if link else "On a link that is not named", f"{data} input", *([f"{nodes} nodes"] if nodes else [])])
        first = line(selection, where, panels, EXACT)
        if first is None:
            continue
        yield first
        training = line(selection, where, panels, rules.FEEDBACK) if selection.collective not in rules.WITHOUT_FEEDBACK else None
        if training and training.rules and [r.removesuffix(" feedback=address") for r in training.rules] != first.rules:
            yield training


def part(selection):
    """The boxes of the page."""
    for found in lines(selection):
        yield f'<div class="verdict{"" if found.rules else " none"}">'
        yield h.paragraph(f"{found.where}. {NEEDS[found.limit]}.", "soft")
        yield h.code(found.text) if found.rules else "<p><strong>No policy: keep MPI as it is.</strong></p>"
        yield h.paragraph(" ".join(found.why))
        yield "</div>"
