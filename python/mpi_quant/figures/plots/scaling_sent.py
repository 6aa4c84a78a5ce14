"""Bytes sent against the number of ranks."""
from matplotlib import ticker

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import extent, plot
from mpi_quant.figures.selection import best_dense_of, dense_words
from .scaling import GROUP, groups, prepare


def found_in(points):
    """(kind, size, key, rows) of what has more than one number of ranks, at a fixed vector."""
    for kind, size, key, rows in groups(points):
        rows = rows[rows["wire_bytes_max"] > 0]
        if kind == "vector" and len(rows):
            yield kind, size, key, rows


def applies(selection):
    return next(found_in(selection.points), None) is not None


@plot("scaling-sent", applies, both=True, read="""Ranks grow from left to right. A method that scales has a line that soon becomes level:
two encoded vectors with an owner for every slice. A line that rises sends headers and blocks instead of elements.""")
def scaling_sent(selection):
    """The bytes that the busiest rank sends in one call against the number of ranks, at a fixed vector."""
    found = list(found_in(best_dense_of(selection.points)))
    figure, (axes,), shown, looks, drawn = prepare(selection, found, "size with bytes", "bytes sent", *3 * ["wire_bytes_max"])
    rows = []
    for axis, (_, size, key, _), lines in zip(axes, found, shown):
        for link, method, points in lines:
            fig.draw_series(axis, points, looks[method], "ranks", selection.mixed)
            rows += [{**dict(zip(GROUP, (link, *key[1:]))), "bytes": size, "method": method, "ranks": p["ranks"], "drawn": p["drawn"],
                      "wire_bytes_max": p["value"]} for p in points]
    fig.log_x_axis(axes[0], 2, fig.PLAIN, *extent(rows, "ranks"))
    fig.log_axis(axes[0], 10, ticker.EngFormatter(unit="B"), *extent(rows, "wire_bytes_max"))
    fig.finish(figure, selection.title or "Bytes sent by number of ranks",
               selection.footer("Headers are included." + dense_words(drawn), drawn))
    return figure, rows
