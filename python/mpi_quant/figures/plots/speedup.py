"""Paired speed-up against size: the headline."""
import numpy as np

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import draw, extent, measured, plot


@plot("speedup", measured, read="""Higher is better. Above the line at 1 a method is faster than the baseline. In the grey area below it is slower.
It is called faster only where its band stays above 1. The band is the 95 % interval of ratios of calls that were made in turns, so
drift of the machine is in both.""")
def speedup(selection, ax=None):
    """The paired speed-up over the baseline against the size of the vector."""
    names, base = selection.base_methods(), selection.base_words()
    figure, axes, rows = draw(selection, ("speedup", "speedup_lo", "speedup_hi"), "speed-up",
                              lambda points: points[~np.isin(points["method"], names)], ax=ax)
    low, high = extent(rows, "speedup", "speedup_lo", "speedup_hi")
    fig.log_axis(axes[0], 2, fig.PLAIN, min(low, 0.6), max(high, 2))
    for axis in axes:
        axis.axhline(1, color="black", linewidth=1)
        axis.axhspan(axis.get_ylim()[0], 1, color="#000000", alpha=0.05, linewidth=0)
    fig.finish(figure, selection.title or f"Speed-up over {base}",
               selection.footer("A speed-up is the median of paired ratios. Bands are 95 % intervals by sign test."), ax)
    return figure, rows
