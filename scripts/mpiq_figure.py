"""What all figures of scripts/plot share: one look per method, axes, footer, and the three files of a figure.

All plots use it, so that every figure of the project follows the same conventions.
"""
import csv
import os
import textwrap
import zlib

import matplotlib

matplotlib.use("Agg")  # no display is needed

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib import ticker  # noqa: E402

from mpiq_results import bytes_label  # noqa: E402
from mpiq_schema import DENSE  # noqa: E402

# The colours of Okabe and Ito, which colour-blind readers can distinguish. Markers and dashes distinguish methods without
# colour.
LOOKS = {
    "mpi": ("#000000", "o", "-"),
    "mpi/fastest": ("#000000", "o", "-"),
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

most_columns = 3  # of panels; a report sets 2, because its pages are narrow

plt.rcParams.update({
    "font.size": 9, "axes.titlesize": 9.5, "axes.grid": True, "grid.color": "#dddddd", "grid.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "pdf.fonttype": 42, "legend.frameon": False,
    "svg.hashsalt": "mpi_quant",  # so that names inside an SVG depend on its content only
})


def look(method):
    """Colour, marker and dashes of a method. They are the same in every figure. A variant of a codec has the codec's colour;
    its marker and dashes depend on its words."""
    if method in LOOKS:
        return LOOKS[method]
    codec = method.split("(")[0].split("/")[0]
    pick = zlib.crc32(method.encode())
    colour = LOOKS[codec][0] if codec in LOOKS else OTHER_COLOURS[zlib.crc32(codec.encode()) % len(OTHER_COLOURS)]
    return colour, OTHER_MARKERS[pick % len(OTHER_MARKERS)], OTHER_DASHES[pick // 7 % len(OTHER_DASHES)]


def looks(methods):
    """The look of each method. If two would look alike in one figure, the later one takes the next free marker."""
    out = {}
    for method in methods:
        colour, marker, dashes = look(method)
        free = [m for m in (marker, *OTHER_MARKERS) if (colour, m) not in {taken[:2] for taken in out.values()}]
        out[method] = (colour, (free or [marker])[0], dashes)
    return out


def order(method):
    """Key to sort methods by: those of the MPI library come first."""
    return not is_dense(method), method


ELSEWHERE = {"mpi-direct": "MPI_Allreduce on GPU memory", "nccl": "NCCL"}


def is_dense(method):
    return method.split("/")[0] in DENSE


def label(method, dtypes):
    """Legend text: the method and, if the figure has only one element type, the type."""
    if not is_dense(method):
        return f"{method} (ours)"
    if method in ELSEWHERE:
        return ELSEWHERE[method]
    name = f"MPI_Allreduce {DTYPES.get(dtypes[0], dtypes[0])}" if len(dtypes) == 1 else "MPI_Allreduce"
    algorithm = method.partition("/")[2]
    return f"fastest {name}" if algorithm == "fastest" else f"{name}, {algorithm}" if algorithm else name


def columns_of(panels_in_all):
    """The number of panels side by side."""
    return 2 if panels_in_all == 4 else min(most_columns, panels_in_all)


def panels(titles, ylabel, xlabel="vector per rank (bytes)", share=True, height=3.4):
    """A figure with one panel per title, and its axes. With `share`, all panels have the same scales."""
    columns = columns_of(len(titles))
    rows = -(-len(titles) // columns)
    figure, grid = plt.subplots(rows, columns, squeeze=False, sharex=share, sharey=share,
                                figsize=(max(6.4, 4.2 * columns), height * rows + 1.3))
    axes = list(grid.flat)
    for axis in axes[len(titles):]:
        axis.set_visible(False)
    for i, (axis, title) in enumerate(zip(axes, titles)):
        axis.set_title(title)
        if i % columns == 0:
            axis.set_ylabel(ylabel)
        below_is_empty = not share or i + columns >= len(titles)
        axis.tick_params(labelbottom=below_is_empty)
        if below_is_empty:
            axis.set_xlabel(xlabel)
    return figure, axes[:len(titles)]


def bytes_axis(axis, sizes):
    """Labels x in powers of two with KiB and MiB: at most seven labels, at multiples of one factor."""
    axis.set_xscale("log", base=2)
    first, last = int(np.floor(np.log2(min(sizes)))), int(np.ceil(np.log2(max(sizes))))
    step = max(1, -(-(last - first) // 6))
    axis.set_xticks([2.0**e for e in range(first, last + 1, step)])
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(bytes_label))
    axis.xaxis.set_minor_locator(ticker.NullLocator())
    axis.set_xlim(min(sizes) / 1.25, max(sizes) * 1.25)


def side_axis(axis, sides):
    """Labels x in powers of two, with a label at each side that was measured."""
    axis.set_xscale("log", base=2)
    axis.set_xticks(sorted(set(sides)))
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda side, _: f"{side:g}"))
    axis.xaxis.set_minor_locator(ticker.NullLocator())
    axis.set_xlim(min(sides) / 1.25, max(sides) * 1.25)


def log_axis(axis, base, formatter, low, high):
    """Labels y in powers of base from low to high. If less than three decades are shown, 2 and 5 get labels too."""
    axis.set_yscale("log", base=base)
    axis.set_ylim(low / 1.3, high * 1.3)
    few = base == 10 and np.log10(high / low) < 3
    axis.yaxis.set_major_locator(ticker.LogLocator(base=base, subs=(1, 2, 5) if few else (1,), numticks=12))
    axis.yaxis.set_major_formatter(formatter)
    axis.yaxis.set_minor_locator(ticker.NullLocator())


def draw_series(axis, points, method_look, x="bytes"):
    """Draws a line with a band through the good points of a method. The line breaks at points that are not good; these are
    hollow and alone."""
    colour, marker, dashes = method_look
    x = np.array([p[x] for p in points], dtype=float)
    good = np.array([p["drawn"] == "line" for p in points])
    y, low, high = (np.array([p[name] for p in points], dtype=float) for name in ("value", "low", "high"))
    line = np.where(good, y, np.nan)
    axis.plot(x, line, color=colour, marker=marker, linestyle=dashes, markersize=5, linewidth=1.5)
    axis.fill_between(x, np.where(good, low, np.nan), np.where(good, high, np.nan), color=colour, alpha=0.18, linewidth=0)
    # A band between points that are not joined would have no width. So each point gets its interval.
    known = good & np.isfinite(low) & np.isfinite(high)
    axis.vlines(x[known], low[known], high[known], color=colour, linewidth=1.2)
    axis.plot(x[~good], y[~good], color=colour, marker=marker, linestyle="none", markersize=6, markerfacecolor="white")


def _legend_columns(figure, labels):
    """As many columns as fit the width: a label takes about 0.075 inches per letter, its line and the space around it 0.75."""
    fitting = int(figure.get_figwidth() / (0.75 + 0.075 * max(map(len, labels))))
    return max(1, min(len(labels), fitting))


def legend(figure, method_looks, dtypes, more=()):
    """Draws one legend for all panels, above them."""
    handles = []
    for method, (colour, marker, dashes) in method_looks.items():
        handles.append(plt.Line2D([], [], color=colour, marker=marker, linestyle=dashes, label=label(method, dtypes)))
    handles.extend(more)
    columns = _legend_columns(figure, [handle.get_label() for handle in handles])
    figure.legend(handles=handles, loc="upper center", ncol=columns, handlelength=3.2,
                  bbox_to_anchor=(0.5, 1 - 0.33 / figure.get_figheight()))


def note(axis, title, texts, method_looks):
    """Draws a small legend in a panel: remarks about some methods, next to their markers."""
    handles = [plt.Line2D([], [], color=method_looks[m][0], marker=method_looks[m][1], linestyle="none", markersize=5, label=text)
               for m, text in texts.items() if m in method_looks]
    if handles:
        axis.legend(handles=handles, title=title, loc="upper left", fontsize=7, title_fontsize=7, alignment="left",
                    handletextpad=0.2, labelspacing=0.25, borderaxespad=0.2)


def marks_legend(figure, method_looks, dtypes, more=()):
    """Like legend(), for figures without lines."""
    handles = [plt.Line2D([], [], color=colour, marker=marker, linestyle="none", label=label(method, dtypes))
               for method, (colour, marker, _) in method_looks.items()]
    handles += more
    figure.legend(handles=handles, loc="upper center", ncol=_legend_columns(figure, [h.get_label() for h in handles]),
                  bbox_to_anchor=(0.5, 1 - 0.33 / figure.get_figheight()))


def mark(axis, x, point, method_look, horizontal=False):
    """Draws a marker with its interval. It is hollow if the point is not good."""
    colour, marker, _ = method_look
    y, good = point["value"], point["drawn"] == "line"
    bar = (axis.hlines if horizontal else axis.vlines)
    if point["high"] > point["low"]:
        bar(x, point["low"], point["high"], color=colour, linewidth=1.2)
    xy = (y, x) if horizontal else (x, y)
    axis.plot(*xy, color=colour, marker=marker, linestyle="none", markersize=6, markerfacecolor=colour if good else "white")


HOLLOW = plt.Line2D([], [], color="#555555", marker="o", markerfacecolor="white", linestyle="none",
                    label="invalid, or more ranks than cores")


def finish(figure, title, footer):
    """Adds the title at the top and the conditions of the measurement at the bottom. A long legend makes the figure higher, not
    the panels lower."""
    labels = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    legend_rows = -(-len(labels) // _legend_columns(figure, labels)) if labels else 0
    height = figure.get_figheight() + 0.2 * max(0, legend_rows - 3)
    figure.set_figheight(height)
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0.5, 1 - 0.33 / height))
    figure.text(0.5, 1 - 0.12 / height, title, va="top", ha="center", fontsize=11)
    text = figure.text(0.012, 0.06 / height, "", fontsize=7, color="#444444", va="bottom", linespacing=1.25)
    for letters in (20, 19, 18, 17):  # letters per inch: as many as fit
        lines = [line for sentence in footer for line in textwrap.wrap(sentence, width=int(figure.get_figwidth() * letters))]
        text.set_text("\n".join(lines))
        if text.get_window_extent().x1 <= figure.bbox.x1:
            break
    figure.tight_layout(w_pad=2.0, rect=(0, (0.14 + 0.125 * len(lines)) / height,
                                         1, 1 - (0.4 + 0.2 * legend_rows) / height))


def save(figure, rows, path, formats):
    """Writes path.png, path.pdf and the numbers as path.csv; returns the paths. The same input gives the same bytes."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    written = []
    for suffix in formats:
        metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(suffix)
        figure.savefig(f"{path}.{suffix}", dpi=160, metadata=metadata)
        written.append(f"{path}.{suffix}")
    plt.close(figure)
    with open(f"{path}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.9g}" if isinstance(v, float) else v for k, v in row.items()})
    return written + [f"{path}.csv"]


def shorter(method, letters=26):
    """A shortened name, for places with little room."""
    return method if len(method) <= letters else method[:letters - 3] + "..."
