"""What a reader would object to in a figure: labels that collide, what is cut off or covered, legends in another order than curves."""
import itertools

import numpy as np


def tick_labels(axis, renderer):
    """The boxes of the tick labels of one panel that are drawn."""
    for which in (axis.xaxis, axis.yaxis):
        which.get_ticklabels()  # makes them
        low, high = sorted(which.get_view_interval())
        for tick in which.get_major_ticks() + which.get_minor_ticks():
            if low <= tick.get_loc() <= high and tick.label1.get_visible() and tick.label1.get_text():
                yield tick.label1.get_text(), tick.label1.get_window_extent(renderer)


def heights(axis):
    """Legend text without line breaks -> how high the curve is at its right end, in pixels."""
    ends = {}
    for line in axis.lines:
        xy = line.get_xydata()
        points = map(tuple, line.get_transform().transform(xy[np.isfinite(xy).all(axis=1)]))
        name = line.get_label()
        ends[name] = max([*points, ends.get(name, (-np.inf, -np.inf))])
    return {name.replace(" ", ""): y for name, (_, y) in ends.items()}


def cut_markers(axis):
    """The names of curves with a marker that the upper or lower edge of the panel cuts. 2 pixels: edges of lines."""
    box, pixels = axis.get_window_extent(), axis.figure.dpi / 72
    for line in axis.lines:
        y = line.get_transform().transform(line.get_xydata())[:, 1] if line.get_marker() not in ("None", "", " ") else np.array([])
        half = line.get_markersize() * pixels / 2
        if ((y > box.y0) & (y < box.y1) & ((y - half < box.y0 - 2) | (y + half > box.y1 + 2))).any():
            yield line.get_label()


def problems(figure):
    """What is wrong with a figure whose margins are set."""
    renderer, found = figure.canvas.get_renderer(), []
    axes = [axis for axis in figure.axes if axis.get_visible()]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in figure.texts]
    for axis in axes:
        labels = list(tick_labels(axis, renderer))
        found += [f"'{a}' and '{b}' collide" for (a, one), (b, other) in itertools.combinations(labels, 2) if one.overlaps(other)]
        boxes += labels + [(axis.get_title(), axis.title.get_window_extent(renderer))]
        boxes += [(which.get_label_text(), which.get_tightbbox(renderer)) for which in (axis.xaxis, axis.yaxis) if which.get_label_text()]
        found += [f"a marker of '{name}' is cut" for name in cut_markers(axis)]
        for below in figure.legends:
            found += ["the legend below covers a panel"] if below.get_window_extent(renderer).overlaps(axis.get_tightbbox(renderer)) else []
        legend = axis.get_legend()
        if legend:
            boxes.append(("a legend", legend.get_window_extent(renderer)))
            found += ["a legend covers a panel" for other in axes if boxes[-1][1].overlaps(other.get_window_extent(renderer))]
        if legend and axis.lines:
            known = heights(axis)
            # Two curves that end at one height differ by rounding only.
            order = [round(known["".join(text.get_text().split())], 6) for text in legend.get_texts()]
            found += [f"the legend is in another order than the curves: {order}"] if order != sorted(order, reverse=True) else []
    boxes += [("the legend below", legend.get_window_extent(renderer)) for legend in figure.legends]
    width, height = figure.bbox.size
    found += [f"'{name}' is cut off: {box.extents} of {width} x {height}" for name, box in boxes if min(box.x0, box.y0, width - box.x1, height - box.y1) < -1]
    return found
