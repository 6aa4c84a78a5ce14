"""The time of a training step against the number of simulated ranks."""
import json

import numpy as np
from matplotlib import ticker

from mpi_quant.figures import look as fig, printed
from mpi_quant.figures.register import extent, plot
from mpi_quant.figures.selection import PlotError, dense_words, is_simulated, names_of, natural, one_dense
from mpi_quant.results import training_step
from mpi_quant.results.reader import bytes_label
from mpi_quant.results.schema import ALLREDUCE, SIMULATED, SIMULATED_FASTEST

AUTO = "auto"


def calls(selection):
    """The simulated allreduces of floats, with the fastest dense method alone at each point."""
    points = selection.points
    return one_dense(points[is_simulated(points) & (points["collective"] == ALLREDUCE) & (points["dtype"] == "f32")])


def networks(selection):
    """link -> the network as mpiq-simulate describes it, ordered by bandwidth; {} for a link of a merged file, which describes none."""
    found = {}
    for result in selection.results:
        try:
            config = json.loads(result.attrs.get("config_json", "{}"))
        except ValueError:
            config = {}
        for link in result.points["link"].tolist():
            found[link] = config.get("simulation", {})
    return dict(sorted(found.items(), key=lambda pair: (pair[1].get("bandwidth_Bps", 0), natural(pair[0]))))


def seconds_of(points, link, ranks, sizes):
    """method -> the seconds of a call of each size; methods that lack a size are left out."""
    here = points[(points["link"] == link) & (points["ranks"] == ranks)]
    return {method: [float(here["t_median_s"][(here["method"] == method) & (here["bytes"] == size)][0]) for size in sizes]
            for method in sorted(set(here["method"].tolist()), key=fig.order)
            if set(sizes) <= set(here["bytes"][here["method"] == method].tolist())}


def steps(selection, name, scaling):
    """The rows of the CSV: the step of a net, for each link, number of ranks and method."""
    net, points, out = training_step.NETS[name], calls(selection), []
    sizes, flops = training_step.calls_of(net), selection.flops
    for link in networks(selection):
        for ranks in sorted(set(points["ranks"][points["link"] == link].tolist())):
            seconds = seconds_of(points, link, ranks, sizes)
            if SIMULATED_FASTEST not in seconds:
                continue
            seconds[AUTO] = [min(each) for each in zip(*seconds.values())]
            computing = training_step.compute_s(net, scaling, ranks, flops)
            dense = training_step.step_s(sizes, seconds[SIMULATED_FASTEST], computing)
            for method, taken in seconds.items():
                step = training_step.step_s(sizes, taken, computing)
                out.append({"net": name, "scaling": scaling, "link": link, "ranks": ranks, "method": method,
                            "samples": training_step.samples_of(net, scaling, ranks), "compute_s": computing, "calls_s": sum(taken), "t_step_s": step,
                            "speedup": dense / step})
    return out


def variants(selection):
    """NET-SCALING for each net whose calls the files have, with more than one number of ranks."""
    points = calls(selection)
    sizes, enough = set(points["bytes"].tolist()), len(set(points["ranks"].tolist())) > 1
    return [f"{name}-{scaling}" for name, net in training_step.NETS.items() if enough and set(training_step.calls_of(net)) <= sizes
            for scaling in training_step.SCALINGS]


def panel_title(link, network):
    return f"{network['bandwidth_Bps'] * 8e-9:g} Gbit/s" if "bandwidth_Bps" in network else link.removeprefix("sim:")


def ticks_of(axis, ranks):
    """Numbers of ranks as ticks: the greatest, and as many of the others, evenly counted, as have room."""
    room = 0.7 * printed.apart(axis.xaxis, 0.1) * np.log(ranks[-1] / ranks[0])
    for step in range(1, len(ranks)):
        ticks = ranks[::-step][::-1]
        if all(np.log(b / a) >= room for a, b in zip(ticks, ticks[1:])):
            return ticks
    return ranks[-1:]


