"""Error of the sum of recorded steps against bytes and against time."""
from mpi_quant.figures import look as fig
from mpi_quant.figures.register import extent, plot
from mpi_quant.results import frontier

SHOWN = ("mlp-hidden-512x512", "attention-all")  # a matrix and a vector; or the first two that there are
AXES = {frontier.BYTES: ("bytes of a call", 1), "shm": ("ms of a call, shared memory", 1e3), "lab-10gbit": ("ms of a call, 10 Gbit/s", 1e3),
        "lab-1gbit": ("ms of a call, 1 Gbit/s", 1e3)}
FRONTIER = "frontier: no method is better in both"
LEAST, MOST = 1e-4, 1  # smaller errors are drawn at the least, for nobody chooses by them; greater ones are worse than to send nothing


def codec_of(method):
    return method.split("(")[0].split(" ")[0]


def applies(points):
    return any(point.error > 0 for point in points)


@plot("frontier", applies, takes="frontier", read="""Lower and further left is better. Each mark is a method, with its preset parameters
(large) or with others (small). The grey line joins those that no other beats in both error and cost; costs that differ by less than 2 % count
as equal. A hollow mark is a method that is on no such line, on any recording and for any cost.""")
def draw(points):
    """Error of the sum of recorded steps against bytes and time."""
    on, recordings = frontier.on_frontiers(points), frontier.by_data(points)
    shown = [data for data in SHOWN if data in recordings] or list(recordings)[:2]
    costs = [cost for cost in frontier.COSTS if any(frontier.frontier(recordings[data], cost) for data in shown)]
    lossy = [p for p in points if p.method not in frontier.EXACT]
    looks = fig.looks({codec_of(p.method) for p in lossy if p.data in shown}, ["f32"])
    figure, axes = fig.panels([f"{data}, {AXES[cost][0]}" for cost in costs for data in shown], "error of the sum", "", share=False, height=3.6)
    panels = iter(axes)
    for cost in costs:
        for data in shown:
            axis, scale = next(panels), AXES[cost][1]
            here = [p for p in lossy if p.data == data and p.cost(cost) == p.cost(cost) and p.error < MOST]
            line = frontier.frontier(here, cost)
            axis.plot([scale * p.cost(cost) for p in line], [max(LEAST, p.error) for p in line], color="#bbbbbb", linewidth=1.2, zorder=1,
                      label=FRONTIER if line else None)
            for p in here:
                colour, marker, _, label = looks[codec_of(p.method)]
                preset = p.method == codec_of(p.method)
                first = p.method == min(q.method for q in here if codec_of(q.method) == codec_of(p.method))  # some codecs have no preset here
                axis.plot(scale * p.cost(cost), max(LEAST, p.error), color=colour, marker=marker, linestyle="none", markersize=7 if preset else 3.5,
                          markerfacecolor=colour if any(on[p.method].values()) else "white", label=label if first else None, zorder=2)
            drawn = [{"x": scale * p.cost(cost), "error": max(LEAST, p.error)} for p in here]
            fig.log_x_axis(axis, 10, fig.PLAIN, *extent(drawn, "x"))
            fig.log_axis(axis, 10, fig.PLAIN, *extent(drawn, "error"))
    marks = ("Lower is more accurate and further left is cheaper. Large marks are preset parameters, small ones others. A hollow mark is on no frontier, "
             "of any recording and any cost.")
    steps = "The results of all recorded steps are added; the error is relative to the exact sum; 2 ranks, each method with a key."
    fig.finish(figure, "Error of a training's sum against what it costs", (marks, steps, f"Errors below {LEAST:g} are drawn there, errors of {MOST} and more are left out; the CSV has all."))
    return figure, rows_of(points, on)


def rows_of(points, on):
    """What the CSV says of each method on each recording."""
    rows = []
    for p in points:
        row = {"data": p.data, "method": p.method, "error": p.error, "debt": p.debt}
        for cost in frontier.COSTS:
            row |= {cost: p.cost(cost), f"on_{cost}": int(p.data in on[p.method][cost])}
        rows.append({**row, "on_none": int(not any(on[p.method].values()))})
    return rows
