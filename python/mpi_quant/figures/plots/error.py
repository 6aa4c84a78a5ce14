"""Error against size: what the speed costs."""
from matplotlib import ticker

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import draw, extent, measured, plot


@plot("error", measured, read="""Lower is better. The error has no unit: 0.01 is an error of one per cent. It is measured in one call on its own. With
error feedback what is dropped here is added to the next call, so that sums over many calls come out closer.""")
def error(selection, ax=None):
    """The relative L2 error of one call against the size of the vector."""
    figure, axes, rows = draw(selection, ("err_rel_l2", "err_rel_l2", "err_rel_l2"), "relative L2 error, |x − sum| / |sum|",
                              lambda points: points[points["err_rel_l2"] > 0], ax=ax)
    fig.log_axis(axes[0], 10, ticker.LogFormatterSciNotation(), *extent(rows, "err_rel_l2"))
    fig.finish(figure, selection.title or "Relative L2 error of one call",
               selection.footer("The error is |result - sum| / |sum| of the first call, before feedback gives back what it dropped. An error of 0 is not drawn."), ax)
    return figure, rows
