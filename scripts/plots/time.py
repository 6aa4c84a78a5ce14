"""Time against size: the base figure."""
from matplotlib import ticker

import mpiq_figure as fig
from mpiq_plots import draw, extent, plot


@plot("time", read="""Lower is better. Both axes are logarithmic: a straight line of slope one is a constant rate, a flat part is
latency. The band is the 95 % interval of the median; where bands of two methods overlap, see the speedup for which is faster.""")
def time(selection):
    """Time of a call against the size of the vector."""
    figure, axes, rows = draw(selection, ("t_median_s", "t_ci_lo_s", "t_ci_hi_s"), "time of a call, log scale")
    fig.log_axis(axes[0], 10, ticker.EngFormatter(unit="s"), *extent(rows, "t_median_s", "t_ci_lo_s", "t_ci_hi_s"))
    fig.finish(figure, selection.title or "Time of an allreduce",
               selection.footer("Median of the slowest rank's time, band: its 95 % interval."))
    return figure, rows
