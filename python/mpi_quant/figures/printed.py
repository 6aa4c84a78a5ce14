"""The form of a figure in a paper: as wide as a column or a page, its panels in one row, one legend below. The title and the conditions of the
measurement are not in the figure; look.save writes them to a text file beside it.

Programs choose the form once, by look.use_style. Plots draw as always.
"""
WIDTHS = {"column": 3.3, "page": 7.0}  # inches: of one of two columns, and of both
NARROWEST, WIDEST = 2.0, 12.0  # inches
STYLE = {"font.size": 7.5, "axes.titlesize": 8, "axes.labelsize": 7.5, "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7.5,
         "grid.linewidth": 0.4, "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5,
         "ytick.major.size": 2.5, "axes.labelpad": 2, "xtick.major.pad": 2, "ytick.major.pad": 2}
DPI = 400  # of a PNG
MARKER = 4  # points
PANEL_HEIGHT, NARROWEST_PANEL = 1.7, 1.0  # inches

_chosen: list[float] = []  # the width, if this form was chosen


class TooNarrow(Exception):
    """There is no room for the panels of a figure."""


def choose(width):
    """width: inches; None for the usual form."""
    _chosen[:] = [width] if width is not None else []


def width():
    """The width in inches; None if figures have their usual form."""
    return _chosen[0] if _chosen else None


def size(panels):
    """(width, height) in inches of a figure with so many panels in a row. Raises TooNarrow."""
    if width() / panels < NARROWEST_PANEL:
        raise TooNarrow(f"{panels} panels in a row have no room in {width():g} inches: choose rows with --where, or a greater --width")
    return width(), PANEL_HEIGHT


def apart(axis, usual):
    """The least distance of ticks as a share of the axis: `usual`, or more where labels would meet. axis: an XAxis or a YAxis."""
    if width() is None:
        return usual
    figure, place = axis.axes.figure, axis.axes.get_position()
    if axis.axis_name == "y":
        return max(usual, 0.15 / (0.8 * place.height * figure.get_figheight()))
    return max(usual, 0.42 / (0.8 * place.width * figure.get_figwidth()))


def legend_below(figure, handles):
    """One legend in the middle of the lower edge of the figure, in as few lines as its width has room for. Returns its height in inches."""
    renderer, box = figure.canvas.get_renderer(), None
    for columns in range(len(handles), 0, -1):
        for old in figure.legends[:]:
            old.remove()
        legend = figure.legend(handles=handles, loc="lower center", ncol=columns, handlelength=2.6, columnspacing=1.2, handletextpad=0.5,
                               borderaxespad=0.1, labelspacing=0.3)
        box = legend.get_window_extent(renderer)
        if box.width <= figure.bbox.width:
            break
    return box.height / figure.dpi
