"""Loss of a logistic regression by bytes sent."""
import math

from matplotlib import ticker

import mpiq_figure as fig
import mpiq_training
from mpiq_plots import extent, plot
from mpiq_selection import PlotError

COLOURS = (*dict.fromkeys(look[0] for look in fig.LOOKS.values()), *fig.OTHER_COLOURS)
TARGET = 1e-3  # of the first gap: what the rates of a method are compared by


def applies(training):
    return any(curves for _, curves in panels_of(training))


def panels_of(training):
    """(title, method -> rate -> rows) of each panel. Runs of several rates share one; of several seeds the first counts."""
    panels = {}
    for (setting, ranks), methods in sorted(training.descents.items()):
        said = dict(zip(mpiq_training.SETTING, setting))
        panel = panels.setdefault((said["network"], said["parameters"], said["batch"], ranks), {})
        for method, runs in methods.items():
            rows = runs[min(runs)]
            if rows[-1]["sent_bytes"]:
                panel.setdefault(mpiq_training.name_of(method), {})[said["rate"]] = rows
    for (network, parameters, batch, ranks), curves in panels.items():
        yield f"{network}, {parameters} parameters, {batch} examples, {ranks} ranks", curves


def bytes_to(rows, loss):
    """The bytes that were sent when the loss was first at most this, or infinity."""
    return next((row["sent_bytes"] for row in rows if row["loss"] <= loss), math.inf)


def best_rate(by_rate, loss):
    """The rate that gets to a loss with the fewest bytes; of those that do not get there, the one that came nearest."""
    return min(by_rate, key=lambda rate: (bytes_to(by_rate[rate], loss), min(row["loss"] for row in by_rate[rate])))


@plot("descent", applies, takes="training", read="""Lower and further left is better. The scale is the loss above the least that any run
reached. Of the learning rates that were tried, each method has the one with which it gets to a thousandth of the first gap with the fewest bytes.""")
def descent(source):
    """The loss of a logistic regression against the bytes that a rank has sent, headers included."""
    panels = [(title, curves) for title, curves in panels_of(source) if curves]
    if not panels:
        raise PlotError("no run of --network logistic has bytes")
    looks = fig.looks((method for _, curves in panels for method in curves), ["f32"])
    figure, axes = fig.panels([title for title, _ in panels], "loss above the least", "bytes that a rank has sent", share=False, height=4.2)
    drawn = []
    for axis, (title, curves) in zip(axes, panels):
        every = [row["loss"] for by_rate in curves.values() for rows in by_rate.values() for row in rows
                 if math.isfinite(row["loss"])]
        least, first, begin = min(every), math.log(2), len(drawn)
        wanted = least + TARGET * (first - least)
        for method, by_rate in sorted(curves.items()):
            rate = best_rate(by_rate, wanted)
            points = [{"panel": title, "method": method, "rate": rate, "step": row["step"], "sent_bytes": row["sent_bytes"],
                       "loss": row["loss"], "gap": row["loss"] - least, "bytes_to_target": bytes_to(by_rate[rate], wanted)}
                      for row in by_rate[rate] if 1e-3 * TARGET * (first - least) < row["loss"] - least < first]
            _, marker, dashes, name = looks[method]  # methods differ in their memory rules, so that the codec's colour would say little
            axis.plot([p["sent_bytes"] for p in points], [p["gap"] for p in points], color=COLOURS[list(looks).index(method) % len(COLOURS)], marker=marker, linestyle=dashes,
                      markersize=3.5, linewidth=1.2, label=f"{name}, rate {rate}" if points else None)
            drawn += points
        mine = drawn[begin:]
        fig.log_x_axis(axis, 10, ticker.EngFormatter(unit="B"), *extent(mine, "sent_bytes"))
        fig.log_axis(axis, 10, ticker.FuncFormatter(lambda value, _: f"{value:.0e}"), *extent(mine, "gap"))
    fig.finish(figure, "Logistic regression: loss by bytes sent",
               ["All examples in each step, so gradients have no noise. The CSV has the bytes to a thousandth of the first gap."])
    return figure, drawn