def assumptions(selection, name, scaling):
    """What the step is made of, as sentences."""
    net, flops = training_step.NETS[name], selection.flops
    share = (f"{net.samples} {net.sample} a rank" if scaling == "weak" else
             f"{net.samples * training_step.STRONG_RANKS} {net.sample} in all, shared among the ranks")
    said = [f"A step of {name} ({net.parameters} float parameters) has {share}, of {net.flop:.3g} floating-point operations each ({net.source}). Each "
            f"rank has an accelerator that makes {flops:.3g} of them a second, a third forward and two thirds backward, and a processor that sums. "
            f"Copies between them take no time. The backward pass makes the gradient at a constant rate; each {bytes_label(training_step.BUCKET)} of it, "
            "and what remains, are a call. Calls run one after the other beside the computation. The grey line is the computation alone. "
            "auto: for each call the fastest of the others, which it has found before."]
    for link, network in networks(selection).items():
        if network:
            said.append(f"{panel_title(link, network)}: latency {network['latency_s'] * 1e6:g} us, {network['overhead_s'] * 1e6:g} us of a processor for "
                        f"each message at each end, {network['per_node']} rank a node; codecs as {network['rates']} says.")
    return said + [f"Command: {line}" for line in sorted({str(result.attrs.get("command_line", "")) for result in selection.results} - {""})]


def refuse(selection, name):
    """What a file lacks."""
    wanted = sorted(set(training_step.calls_of(training_step.NETS[name])))
    raise PlotError(f"{names_of(selection.results)}: a step of {name} has calls of {' and '.join(map(str, wanted))} bytes, and a figure has more than one "
                    f"number of simulated ranks: mpiq simulate --training {name} --out DIR makes such files")


@plot("scale", lambda selection: bool(variants(selection)), variants=variants, read="""Ranks grow from left to right. Above: the time of a step, of the
fastest dense algorithm as a thick line. Below: how many times faster than it a step is. In weak scaling a rank has the same work whatever their number;
in strong scaling all ranks together have.""")
def scale(selection, variant=""):
    """The time of a training step against the number of simulated ranks, and the speed-up over the fastest dense algorithm."""
    found = [variant] if variant else variants(selection)
    if not found:
        refuse(selection, next(iter(training_step.NETS)))
    name, _, scaling = found[0].rpartition("-")
    rows = steps(selection, name, scaling)
    if not rows:
        refuse(selection, name)
    known = networks(selection)
    links = list(dict.fromkeys(row["link"] for row in rows))
    figure, axes = fig.panels_in_pairs([panel_title(link, known[link]) for link in links], "time of a step", "speed-up", "ranks")
    looks = selection.looks(row["method"] for row in rows)
    for column, link in enumerate(links):
        here = [row for row in rows if row["link"] == link]
        draw(axes[0][column], axes[1][column], here, looks)
    low, high = extent(rows, "ranks")
    fig.log_x_axis(axes[0][0], 2, fig.PLAIN, low / 1.2, high * 1.2)
    axes[0][0].set_xticks(ticks_of(axes[0][0], sorted({row["ranks"] for row in rows})))
    fig.log_axis(axes[0][0], 10, ticker.EngFormatter(unit="s"), *extent(rows, "t_step_s", "compute_s"))
    fig.log_axis(axes[1][0], 2, fig.PLAIN, *extent(rows, "speedup"))
    points = calls(selection)
    fig.finish(figure, f"A training step of {name}, {scaling} scaling",
               selection.footer("Times are of the slowest rank." + dense_words(points), points) + assumptions(selection, name, scaling),
               below=True)
    return figure, rows


def draw(above, below, rows, looks):
    """The two panels of a network."""
    computing = {row["ranks"]: row["compute_s"] for row in rows}
    above.plot(list(computing), list(computing.values()), color="#888888", linewidth=1, linestyle=(0, (6, 3)), zorder=1, label="computation alone")
    below.axhline(1, color="black", linewidth=0.8, zorder=1)
    for method, method_look in looks.items():
        mine = [row for row in rows if row["method"] == method]
        for axis, column in ((above, "t_step_s"), (below, "speedup")):
            if axis is below and method == SIMULATED_FASTEST:
                continue
            fig.draw_series(axis, [{"ranks": row["ranks"], "value": row[column], "low": np.nan, "high": np.nan, "drawn": SIMULATED} for row in mine],
                            method_look, "ranks", thick=method == SIMULATED_FASTEST)
            if method == AUTO:  # behind the method that it has chosen
                axis.lines[-1].set(markersize=1.6 * fig.marker_size(), zorder=1.9)
