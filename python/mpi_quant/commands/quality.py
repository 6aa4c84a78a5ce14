"""Writes the error and the bytes of all codecs, for generated data and for recorded gradients, to a CSV file.

The generated data come from mpiq-quality. The gradients are recorded while PyTorch (Debian's python3-torch) trains small
networks on MNIST, see mpi_quant/results/recordings.py: call k has the gradient of step k of the greatest tensor. No times are
measured. The recorded part depends on PyTorch's own rounding, so its last digits may differ on another machine."""
import argparse
import csv
import io
import os
import subprocess
import sys
import tempfile

from mpi_quant import _places
from mpi_quant.commands import command_line, progress
from mpi_quant.results import recordings

NETWORKS = ("mlp-relu/0", "cnn-batchnorm/1")  # the tensors with the most elements
STEPS = 100


def parse_arguments(words):
    parser = argparse.ArgumentParser(prog=command_line.program(), description=__doc__.splitlines()[0], formatter_class=command_line.Paragraphs,
                                     epilog=__doc__.split("\n\n", 1)[1])
    command_line.add_version(parser)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--bin", default=_places.programs(), metavar="DIR",
                       help="where mpiq-quality is [build/release/bin, or where it is installed]")
    place.add_argument("--build", metavar="DIR", help="the same as --bin DIR/bin")
    parser.add_argument("--mnist", metavar="FOLDER", default=_places.of("tests/data/mnist"), help="folder of MNIST [tests/data/mnist]")
    parser.add_argument("--steps", metavar="N", type=int, default=STEPS, help=f"calls with feedback [{STEPS}]")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the CSV file")
    arguments = parser.parse_args(words)
    if arguments.build:
        arguments.bin = os.path.join(arguments.build, "bin")
    if not os.path.isdir(arguments.mnist):
        parser.error(f"--mnist: no folder {arguments.mnist}")
    return arguments


def measure(arguments, *options):
    """The rows that mpiq-quality writes."""
    command = [os.path.join(arguments.bin, "mpiq-quality"), "--calls", str(arguments.steps), *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return list(csv.DictReader(io.StringIO(done.stdout)))


def recorded(arguments):
    """The rows of each network, under its name."""
    for name, steps in recordings.gradients(arguments.mnist, arguments.steps, lambda name: name in NETWORKS):
        with tempfile.TemporaryDirectory() as folder:
            for step, (_, vectors) in enumerate(steps):
                vectors[0].tofile(os.path.join(folder, f"{step}.f32"))
            rows = measure(arguments, "--data", f"file:{folder}/{{step}}.f32")
        yield from (row | {"data": name.split("/", maxsplit=1)[0]} for row in rows)


def main(words):
    arguments = parse_arguments(words)
    if not recordings.has_torch(command_line.program()):
        return 3
    try:
        with progress.Line("generated data") as shown:
            rows = measure(arguments)
            shown.now("gradients of small networks")
            rows += list(recorded(arguments))
    except (OSError, ImportError, subprocess.CalledProcessError) as error:
        sys.exit(f"{command_line.program()}: {error}")
    with open(arguments.output, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return 0
