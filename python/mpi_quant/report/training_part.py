"""What a report says about training: accuracy, time of a step, time to an accuracy, and how many ranks the formula allows."""
import statistics

from mpi_quant.figures.register import PLOTS
from mpi_quant.report import html_parts as h
from mpi_quant.results import training_runs as t
from mpi_quant.results.reader import seconds_label, seconds_span

ACCURACY = ("method", "feedback", "seeds", "test accuracy, %", "minus dense, points", "bytes sent / parameter and step")
STEP = ("method", "feedback", "step", "gradient", "exchange", "of it: encode", "decode", "wait", "update")
SPEED = ("method", "feedback", "over mpi (fp32)", "95 %", "over bf16", "95 %")
TARGET = ("method", "feedback", "time, median", "range", "steps, median", "not reached")


def _interval(mean, half, sign=""):
    return f"{mean:{sign}.2f}" + ("" if half is None else f" ± {half:.2f}")


def accuracy_rows(methods):
    dense = methods.get((t.DENSE, ""), {})
    for method in sorted(methods, key=t.order):
        runs = methods[method]
        less = t.difference(runs, dense) if method[0] != t.DENSE else None
        sent = t.bytes_sent(runs)
        yield (method[0], method[1] or "none", str(len(runs)), _interval(*t.accuracy(runs)), _interval(*less, sign="+") if less else "",
               f"{sent:.3f}" if sent is not None else "")


def _ratio(found):
    if not found:
        return "", ""
    return f"{found[0]:.2f}", "" if found[1] is None else f"{found[1]:.2f} .. {found[2]:.2f}"


def step_rows(methods):
    for method in sorted(methods, key=t.order):
        runs = methods[method]
        inside = ["encode_s", "decode_s", "wait_s"] if t.bytes_sent(runs) is not None else [None] * 3
        names = ["train_s", "compute_s", "reduce_s", *inside, "update_s"]
        yield method[0], method[1] or "none", *(seconds_label(t.step_seconds(runs, name)) if name else "" for name in names)


def speed_rows(methods):
    dense, half = methods.get((t.DENSE, ""), {}), methods.get((t.BF16, "on"), methods.get((t.BF16, "off"), {}))
    for method in sorted(methods, key=t.order):
        if method[0] != t.DENSE:
            over_half = _ratio(t.speedup(methods[method], half)) if method[0] != t.BF16 else ("", "")
            yield method[0], method[1], *_ratio(t.speedup(methods[method], dense)), *over_half


def target_rows(methods, target):
    for method in sorted(methods, key=t.order):
        found = t.to_target(methods[method], target)
        got = sorted(value for value in found.values() if value)
        missing = f"in {len(found) - len(got)} of {len(found)} seeds" if len(got) < len(found) else ""
        if not got:
            yield method[0], method[1] or "none", "", "", "", missing
            continue
        times = [seconds for seconds, _ in got]
        yield (method[0], method[1] or "none", seconds_label(statistics.median(times)),
               seconds_span(times[0], times[-1]), f"{statistics.median(steps for _, steps in got):g}", missing)


def _times(methods, ranks):
    """What is said about the times of one group, or why nothing is said."""
    if not t.timed(methods):
        return [h.paragraph(f"Accuracy only: {ranks} ranks were more than the host has cores, so that the times of these runs mean nothing.")]
    out = [h.heading(4, "Time of a step"),
           h.paragraph("Time of a step by phase, of the slowest rank, median over seeds. Gradient: forward and backward pass; "
                       "exchange: the allreduce, with encoding, decoding and waiting for others inside it; update: of the "
                       "parameters."),
           h.table(STEP, list(step_rows(methods)), left=2),
           h.heading(4, "Speed-up of a step"),
           h.paragraph("Speed-up of a whole step, paired by seed: geometric mean and 95 % interval (Student's t), which a single seed "
                       "does not have."),
           h.table(SPEED, list(speed_rows(methods)), left=2)]
    base = methods.get((t.DENSE, ""))
    if base:
        target = t.target_of(methods)
        out += [h.heading(4, "Time to an accuracy"),
                h.paragraph(f"Time until the first test with an accuracy of {100 * target:.1f} %, the highest in steps of 0.1 % that "
                            "dense gradients reach with every seed, or that runs which ended early had reached; time of tests not counted."),
                h.table(TARGET, list(target_rows(methods, target)), left=2)]
    return out


def section(training, selection):
    """This part of the page, as lines of HTML."""
    if not training.groups:
        return []
    plot = PLOTS["training"]
    out = [h.heading(2, "Training"),
           h.paragraph("A network is trained on MNIST (mpiq-train): every rank computes the gradient of its share of a batch, and an allreduce "
                       "adds them up. Dense gradients (mpi) go by the MPI library's allreduce in fp32. Feedback: what a method drops is kept "
                       "and sent with the next gradient. Runs with the same seed begin with the same parameters and see the same images."),
           h.figure(plot(training)[0], plot, "training-figure")]
    for (setting, ranks), methods in sorted(training.groups.items()):
        out += [h.heading(3, f"{t.setting_words(setting)}, {ranks} ranks"), h.heading(4, "Accuracy"),
                h.paragraph("Final test accuracy: mean over seeds ± its 95 % interval (Student's t). The difference to dense gradients is "
                            "paired by seed; where its interval includes 0, none was found."),
                h.table(ACCURACY, list(accuracy_rows(methods)), left=2),
                *(h.paragraph(f"Ended before the longest run: {', '.join(short)}. Their accuracy comes from their last test.")
                  for short in [t.stopped_early(methods)] if short),
                *_times(methods, ranks)]
    return out
