#!/usr/bin/env python3
"""Makes a manual page of what a program prints as help: help_manual.py VERSION SUMMARY OUT PROGRAM [COMMAND]"""
import os
import re
import subprocess
import sys

from page_manual import escaped


def tagged(lines):
    """Options and their texts as tagged paragraphs. An option stands two columns in, its text in a column of its own or in the next
    lines."""
    out = []
    for line in lines:
        match = re.match(r"  (\S.*?)(?:  +(\S.*))?$", line)
        if match:
            out += [".TP", "\\fB" + escaped(match[1]) + "\\fR", *([escaped(match[2])] if match[2] else [])]
        elif line.strip():
            out.append(escaped(line.strip()))
    return out


def section(text):
    """A help text: its usage, paragraphs, examples, which begin with blanks and stay as they are, and groups of options under a title with a
    colon."""
    out = []
    for block in re.split(r"\n\n+", text.strip("\n")):
        first, *rest = block.split("\n")
        if first.lower().startswith("usage: "):
            out += [".PP", ".nf", *map(escaped, [first[len("usage: "):], *(line.removeprefix(" " * 7) for line in rest)]), ".fi"]
        elif re.fullmatch(r"\w.*:", first) and rest and all(line.startswith("  ") for line in rest):
            out += [".PP", "\\fI" + escaped(first.removesuffix(":")) + "\\fR", *tagged(rest)]
        elif any(line.startswith("  ") for line in (first, *rest)):
            out += [".PP", ".nf", *map(escaped, block.split("\n")), ".fi"]
        else:
            out += [".PP", *(escaped(line.strip()) for line in block.split("\n"))]
    return out


def main(version, summary, out, *command):
    help_text = subprocess.run([*command, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    page = os.path.basename(out).removesuffix(".1")
    lines = [f'.TH {page.upper()} 1 "" "mpi_quant {version}" "mpi_quant"', ".SH NAME", f"{escaped(page)} \\- {escaped(summary)}", ".SH DESCRIPTION",
             *section(help_text), ".SH SEE ALSO", "mpi_quant(7)"]
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
