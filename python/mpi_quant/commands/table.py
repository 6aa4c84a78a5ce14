"""Prints the points of result files as a table: those that count, with the times of a call and their intervals, speed-ups and errors."""
import argparse
import sys

from mpi_quant.commands import command_line
from mpi_quant.results import reader


def main(words):
    parser = argparse.ArgumentParser(prog=command_line.program(), description=__doc__)
    command_line.add_version(parser)
    parser.add_argument("files", nargs="+", metavar="FILE.h5", type=command_line.existing_file)
    options = parser.parse_args(words)
    try:
        for path in options.files:
            print(reader.table(reader.read(path)))
    except reader.ResultsError as problem:
        print(f"{command_line.program()}: {problem}", file=sys.stderr)
        return 1
    return 0
