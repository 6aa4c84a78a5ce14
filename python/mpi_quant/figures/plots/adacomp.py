"""How many times fewer bytes than floats AdaComp sends, by step."""
from matplotlib import ticker

from mpi_quant.figures import look as fig
from mpi_quant.figures.register import extent, plot
from mpi_quant.figures.selection import PlotError
from mpi_quant.results import training_runs

PAPER = {40: "paper: convolutions, bins of 50", 200: "paper: dense layers, bins of 500"}  # Chen et al. 2018


def curves_of(training):
    """(title, method, steps, ratios) with the mean over seeds, of what was sent since the test before."""
    for (setting, ranks), methods in sorted(training.groups.items()):
        for method in sorted(methods, key=training_runs.order):
            if method[0].split("(")[0] != "adacomp" or method[1] != "on":
                continue
            runs = [run for run in methods[method].values() if len(run) > 1]
            ratios = {}
            for run in runs:
                for before, row in zip([{"step": 0, "sent_bytes": 0}, *run], run):
                    sent = (row["sent_bytes"] - before["sent_bytes"]) / (row["step"] - before["step"])
                    ratios.setdefault(row["step"], []).append(4 * row["parameters"] / sent)
            steps = [step for step, found in sorted(ratios.items()) if len(found) == len(runs)]
            yield f"{training_runs.setting_words(setting)}, {ranks} ranks", method[0], steps, [sum(ratios[s]) / len(runs) for s in steps]


def applies(training):
    return any(steps for _, _, steps, _ in curves_of(training))


@plot("adacomp", applies, takes="training", read="""Higher is better. The grey lines are what the paper (Chen et al. 2018) gives: about 40 for
convolutions with bins of 50, and 200 for dense layers with bins of 500.""")
def adacomp(source):
    """How many times fewer bytes than floats a rank sends with adacomp, headers included, since the test before."""
    curves = [curve for curve in curves_of(source) if curve[2]]
    if not curves:
        raise PlotError("no run of adacomp has two tests")
    titles = list(dict.fromkeys(title for title, *_ in curves))
    looks = fig.looks((method for _, method, _, _ in curves), ["f32"])
    figure, axes = fig.panels(titles, "bytes of floats / bytes sent", "step", share=False)
    rows = []
    for axis, title in zip(axes, titles):
        for (value, name), dashes in zip(PAPER.items(), ("-", (0, (4, 2)))):
            axis.axhline(value, color="#999999", linewidth=1.2, linestyle=dashes, zorder=1, label=name)
        begin = len(rows)
        for mine, method, steps, ratios in curves:
            if mine == title:
                colour, marker, dashes, name = looks[method]
                axis.plot(steps, ratios, color=colour, marker=marker, linestyle=dashes, markersize=4, linewidth=1.3, label=name)
                rows += [{"setting": title, "method": method, "step": step, "ratio": ratio} for step, ratio in zip(steps, ratios)]
        low, high = extent(rows[begin:], "ratio")
        fig.log_axis(axis, 10, fig.PLAIN, min(low, *PAPER), max(high, *PAPER))
        axis.set_xlim(left=0)
        axis.xaxis.set_major_locator(ticker.MaxNLocator(6, integer=True))
    fig.finish(figure, "Bytes of AdaComp in training", ["Each point is the mean over the seeds, of the steps since the point before. The grey lines are "
                                                       "about what Chen et al. (2018) give."])
    return figure, rows
