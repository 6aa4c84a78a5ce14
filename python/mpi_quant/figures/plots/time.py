"""Time against size: the base figure."""
from matplotlib import ticker

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import draw, extent, plot
from mpi_quant.results.schema import a_noun_of


@plot("time", read="""Lower is better. Both axes are logarithmic: a straight line of slope one is a constant rate, and a flat part is
latency. Where the bands of two methods overlap, the figure of the speed-up says which is faster.""")
def time(selection, ax=None):
    """The time of a call against the size of the vector."""
    figure, axes, rows = draw(selection, ("t_median_s", "t_ci_lo_s", "t_ci_hi_s"), "time of a call", ax=ax)
    fig.log_axis(axes[0], 10, ticker.EngFormatter(unit="s"), *extent(rows, "t_median_s", "t_ci_lo_s", "t_ci_hi_s"))
    fig.finish(figure, selection.title or f"Time of {a_noun_of(selection.collective)}",
               selection.footer("Times are medians of the slowest rank's time, and bands are their 95 % intervals."), ax)
    return figure, rows
