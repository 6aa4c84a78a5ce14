"""Paired speedup against size: the headline."""
import numpy as np
from matplotlib import ticker

import mpiq_figure as fig
from mpiq_plots import draw, extent, plot


@plot("speedup", read="""Above the line at 1 a method is faster than the baseline. It is called faster only where its band stays
above 1: the band is the 95 % interval of ratios of calls that were made in turns, so drift of the machine is in both.""")
def speedup(selection):
    """Paired speedup over the baseline against the size of the vector."""
    names, base = selection.base_methods(), selection.base_words()
    figure, axes, rows = draw(selection, ("speedup", "speedup_lo", "speedup_hi"), "speedup, log scale",
                              lambda points: points[~np.isin(points["method"], names)])
    low, high = extent(rows, "speedup", "speedup_lo", "speedup_hi")
    fig.log_axis(axes[0], 2, ticker.FuncFormatter(lambda y, _: f"{y:g}"), min(low, 0.6), max(high, 2))
    for axis in axes:
        axis.axhline(1, color="black", linewidth=1)
        axis.axhspan(axis.get_ylim()[0], 1, color="#000000", alpha=0.05, linewidth=0)
        axis.text(0.012, 0.03, f"slower than {base}", transform=axis.transAxes, fontsize=7, color="#444444",
                  bbox={"facecolor": "#f2f2f2", "edgecolor": "none", "pad": 1})
    fig.finish(figure, selection.title or f"Speedup over {base}",
               selection.footer("Median of paired ratios of interleaved calls, band: 95 % interval (sign test)."))
    return figure, rows
