"""The command mpiq: what makes result files, and of these figures, pages, tables and policies. `mpiq NAME ...` runs the module of
this name in mpi_quant.commands; those that measure or simulate start the compiled programs of mpi_quant.
SPDX-License-Identifier: Apache-2.0
"""
import os
import sys
from importlib import import_module

from mpi_quant import __version__, _completion, _python
from mpi_quant.commands import command_line

COMMANDS = {
    "check": "says whether result files hold what they promise",
    "collect": "copies what a run of mpiq submit has made",
    "compare": "compares two result files, point by point",
    "docs": "makes the HTML pages of the source tree",
    "export": "writes the points of result files as CSV or JSON",
    "merge": "makes one result file of several",
    "mnist_table": "makes a table of files of mpiq-train",
    "plot": "draws figures of result files",
    "policy": "makes a policy of result files, or a file that auto chooses by",
    "quality": "measures error and bytes of the codecs, also on recorded gradients",
    "report": "makes a page of result files: what to use, figures, tables",
    "simulate": "simulates calls among many ranks",
    "status": "says how far a run of mpiq submit is",
    "submit": "plans an experiment on a cluster and gives it to Slurm",
    "sweep": "measures what a sweep file asks for, launch by launch",
    "table": "prints the points of result files",
}
COMPLETION = "prints what makes bash, zsh or fish complete this command"


def usage() -> str:
    """What --help prints."""
    lines = [f"  {name:11} {what}" for name, what in sorted([("completion", COMPLETION), *COMMANDS.items()])]
    return "\n".join(["usage: mpiq COMMAND ...", "", "commands:", *lines, "", "mpiq COMMAND --help describes a command."])


def run(name: str, program: str, words: list[str]) -> int:
    """Runs a command, and returns its exit code. program: the name by which it speaks of itself."""
    command_line.start_as(program)
    if words == ["--version"]:  # at once: h5py and matplotlib take a second
        print(f"{program} {__version__}")
        return _flushed(program, 0)
    os.environ["MPLBACKEND"] = "Agg"  # draws to files; the backend of a notebook would fail here
    _python.settle(program, _python.NEEDS.get(name, ()))
    module = import_module(f"mpi_quant.commands.{name}")
    try:
        return _flushed(program, int(module.main(words) or 0))
    except BrokenPipeError:
        return _output_is_closed(getattr(module, "BROKEN_PIPE", 1))
    except command_line.OutputError as problem:
        print(f"{program}: {problem}", file=sys.stderr)
        return _output_is_closed()


def _flushed(program: str, code: int) -> int:
    """The exit code, after all output is written. A full disk shows here."""
    try:
        with command_line.output():
            sys.stdout.flush()
    except command_line.OutputError as problem:
        if code == 0:  # otherwise the command has said what is wrong
            print(f"{program}: {problem}", file=sys.stderr)
        return _output_is_closed(code or 1)
    return code


def main(arguments: list[str] | None = None) -> int:
    """The command mpiq with these arguments, or with the arguments of the process. Returns its exit code."""
    try:
        return _started((sys.argv[1:] if arguments is None else arguments) or [""])
    except BrokenPipeError:  # the reader of the output has closed it
        return _output_is_closed()


def _output_is_closed(code: int = 1) -> int:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return code


def _started(arguments: list[str]) -> int:
    name, *rest = arguments
    if name in ("-h", "--help", "--version"):
        print(f"mpiq {__version__}" if name == "--version" else usage())
        return 0
    if name == "completion":
        return _completion.main(rest, COMMANDS, COMPLETION, run)
    if name not in COMMANDS:
        print(f"mpiq: there is no command {name!r}" if name else "mpiq: a command is needed", usage(), sep="\n", file=sys.stderr)
        return 2
    return run(name, f"mpiq {name}", rest)


if __name__ == "__main__":
    sys.exit(main())
