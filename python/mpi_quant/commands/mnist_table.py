"""The table of scripts/mnist, in Markdown: final test accuracy of each method, and its difference to dense gradients.

    mpiq mnist_table FILE.csv...

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


def main(arguments):
    parser = argparse.ArgumentParser(prog=command_line.program(), description=__doc__.splitlines()[0], epilog=__doc__.splitlines()[4])
    command_line.add_version(parser)
    parser.add_argument("files", nargs="+", metavar="FILE.csv", type=command_line.existing_file)
    try:
        groups = training.read(parser.parse_args(arguments).files).groups
    except training.TrainingError as problem:
        print(f"{command_line.program()}: {problem}", file=sys.stderr)
        return 1
    for n, setting in enumerate(sorted({key[0] for key in groups})):
        found = sorted((ranks, methods) for (other, ranks), methods in groups.items() if other == setting)
        first = next(iter(next(iter(found[0][1].values())).values()))[-1]
        before = " before sending" if first["adapt"] == "before" else ""
        print(("\n" if n else "") + f"{first['network']}, {first['parameters']} parameters, {first['optimizer']}{before}, "
              f"batch {first['batch']}, rate {first['rate']}, "
              f"{first['epoch']} epochs, " + (f"k of the first ones {first['ramp'].replace(' ', ', ')}, " if first["ramp"] else "")
              + (training.local_words(first) + ", " if first["local_steps"] != "0" else "") + "MNIST; mean over the seeds and its 95 % interval (Student's t).\n")
        print("\n".join(table(found)))
    return 0
