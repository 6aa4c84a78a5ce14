"""Test accuracy of a network trained with compressed gradients, by epoch and by time."""
import numpy as np
from matplotlib import ticker

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import plot
from mpi_quant.figures.selection import PlotError
from mpi_quant.results import training_runs

MOST_BANDS = 6  # methods of a panel; of more, bands would be one spot, and the ranges are bars at the last test
UNEVEN = 2.0  # times the usual step: so slow is hardly the method itself
LEAST = 1e-4  # errors below cannot be seen with the 10 000 images of the test


def applies(training):
    return bool(training.groups)


def curve(runs):
    """The tests that all seeds have: steps, seconds (mean), and the mean, least and most accuracy of the seeds."""
    by_step = [{row["step"]: row for row in run} for run in runs.values()]
    steps = sorted(set.intersection(*(set(rows) for rows in by_step)))
    accuracy = np.array([[rows[s]["accuracy"] for s in steps] for rows in by_step])
    seconds = np.array([[rows[s]["train_s"] for s in steps] for rows in by_step]).mean(axis=0)
    return steps, seconds, accuracy.mean(axis=0), accuracy.min(axis=0), accuracy.max(axis=0)


def steps_an_epoch(methods):
    """Steps per epoch, over all runs, because the last test of an epoch is made after its last step."""
    return max(row["step"] / row["epoch"] for runs in methods.values() for run in runs.values() for row in run)


def draw_curve(axis, x, found, look, band):
    colour, marker, dashes, name = look
    mean, low, high = (100 * np.maximum(1 - values, LEAST) for values in found)
    axis.plot(x, mean, color=colour, marker=marker, linestyle=dashes, markersize=4, linewidth=1.3, label=name)
    if band:
        axis.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    else:
        axis.vlines(x[-1], low[-1], high[-1], color=colour, linewidth=1)


def top_tick(first, last):
    """The roundest error near `first`, the upper end of an axis that goes down to `last`."""
    for digits in (1, 2, 4):
        unit = 10.0**(np.floor(np.log10(first)) - digits + 1)
        tick = float(np.ceil(first / unit) * unit)
        if np.log(tick / first) <= 0.15 * np.log(last / first):
            break
    return tick


def dress(axis, errors):
    """Accuracy grows upwards, in steps of its errors. There is a tick near the upper end, where the methods are compared."""
    axis.set_yscale("log")
    low, high = min(errors) / 1.15, min(100, 1.15 * max(errors))
    axis.set_ylim(high, low)
    inside = [e for power in (0.01, 0.1, 1, 10) for e in (power * np.arange(1, 10))[::-1] if min(errors) <= e <= max(errors)]
    coarse = [e for e in inside if f"{e:.0e}"[0] in "125"]
    ticks = next((found for found in (coarse, inside) if len(found) >= 3), np.geomspace(min(errors), max(errors), 4))
    if np.log(min(ticks) / low) > 0.15 * np.log(high / low):
        ticks = [*ticks, top_tick(low, high)]
    axis.set_yticks(ticks)
    axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda e, _: f"{100 - e:.4g}"))
    axis.yaxis.set_minor_locator(ticker.NullLocator())


def uneven(methods):
    """'int8 (9 times)': each method of which some seed had steps, between two tests, that took UNEVEN times the median step or more."""
    said = []
    for method in sorted(methods, key=training_runs.order):
        worst = 1.0
        for run in methods[method].values():
            steps = [(row["train_s"] - before["train_s"]) / (row["step"] - before["step"])
                     for before, row in zip([{"step": 0, "train_s": 0.0}, *run], run)]
            worst = max(worst, max(steps) / np.median(steps) if len(steps) > 2 and np.median(steps) > 0 else 1.0)
        if worst >= UNEVEN:
            said.append(f"{training_runs.name_of(method)} ({worst:.2g} times)")
    return said


def panels_of(training):
    """(setting, ranks, methods, kind) of each panel: by epoch and, if every rank had a core, by time."""
    for (setting, ranks), methods in sorted(training.groups.items()):
        yield setting, ranks, methods, "epoch"
        if training_runs.timed(methods):
            yield setting, ranks, methods, "time"


@plot("training", applies, takes="training", read="""Higher is better. The scale is logarithmic in the error, so that the last per cent
can be seen. By epoch, equal lines mean that compression costs no accuracy. By time, the line on the left gets there first. Times are
drawn only where every rank had a core of its own.""")
def training(source):
    """The test accuracy in per cent by epoch and by time, mean and range over seeds."""
    panels = list(panels_of(source))
    if not panels:
        raise PlotError("no run of a network")
    looks = fig.looks((training_runs.name_of(m) for _, _, methods, _ in panels for m in methods), ["f32"])
    figure, axes = fig.panels([f"{s[0]}, {ranks} ranks, by {kind}" for s, ranks, _, kind in panels],
                              "test accuracy (%)", share=False)
    rows = []
    for axis, (setting, ranks, methods, kind) in zip(axes, panels):
        epoch, errors = steps_an_epoch(methods), []
        for method in sorted(methods, key=training_runs.order):
            steps, seconds, *found = curve(methods[method])
            if not steps:
                continue
            draw_curve(axis, seconds if kind == "time" else np.array(steps) / epoch, found, looks[training_runs.name_of(method)],
                       len(methods) <= MOST_BANDS)
            errors += list(100 * np.maximum(1 - np.concatenate(found), LEAST))
            rows += [{**dict(zip(training_runs.SETTING, setting)), "ranks": ranks, "method": method[0], "feedback": method[1],
                      "seeds": len(methods[method]), "step": step, "epoch": step / epoch,
                      "train_s": s if training_runs.timed(methods) else float("nan"), "accuracy": mean, "accuracy_lo": low,
                      "accuracy_hi": high} for step, s, mean, low, high in zip(steps, seconds, *found) if kind == "epoch"]
        dress(axis, errors or [1, 100])
        axis.set_xlabel("time without tests (s)" if kind == "time" else "epoch")
        axis.set_xlim(left=0)
        axis.xaxis.set_major_locator(ticker.MaxNLocator(6, integer=kind == "epoch"))
    untimed = sorted({ranks for (_, ranks), methods in source.groups.items() if not training_runs.timed(methods)})
    settings = "; ".join(training_runs.setting_words(s) for s in sorted({key[0] for key in source.groups}))
    fig.finish(figure, "Accuracy of training on MNIST with compressed gradients", [
        f"Lines are means over the seeds, and bands, or bars at the last test of more than {MOST_BANDS} methods, go from the worst to the best seed. "
        f"The settings were: {settings}."
        + (f" There are no times with {', '.join(map(str, untimed))} ranks, because these were more than cores." if untimed else "")]
        + [f"Compare the times of {setting[0]}, {ranks} ranks with care: between two tests the steps took a multiple of the method's usual (median) step, "
           f"as on a machine that was busy for a while, with {', '.join(slow)}." for setting, ranks, methods, kind in panels if kind == "time" and (slow := uneven(methods))])
    return figure, rows
