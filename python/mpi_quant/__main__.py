"""The command mpiq: what makes result files, and of these figures, pages, tables and policies. `mpiq NAME ...` runs the script of this
name; those that measure or simulate start the compiled programs of the installed mpi_quant.
SPDX-License-Identifier: Apache-2.0
"""
import os
import sys

from mpi_quant import __version__, _completion, _tools

# Name of the command: name of the script, and what it does.
COMMANDS = {
    "check": ("check_results", "says whether result files hold what they promise"),
    "compare": ("compare", "compares two result files, point by point"),
    "export": ("export", "writes the points of result files as CSV or JSON"),
    "merge": ("merge", "makes one result file of several"),
    "plot": ("plot", "draws figures of result files"),
    "policy": ("policy", "makes a policy of result files, or a file that auto chooses by"),
    "quality": ("quality", "measures error and bytes of the codecs, also on recorded gradients"),
    "report": ("report", "makes a page of result files: what to use, figures, tables"),
    "simulate": ("simulate", "simulates calls among many ranks"),
    "sweep": ("sweep", "measures what a sweep file asks for, launch by launch"),
}
COMPLETION = "prints what makes bash, zsh or fish complete this command"


def usage() -> str:
    """What --help prints."""
    lines = [f"  {name:10} {what}" for name, what in sorted([("completion", COMPLETION), *((name, what) for name, (_, what) in COMMANDS.items())])]
    return "\n".join(["usage: mpiq COMMAND ...", "", "commands:", *lines, "", "mpiq COMMAND --help describes a command."])


def main(arguments: list[str] | None = None) -> int:
    """Runs a command, in place of this process. Returns an exit code if it cannot: 2."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if name in ("-h", "--help", "--version"):
        print(f"mpiq {__version__}" if name == "--version" else usage())
        return 0
    if name == "completion":
        return _completion.main(rest, COMMANDS, COMPLETION)
    if name not in COMMANDS:
        print(f"mpiq: there is no command {name!r}" if name else "mpiq: a command is needed", usage(), sep="\n", file=sys.stderr)
        return 2
    script = _tools.FOLDER / COMMANDS[name][0]
    if not script.exists():
        print(f"mpiq: {_tools.missing(script)}", file=sys.stderr)
        return 2
    os.environ["MPIQ_COMMAND"] = f"mpiq {name}"  # as which the script speaks of itself
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, str(script), *rest])


if __name__ == "__main__":
    sys.exit(main())
