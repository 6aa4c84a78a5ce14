"""The table of scripts/mnist, in Markdown: final test accuracy of each method, and its difference to dense gradients.

    mpiq mnist_table [--target A] FILE.csv...

Differences are paired: the same seed gives the same first parameters and the same order of images.
"""
import argparse
import sys

from mpi_quant.commands import command_line
from mpi_quant.results import training_runs as training


def line(ranks, method, methods):
    runs, dense = methods[method], methods.get((training.DENSE, ""), {})
    accuracy, half = training.accuracy(runs)
    less = training.difference(runs, dense) if method[0] != training.DENSE else None
    sent = training.bytes_sent(runs)
    return [str(ranks), f"`{method[0]}`", method[1], str(len(runs)), training.with_interval(f"{accuracy:.3f}", half),
            training.with_interval(f"{less[0]:+.3f}", less[1]) if less else "", f"{sent:.3f}" if sent is not None else ""]


def table(found):
    """The lines of Markdown of (ranks, methods). Methods without feedback come last."""
    yield ("| ranks | method | feedback | seeds | test accuracy, % | less dense, points | bytes sent / parameter and step |\n|"
           + " --- |" * 7)
    for ranks, methods in found:
        for method in sorted(methods, key=training.order):
            yield "| " + " | ".join(line(ranks, method, methods)) + " |"


def target_line(methods, method, target):
    """Until the first test with that accuracy, over the seeds: how many reach it, seconds, steps, and bytes that the busiest rank sends."""
    runs = methods[method]
    found = [row for row in training.first_rows(runs, target).values() if row]
    cells = ["", "", ""]
    if found:
        seconds, half = training.mean_and_half_interval([row["train_s"] for row in found])
        sent = [row["sent_bytes"] for row in found]
        cells = [training.with_interval(f"{seconds:.3g}", half, ".2g"), f"{sum(row['step'] for row in found) / len(found):.0f}",
                 "" if None in sent else f"{sum(sent) / len(sent) / 1e6:.3g}"]
    return [f"`{method[0]}`", method[1], f"{len(found)} of {len(runs)}", *cells]


def target_table(methods, target):
    """The lines of Markdown of one group."""
    if not training.timed(methods):
        yield "No times: there were more ranks than processors."
        return
    yield f"| method | feedback | seeds that reach {100 * target:g} % | seconds | steps | MB sent |\n|" + " --- |" * 6
    for method in sorted(methods, key=training.order):
        yield "| " + " | ".join(target_line(methods, method, target)) + " |"


def share(text):
    """An accuracy, between 0 and 1."""
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def main(arguments):
    parser = argparse.ArgumentParser(prog=command_line.program(), description=__doc__.splitlines()[0], epilog=__doc__.splitlines()[4])
    command_line.add_version(parser)
    parser.add_argument("files", nargs="+", metavar="FILE.csv", type=command_line.existing_file)
    parser.add_argument("--target", type=share, metavar="A", help="seconds, steps and bytes until this accuracy, from 0 to 1, in place of the last accuracy")
    args = parser.parse_args(arguments)
    try:
        groups = training.read(args.files).groups
    except training.TrainingError as problem:
        print(f"{command_line.program()}: {problem}", file=sys.stderr)
        return 1
    for n, setting in enumerate(sorted({key[0] for key in groups})):
        found = sorted((ranks, methods) for (other, ranks), methods in groups.items() if other == setting)
        first = next(iter(next(iter(found[0][1].values())).values()))[-1]
        print(("\n" if n else "") + f"{first['network']}, {first['parameters']} parameters, {training.optimizer_words(first)}, "
              f"batch {first['batch']}, rate {first['rate']}, "
              f"{first['epoch']} epochs, " + (f"k of the first ones {first['ramp'].replace(' ', ', ')}, " if first["ramp"] else "")
              + (training.local_words(first) + ", " if first["local_steps"] != "0" else "") + (f"{first['link']}, " if first["link"] else "")
              + "MNIST; mean over the seeds and its 95 % interval (Student's t).\n")
        lines = table(found) if args.target is None else (line for _, methods in found for line in target_table(methods, args.target))
        print("\n".join(lines))
    return 0
