"""Effective bus bandwidth against size: where compression beats the wire."""
import re

from matplotlib import ticker

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import draw, extent, plot
from mpi_quant.results.reader import with_columns
from mpi_quant.results.schema import ROOTED, busiest_share, passes_of


def wire_limit(link):
    """The B/s that the name of a link states ('lab-10gbit'); None if it states none."""
    found = re.search(r"(\d+(?:\.\d+)?)\s*([gm])bit", link.lower())
    return float(found.group(1)) * {"g": 1e9, "m": 1e6}[found.group(2)] / 8 if found else None


def of_bus(points):
    """busbw of the median and of the ends of its interval: bytes / t * 2 (ranks - 1) / ranks, of the halves of an allreduce half of
    it; with a root bytes / t."""
    moved = points["bytes"] * [busiest_share(name, float(ranks)) for name, ranks in zip(points["collective"], points["ranks"])]
    return with_columns(points, {"busbw": moved / points["t_median_s"], "busbw_lo": moved / points["t_ci_hi_s"],
                                 "busbw_hi": moved / points["t_ci_lo_s"]})


def limits(selection, panel):
    """(name, B/s) of the limits of an uncompressed call, if they are known."""
    link, _, ranks = panel[:3]
    out = []
    if wire_limit(link):
        out.append((f"wire of {link}", wire_limit(link)))
    if selection.kernels:
        # A rank at least reads what it gives and writes what it gets: two vectors, or one and a part; of a
        # broadcast one.
        vectors = {"reduce_scatter": 1 + 1 / ranks, "allgather": 1 + 1 / ranks, "bcast": 1}.get(selection.collective, 2)
        out.append(("copying by one core", selection.kernels.triad() / vectors * busiest_share(selection.collective, ranks)))
    return out


def has_more_ranks_than_one(selection):
    return (selection.points["ranks"] > 1).any()


@plot("busbw", has_more_ranks_than_one, read="""Higher is better. An uncompressed call cannot exceed the dashed wire
limit. A compressed one can, because it sends less than it delivers. The rate is computed from the uncompressed size.""")
def busbw(selection):
    """The effective bus bandwidth in bytes per second against the size of the vector."""
    figure, axes, rows = draw(selection, ("busbw", "busbw_lo", "busbw_hi"), "effective bus bandwidth",
                              lambda points: of_bus(points[points["ranks"] > 1]))
    low, high = extent(rows, "busbw", "busbw_lo", "busbw_hi")
    found = [limits(selection, key) for key, points in selection.panels() if (points["ranks"] > 1).any()]
    ends = [rate for panel in found for _, rate in panel]
    fig.log_axis(axes[0], 10, ticker.EngFormatter(unit="B/s"), min([low, *ends]), max([high, *ends]) * 1.2)
    for axis, lines in zip(axes, found):
        for name, rate in lines:
            axis.axhline(rate, color="#444444", linewidth=1, linestyle=(0, (6, 3)), zorder=1, label=name)
    factor = "" if selection.collective in ROOTED else f"{'2 ' if passes_of(selection.collective) == 2 else ''}(ranks - 1) / ranks times "
    fig.finish(figure, selection.title or "Effective bus bandwidth", selection.footer(
        f"The bandwidth is {factor}the bytes of the vector over the median time. Bands are 95 % intervals."))
    return figure, rows
