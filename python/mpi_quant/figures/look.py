"""What all figures of mpiq plot share: one look per method, axes, legends, margins, and the three files of a figure.

All plots use it, so that every figure of the project follows the same conventions. In a notebook (mpi_quant.plots) the same plots
draw with the settings and the backend of the user, so nothing here changes them but use_style.
"""
import csv
import os
import textwrap
import zlib

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import ticker
from matplotlib.legend import Legend

from mpi_quant.figures import printed
from mpi_quant.results.reader import bytes_label
from mpi_quant.results.schema import DENSE, MPI_ALLREDUCE, SIMULATED, SIMULATED_FASTEST

# The colours of Okabe and Ito, which colour-blind readers can distinguish. Markers and dashes distinguish
# methods without colour.
LOOKS = {
    "mpi": ("#000000", "o", "-"),
    "mpi/fastest": ("#000000", "o", "-"),
    "dense/fastest": ("#000000", "o", "-"),
    "bf16": ("#0072B2", "s", (0, (5, 2))),
    "onebit": ("#D55E00", "^", "-"),
    "adaptive": ("#009E73", "D", (0, (4, 1, 1, 1))),
    "threshold": ("#CC79A7", "v", (0, (2, 1))),
    "raw": ("#56B4E9", "P", (0, (1, 1))),
}
OTHER_COLOURS = ("#E69F00", "#7F7F7F", "#8C510A", "#542788", "#B8A900")
OTHER_MARKERS = ("X", "*", "<", ">", "p", "h", "d")
OTHER_DASHES = ((0, (3, 1, 1, 1, 1, 1)), (0, (6, 1)), (0, (1, 2)), (0, (5, 1, 2, 1)))

DTYPES = {"f32": "fp32", "f64": "fp64", "f16": "fp16", "bf16": "bf16"}

PANEL_WIDTH = 5.2  # inches, with its legend; two panels fit a page
BOTH_HEIGHTS = (1.5, 1.0)  # of two rows of panels, relative to each other
THICK = 2.4  # of the line of a baseline that must be seen at once

STYLE = {
    "font.size": 9, "axes.titlesize": 9.5, "xtick.labelsize": 8, "ytick.labelsize": 8, "legend.fontsize": 8, "axes.grid": True, "grid.color": "#dddddd", "grid.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "pdf.fonttype": 42, "legend.frameon": False,
    "svg.hashsalt": "mpi_quant",  # so that names inside an SVG depend on its content only
}


def use_style(width=None):
    """For programs that write figures: these are the same whatever matplotlibrc the user has. width: of figures for a paper, in inches
    (printed.py)."""
    plt.rcdefaults()
    plt.rcParams.update(STYLE)
    if width is not None:
        plt.rcParams.update(printed.STYLE)
    printed.choose(width)


