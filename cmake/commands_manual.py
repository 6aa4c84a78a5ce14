#!/usr/bin/env python3
"""Makes the manual page of mpiq of what its commands print as help: commands_manual.py VERSION FOLDER

FOLDER gets mpiq.1, with a section for each command, and for each command a page mpiq-COMMAND.1 that shows it. There is none where a program
has that name. Exits 1 and makes nothing if a package that the commands need is not installed.
"""
import contextlib
import importlib.util
import io
import os
import sys

from help_manual import section
from page_manual import escaped

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))
sys.dont_write_bytecode = True

from mpi_quant import __main__ as mpiq, _python  # noqa: E402 - found by the path above

PROGRAMS = ("simulate", "quality")  # mpiq-simulate and mpiq-quality have pages of their own
WIDTH = "98"  # of the text that is read here
SUMMARY = "results of mpi_quant: measure, check, compare, draw, report; make policies; run on a cluster"


def help_of(command):
    """What `mpiq COMMAND --help` prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        mpiq.main([*command, "--help"])
    return out.getvalue()


def page(version):
    out = [f'.TH MPIQ 1 "" "mpi_quant {version}" "mpi_quant"', ".SH NAME", f"mpiq \\- {SUMMARY}", ".SH SYNOPSIS", ".B mpiq", "COMMAND ..."]
    out.append(".SH COMMANDS")
    commands = {**mpiq.COMMANDS, "completion": mpiq.COMPLETION}
    for name, what in sorted(commands.items()):
        out += [".TP", f"\\fB{escaped(name)}\\fR", escaped(what)]
    for name in sorted(commands):
        out += [f'.SH "MPIQ {name.upper()}"', *section(help_of([name]))]
    return "\n".join([*out, ".SH SEE ALSO", "mpi_quant(7), mpiq\\-run(1), mpiq\\-bench(1)"]) + "\n"


def main(version, folder):
    os.environ["COLUMNS"] = WIDTH
    missing = sorted({module for needs in _python.NEEDS.values() for module in needs if importlib.util.find_spec(module) is None})
    if missing:
        print(f"commands_manual.py: commands of mpiq need {', '.join(missing)}", file=sys.stderr)
        return 1
    text = page(version)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "mpiq.1"), "w", encoding="utf-8") as file:
        file.write(text)
    for name in {*mpiq.COMMANDS, "completion"} - {*PROGRAMS}:
        with open(os.path.join(folder, f"mpiq-{name}.1"), "w", encoding="utf-8") as file:
            file.write(".so man1/mpiq.1\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