def look(method):
    """Colour, marker and dashes of a method. They are the same in every figure. A variant of a codec has the codec's colour;
    its marker and dashes depend on its words."""
    if method in LOOKS:
        return LOOKS[method]
    codec = method.split("(")[0].split("/")[0]
    pick = zlib.crc32(method.encode())
    colour = LOOKS[codec][0] if codec in LOOKS else OTHER_COLOURS[zlib.crc32(codec.encode()) % len(OTHER_COLOURS)]
    return colour, OTHER_MARKERS[pick % len(OTHER_MARKERS)], OTHER_DASHES[pick // 7 % len(OTHER_DASHES)]


def looks(methods, dtypes, function=MPI_ALLREDUCE):
    """Colour, marker, dashes and legend text of each method. If two would look alike in one figure, the later one takes the next
    free marker."""
    out = {}
    for method in sorted(set(map(str, methods)), key=order):
        colour, marker, dashes = look(method)
        free = [m for m in (marker, *OTHER_MARKERS) if (colour, m) not in {taken[:2] for taken in out.values()}]
        out[method] = (colour, (free or [marker])[0], dashes, label(method, dtypes, function))
    return out


def order(method):
    """Key to sort methods by: methods of the MPI library come first."""
    return not is_dense(method), method


ELSEWHERE = {SIMULATED_FASTEST: "fastest dense algorithm", "nccl": "NCCL"}


def is_dense(method):
    return method.split("/")[0] in DENSE or method == SIMULATED_FASTEST


def label(method, dtypes, function=MPI_ALLREDUCE):
    """Legend text: the method and, if the figure has only one element type, the type. function: MPI's own."""
    if not is_dense(method):
        return method
    if method in ELSEWHERE:
        return ELSEWHERE[method]
    if method == "mpi-direct":
        return f"{function} on GPU memory"
    name = f"{function} {DTYPES.get(dtypes[0], dtypes[0])}" if len(dtypes) == 1 else function
    algorithm = method.partition("/")[2]
    return f"fastest {name}" if algorithm == "fastest" else f"{name}, {algorithm}" if algorithm else name


APART = ", simulated"  # ends the legend text of what is simulated, in figures of both kinds


def panels(titles, ylabel, xlabel="vector per rank (bytes)", share=True, height=3.0, ax=None):
    """A figure with one panel per title, at most two side by side (in a paper all), and its axes. With `share`, all panels have the same
    scales. The only panel may be drawn on the axes `ax` of the user."""
    if ax is not None:
        if len(titles) > 1:
            raise ValueError(f"one axes has room for one panel, and these points make {len(titles)}: {'; '.join(titles)}")
        ax.set(title=titles[0], xlabel=xlabel, ylabel=ylabel)
        return ax.figure, [ax]
    columns, letters = min(2, len(titles)), 46
    rows = -(-len(titles) // columns)
    size = max(6.4, PANEL_WIDTH * columns), height * rows
    if printed.width() is not None:
        columns, rows, size = len(titles), 1, printed.size(len(titles))
        letters = int(14 * size[0] / columns)
        ylabel = textwrap.fill(ylabel, 20)
    figure, grid = plt.subplots(rows, columns, squeeze=False, sharex=share, sharey=share, figsize=size)
    axes = list(grid.flat)
    for axis in axes[len(titles):]:
        axis.set_visible(False)
    for i, (axis, title) in enumerate(zip(axes, titles)):
        axis.set_title(textwrap.fill(title, letters, break_long_words=False))
        if i % columns == 0:
            axis.set_ylabel(ylabel)
        below_is_empty = not share or i + columns >= len(titles)
        axis.tick_params(labelbottom=below_is_empty)
        if below_is_empty:
            axis.set_xlabel(xlabel)
    return figure, axes[:len(titles)]


def panels_in_pairs(titles, above, below, xlabel):
    """A figure with a column of two panels for each title, and its axes by row. above, below: the labels of y. All panels have the same x, and the
    panels of a row the same y."""
    width, height = (PANEL_WIDTH * len(titles), 5.4) if printed.width() is None else printed.size(len(titles))
    figure, axes = plt.subplots(2, len(titles), squeeze=False, sharex=True, sharey="row", gridspec_kw={"height_ratios": BOTH_HEIGHTS},
                                figsize=(width, height if printed.width() is None else 1.5 * height))
    letters = 46 if printed.width() is None else int(14 * width / len(titles))
    for axis, title in zip(axes[0], titles):
        axis.set_title(textwrap.fill(title, letters, break_long_words=False))
    for axis in axes[1]:
        axis.set_xlabel(xlabel)
    axes[0][0].set_ylabel(above)
    axes[1][0].set_ylabel(below)
    return figure, axes


SUBS = {2: (), 10: (np.arange(10, 100) / 10, np.arange(10, 100, 2) / 10, np.arange(1, 10), (1, 2, 5), (1, 3))}


def log_ticks(low, high, base, apart):
    """As many round values from low to high as a log scale has room for: neighbours are at least the share `apart` of the axis
    away from each other."""
    first, last = (int(np.ceil(np.log(value) / np.log(base))) for value in (low, high))
    for begin, step, subs in [(first - 1, 1, subs) for subs in SUBS[base]] + [(first, step, (1,)) for step in range(1, last - first + 2)]:
        ticks = [float(base)**e * s for e in range(begin, last + 1, step) for s in subs]
        ticks = [t for t in ticks if low * (1 - 1e-9) <= t <= high * (1 + 1e-9)]
        if all(np.log(b / a) >= apart * np.log(high / low) for a, b in zip(ticks, ticks[1:])):
            return ticks
    return []


def _log(axis, base, formatter, low, high, apart):
    axis.axes.set(**{f"{axis.axis_name}lim": (low, high)})
    axis.set_ticks(log_ticks(low, high, base, apart))
    axis.set_major_formatter(formatter)
    axis.set_minor_locator(ticker.NullLocator())


def log_axis(axis, base, formatter, low, high):
    """A logarithmic y from low to high, with room above and below for whole markers."""
    axis.set_yscale("log", base=base)
    room = max(1.3, (high / low)**0.04)
    _log(axis.yaxis, base, formatter, low / room, high * room, printed.apart(axis.yaxis, 0.07))


def log_x_axis(axis, base, formatter, low, high):
    """A logarithmic x from low to high, with room on both sides."""
    axis.set_xscale("log", base=base)
    _log(axis.xaxis, base, formatter, low / 1.25, high * 1.25, printed.apart(axis.xaxis, 0.2))


PLAIN = ticker.FuncFormatter(lambda value, _: f"{value:g}")
BYTES = ticker.FuncFormatter(bytes_label)


def marker_size():
    """In points: smaller in a paper, where panels are small."""
    return 5 if printed.width() is None else printed.MARKER


def draw_series(axis, points, method_look, x="bytes", apart=False, thick=False):
    """Draws a line with a band through the good points of a method; a thick one for a baseline. The line breaks at points that are not good; these are
    hollow and alone. Simulated points are hollow too, on a thin line. In a figure of both kinds (apart) simulated points are larger,
    below the measured ones, and have a name of their own; only they are hollow, and points that are not good are half filled."""
    colour, marker, dashes, name = method_look
    x = np.array([p[x] for p in points], dtype=float)
    good, simulated = (np.array([p["drawn"] in drawn for p in points]) for drawn in (("line", SIMULATED), (SIMULATED,)))
    y, low, high = (np.array([p[column] for p in points], dtype=float) for column in ("value", "low", "high"))
    line = np.where(good, y, np.nan)
    face = "white" if simulated.any() else colour
    below = {"markersize": 1.6 * marker_size(), "zorder": 1.9, "label": name + APART} if apart and simulated.any() else {}
    axis.plot(x, line, **{"color": colour, "marker": marker, "linestyle": dashes, "markersize": marker_size(), "markerfacecolor": face, "label": name,
                          "linewidth": THICK if thick else 0.9 if simulated.any() else 1.5, **below})
    axis.fill_between(x, np.where(good, low, np.nan), np.where(good, high, np.nan), color=colour, alpha=0.18, linewidth=0)
    # A band between points that are not joined would have no width. So each point gets its interval.
    known = good & np.isfinite(low) & np.isfinite(high)
    axis.vlines(x[known], low[known], high[known], color=colour, linewidth=1.2)
    for p, at in zip(points, x):
        if p["drawn"] not in ("line", SIMULATED):
            mark(axis, at, {**p, "low": np.nan, "high": np.nan}, method_look, half=apart)


def mark(axis, x, point, method_look, half=False):
    """Draws a marker with its interval. It is hollow if the point is not good, or half filled."""
    colour, marker, _, name = method_look
    y, good = point["value"], point["drawn"] == "line"
    if point["high"] > point["low"]:
        axis.vlines(x, point["low"], point["high"], color=colour, linewidth=1.2)
    def fill(ink):
        if half and not good:
            return {"fillstyle": "bottom", "markerfacecolor": ink, "markerfacecoloralt": "white"}
        return {"markerfacecolor": ink if good else "white"}
    axis.plot(x, y, color=colour, marker=marker, linestyle="none", markersize=1.2 * marker_size(), label=name, **fill(colour))
    if point["drawn"] in ("invalid", "oversubscribed"):
        axis.plot([], [], color="#555555", marker="o", linestyle="none", label=HOLLOW, **fill("#555555"))


HOLLOW = "invalid, or more ranks than cores"


def right_end(lines):
    """Where a curve ends on the right, as pixels (x, y). (inf, -inf) if it has no point."""
    ends = []
    for line in lines:
        xy = line.get_xydata()
        ends += map(tuple, line.get_transform().transform(xy[np.isfinite(xy).all(axis=1)]))
    return max(ends, default=(np.inf, -np.inf))


def in_lines(name, letters=24):
    """A name in short lines, which end before or between its parameters if they can."""
    parts = name.replace("(", "\t(").replace(",", ",\t")
    return "\n".join(textwrap.wrap(parts, letters, expand_tabs=False, replace_whitespace=False)).replace("\t", "")


def _handle(name, lines):
    """The sign of a curve in the legend: its marker and its dashes may come from different lines."""
    marker = next((line for line in lines if line.get_marker() != "None"), lines[0])
    dashes = next((line for line in lines if line.get_linestyle() != "None"), lines[0])
    handle = plt.Line2D([], [])
    handle.update_from(dashes)
    handle.set(label=in_lines(name), marker=marker.get_marker(), markersize=marker_size(), markerfacecolor=marker.get_markerfacecolor())
    return handle


def _curves(*panels):
    """Name -> its lines. Lines of one name are one curve."""
    curves = {}
    for line in (line for axis in panels for line in axis.lines):
        if not line.get_label().startswith("_"):
            curves.setdefault(line.get_label(), []).append(line)
    return curves


def legend(axis, beside=True):
    """Lists the curves of a panel on its right, in the order in which they end there, the highest first; or inside of it. Beside measured
    curves simulated ones have a legend of their own, below."""
    curves = _curves(axis)
    ends = {name: right_end(lines) for name, lines in curves.items()}
    names = sorted(curves, key=lambda name: (-round(ends[name][1], 3), ends[name][0]))
    if not beside:
        axis.legend(handles=[_handle(name, curves[name]) for name in names], fontsize="small")
        return
    groups = [group for group in ([n for n in names if not n.endswith(APART)], [n for n in names if n.endswith(APART)]) if group]
    places = {1: [("center left", 0.5)], 2: [("upper left", 1), ("lower left", 0)]}.get(len(groups), [])
    for group, (place, y) in zip(groups, places):
        earlier = axis.get_legend()
        axis.legend(handles=[_handle(name, curves[name]) for name in group], loc=place, bbox_to_anchor=(1, y),
                    handlelength=2.5, labelspacing=0.35)
        if earlier:
            axis.add_artist(earlier).set_clip_on(False)  # what is clipped to the panel would get no room beside it


def legends(axis):
    return [child for child in axis.get_children() if isinstance(child, Legend)]


def finish(figure, title, footer, ax=None, below=False):
    """Adds the legends: beside each panel; or one below all, as always in a paper. Keeps the title and the conditions of the measurement for
    lay_out or a page. A figure of the user, who gave `ax`, gets the legend of these axes and no more."""
    if ax is not None:
        legend(ax, beside=False)
        return
    figure.words = title, footer
    figure.is_legend_below = below or printed.width() is not None
    for axis in figure.axes if not figure.is_legend_below else ():
        legend(axis)


def take_literally(figure):
    """A $ in a title or a name is a $. Only labels of ticks have formulas."""
    texts = list(figure.texts)
    for each in figure.legends:
        texts += each.get_texts()
    for axes in figure.axes:
        texts += [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        texts += [text for each in legends(axes) for text in (*each.get_texts(), each.get_title())]
    for text in texts:
        text.set_parse_math(False)


def lay_out(figure, with_words=True):
    """Sets the margins. With words, the title stands above the panels and the conditions below; in a paper there are none. A long legend
    makes the figure higher."""
    curves = _curves(*figure.axes) if figure.is_legend_below else {}
    under = printed.legend_below(figure, [_handle(name, lines) for name, lines in curves.items()]) if curves else 0.0
    take_literally(figure)
    need = [(0.14 * sum(text.get_text().count("\n") + 1.25 for each in legends(axis) for text in each.get_texts())
             + 0.3 * (len(legends(axis)) - 1), axis.get_position().height) for axis in figure.axes if legends(axis)]
    height, above, below = max([figure.get_figheight(), *(inches / share for inches, share in need)]) + under, 0.0, 0.0
    if with_words and printed.width() is None:
        width = figure.get_figwidth()
        title = textwrap.fill(figure.words[0], int(11 * width))
        lines = [line for sentence in figure.words[1] for line in textwrap.wrap(sentence, width=int(15 * width))]
        above, below = 0.2 + 0.17 * (title.count("\n") + 1), 0.15 + 0.14 * len(lines)
        height += above + below
        figure.text(0.5, 1 - 0.12 / height, title, va="top", ha="center", fontsize=11, parse_math=False)
        figure.text(0.1 / width, 0.08 / height, "\n".join(lines), fontsize=8, color="#444444", va="bottom", linespacing=1.25, parse_math=False)
    figure.set_figheight(height)
    for each in figure.legends:
        each.set_bbox_to_anchor((0, below / height, 1, 1), figure.transFigure)
    figure.tight_layout(w_pad=2.0 if printed.width() is None else 0.6, rect=(0, (below + under) / height, 1, 1 - above / height))


def save(figure, rows, path, formats):
    """Writes path.png, path.pdf and the numbers as path.csv, and in a paper what the figure does not say as path.txt; returns the paths. The
    same input gives the same bytes."""
    lay_out(figure)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    written = []
    for suffix in formats:
        metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(suffix)
        figure.savefig(f"{path}.{suffix}", dpi=160 if printed.width() is None else printed.DPI, metadata=metadata)
        written.append(f"{path}.{suffix}")
    plt.close(figure)
    with open(f"{path}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.9g}" if isinstance(v, float) else v for k, v in row.items()})
    written.append(f"{path}.csv")
    if printed.width() is not None:
        with open(f"{path}.txt", "w", encoding="utf-8") as file:
            file.writelines(textwrap.fill(sentence, 100) + "\n" for sentence in (figure.words[0] + ".", *figure.words[1]))
        written.append(f"{path}.txt")
    return written
